//! Verifies the signatures of senders: Ed25519, and ECDSA over secp256k1 and P-256 with SHA-256.

use super::keys::ED25519_PREFIX;
use ed25519_dalek::VerifyingKey;
use k256::ecdsa::signature::Verifier;

/// What comes before a key on secp256k1 in DER; the key itself is an uncompressed point.
const SECP256K1_PREFIX: [u8; 23] = [
    0x30, 0x56, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x0a, 0x03, 0x42, 0x00,
];
/// What comes before a key on P-256 in DER.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// The key is of a kind that this host cannot verify.
    #[error("the key is neither Ed25519 nor on secp256k1 or P-256, which are what this host verifies")]
    Key,
    /// The key did not make this signature.
    #[error("the key did not sign this request")]
    Wrong,
}

/// Verifies that the holder of a key (in DER) signed a message.
pub fn verify(key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
    let wrong = |_| BadSignature::Wrong;
    if let Some(key) = key.strip_prefix(&ED25519_PREFIX) {
        let key = key.try_into().map_err(|_| BadSignature::Key)?;
        let key = VerifyingKey::from_bytes(key).map_err(|_| BadSignature::Key)?;
        let signature = ed25519_dalek::Signature::from_slice(signature).map_err(wrong)?;
        key.verify_strict(message, &signature).map_err(wrong)
    } else if let Some(point) = key.strip_prefix(&SECP256K1_PREFIX) {
        let key = k256::ecdsa::VerifyingKey::from_sec1_bytes(point).map_err(|_| BadSignature::Key)?;
        let signature = k256::ecdsa::Signature::from_slice(signature).map_err(wrong)?;
        // Both forms of a signature count, as on the network.
        key.verify(message, &signature.normalize_s().unwrap_or(signature)).map_err(wrong)
    } else if let Some(point) = key.strip_prefix(&P256_PREFIX) {
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(point).map_err(|_| BadSignature::Key)?;
        let signature = p256::ecdsa::Signature::from_slice(signature).map_err(wrong)?;
        key.verify(message, &signature).map_err(wrong)
    } else {
        Err(BadSignature::Key)
    }
}
