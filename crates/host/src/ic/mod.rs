//! The network's interface.

pub mod cbor;
mod hash_tree;
pub mod http;
mod keys;
mod principal;
pub mod request;
mod signature;
