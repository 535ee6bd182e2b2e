//! Memtrace: the sampled allocation traces of OCaml programs and MirageOS unikernels.
//!
//! A trace is a row of packets, each written by one domain of the program. [`Decoder`] takes bytes as they arrive and gives out
//! [`Event`](highwater_model::Event)s in the order of time; [`Reader`] feeds it from a file, a pipe or a socket. Whatever is wrong with a trace is
//! told as [`Damage`](highwater_model::Damage) with its offset, and everything else is used.
//!
//! How a trace becomes events:
//!
//! * An object's number is its address: numbers are never used again.
//! * An object stands for as many bytes as its samples do ([`Weight::of_samples`](highwater_model::Weight::of_samples)), and for as many objects as is
//!   one over the probability that it was hit at all.
//! * A location code is a frame with that address. What it is described as (several places where functions were inlined) is that
//!   frame's resolution.
//! * A domain is a thread. Minor, major and external are heaps; a promotion takes an object from the one to the other.

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
pub use reader::{ReadError, Reader};
pub use sniff::looks_like_memtrace;
pub use writer::{LeftOut, TraceWriter, Version};
