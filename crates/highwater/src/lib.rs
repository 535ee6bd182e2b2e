//! Highwater for Rust programs: record the memory events of your program, and look at its memory at any instant.
//!
//! * [`event_store::EventStore`] takes events from any number of threads, about 40 ns each, and keeps them in memory,
//!   16 to 24 bytes each, or [in a file](event_store::EventStore::with_limit) once they exceed a limit.
//! * [`snapshot::SnapshotEngine`] builds snapshots of the store: [now](snapshot::SnapshotEngine::build_snapshot), [brought up to
//!   date](snapshot::SnapshotEngine::update), or [at any time](snapshot::SnapshotEngine::snapshot_at) in the past.
//! * [`EventStore::save`](event_store::EventStore::save) writes a `.hw` recording, which the `highwater` command shows.
//!
//! ```
//! use highwater::event_store::{EventStore, MemoryEvent};
//! use highwater::snapshot::{MemorySnapshot, SnapshotEngine};
//! use std::sync::Arc;
//!
//! let store = Arc::new(EventStore::new());
//! let engine = Arc::new(SnapshotEngine::new(Arc::clone(&store)));
//! let before: MemorySnapshot = engine.build_snapshot();
//! assert_eq!((before.active_count(), before.peak_memory()), (0, 0));
//!
//! store.record(MemoryEvent::allocate(0xa000, 96, 7)); // address, size, thread
//! store.record(MemoryEvent::allocate(0xb000, 160, 7));
//! store.record(MemoryEvent::deallocate(0xa000, 96, 9)); // freed by another thread, charged to thread 7
//!
//! let now = engine.build_snapshot();
//! assert_eq!((now.active_count(), now.current_memory(), now.peak_memory()), (1, 160, 256));
//! assert_eq!(now.thread_stats[&7].current_memory, 160);
//! ```
//!
//! Time travel, marks and differences:
//!
//! ```
//! # use highwater::event_store::{EventStore, MemoryEvent};
//! # use highwater::snapshot::SnapshotEngine;
//! # use std::sync::Arc;
//! let store = Arc::new(EventStore::new());
//! let engine = SnapshotEngine::new(Arc::clone(&store));
//! store.record(MemoryEvent::allocate(0xa000, 1000, 1).with_type_name("Index"));
//! store.record(MemoryEvent::mark("loaded", 1));
//! store.record(MemoryEvent::reallocate(0xa000, 1000, 5000, 1));
//! store.record(MemoryEvent::deallocate(0xa000, 5000, 1));
//!
//! let loaded = engine.snapshot_at_mark("loaded").unwrap();
//! let peak = engine.snapshot_at_peak();
//! assert_eq!((loaded.current_memory(), peak.current_memory()), (1000, 5000));
//! let diff = loaded.diff(&peak);
//! assert_eq!(diff.resized[0].1.size, 5000);
//! assert_eq!(diff.types["Index"].bytes_change(), 4000);
//! ```
//!
//! # Limits
//!
//! * Times are nanoseconds since the store was made (see `allocated_at`, `timestamp`). The clock is calibrated against the system's when it is
//!   first read.
//! * An event recorded from inside the allocator while the same thread is recording another is dropped, and counted.
//!
//! # Recording every allocation
//!
//! With [`Alloc`] as the global allocator a program can record itself: set `HIGHWATER_RECORD=file.hw` when it starts, or call [`record_to`]. Until
//! then it costs less than a nanosecond per call.
//!
//! ```no_run
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);
//!
//! fn main() -> std::io::Result<()> {
//!     highwater::record_to("app.hw")?;
//!     // … warm up …
//!     highwater::mark("after warm-up");
//!     Ok(())
//! }
//! ```
//!
//! [`stream`] sends the recording over a network while it is made, or offers it to clients.
//!
//! # Limits in tests
//!
//! [`testing`] counts exactly what a piece of work takes from the heap, and fails a test that takes too much, with the call stacks;
//! [`#[highwater::test]`](macro@crate::test) does so for a whole test.
//!
//! # Being live
//!
//! With the same allocator a program can be *live*: [`live`] keeps a table of all its live blocks, and `highwater snapshot --pid N` shows it at any
//! time, exactly as of one instant, without stopping the program. [`snapshot()`] keeps a snapshot under a name; [`global_stats`] and
//! [`thread_stats`] return how much was allocated and freed.
//!
//! # Tasks
//!
//! [`task::scope`] gives a future a name: what is allocated while it is polled belongs to that task, on every thread that polls it.
//!
//! # Snapshots in files and in JSON
//!
//! A [`MemorySnapshot`](snapshot::MemorySnapshot) can be [saved](snapshot::MemorySnapshot::save) as a `.hw` file and
//! [opened](snapshot::MemorySnapshot::open) again, by another process too. With the feature `serde`, it and its
//! [differences](snapshot::SnapshotDiff) are `Serialize` and `Deserialize`. Snapshots of two stores are compared by call stack, type and variable.
//!
//! # Objects
//!
//! [`Tracked`](struct@Tracked) values report their creation and their drop: see [`objects`]. [`track!`] keeps the name of the
//! variable as well, and [`Shared`] counts the owners of an `Arc` or `Rc`. Only this part is available on WASM.
#![deny(unsafe_code)]

#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
mod alloc;
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
mod c_library;
#[cfg(not(target_family = "wasm"))]
mod event_name;
#[cfg(not(target_family = "wasm"))]
pub mod event_store;
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
mod live;
pub mod objects;
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
mod recording;
#[cfg(not(target_family = "wasm"))]
pub mod snapshot;
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
pub mod stream;
pub mod task;
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
pub mod testing;

#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
pub use alloc::Alloc;
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
pub use live::{Live, Stats, global_stats, live, snapshot, thread_stats};
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
pub use recording::{leave_out_arguments, mark, record_to, stop_recording};

#[cfg(not(target_family = "wasm"))]
pub use event_name::Name;
pub use highwater_derive::Tracked;
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
pub use highwater_derive::test;
#[cfg(not(target_family = "wasm"))]
pub use highwater_model::{FrameText, StackId};
pub use objects::{DeepSize, Shared, Tag, Track, Tracked, track};
