//! Runs canisters and plain WASM modules, and takes images of their memory between two messages.
#![deny(unsafe_code)]

pub mod candid;
pub mod canister;
pub mod engine;
pub mod memory;
pub mod module;
pub mod plain;
pub mod system;
