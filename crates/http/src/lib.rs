//! HTTP/1.1, as far as Highwater needs it: bounded, with time limits, and without a library that would take longer to build than the command.
//!
//! * [`client`]: asks servers that the user names: debug files are fetched with it, and profiles are sent.
//! * [`server`]: reads requests from connections that nothing is known of: the viewer and the metrics endpoint have it in common.
#![forbid(unsafe_code)]

pub mod client;
pub mod server;
