//! Recordings over a network, while they are made.
//!
//! ```text
//!  Course ─ ledger ─┬─▶ file
//!                   ├─▶ Stream: pen ─▶ Outbox, bounded ─▶ its thread ─▶ socket      connected by us (Streaming::Connect)
//!                   └─▶ Stream: …                                                  or by a client  (Streaming::Serve)
//! ```
//!
//! A stream is a recording of its own: it begins with what is live when it begins. Nobody waits for a client: where its outbox is full,
//! events are left out of its stream, and counted there; once there is room again, the stream goes on with a keyframe of what is live then.

mod address;
mod connection;
mod namer;
mod outbox;
mod presence;
mod server;
mod strangers;
mod streaming;
mod threads;
mod token;
mod trace_pen;
mod wire;
mod words;

pub use address::Address;
pub use connection::{connect, connect_patiently};
pub use namer::Namer;
pub use server::{Client, Server, refuse};
pub use strangers::{Stranger, Strangers};
pub use streaming::{Sent, StreamTo, Streaming};
pub use threads::set_beginning_of_threads;
pub(crate) use threads::spawn;
pub use token::{LONGEST_TOKEN, TOKEN_WORD, Token};
pub use wire::Wire;
pub(crate) use wire::{Closing, Stream};
pub use words::Answer;
