//! Memtrace: the sampled allocation traces of OCaml programs and MirageOS unikernels.
//!
//! A trace is a sequence of packets, each written by one domain of the program. [`Decoder`] takes bytes as they arrive and gives out
//! [`Event`](highwater_model::Event)s in the order of time; [`MemtraceReader`] feeds it from a file, a pipe or a socket. Faults of a trace are reported as
//! [`Damage`](highwater_model::Damage) with an offset, and everything else is used.
//!
//! How a trace becomes events:
//!
//! * An object's number is its address: numbers are never reused.
//! * An object has the weight of its samples in bytes ([`Weight::of_samples`](highwater_model::Weight::of_samples)). The number of objects that it
//!   stands for is one divided by the probability that at least one sample hit it.
//! * A location code is a frame with that address. Its description (several source locations if functions were inlined) is that frame's resolution.
//! * A domain is a thread. Minor, major and external are heaps; a promotion moves an object from the minor to the major heap.
//!
//! # Design
//!
//! `formats::memtrace` reads and writes the format of OCaml's memtrace. docs/memtrace.md is for users; each file of the module has one concept.
//!
//! ```text
//!  bytes ─▶ framer ─▶ packets, held back ─▶ order ─▶ domain ─▶ events ─▶ AddressLedger (report at the end), or Writer (everything else)
//!           finds packets,   as they are     by time   decodes: names, locations, backtraces
//!           after damage
//! ```
//!
//! * *Packets are held back, not events*: 32 MiB of them, a tenth of the size of their events. A domain writes its packets late, so the order of a
//!   file is not the order of time. A queued packet is decoded when its events are next. This costs a trace of one domain a copy of its bytes. An
//!   event that comes even later gets the latest time given out, and is counted.
//! * *A location code is a frame with that address, and its description a resolution*. The description may come after the first use, as when domains
//!   are merged or packets lost, and codes with the same description stay separate.
//! * *An object's number is its address.* So the ledger's table is the only one from numbers to blocks, and `export` can restore what `import` read.
//! * *After a loss, backtraces are doubted frame by frame*: each bucket records the number of losses before it was filled. A stack that depends on an
//!   older bucket gets an outermost frame that says so. It is neither left out nor shown as certain.
//! * *The clock is excused only if all else is sound*: an impossible time means that the clock was set back if the rest of the packet is complete and
//!   has the number of allocations that its header says. Otherwise it means damage.
//! * *Columns that spilled* (`spill.rs`): all readings are followed in parallel, with a cost for unlikely findings, within an effort in proportion to
//!   the trace. Readable locations are doubted only in a trace in which some are unreadable.
//! * *The command reads a trace directly into a ledger*, which is sufficient for `report` at the end. Other instants, single heaps and timelines use
//!   a temporary recording.
//! * *A new version of the file only if needed*: promotions and counted samples would mislead older readers. All eight operation codes were in use; a
//!   promotion is an unmatched free with a bit that was ignored before.
//!
//! * *A stack is found by one key*, made of its caller's key and its frame with one multiplication, and looked up once for each allocation. Walking
//!   the trie frame by frame took twice as long, with any cache of recent callees that was tried.
//!
//! Tried and dropped: keeping buckets in one wide table, and reading runs of frames in a loop of their own.

mod backtrace;
mod bytes;
mod codec;
mod codes;
mod damage;
mod decoder;
mod domain;
mod framer;
mod header;
mod info;
mod known_stacks;
mod locations;
mod lost_ids;
mod names;
mod order;
mod packet;
mod put_backtrace;
mod put_codes;
mod put_domain;
mod put_locations;
mod reader;
mod sniff;
mod spill;
mod trace;
mod writer;

pub use decoder::{Decoder, NotATrace, PATIENCE};
pub use domain::{address_of, id_of};
pub use reader::{MemtraceError, MemtraceReader};
pub use sniff::looks_like_memtrace;
pub use writer::{MemtraceOmissions, TraceWriter, Version};
