//! Event lines: memory events as JSON, one a line, so that a program in any language can feed Highwater.
//!
//! ```text
//! {"event":"source","program":"parser","pid":4242}
//! {"event":"allocate","address":"0x7f00","size":64,"thread":7,"time_ns":120,"stack":["grow","parse","main"]}
//! {"event":"reallocate","old_address":"0x7f00","address":"0x8000","size":128,"thread":7}
//! {"event":"deallocate","address":"0x8000","thread":7,"time_ns":200}
//! ```
//!
//! The whole format is told in `docs/events.md`. Reading is strict: whatever is not understood is a [`BadLine`] with
//! its number, and the next line is read as if nothing had happened. What a good line may claim that cannot be true (a
//! free of nothing, a time that runs backwards) is not judged here but counted by the ledger, as for every source.

mod fault;
pub(crate) mod fields;
mod lines;
mod reader;
pub(crate) mod scan;
mod sniff;
pub(crate) mod stack_texts;
mod writer;

pub use fault::{BadLine, Expected, Fault, ReadError};
pub use lines::MAX_LINE_BYTES;
pub use reader::{Line, Reader};
pub use sniff::looks_like_events;
pub use writer::{write_line, write_source, write_thread_name};
