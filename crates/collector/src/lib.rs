//! The collector: a daemon with which live processes register, and which takes snapshots of them at any time.
//!
//! ```text
//!  a process ── memory, control page ──▶ CollectorServer ─▶ Registry ─▶ Process ─▶ LiveTable ─▶ Cut ─▶ take ─▶ .hw
//!  a client ─── request ──▶ CollectorServer ─▶ CollectorService ─▶ … ─▶ answer, with files attached
//! ```
//!
//! * [`protocol`]: the messages between clients and the collector; [`CollectorClient`] sends them.
//! * [`CollectorServer`]: the socket and all connections.
//! * [`LiveTable`]: the shared memory of a process; [`Cut`]: its state at one instant; [`take`](mod@take): the contents of a snapshot file.
//!
//! # Design
//!
//! ```text
//!  ┌──────────────── the program ─────────────────┐                     ┌────────── highwater collector ──────────┐   ┌─ highwater snapshot ─┐
//!  │ malloc ─▶ preload ─▶ agent ─▶ a shard's records ══ sealed memory ══▶ cut ─▶ scan ─▶ take ─▶ .hw in memory ──────▶ names ─▶ report, files │
//!  │     index, parked (private) ─┘      control page ◀═ one word ═══════ ┘                                     │   └──────────────────────┘
//!  └──────────────────────────────────────────────┘                     └──────────────────────────────────────────┘
//! ```
//!
//! A live program keeps one record of 32 bytes for every live block, in memory that the collector maps read-only (`shm::table_v1`). Only the
//! program knows which record belongs to an address (`agent::live::index`). The rest of the recorder's agent is used unchanged; the table replaces
//! the ring.
//!
//! **The cut.** The collector writes only one word, on a page of its own (`shm::control_v1`). A change of the table locks its shard, loads that
//! word once, and acts on it. Births are stamped with the epoch of the snapshot that is being taken. A block that was born before and dies
//! meanwhile keeps its record, marked with the epoch. All changes read the same word, so the set of changes before the cut is closed under
//! happens-before: a true cut. The collector never takes a lock. It *observes* that every shard's lock has been free or has changed hands since the
//! cut: then no change that read the old word is under way. After that it can read all records without hurry.
//!
//! * *The model checker* (`crates/shm/tests/model.rs`) runs the protocol's own code through every order of steps. It found that a shard must
//!   release its counters after the counts that it set aside for the cut: otherwise, on a machine with weaker ordering, a reader sees the new count
//!   but not the one set aside.
//! * *A snapshot verifies itself.* Each shard counts the blocks and bytes of births and deaths, and sets its counts aside with the first change
//!   after a cut. The blocks found must equal the difference; each snapshot says whether they do.
//! * *Epochs have 16 bits and do not run out*: each scan notes which epochs records still have, and the next cut uses one that none has.
//! * *A lease* limits the memory of dead records. A writer that finds the lease expired, or too many records parked, clears the active bit, and the
//!   snapshot is taken again. So a killed collector costs nothing after two seconds.
//! * *A lock is held for some tens of nanoseconds*: the stack is walked and the clock is read before. If a thread never releases it (a jump out of
//!   a signal handler), other threads give the shard up after two seconds, which is counted. No thread waits for ever, and none steals a lock.
//! * *Mappings have a shard of their own* and a sorted list of ranges: splitting a mapping is one change.
//! * *A reallocation locks both shards* and takes one stamp. If there are several threads, the old address is removed from the index before the
//!   real call, as the recorder sets it aside.
//!
//! **Layout.** The records of all shards are interleaved in stripes, four records per shard. So the records of a small program share pages, and a
//! scan reads memory in order (7 ns per record). The indices of all shards are in one arena per size, in large pages. An index entry holds 40 bits
//! of an invertible product of the address, so a lookup never touches a wrong record. The slot is prefetched before the stack is walked. A layout
//! with 256 shards in separate regions, and each index on its own page, cost twice as much for programs with few live blocks: everything was on a
//! different page.
//!
//! **Finding each other.** A program connects to its collector's socket when it starts, hands over its two descriptors, and keeps them open under
//! high numbers. A collector that starts searches the descriptors of its user's processes, and takes those whose tables name its socket. So no
//! program retries, and no thread waits in the program.
//!
//! **Attaching.** A client that has injected an agent into a running process hands the agent's memory object over, and goes. The collector believes it only if the
//! process has that object mapped. From then on it is the agent's reader: it changes the heartbeat many times a second, and allocates the memory that the agent will write.
//! An agent without a reader ends by itself after ten seconds, so a collector that is killed leaves a program whose hooks only pass calls on.
//!
//! **The answer to a snapshot request** is a `.hw` file without events (docs/format.md): with every block, or *aggregated*, with figures by site
//! and thread only, which takes no memory for blocks. It has no names: clients look them up, so a daemon that lives for months reads no debug
//! files. Memory freed before the snapshot is one row, so that the totals are the process's own.
//!
//! **Timelines.** Once a second the collector reads the counters of each process, without a cut, and its resident set. It keeps these readings in a fixed
//! amount of memory ([`ProcessTimeline`]), also for processes that are gone, as long as it knows them.
//!
//! **Hostile memory.** Every number is loaded once and bounded. A table that claims more than its memory holds is not read (reading a hole would
//! make the system provide memory for it). Fuzz target: `live_table`.
//!
//! **Switching.** The control word has the number of the settings. If every block is recorded, each change sees it. If samples are recorded, the
//! program looks at it when a countdown ends, and countdowns are at most 64 KiB long. Records stay in the table, so after a switch from every block
//! to samples each free must still be looked up.
//!
//! **Versions.** `crates/collector/tests/frozen_v1` has the layouts as published, and a small program built from them, which every collector must
//! be able to read.
//!
//! Rejected designs: *a copy of the table while the process is stopped* (65 ms for 10 M blocks); *copy-on-write by userfaultfd* (microseconds for
//! the first touch of each page); *lock-free slots* (the lock's two instructions are not the main cost of a change); *returning the memory of
//! records* when a program has shrunk (a sealed object cannot be punched).

mod attached;
mod client;
mod connection;
pub mod contents;
pub mod cut;
mod detach;
mod discover;
mod environment;
mod epochs;
mod gauges;
mod job_queue;
mod mapping;
mod older;
mod pages;
mod past;
mod peek;
mod process;
mod process_identity;
pub mod protocol;
mod registry;
mod resource_attributes;
mod results;
mod server;
mod service;
mod snapshot_store;
mod sums;
pub mod table;
pub mod take;
mod threads;
mod timeline;
mod weigh;

pub use client::{CollectorClient, CollectorError, Taken};
pub use cut::Cut;
pub use detach::detach;
pub use discover::table_of;
pub use environment::Environment;
pub use gauges::{ProcessGauges, Survivors};
pub use highwater_store::BindError;
pub use older::MOST_OLDER;
pub use pages::PageDetail;
pub use process_identity::ProcessIdentity;
pub use registry::KEPT_TABLES;
pub use server::default_socket;
pub use server::{CollectorOptions, CollectorServer};
pub use snapshot_store::{KEPT_SNAPSHOTS, default_snapshot_folder};
pub use table::LiveTable;
pub use timeline::{Extremes, ProcessTimeline, TimelineBin, TimelineInfo, TimelineReading};
