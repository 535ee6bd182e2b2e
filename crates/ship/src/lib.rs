//! Ships the memory of all live processes of a host: each minute one aggregated snapshot of each, as rows of a lake.
//!
//! ```text
//!  collector ─▶ BatchMaker ─────────────▶ Batch ─▶ ShipSpool ─▶ Parcel ─▶ ShipTarget ─▶ a lake, or a profile store
//!   snapshot    labels, names, identities           on disk      by id
//! ```
//!
//! # Design
//!
//! **A client.** The shipper asks the collector for aggregated snapshots, as `highwater snapshot` does. The programs and the collector do not know of it. If no collector
//! listens, it waits.
//!
//! **Slots.** A slot is a multiple of the interval on the wall clock, so the rows of all hosts meet. A host takes its snapshots some seconds later, by a jitter that its
//! name decides, and uploads in another slot than other hosts ([`SlotClock`]).
//!
//! **Two threads.** One takes the slots and writes each to the spool; the other sends. A store that is away or slow delays no slot.
//!
//! **The spool** ([`ShipSpool`]) has one file for each slot, written, synced and renamed before the next slot begins. So a killed shipper loses at most the slot
//! that it is taking. Before slots are sent they are moved into a folder whose name is the parcel's id. The names of the
//! lake's files are made of their rows: a parcel that is sent again, because the shipper was killed before it could delete it, or replaced by a newer version, has the
//! same names, and the store refuses the copy. The slots that were taken are stored too ([`TakenSlots`]), so a shipper that is started again within the same slot, or
//! whose clock is set back, takes none twice.
//!
//! **Stacks** (`StackBook`) are recognized by their code: build ids and offsets in files. All processes share one trie of such calls, so a stack is named once in the
//! life of the shipper. A minute in which nothing new appears reads no debug information and hashes nothing. The trie is bounded: a full one is emptied.
//!
//! **Labels** ([`LabelRules`]) come from flags, from the environment of each process, from its control group, from the shipper's environment, and at last from the names of
//! program and host.
#![forbid(unsafe_code)]

mod batch_maker;
mod container;
mod label_rules;
mod lake_target;
mod process_start;
pub mod profile_store;
mod sender;
mod shipper;
mod slot_clock;
mod spool;
mod spool_file;
mod stack_book;
mod taken_slots;
mod target;

pub use highwater_collector::Environment;
pub use label_rules::{LabelRules, UnknownLabel, clean_label};
pub use lake_target::LakeTarget;
pub use shipper::{Say, ShipError, ShipOptions, Shipper};
pub use slot_clock::SlotClock;
pub use spool::{ShipSpool, SpoolError, SpooledParcel, default_spool};
pub use taken_slots::TakenSlots;
pub use target::{Parcel, SendError, ShipTarget, TargetOptions, open_target};
