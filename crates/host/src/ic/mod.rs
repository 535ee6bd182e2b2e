//! The network's interface: the ecosystem's own clients (`icp`, any agent) install, call and snapshot canisters of this host as if it were the network.
//!
//! ```text
//!  POST /api/v4/canister/C/call ─▶ http ─▶ request (CBOR, id, expiry, signature) ─▶ endpoints ─▶ a canister, or management ─▶ HostState
//!                                                                                       │
//!  {status, certificate} ◀── keys (BLS signature) ◀── hash_tree ◀── ingress, state_tree ┘
//! ```
//!
//! * [`http`], [`server`]: bounded HTTP/1.1 at a loopback address.
//! * [`cbor`], [`request`], `signature`: what clients send, and the checks that it must pass. Signatures are verified, although any program on this machine can
//!   make a key: so a caller's principal means what it means on the network.
//! * `keys`, `hash_tree`, `state_tree`: certificates, made for each answer of just what was asked for. The keys are new at each start and are in no image.
//! * `management`: a table of the methods of the management canister. `reject`: refusals with the network's codes. `ingress`: results of calls.
//!
//! Certificates, snapshots and logs have the real time. Canisters have their own, which moves only with their messages: the same calls still give the same memory.

pub mod cbor;
mod endpoints;
mod hash_tree;
pub mod http;
mod ingress;
mod keys;
mod management;
mod principal;
mod reject;
pub mod request;
pub mod server;
mod signature;
mod state_tree;

/// The principal of the canister that a host begins with.
pub const FIRST_CANISTER: &str = "rrkah-fqaaa-aaaaa-aaaaq-cai";

pub(crate) use management::{CanisterLog, CanisterSettings, ChunkStore, UploadedSnapshot};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_canister_has_this_principal() {
        assert_eq!(crate::candid::principal_text(&principal::canister_id(1)), FIRST_CANISTER);
        assert_eq!(principal::canister_id(1), crate::canister::SELF);
    }
}
