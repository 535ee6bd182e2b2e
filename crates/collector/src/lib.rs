//! The collector: a daemon that live processes register with, and that takes snapshots of them at any time.
//!
//! ```text
//!  a process ── memory, control page ──▶ Server ─▶ Registry ─▶ Process ─▶ LiveTable ─▶ Cut ─▶ take ─▶ .hw
//!  a client ─── request ──▶ Server ─▶ Office ─▶ … ─▶ answer, with files attached
//! ```
//!
//! * [`protocol`]: what clients and the collector say to each other; [`Client`] says it.
//! * [`Server`]: the socket, and everybody who is connected.
//! * [`LiveTable`]: what a process shares; [`Cut`]: all of it at one instant; [`take`](mod@take): what a file holds of that.

mod about;
mod client;
mod connection;
pub mod contents;
pub mod cut;
mod detach;
mod discover;
mod epochs;
mod mapping;
mod office;
mod past;
mod peek;
mod place;
mod process;
pub mod protocol;
mod registry;
mod results;
mod server;
mod shelf;
mod sums;
pub mod table;
pub mod take;
mod threads;
mod weigh;
mod work;

pub use about::About;
pub use client::{Client, ClientError, Taken};
pub use cut::Cut;
pub use detach::detach;
pub use discover::table_of;
pub use place::{BindError, default_socket};
pub use registry::KEPT_TABLES;
pub use server::{Options, Server};
pub use shelf::{KEPT_SNAPSHOTS, default_shelf};
pub use table::LiveTable;
