//! SHA-256 in base 64: a content security policy identifies scripts by it.

use sha2::{Digest, Sha256};

/// The hash of some bytes.
pub fn sha256_base64(bytes: &[u8]) -> String {
    base64(&Sha256::digest(bytes))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let is_there = at <= group.len();
            text.push(if is_there { DIGITS[(number >> (18 - 6 * at) & 63) as usize] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_the_standard_gives() {
        assert_eq!(["", "f", "fo", "foo"].map(|text| base64(text.as_bytes())), ["", "Zg==", "Zm8=", "Zm9v"]);
        assert_eq!(sha256_base64(b""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
