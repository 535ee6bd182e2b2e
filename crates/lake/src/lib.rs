//! The lake: aggregated snapshots of the processes of many hosts, as Parquet files in a folder or an object store.
//!
//! ```text
//!  highwater ship ─▶ Batch ─▶ incoming/ ─▶ compaction ─▶ sites/ sites_hour/ processes/ stacks/ frames/ ─▶ any SQL engine
//! ```
//!
//! # Design
//!
//! Highwater is no database: it writes files that existing engines read. One row of `sites` is one stack of one process at one instant (a *slot*). Hosts write
//! small files into `incoming/`. Compaction sorts the rows of an hour by site, process, stack and slot, so that equal values are neighbours and a row takes few
//! bytes: docs/fleet-scale.md has figures.
//!
//! Identities are content hashes ([`identity`]): the same stack has the same number on every host, whatever the address space layout. All numbers are signed 64-bit
//! integers, because some engines read unsigned ones as decimals.
//!
//! A file is complete or absent: it is written under another name, synced and renamed, or uploaded as one object ([`store`]). No file is ever changed. An incoming
//! file is named after its content, so that a host may send it again. [`compact`] says why no row is lost or counted twice when a compaction is killed.
#![forbid(unsafe_code)]

pub mod check;
pub mod compact;
pub mod expire;
pub mod identity;
pub mod info;
pub mod keys;
pub mod parquet;
pub mod rows;
pub mod store;

mod error;
mod incoming;
mod key_part;
mod lake;
mod named_site;
mod records;
mod scratch;
mod stack_text;
mod table;

pub use error::LakeError;
pub use incoming::{ImpossibleRows, IncomingFile, incoming_files, possible_rows};
pub use keys::{Day, SlotRange};
pub use lake::{Lake, LakeFiles};
pub use named_site::NamedSite;
pub use stack_text::{bounded_name, stack_text};
pub use table::Table;

/// The version of the schema, in `lake.json`.
pub const SCHEMA: u32 = 1;
