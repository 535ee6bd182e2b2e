//! Runs canisters and plain WASM modules, and takes images of their memory between two messages.
#![deny(unsafe_code)]

pub mod call;
pub mod candid;
pub mod canister;
pub mod engine;
pub mod image;
pub mod memory;
pub mod module;
pub mod plain;
pub mod program;
pub mod sidecar;
pub mod system;
