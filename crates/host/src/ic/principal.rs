//! Principals: of users, by their keys, and of canisters, by their numbers.

use sha2::{Digest, Sha224};

/// The principal of a caller without a key.
pub const ANONYMOUS: [u8; 1] = [4];
/// The management canister, which is no canister.
pub const MANAGEMENT: [u8; 0] = [];

/// The number of the last canister that a host may have.
const LAST: u64 = 0xf_ffff;

/// The principal of the holder of a key (in DER).
pub fn self_authenticating(key: &[u8]) -> Vec<u8> {
    let mut principal = Sha224::digest(key).to_vec();
    principal.push(2);
    principal
}

/// The principal of the canister with a number. The hosted module has the number 1, as everywhere in this crate.
pub fn canister_id(number: u64) -> Vec<u8> {
    let mut id = number.to_be_bytes().to_vec();
    id.extend([1, 1]);
    id
}

/// The first and the last canister that this host may have.
pub fn canister_range() -> [Vec<u8>; 2] {
    [canister_id(0), canister_id(LAST)]
}

/// The number of a canister of this host; `None` for any other principal.
pub fn canister_number(id: &[u8]) -> Option<u64> {
    let [number @ .., 1, 1] = id else { return None };
    let number = u64::from_be_bytes(number.try_into().ok()?);
    (number <= LAST).then_some(number)
}
