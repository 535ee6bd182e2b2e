//! Guesses the content of bytes of unknown type.

use std::fmt;
use std::ops::Range;

/// The fewest bytes that count as a text.
const SHORTEST_TEXT: usize = 4;
/// The most bytes of a text that are shown.
const SHOWN: usize = 60;

/// The probable content of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guess {
    /// A text, and its length in bytes.
    Text(String, usize),
    /// Words that are addresses within the heap: their number, and the number of all words.
    Addresses(usize, usize),
    /// Nothing but zeros.
    Zeros,
    /// Numbers: the first ones.
    Numbers(Vec<u32>),
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text, length) => write!(f, "text of {length} bytes: {text:?}"),
            Self::Addresses(count, words) => write!(f, "{count} of {words} words are addresses within the heap"),
            Self::Zeros => f.write_str("zeros"),
            Self::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                write!(f, "numbers: {}", numbers.join(", "))
            }
        }
    }
}

/// Guesses the content of bytes; `heap` is the range of the heap's addresses.
pub fn guess(bytes: &[u8], heap: Range<u64>) -> Guess {
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    let length = bytes.iter().take_while(|byte| printable(byte)).count();
    if length >= SHORTEST_TEXT
        && let Ok(text) =
            std::str::from_utf8(&bytes[..length]).or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]))
        && text.len() >= SHORTEST_TEXT
    {
        return Guess::Text(text.chars().take(SHOWN).collect(), text.len());
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Guess::Zeros;
    }
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let addresses = words.iter().filter(|word| heap.contains(&u64::from(**word))).count();
    if addresses > 0 {
        return Guess::Addresses(addresses, words.len());
    }
    Guess::Numbers(words.into_iter().take(8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_addresses_and_numbers_are_told_apart() {
        let heap = 0x1000..0x2000;
        let said = |bytes: &[u8]| guess(bytes, heap.clone()).to_string();
        assert_eq!(said(b"session 7\0\0\0"), "text of 9 bytes: \"session 7\"");
        assert_eq!(said(&[0; 12]), "zeros");
        assert_eq!(said(&[0, 0x10, 0, 0, 1, 0, 0, 0]), "1 of 2 words are addresses within the heap");
        assert_eq!(said(&[3, 0, 0, 0, 7, 0, 0, 0, 1]), "numbers: 3, 7");
        assert_eq!(said(&[]), "zeros");
    }
}
