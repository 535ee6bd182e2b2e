//! Recognizes a trace by its first bytes.

use super::header::MAGIC;

/// True if a file that begins with these bytes is a trace, perhaps of an unsupported version.
pub fn looks_like_memtrace(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(&MAGIC.to_le_bytes())
}
