//! Object logs: one line for each object that is born and each that is dropped, as WASM modules write them to the console.
//!
//! ```text
//! @ ALLOCATE 1208 src/proof.rs:420 prover::Proof 17
//! @ DROP 1208 prover::Proof 17
//! @ MEMORY 1638400 after the third proof
//! ```
//!
//! `docs/objlog.md` has the whole format. Everything else on the console is noise, and is skipped. [`ObjectLogReader`] parses a log as it arrives and gives
//! births and drops to a [`Matcher`], which matches them by id, in any order. [`rows`] ranks the objects that were never dropped, [`SurvivingObjects`]
//! groups them by the iteration of their birth, and [`Trust`] says whether the result can be trusted.
//!
//! A log can also become a recording: a [`Translator`] makes events of it.
//!
//! The memory needed for a log of any size grows with the number of unmatched objects: 16 to 46 bytes for each. Nothing in a log can stop the reader:
//! unusable lines are counted, with their line numbers.
//!
//! ```
//! use highwater_formats::objlog::{ObjectGrouping, ObjectLogReader, SurvivingObjects, rows};
//!
//! let log = b"@ ALLOCATE 32 src/a.rs:7 Key 0\nhello\n@ ALLOCATE 64 src/a.rs:9 Table<Key, u8> 1\n@ DROP 32 Key 0\n";
//! let mut reader = ObjectLogReader::default();
//! reader.read_all(log.as_slice(), &mut ()).unwrap();
//! let survivors = SurvivingObjects::of(reader.matcher());
//! let rows = rows(reader.matcher(), &survivors, ObjectGrouping::Type);
//! assert_eq!(rows[0].type_name.as_deref(), Some("Table<Key, u8>"));
//! assert_eq!((rows[0].tally.live(), rows[0].tally.live_bytes()), (1, 64));
//! assert!(rows[1].tally.is_perfect());
//! ```
//!
//! # Design
//!
//! ```text
//!  bytes ─▶ lines ─▶ text or JSON form ─▶ Matcher ─▶ rows, SurvivingObjects, Trust        highwater objects
//!                                           └─▶ Translator ─▶ events ─▶ Writer            everything else
//! ```
//!
//! * *A line is parsed from both ends*. The text between, place and type together, is looked up as a whole: the end of the place is searched once for
//!   each site, not once for each line. Lines are not checked to be UTF-8; names are, once.
//! * *Nothing is judged before it must be.* Order in the file is not order in time. So a drop without birth is known only at the end, and a different
//!   size at the drop is a mismatch only if no `RESIZE` comes. A property test shuffles lines.
//! * *Ids come from one sequence*, so unmatched objects are in pages of 512 ids, sixteen bytes each, found by index. For a page whose ids were all
//!   seen, only the open ids are stored. Pages with few open ids are emptied into a hash table: with pages alone, one leak in five hundred objects
//!   kept everything; with a hash table alone, every line would miss the cache. Ids outside the sequence are in the hash table; a million of those
//!   that are settled are remembered.
//! * *Births and drops are processed in batches of sixteen*, after one access to the memory of each, so that the cache misses overlap. With two
//!   million live objects that is nearly twice as fast.
//! * *MemoryGrowth has its own verb* (`RESIZE`). Treating any different size at the drop as growth would have been simpler for writers. But it would have
//!   hidden the mistakes that a size mismatch is meant to find.
//! * *The growth of the memory is compared with* the objects born between the first and the last `MEMORY` line: older objects are no part of it. If
//!   the measure is in pages, an excess of less than a page is ignored.
//! * *The end of an object is logged before its value is dropped*: its size must be known, and a panic must not lose the line. So `Tracked` has its
//!   own `Drop`, and the value, a field, is dropped after it.
//! * *The switch is one word*, read once when an object is born. Each thread keeps the sink with the number it had: no lock is needed, and nothing is
//!   leaked when sinks change.
//! * *The event store's clock is read without a fence* for births, and for ends on the thread of the birth: no other thread can have caused them. For
//!   all others it is fenced, as elsewhere.
//! * *The crate is configured by target, not by feature*: users write the same line in `Cargo.toml` for every target, and on WASM get the possible
//!   part.
//!
//! Tried and dropped: entries of 24 bytes with a separate iteration, and thin pages as sorted lists of their own (two allocations each, 128 bytes for
//! a single leak).

mod contradictions;
mod entry;
mod fault;
mod json_form;
mod lines;
mod matcher;
mod memory;
mod names;
mod owners;
mod page;
mod reader;
mod room;
mod rows;
mod scattered;
mod sniff;
mod survivors;
mod table;
mod tally;
mod text_form;
mod translator;
mod trust;

pub use contradictions::{Contradictions, OddIds};
pub use fault::ObjectLineFault;
pub use json_form::LogThread;
pub use lines::MAX_LINE_BYTES;
pub use matcher::{Matcher, Meaning, SiteId, Survivor};
pub use memory::{Boundary, MOST_BOUNDARIES, MemoryGrowth, MemoryReadings};
pub use owners::{SharedOwners, owned_type, shared_owners};
pub use reader::{
    BadObjectLine, LineCounts, LogEvent, LogEventKind, LogProgress, ObjectLogReader, Observer, ReadUntil,
};
pub use room::{HeapRoom, HeapRooms, ImageInstant};
pub use rows::{ObjectGrouping, ObjectRow, rows};
pub use sniff::looks_like_object_log;
pub use survivors::{ObjectAmount, Pattern, SurvivingObjects, pattern, span_name};
pub use tally::ObjectTally;
pub use translator::{Translator, address_of};
pub use trust::{Explanation, Trust, TrustVerdict};
