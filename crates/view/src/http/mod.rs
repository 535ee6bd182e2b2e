//! A small HTTP/1.1 server: for one user on one machine, and for whoever else tries.
//!
//! * [`request`] takes a request's head apart; nothing in it is believed, and everything is bounded.
//! * [`access`] decides who may ask: the token, the `Host`, the page that sends it.
//! * [`server`] accepts connections, each on a thread of its own; `connections` are bounded, and strangers cannot take the places of others.
//! * [`exchange`] is the answering side of a connection, whole or in chunks, and knows whether the client is still there.

pub mod access;
mod connections;
pub mod exchange;
pub mod request;
pub mod server;
