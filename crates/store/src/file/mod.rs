//! The `.hw` file: see docs/format.md.

mod bytes;
mod catalog;
mod check;
mod column;
mod course;
mod errors;
mod events;
mod events_decoder;
mod events_encoder;
mod exceptions;
mod frame;
mod handles;
mod index;
mod keyframe;
mod packed;
mod prediction;
mod recording;
mod replay;
mod scan;
mod source;
mod varint;
mod writer;

pub use check::CheckReport;
pub use errors::{OpenError, RecordingError};
pub use recording::{FileStats, Recording, is_recording};
pub use scan::Damage;
pub use writer::{Sink, Spacing, Writer, Written};
