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

mod allocators;
mod children;
mod course;
mod ended_first;
mod listen;
mod mappings;
mod names;
mod orders;
mod provided;
mod record;
mod recorder;
mod resident;
mod rings;
mod shared;
mod socket;
mod stamps;
pub mod stream;
mod symbolize;
mod unrecorded;

pub use allocators::allocator_of;
pub use children::{children_folder, children_of, remove_children_of};
pub use course::{About, Course, Finished, LastFigures, Outputs};
pub use ended_first::be_ended_first;
pub use names::Names;
pub use orders::{AGENT_VARIABLE, Orders};
pub use recorder::{Options, Outcome, Progress, Recorder};
pub use shared::{Refused, Shared};
pub use socket::{SOCKET_VARIABLE, default_socket, socket_by};
pub use stamps::{Stamps, monotonic_ns};
pub use symbolize::{Symbolized, resolve_frames};
pub use unrecorded::{Reason, Unrecorded, reason_in_words};
