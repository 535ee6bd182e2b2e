//! Object logs: one line for each object that is born and each that is dropped, as WASM modules write them on the console.
//!
//! ```text
//! @ ALLOCATE 1208 src/proof.rs:420 prover::Proof 17
//! @ DROP 1208 prover::Proof 17
//! @ MEMORY 1638400 after the third proof
//! ```
//!
//! `docs/objlog.md` has the whole format. Everything else on the console is noise, and skipped. [`Reader`] takes a log apart as it arrives and gives
//! births and drops to a [`Matcher`], which brings them together by id, in whatever order they come; [`rows`] is the ranking of what was never
//! dropped, [`Survivors`] tells in which iteration it was born, and [`Trust`] whether to believe it.
//!
//! A log is a recording, too: a [`Translator`] makes events of it.
//!
//! A log of any size is read in memory that grows with what is not yet matched: 16 to 46 bytes for each such object. Nothing in a log can
//! stop the reader: what cannot be used is counted, with its line number.
//!
//! ```
//! use highwater_formats::objlog::{By, Reader, Survivors, rows};
//!
//! let log = b"@ ALLOCATE 32 src/a.rs:7 Key 0\nhello\n@ ALLOCATE 64 src/a.rs:9 Table<Key, u8> 1\n@ DROP 32 Key 0\n";
//! let mut reader = Reader::default();
//! reader.read_all(log.as_slice(), &mut ()).unwrap();
//! let survivors = Survivors::of(reader.matcher());
//! let rows = rows(reader.matcher(), &survivors, By::Type);
//! assert_eq!(rows[0].type_name.as_deref(), Some("Table<Key, u8>"));
//! assert_eq!((rows[0].tally.live(), rows[0].tally.live_bytes()), (1, 64));
//! assert!(rows[1].tally.is_perfect());
//! ```

mod contradictions;
mod entry;
mod fault;
mod json_form;
mod lines;
mod matcher;
mod memory;
mod names;
mod page;
mod reader;
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
pub use fault::Fault;
pub use json_form::Thread;
pub use lines::MAX_LINE_BYTES;
pub use matcher::{Matcher, Meaning, SiteId, Survivor};
pub use memory::{Boundary, Growth, MOST_BOUNDARIES, Memory};
pub use reader::{BadLine, LineCounts, Observer, Progress, Reader, Seen, Until, What};
pub use rows::{By, Row, rows};
pub use sniff::looks_like_object_log;
pub use survivors::{Amount, Pattern, Survivors, pattern, stretch_name};
pub use tally::Tally;
pub use translator::{Translator, address_of};
pub use trust::{Explanation, Trust, Verdict};
