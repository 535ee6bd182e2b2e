//! Turns the memory that agents share into recordings.
//!
//! ```text
//!  agent ──ring──┐
//!  agent ──ring──┼─▶ RingReader (by stamp) ─▶ ProcessRecording (names, mappings, threads) ─▶ a writer of highwater-store ─▶ .hw
//!  agent ──ring──┘                                                                               at the end: symbolize
//! ```
//!
//! [`Recorder`] does so for a program and its children; [`ProcessRecording`] for one process, which may be our own. The output is a file, or a
//! [`stream`], or both.
//!
//! # Design
//!
//! **Mappings** (`recorder/mappings.rs`, and `agent/live/mappings.rs` for live programs) are ranges of three kinds. Memory that the program can touch is blocks.
//! Reservations (`PROT_NONE`) and files are no memory: their sums are gauges of a recording and numbers of a live table's header. `mprotect` turns a
//! reservation into a block of its caller, part by part, and back. Memory that was given back (`madvise`) stays in its blocks, since the program may touch it
//! without any call; its sum is a gauge and a number of the header as well.
//!
//! **The resident set** is read when a round begins, and stamped with the watermark of that round: all events before it have been read. Where it is (`breakdowns`) needs the addresses of all live
//! blocks and a look at every page: the thread that reads the rings only copies the blocks, another one does the rest, and both together take at most one
//! percent of the elapsed time.
//!
//! **Merging.** Each ring is ordered; across rings the recorder may pass on everything up to a watermark. A writer sets `busy` before it takes a stamp and
//! clears it after publishing. A ring that is not busy has published everything it stamped until then; a busy one will publish nothing older than its last
//! stamp. Records are read in place (`rings.rs`), a quarter of a ring at a time is returned to the writer, and one thread does everything: the latest records
//! are still in a cache that both processors share. (An earlier design had a second thread that copied rings into a queue, which let bursts through without
//! waiting. It cost copies and fresh memory, and queued records left the cache. Now a program that outruns its recorder waits for it while its rings are
//! full.)
//!
//! **Memory groups** (`provided.rs`). A page is charged to the process that touches it first, so the recorder allocates rings and stacks ahead of the
//! program: as much as the program will write until the recorder's next check. A writer takes no more than 64 KiB of a ring by itself: beyond the provided
//! memory it waits, as if the ring were full, and so notices that its recorder is gone.

mod breakdowns;
mod children;
mod listen;
mod mappings;
mod process_recording;
mod record;
mod recorder;
mod resident;
mod returned;
mod rings;
pub mod stream;

pub use breakdowns::BreakdownWorker;
pub use children::{children_folder, children_of, remove_children_of};
pub use highwater_symbols::perf_map::resolve_jit_frames;
pub use highwater_symbols::{Symbolized, add_type_facts, resolve_frames};
pub use process_recording::{Finished, LastFigures, Outputs, ProcessRecording, RecordedProcess};
pub use recorder::{Recorder, RecorderOptions, RecordingOutcome, RecordingProgress};
pub use resident::RssEvery;
