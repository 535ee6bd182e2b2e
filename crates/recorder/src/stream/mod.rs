//! Recordings over a network, while they are made.
//!
//! ```text
//!  ProcessRecording ─ ledger ─┬─▶ file
//!                             ├─▶ Stream: writer ─▶ Outbox, bounded ─▶ its thread ─▶ socket   connected by us (StreamTo::Connect)
//!                             └─▶ Stream: …                                                  or by a client  (StreamTo::Serve)
//! ```
//!
//! A stream is a recording of its own: it begins with the blocks that are live at that time. A client never blocks the recorder: if its outbox is full,
//! events are left out of its stream, and counted there. Once there is room again, the stream continues with a keyframe of the blocks that are live then.
//!
//! # Design
//!
//! ```text
//!  ┌──────────────── highwater record ────────────────┐             ┌─ highwater listen, connect, nc ─┐
//!  │ events ─▶ ledger ─┬─▶ writer ─▶ file             │             │                                 │
//!  │                   ├─▶ writer ─▶ Outbox ─▶ thread ─── TCP ─────▶ Follower ─▶ whole blocks ─▶ .hw   │
//!  │                   └─▶ trace writer ─▶ Outbox ─▶ … │  one byte:  │ Packets  ─▶ whole packets ─▶ .ctf │
//!  │ namer ─▶ catalog                                 │ ◀─ "enough" │                                 │
//!  └──────────────────────────────────────────────────┘             └─────────────────────────────────┘
//! ```
//!
//! A stream is a `.hw` file that another process writes. For that, writing has two parts: one ledger for all outputs, and a *writer* (`store::StepWriter`) for each file
//! and each client. A writer can begin at any point, with a keyframe of the ledger's state. Reconnecting, joining late and continuing after a stall are
//! therefore the same operation.
//!
//! * *A stalled client loses events of its own stream, and no other stream loses anything.* (The plan was to stop emptying the rings and let agents drop.) A
//!   writer whose outbox is full leaves out the events that it has collected, counts them in its keyframes, and continues with a keyframe once half of the
//!   outbox is free. So rings are emptied as always, a file beside the stream stays complete, other clients do not notice, and after the stall all figures
//!   are exact again. Events that agents drop would be lost to the ledger too, and cause false leaks. Agents drop only with `--lossy`.
//! * *Memory is bounded* by 8 MiB for each client, plus one keyframe.
//! * *Names are found during the recording* (`stream/namer.rs`), by a thread: a stream may end at any time, and names cannot be found on another machine. A
//!   memtrace writes names once and first, so its writer holds steps back until their names are known.
//! * *Only sending reveals that a client is gone.* So the recorder sends something: the source every two seconds while nothing happens, and at once when the
//!   client has closed its side (which may only mean that it has nothing to say).
//! * *One byte asks for the end*, as in memtrace's protocol: names are completed, then the last keyframe and the index are sent. Bytes from the client are
//!   read before the socket is closed; otherwise the system would drop bytes that are still in transit.
//! * *Dormant agents* (`record --serve`): the mode is Off, calls pass as if nothing were recorded, and the countdown that samples use ends every 16 KiB. Then
//!   the thread checks a word of the shared memory (`go`). The thread that finds it set switches the mode for all threads. Earlier allocations are unknown:
//!   the recorder ignores frees of such blocks, as it ignores a forked child's frees of its parent's blocks.
//! * *The receiver writes whole blocks only*, a keyframe together with its live blocks: the file can be opened at any time without damage, and a stream that
//!   breaks off needs no repair.
//! * *The receiver confirms the end* (`stream/words.rs`); if it does not, `record --stream` reports that in its exit code. Netcat says nothing, and must work
//!   too: so a receiver that will confirm says so first (`receiving`). It says that only to senders that read answers, which they announce by an empty block
//!   of a separate kind. A sender that never reads, such as an OCaml program, would close its socket with unread bytes, and the system would drop the end of its
//!   stream.
//! * *Strangers cannot take slots* (`stream/strangers.rs`), as in the viewer: connections that have not shown the token, or not begun a stream, have a limit
//!   of their own. When it is reached, the oldest is closed for a new one. `--once` counts streams, not connections.
//! * *A second client is refused at once* unless the served one may be leaving (`stream/presence.rs`). Bytes that it sent, and the closing of its side, are
//!   visible on its socket at that instant; bytes that its thread has already read are covered by an atomic that is set before the read.
//! * *The recorder's threads inside a program* are left out of its recording, from their first instruction on. They get their names late, because the
//!   standard library allocates for those.

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
mod trace_stream_writer;
mod wire;
mod words;

pub use address::Address;
pub use connection::{connect, connect_patiently};
pub use namer::Namer;
pub use server::{StreamClient, StreamServer, refuse};
pub use strangers::{Stranger, Strangers};
pub use streaming::{Sent, StreamTo, Streaming};
pub use threads::set_beginning_of_threads;
pub(crate) use threads::spawn;
pub use token::{LONGEST_TOKEN, StreamToken, TOKEN_WORD};
pub use wire::Wire;
pub(crate) use wire::{ClosingStream, Stream};
pub use words::ReceiverMessage;
