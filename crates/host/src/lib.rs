//! Runs canisters and plain WASM modules, and takes images of their memory between two messages.
//!
//! ```text
//!  MODULE.wasm ─▶ HostModule ─▶ Machine (engine, paged memory) ─▶ Canister (messages, system API) ────┐
//!                                                              └▶ PlainModule (functions, console) ───┴▶ HostedProgram ─▶ HostSnapshots
//!                                                                                                                              │
//!  x.img, x.img.json ◀── pull ◀── HostClient ◀── Transport ◀──── frames over a socket ──── HostServer ◀────────────────────────┘
//! ```
//!
//! * [`module`]: the facts that a module states about itself, read by [`WasmModule`](highwater_image::WasmModule), and its form for the engine; [`engine`]
//!   runs it, over the pages of [`memory`].
//! * [`canister`]: messages, replies, traps, self-calls and timers as on the Internet Computer, with the functions of [`system`];
//!   [`plain`]: modules that do not use the Internet Computer. [`program`] is either.
//! * [`candid`]: converts arguments and replies between text and bytes; [`call`]: the text form of a call.
//! * [`content`], [`image`], [`snapshots`]: the bytes of a memory, and the captured ones; their [`Sidecar`](highwater_image::Sidecar) holds the facts about it.
//! * [`protocol`] in [`frame`]s: the messages between [`server`] and [`client`], over a [`transport`]; [`pull`](mod@pull) writes a snapshot to a file.
//!
//! Everything is deterministic: the same module, calls and [`World`](canister::World) give the same bytes.
//!
//! # Design
//!
//! * *The memory is a private mapping of a memory object* (`memory.rs`). The object holds the state after the last finished message. Pages that a message
//!   writes to become copies, made by the kernel. A trap drops the copies; the end of a message writes them back. The cost of both depends on the pages
//!   touched, not on the size of the memory. `/proc/self/pagemap` shows which pages are copies. An image is the object's data without its zero pages;
//!   images share equal pages.
//! * *The module is prepared, its code is not changed* (`module/prepare.rs`). Its memory becomes an import, its globals and tables become exports, and the
//!   host calls its start function. So the host can restore everything after a trap, and images contain globals that are not exported. An engine's memory
//!   cannot shrink: if a message grew it and then trapped, the module is instantiated again over the same pages.
//! * *Performance counters return how often they were called.* Instruction counts depend on the engine. The Motoko runtime stores them, so they would be in
//!   every image: the same calls would give different bytes with another version of the engine.
//! * *A canister's system functions are a table* (`system/functions.rs`): name, type (with words as wide as the memory's addresses), the modes in which it
//!   may be called, and the function that does the work. An unknown function traps when it is called.
//! * *Snapshots are identified by number and hash.* A number is never reused, and the file beside a partial pull (`x.img.part.json`) names both. So two
//!   snapshots cannot mix, not even those of two hosts.
//! * *Candid is implemented here* (`candid/`): it converts text to bytes by the interface that a module carries, and back. The crates `candid` and
//!   `candid_parser` do more, and take 128 seconds of processor time to build, about as much as all the rest.
//! * *The script interpreter is a separate process* (`crates/movm`), because a script can make it panic, loop or allocate without limit. The step limit is
//!   checked between steps. If a single step uses up all time or memory, a thread or the allocator ends the process, after it has printed the position in the
//!   script. `image` and its lists are native values, so bulk work is done outside of the interpreter.
//!
//! Rejected alternatives: *wasmtime* (ten times as long to build), *copying the memory before each message*, *rewriting `memory.grow`* so that the engine
//! does not touch the memory it grows (all calls would have to be renumbered).
//! Unsafe code is in `host/src/memory.rs`, in `host/src/engine/instance.rs`, where the engine is given that memory, and in `movm/src/limits.rs`.
#![deny(unsafe_code)]

pub mod call;
pub mod candid;
pub mod canister;
pub mod client;
pub mod content;
pub mod engine;
pub mod frame;
pub mod hosted;
pub mod ic;
pub mod image;
pub mod memory;
pub mod module;
pub mod plain;
pub mod program;
pub mod protocol;
pub mod pull;
pub mod server;
pub mod snapshots;
pub mod system;
pub mod transport;
