//! The history engine: every question about an instant or a window of a recording is answered here.
//!
//! [`History`] holds a recording, or the state of one instant, and answers:
//!
//! * the state at an instant, with its blocks ([`History::snapshot`]) or as figures alone ([`History::figures`]);
//! * the counters of a window ([`History::window`]) and the peak within it ([`History::peak`]);
//! * all births and deaths of blocks in a range of time ([`block_events`]);
//! * live memory over time, from its index ([`HistoryIndex`]).
//!
//! Everything is built when it is first needed, and cached under one budget of bytes. Long work reports progress and can be cancelled ([`Work`]).
//!
//! # Design
//!
//! * *Two ways to a state.* With blocks: the nearest keyframe or checkpoint, then a replay. Figures alone: the nearest [`FigureCheckpoint`](crate::FigureCheckpoint) of the index, then
//!   a replay of at most one event block with only those blocks that die in it. The second takes 20 ms where the first takes 200.
//! * *A window is two instants*: the counters at its end less the counters before it. So figures of any window cost two instants, whatever its length.
//! * *The index is built in one scan on all cores* ([`HistoryIndex`]), in segments that each begin with a keyframe. It holds: the bytes and blocks that
//!   were live in slices of 8192 events, for timelines of long windows; what each owner gained and lost in each slice ([`OwnerChanges`]), for timelines that are
//!   stacked; [block events](block_events), some fifteen bytes each, in an unnamed file, or in memory for short recordings; and figure checkpoints.
//! * *Why block events*: the record of a free has only the number of its block. Only a ledger of all live blocks knows the rest. That needs a state to be
//!   read, and some 110 ns for each event after it where a million blocks are live. With stored deaths, a question about single blocks is a pass over the few
//!   columns that its filters need: 5 to 25 ns a row.
//! * *One budget*: checkpoints of replays take at most a quarter of it, figure checkpoints an eighth, and the [`Cache`] gets what they leave. The least
//!   recently used value is dropped first, whatever its type.
//! * *An index by site in the file* was rejected: it would have to be kept for every block of every recording, though few recordings are looked at so closely.
//!   The same reason holds for block events, which is why they are made when they are first needed.

mod bins;
mod block_events;
mod block_facts;
mod build_once;
mod cache;
mod figure_checkpoints;
#[allow(clippy::module_inception, reason = "the engine's type is in the file of its name")]
mod history;
mod index;
mod instants;
mod owner_changes;
mod parallel;
mod work;

pub use crate::Moment;
pub use bins::{Bin, Bins, Span};
pub use block_events::{BlockEventRow, BlockEvents, Cause, ColumnSet, Side};
pub use block_facts::{BlockFacts, BlockLife, OwnedBlock, Owners};
pub use cache::Cache;
pub use history::{History, HistoryError};
pub use index::{HistoryIndex, Slice};
pub use instants::WindowFigures;
pub use owner_changes::{ChangeList, LiveChange, OwnerChanges};
pub use parallel::block_events;
pub use work::{Asker, Cancelled, Work};
