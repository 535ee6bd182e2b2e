//! Files that travel inside the command: build scripts compress them with [`pack`], and the command expands each at its first use.
//!
//! Deflate and not Zstandard: a build script needs a compiler of its own for what it uses, and that of Zstandard takes longer than all other build scripts.
#![forbid(unsafe_code)]

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::io::{Read, Write};
use std::sync::OnceLock;

/// A file that is part of the binary.
#[derive(Debug)]
pub struct Packed {
    packed: &'static [u8],
    content: OnceLock<Vec<u8>>,
}

/// Compresses a file.
///
/// # Panics
/// If there is no memory for it.
pub fn pack(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything")
}

impl Packed {
    /// A file as [`pack`] has left it.
    pub const fn new(packed: &'static [u8]) -> Self {
        Self { packed, content: OnceLock::new() }
    }

    /// The file. It stays in memory from the first use on.
    ///
    /// # Panics
    /// If [`pack`] has not made it, which every use would show.
    pub fn content(&self) -> &[u8] {
        self.content.get_or_init(|| {
            let mut content = Vec::new();
            DeflateDecoder::new(self.packed).read_to_end(&mut content).expect("a build script has packed it");
            content
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_before_and_smaller() {
        let text = "the same words, again and again; ".repeat(1000);
        for content in [text.as_bytes(), b"", &[0xff]] {
            let packed: &'static [u8] = pack(content).leak();
            let file = Packed::new(packed);
            assert_eq!(file.content(), content);
            assert!(std::ptr::eq(file.content(), file.content()), "expanded once");
        }
        assert!(pack(text.as_bytes()).len() < text.len() / 20);
    }

    #[test]
    #[should_panic(expected = "a build script has packed it")]
    fn what_was_not_packed_is_refused() {
        static DAMAGED: Packed = Packed::new(&[0xff; 10]);
        DAMAGED.content();
    }
}
