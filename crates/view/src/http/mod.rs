//! A small HTTP/1.1 server: for one user on one machine, and for whoever else tries.
//!
//! * [`request`] takes a request's head apart; nothing in it is believed, and everything is bounded.
//! * [`access`] decides who may ask: the token, the `Host`, the `Origin`.
//! * [`server`] accepts connections, each on a thread of its own, as many as are allowed.
//! * [`exchange`] is the answering side of a connection, whole or in chunks, and knows whether the client is still there.

pub mod access;
pub mod exchange;
pub mod request;
pub mod server;
