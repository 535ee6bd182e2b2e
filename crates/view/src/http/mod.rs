//! A small HTTP/1.1 server for one user on one machine. It must also withstand all other clients that can reach its port.
//!
//! * The crate `http` reads and parses the heads of requests; nothing in them is trusted, and everything is bounded.
//! * [`access`] decides whether a request is allowed: by the token, the `Host`, and the page that sends it.
//! * [`server`] accepts connections, each on a thread of its own; `connections` limits their number, and strangers cannot take the slots of others.
//! * [`exchange`] is the answering side of a connection, whole or in chunks. It knows whether the client is still connected.

pub mod access;
mod connections;
pub mod exchange;
pub use highwater_http::server as request;
pub mod server;
