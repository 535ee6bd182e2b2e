//! The viewer: memory recordings in the browser.
//!
//! It has three parts: an HTTP server for one user on one machine ([`http`]), the API that its page uses ([`Api`], `docs/api.md`), and the page itself, which is
//! part of the binary. The program that starts the viewer opens sources ([`Opener`], [`Collector`]). Every kind of source becomes a recording or a snapshot,
//! and queries read only those:
//!
//! * an instant is a keyframe and a short replay, and the last few are kept;
//! * a window is two instants: the counters at its end less the counters before it;
//! * filters on more than call stacks need single blocks: the live blocks of an instant, or all births and deaths of the window, read in one pass
//!   on all cores;
//! * the answer is sent as lines with the progress in between, and the work stops when the client disconnects.
//!
//! The texts in a recording are untrusted: the page receives them as JSON and inserts them as text.
//!
//! # Design
//!
//! ```text
//!  browser ── HTTP, 127.0.0.1, token ──▶ http ─▶ api ─▶ query/* ─┬─▶ figures: two instants, one less the other
//!                                                               ├─▶ blocks of a snapshot, filtered
//!  files ─── Opener ──▶ sources ─▶ Loaded (memos) ◀─────────────┴─▶ traffic: columns of births and deaths, filtered
//!  live ──── Collector ─┘             └─▶ Course: slices, standings, traffic; one scan on all cores
//! ```
//!
//! docs/api.md is for users. `crates/view` knows only recordings and snapshots: the command passes in how files are opened and collectors asked.
//!
//! * *A window is two instants*: counters at its end less those before it (`Snapshot::since`). So figures of any window cost two instants, whatever its
//!   length, and `report --from --to` cannot differ from the page. Its peak is found from the summaries of the blocks of events, and one block is replayed.
//! * *A recording is scanned once* (`course.rs`), on all cores, in segments that each begin with a keyframe (`store::Stretch`). A long recording is scanned in
//!   the background when it is opened, a short one when the index is first needed. The scan stores three things. *Slices*: the bytes and blocks that were
//!   live in each 8192 events, for timelines of long windows. *Traffic* (`traffic/`): every arrival and every departure of an allocation, as it was at that
//!   time, in bit-packed columns: some fifteen bytes an event, five times the recording, in an unnamed file; for short recordings in memory.
//!   *Standings*: the figures before each block of events, as a keyframe has them, without its blocks.
//! * *Why traffic*: the record of a free has only the number of the block. Only a ledger of all live blocks knows the rest. That needs a state to be read, and some
//!   110 ns for each event after it where a million blocks are live. With stored departures, a query about single blocks is a pass over the few columns that its
//!   filters need: 5 to 25 ns a row, and a departure knows the whole life of its block. `bench/view`: queries that took 2 to 20 s take 0.1 to 0.8 s.
//! * *Why standings*: a stored state has every live block only because it does not know which of them will be freed. Departures do. So the figures, and the few
//!   blocks that depart before the instant, are enough for the figures of that instant: at most one block of events is replayed (`Recording::resume`).
//!   20 ms instead of 200. Until the scan is done, instants come from keyframes and checkpoints.
//! * *Filters on stacks* are one bit for each stack, derived from the bit of its caller (`sieve.rs`), and need nothing but figures. All other filters need single
//!   blocks: those of a snapshot, or traffic.
//! * *Filters see a block as it is at the time that counts*: when it is allocated, freed or live. So filters that let everything pass change nothing. Where
//!   filters on deaths select births, blocks are counted when they die, in their last state: to remember every size that a block ever had would take memory
//!   without bound.
//! * *Replays store checkpoints* (`store/file/waypoints.rs`): encoded like keyframes, in memory, up to 144 MiB. Keyframes of a file are as far apart as its
//!   size allows; a client that looks at the blocks of many instants pays once for nearer ones. The scan stores checkpoints all over the recording.
//! * *Snapshots are kept in two sizes*: few with their blocks, many with figures alone. A request for one that is being made waits for it.
//! * *The server is our own* (`http/`): a thread for each connection; heads, bodies and times are bounded, and a malformed request is refused rather than
//!   repaired. An asynchronous runtime would be larger than everything else together, for one user. The work checks between steps whether the client
//!   is still connected, every 20 ms at the most; the code that opens files checks as well, so a long log that no client waits for is not read to its end.
//! * *Access*: any page in any browser on the machine can reach a port. So there is a token. `Host` is checked against names that resolve to this machine from
//!   elsewhere. `Origin` and `Sec-Fetch-Site` are checked against pages of other servers on this machine, which send our cookie: cookies are not bound
//!   to ports. A browser is started with a ticket that works once, since its command line is public.
//! * *Strangers cannot take slots*: a connection that has not shown the token is one of 64, of which the oldest is closed when another one connects. Connections
//!   that have shown it (128) have slots of their own. Connections that send nothing could fill a common limit.
//! * *Files are checked for changes while the old content still answers*: a query never waits for a file that is being read again; the last read content
//!   answers until the new one is there. Walked images are cached by path and `stat` result, which is taken before a byte is read.
//! * *Answers are bounded by the screen and by limits that are errors* (`query/stacks.rs`, `Problem::TooLarge`): stacks are a table that has each call once,
//!   trees have the largest nodes, curves have the requested number of points. Clients that do not ask for the table get lists of frames made from it.
//! * *Leaks by survivors*: blocks that are live at the end have their time of birth. Of a leak about as many bytes survive from each part of the window, so its
//!   curve is a line; curves of caches rise early or late. One snapshot is enough for this, where figures at many instants would take many.
//!
//! Rejected designs: *mapping addresses to blocks for each window* (memory), *an index by site in the file* (it would have to be kept for every block of every
//! recording, though few recordings are opened in a viewer). The second reason also holds for traffic, which is why it is made when a viewer needs it.
#![forbid(unsafe_code)]

mod api;
mod bins;
mod choice;
mod course;
mod filter;
// The other tests use more of it than the tests in this crate do.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../tests/support/history.rs"]
mod history;
pub mod http;
mod lives;
mod measure;
mod memo;
mod owned;
mod page;
mod population;
mod problem;
mod query;
mod save;
mod scan;
mod sieve;
mod sources;
mod standings;
mod traffic;
mod work;

pub use api::Api;
pub use http::server::{Server, Stop};
pub use memo::Memo;
pub use problem::Problem;
pub use sources::{Collector, FileKind, LiveProcess, OpenedFile, Opener, Plain, Sources, Special, Stamp};
pub use work::Work;
