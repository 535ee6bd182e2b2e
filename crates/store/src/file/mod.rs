//! The `.hw` file: see docs/format.md.

mod block_writer;
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
mod follower;
mod frame;
mod handles;
mod index;
mod keyframe;
mod live_blocks;
mod packed;
mod pen;
mod prediction;
mod recording;
mod replay;
mod scan;
mod snapshot_writer;
mod source;
mod varint;
mod writer;

pub use block_writer::Sink;
pub use check::CheckReport;
pub use errors::{OpenError, RecordingError};
pub use follower::{Followed, Follower};
pub use pen::Pen;
pub use recording::{FileStats, Recording, is_recording};
pub use scan::Damage;
pub use snapshot_writer::write_snapshot;
pub use writer::{Spacing, Writer, Written};
