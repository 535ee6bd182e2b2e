//! Candid.
/// As people write it.
pub fn principal_text(bytes: &[u8]) -> String {
    format!("{bytes:?}")
}
