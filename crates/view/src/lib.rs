//! The viewer: memory recordings in the browser.
//!
//! An HTTP server for one user on one machine ([`http`]), the API that its page asks ([`Api`], `docs/api.md`), and the page itself, which is part of the binary.
//! Every kind of source becomes a recording or a snapshot, opened by whoever starts the viewer ([`Opener`], [`Collector`]); queries read only those:
//!
//! * an instant is a keyframe and a short replay, and the last few are kept;
//! * a window is two instants: what had happened at its end less what had happened before it;
//! * filters that ask for more than call stacks look at single blocks: those of an instant, or all that came and went in one pass
//!   through the window, on all cores;
//! * the answer comes as lines with the progress in between, and is given up when nobody waits for it.
//!
//! Everything in a recording is a stranger's: it goes to the page as JSON, which writes it as text.
#![forbid(unsafe_code)]

mod api;
mod bins;
mod choice;
mod course;
mod filter;
// Not all that the other tests need is needed by those in here.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../tests/support/history.rs"]
mod history;
pub mod http;
mod lives;
mod measure;
mod memo;
mod owned;
mod page;
mod population;
mod problem;
mod query;
mod save;
mod scan;
mod sieve;
mod sources;
mod standings;
mod traffic;
mod work;

pub use api::Api;
pub use http::server::{Server, Stop};
pub use memo::Memo;
pub use problem::Problem;
pub use sources::{Collector, FileKind, LiveProcess, OpenedFile, Opener, Plain, Sources, Special, Stamp};
pub use work::Work;
