//! Reads HTTP/1.1 requests: the part that the viewer and the metrics endpoint have in common.
//!
//! * [`Request`] is the parsed head of a request; nothing in it is trusted, and everything is bounded.
//! * [`RequestReader`] reads heads from a connection, each within a time limit: a client that sends a byte now and then does not keep its connection.
//!
//! Who may ask, how many may connect, and what is answered is for the servers to decide.

mod incoming;
mod request;

pub use incoming::{IncomingHead, RequestReader};
pub use request::{BadRequest, LONGEST_HEAD, Request, head_length, parameters_of};
