//! The viewer: memory recordings in the browser.
//!
//! It has three parts: an HTTP server for one user on one machine ([`http`]), the API that its page uses ([`Api`], `docs/api.md`), and the page itself, which is
//! part of the binary. The program that starts the viewer opens sources ([`Opener`], [`LiveProcesses`]). The answer is sent as lines with the progress in
//! between, and the work stops when the client disconnects.
//!
//! The texts in a recording are untrusted: the page receives them as JSON and inserts them as text.
//!
//! # Design
//!
//! ```text
//!  browser ── HTTP, 127.0.0.1, token ──▶ http ─▶ api ─▶ endpoints ─▶ highwater-query ─▶ store::history
//!  files ─── Opener ──▶ sources ─▶ Loaded ◀──────────────┘
//!  live ──── LiveProcesses ─┘
//! ```
//!
//! docs/api.md is for users. Questions are answered by `highwater-query`; this crate reads the parameters of a request, and sends the answer.
//!
//! * *The server is our own* (`http/`): a thread for each connection; heads, bodies and times are bounded, and a malformed request is refused rather than
//!   repaired. An asynchronous runtime would be larger than everything else together, for one user. The work checks between steps whether the client
//!   is still connected, every 20 ms at the most; the code that opens files checks as well, so a long log that no client waits for is not read to its end.
//! * *Access*: any page in any browser on the machine can reach a port. So there is a token. `Host` is checked against names that resolve to this machine from
//!   elsewhere. `Origin` and `Sec-Fetch-Site` are checked against pages of other servers on this machine, which send our cookie: cookies are not bound
//!   to ports. A browser is started with a ticket that works once, since its command line is public.
//! * *Strangers cannot take slots*: a connection that has not shown the token is one of 64, of which the oldest is closed when another one connects. Connections
//!   that have shown it (128) have slots of their own. Connections that send nothing could fill a common limit.
//! * *Source files are read only if a frame names them*, and only if they are texts with the extension of a programming language (`source_code/`): a recording
//!   may name any file of this machine.
//! * *Files are checked for changes while the old content still answers*: a query never waits for a file that is being read again; the last read content
//!   answers until the new one is there. Walked images are cached by path and `stat` result, which is taken before a byte is read.
//! * *Looks at a live process are thinned* (`looks.rs`): the first, the last ones, and some between are kept, so that a process can be watched for days. A thread of the viewer takes them
//!   (`look_timers.rs`): browsers slow down pages that nobody sees, and a page may be closed.
#![forbid(unsafe_code)]

mod api;
mod choice;
mod endpoints;
pub mod http;
mod look_timers;
mod looks;
mod page;
mod save;
mod source_code;
mod sources;

pub use api::Api;
pub use http::server::{Server, Stop};
pub use save::SavedPage;
pub use source_code::{Editor, NoEditor, NoSourceDir, SourceCode, SourceDir};
pub use sources::{
    FileKind, Files, LakeOpener, LiveProcess, LiveProcesses, LiveSnapshot, LiveTimeline, OpenedFile, Opener,
    OwnSnapshot, Plain, ProcessKey, Sources, Special, TakenLook,
};
