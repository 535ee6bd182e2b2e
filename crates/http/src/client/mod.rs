//! A client for servers that the user names: debug files are fetched with it, and profiles are sent.
//!
//! ```text
//!   ServerUrl, OutgoingRequest ─▶ Connection (a socket, or the program curl for https) ─▶ read_response ─▶ status, fields, body
//! ```
//!
//! # Design
//!
//! Servers are hostile: the head of a response is bounded, a body that ends too early is an error, and a [`Pace`] limits the time of each connection. No other
//! address than that of the URL is contacted: a redirect is an answer, which the caller follows or not.
//!
//! A secret in a header stays a secret: it is in the request and in an unnamed file for `curl`, never in its arguments, and in no message.

mod connection;
mod pace;
pub mod response;
mod url;

pub use connection::{Connection, Curl, OutgoingRequest};
pub use pace::{LateTexts, Pace};
pub use url::{ServerUrl, UrlError, listed};
