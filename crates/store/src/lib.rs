//! Recordings: the `.hw` file, and the in-memory log that becomes one.
//!
//! * [`Writer`] appends [`Event`](highwater_model::Event)s to a `.hw` file: checksummed blocks of compressed columns, with
//!   keyframes from time to time.
//! * [`Recording`] opens one, whole, cut or damaged, and gives a [`Snapshot`](highwater_model::Snapshot) of any instant from the nearest keyframe and
//!   a short replay. Its memory grows with the live blocks, not with the file.
//! * [`StepWriter`] is the writing half of a writer, for callers that keep the ledger themselves and write several files from it; [`Follower`] parses a
//!   recording while its bytes arrive.
//! * [`history`] answers questions about instants and windows of a recording, with caches and an index.
//! * [`write_snapshot`] writes a `.hw` file of one state, without any event, [`write_states`] one of several states; [`Recording`] opens it like any other.
//! * [`EventLog`] is the log that a running program records into: a shard for each thread, exact cuts across all of them, and a temporary file once it
//!   exceeds its limit.
//!
//! `docs/format.md` describes the format, so that other programs can read it.
//!
//! ```
//! use highwater_model::{Event, EventKind, Nanos, Placement, Source, ThreadId, When};
//! use highwater_store::EventLog;
//!
//! let log = EventLog::default();
//! for address in [0x1000, 0x2000, 0x3000] {
//!     let place = Placement { address, size: 100, ..Placement::default() };
//!     log.record_now(Event { time: Nanos(0), thread: ThreadId(1), kind: EventKind::Allocate(place) });
//! }
//! let recording = log.to_recording(&Source::default()).unwrap();
//! let snapshot = recording.snapshot(&When::Peak).unwrap();
//! assert_eq!(snapshot.accounts.totals().figures.live_bytes(), 300);
//! assert!(recording.check(&mut |_| {}).unwrap().violations.is_empty());
//! ```
#![forbid(unsafe_code)]

mod file;
pub mod history;
mod listening_socket;
mod log;
mod new_file;
mod unnamed;

pub use file::{
    BlockTooLong, CheckReport, Damage, EventsSummary, FORMAT_VERSION, FigureCheckpoint, FileSink, FileStats, Followed,
    Follower, Highest, Moment, NumberedWriter, OpenError, Recording, RecordingError, RecordingSegment, ReplayUntil,
    Spacing, StepWriter, WalkItem, Wanted, Writer, Written, is_recording, is_usable_state, write_snapshot,
    write_snapshot_with_breakdown, write_states,
};
pub use listening_socket::{BindError, ListeningSocket, ServerKind, prepare_directory};
pub use log::{Cursor, EventLog, LogError, SharedCatalog};
pub use new_file::{
    behind_links, create_in_place_of, create_new_file, create_numbered_file, create_unfinished_file, is_special,
    numbered, open_or_replace, open_special, rename_to_free_name, rename_without_replacing, write_in_place_of,
};
pub use unnamed::unnamed_file;
