//! The `.hw` file: see docs/format.md.
//!
//! # Design
//!
//! docs/format.md is the specification, and `crates/store/tests/independent_reader.py` is a reader written from it. In short: framed blocks with two
//! checksums (header and payload), each readable without the others; columns compressed with zstd; a free is stored as a distance in allocation
//! numbers, an address as one bit if it is the one that a size-class allocator would return. Decisions:
//!
//! * *Blocks of at most 262,144 steps.* Larger ones compress better (an eighth from 65,536), smaller ones lose less to damage; a writer may flush at
//!   any time.
//! * *Predictors use only their own block*, so that damage elsewhere cannot mislead them.
//! * *Numbers in columns have their length in their first two bits*, so that writing and reading them has no unpredictable branches.
//! * *Keyframe spacing* (`Spacing`): up to 64 events per live block as long as a replay stays under a second, at least 14 beyond that.
//! * *A site predictor* (which site followed this one the last time) was tried and dropped: it removes repetitions that zstd finds by itself.
//! * *Prefetching* the memory that the next 32 events will need was tried and dropped: finding out what they need costs more in mispredicted branches
//!   than it saves in cache misses.
//! * *Memory is bounded by the file*: a payload has at least a quarter byte per step or live block and a byte for each 32 bytes of its columns, so a
//!   small hostile file cannot request much memory. The fuzz targets in `fuzz/` check this, with corrected checksums so that hostile payloads reach
//!   the readers.
//! * *Lost catalog entries keep their numbers*: blocks of a lost site stay separate from all others, and the site is shown as unknown.
//! * *Each block takes only a part of the free disk space*, so that a full disk is used almost completely. After the block that did not fit, the
//!   catalog with the names is still written; event blocks are removed to make room for it.
//! * *Files are created new and for their owner only* (`store/new_file.rs`): O_EXCL, mode 0600, a rename that replaces nothing unless `--force` was
//!   given.
//! * *Files are read, not mapped*: a file that shrinks while it is read gives an error, not a signal. There is no unsafe code.

mod block_writer;
mod breakdowns;
mod bytes;
mod catalog;
mod check;
mod checkpoints;
mod column;
mod errors;
mod events;
mod events_decoder;
mod events_encoder;
mod exceptions;
mod figure_checkpoint;
mod follower;
mod frame;
mod handles;
mod highest;
mod index;
mod instant_times;
mod keyframe;
mod live_blocks;
mod moment;
mod numbered_writer;
mod packed;
mod prediction;
mod recording;
mod remarks;
mod replay;
mod rss_block;
mod scan;
mod segments;
mod snapshot_writer;
mod source;
mod step_writer;
mod unlisted;
mod varint;
mod walk;
mod writer;

pub use block_writer::FileSink;
pub use check::CheckReport;
pub use errors::{OpenError, RecordingError};
pub use events::EventsSummary;
pub use figure_checkpoint::FigureCheckpoint;
pub use follower::{BlockTooLong, Followed, Follower};
pub use frame::VERSION as FORMAT_VERSION;
pub use highest::Highest;
pub use highwater_model::Damage;
pub use moment::Moment;
pub use numbered_writer::{NumberedWriter, is_usable_state};
pub use recording::{FileStats, Recording, is_recording};
pub use replay::{ReplayUntil, Wanted};
pub use segments::RecordingSegment;
pub use snapshot_writer::{write_snapshot, write_snapshot_with_breakdown, write_states};
pub use step_writer::StepWriter;
pub use walk::WalkItem;
pub use writer::{Spacing, Writer, Written};
