//! From what agents share to recordings.
//!
//! ```text
//!  agent ──ring──┐
//!  agent ──ring──┼─▶ rings (by stamp) ─▶ course (names, mappings, threads) ─▶ highwater-store's Writer ─▶ .hw
//!  agent ──ring──┘                                                                      at the end: symbolize
//! ```
//!
//! [`Recorder`] does so for a program and its children; [`Course`] for one process, which may be our own. Where to is a file, or a
//! [`stream`], or both.

mod children;
mod course;
mod listen;
mod mappings;
mod record;
mod recorder;
mod resident;
mod rings;
pub mod stream;
mod symbolize;

pub use children::{children_folder, children_of, remove_children_of};
pub use course::{About, Course, Finished, LastFigures, Outputs};
pub use recorder::{Options, Outcome, Progress, Recorder};
pub use symbolize::{Symbolized, resolve_frames};
