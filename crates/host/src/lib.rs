//! Runs canisters and plain WASM modules, and takes images of their memory between two messages.
//!
//! ```text
//!  MODULE.wasm ─▶ Module ─▶ Machine (engine, paged memory) ─▶ Canister (messages, system API) ─┐
//!                                                          └▶ Plain (functions, console) ──────┴▶ Program ─▶ Snapshots
//!                                                                                                                │
//!  x.img, x.img.json ◀── pull ◀── Client ◀── Transport ◀──── frames over a socket ──── Server ◀──────────────────┘
//! ```
//!
//! * [`module`]: what a module says about itself; [`engine`] runs it, over the pages of [`memory`].
//! * [`canister`]: messages, replies, traps, self-calls and timers as the Internet Computer has them, with the functions of [`system`];
//!   [`plain`]: modules that know nothing of it. [`program`] is either.
//! * [`candid`]: arguments and replies between text and bytes; [`call`]: a call as people write it.
//! * [`image`], [`snapshots`], [`sidecar`]: what was captured.
//! * [`protocol`] in [`frame`]s: what [`server`] and [`client`] say to each other, over a [`transport`]; [`pull`](mod@pull) makes a file of a snapshot.
//!
//! Everything is deterministic: the same module, calls and [`World`](canister::World) give the same bytes.
#![deny(unsafe_code)]

pub mod call;
pub mod candid;
pub mod canister;
pub mod client;
pub mod engine;
pub mod frame;
pub mod image;
pub mod memory;
pub mod module;
pub mod place;
pub mod plain;
pub mod program;
pub mod protocol;
pub mod pull;
pub mod server;
pub mod sidecar;
pub mod snapshots;
pub mod system;
pub mod transport;
