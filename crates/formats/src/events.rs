//! Event lines: memory events as JSON, one a line, so that a program in any language can feed Highwater.
//!
//! ```text
//! {"event":"source","program":"parser","pid":4242}
//! {"event":"allocate","address":"0x7f00","size":64,"thread":7,"time_ns":120,"stack":["grow","parse","main"]}
//! {"event":"reallocate","old_address":"0x7f00","address":"0x8000","size":128,"thread":7}
//! {"event":"deallocate","address":"0x8000","thread":7,"time_ns":200}
//! ```
//!
//! `docs/events.md` describes the whole format. Reading is strict: a line that is not understood is a [`BadEventLine`] with its number, and reading
//! continues with the next line. A valid line may make an impossible claim (a free of nothing, a time that runs backwards). This module does not
//! check that; the ledger counts it, as for every source.
//!
//! # Design
//!
//! `formats::events` parses a line with its own scanner (`events/scan.rs`). Most of a line is its stack, and most stacks were seen before, so a stack
//! is looked up by its text and parsed only once. `serde_json` would build a tree for every line; a property test checks that the two agree.

mod fault;
pub(crate) mod fields;
mod lines;
mod reader;
pub mod recorded;
pub(crate) mod scan;
mod sniff;
pub(crate) mod stack_texts;
mod text;
mod writer;

pub use fault::{BadEventLine, EventLineFault, EventLinesError, ExpectedValue};
pub use lines::MAX_LINE_BYTES;
pub use reader::{EventLine, EventLinesReader};
pub use sniff::looks_like_events;
pub use text::EventTextWriter;
pub use writer::{write_line, write_source, write_thread_name};
