//! Interned names, each with a small number.

use rustc_hash::FxBuildHasher;
use std::borrow::Cow;
use std::hash::BuildHasher;

/// Limit for the number of different names …
pub(super) const MOST_NAMES: usize = 1 << 20;
/// … and for their bytes. All names after that become one.
const MOST_BYTES: usize = 64 << 20;

/// A table of texts. Number 0 stands for all texts that came after it was full.
///
/// The texts lie one after the other. A slot of the index holds half of a text's hash and its number, so a successful lookup compares one text, and
/// an unsuccessful one compares none.
#[derive(Debug)]
pub(super) struct InternedNames {
    bytes: Vec<u8>,
    /// The offset of the end of each text.
    ends: Vec<usize>,
    /// The number of slots is a power of two; an empty slot is 0.
    slots: Vec<u64>,
    /// The number of texts that are not UTF-8.
    pub invalid: u64,
    /// The number of lookups that resulted in number 0.
    pub refused: u64,
}

/// The name of all texts for which a full table has no room.
const OTHER: &str = "(other names)";

impl Default for InternedNames {
    fn default() -> Self {
        let bytes = OTHER.as_bytes().to_vec();
        Self { ends: vec![bytes.len()], bytes, slots: vec![0; 64], invalid: 0, refused: 0 }
    }
}

impl InternedNames {
    #[inline]
    fn hash(text: &[u8]) -> u64 {
        FxBuildHasher.hash_one(text)
    }

    #[inline]
    fn bytes_of(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    /// A name by its number.
    pub fn text(&self, number: u32) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes_of(number))
    }

    /// The number of a known text.
    #[inline]
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        let hash = Self::hash(text);
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if slot >> 32 == hash & 0xffff_ffff {
                let number = slot as u32;
                if self.bytes_of(number) == text {
                    return Some(number);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// The number of a text. Adds the text if it is new.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        if let Some(known) = self.find(text) {
            return known;
        }
        if self.ends.len() >= MOST_NAMES || self.bytes.len() + text.len() > MOST_BYTES {
            self.refused += 1;
            return 0;
        }
        if self.ends.len() * 2 >= self.slots.len() {
            self.grow();
        }
        self.invalid += u64::from(std::str::from_utf8(text).is_err());
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        let hash = Self::hash(text);
        self.place(hash, number);
        number
    }

    fn place(&mut self, hash: u64, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = hash << 32 | u64::from(number);
    }

    #[cold]
    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for number in 1..self.ends.len() as u32 {
            let hash = Self::hash(self.bytes_of(number));
            self.place(hash, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_number() {
        let mut names = InternedNames::default();
        let numbers: Vec<u32> = (0..10_000).map(|n: u32| names.intern(format!("type {n}").as_bytes())).collect();
        for (n, number) in numbers.iter().enumerate() {
            assert_eq!(names.find(format!("type {n}").as_bytes()), Some(*number));
            assert_eq!(names.text(*number), format!("type {n}"));
        }
        assert_eq!((names.find(b"type"), names.ends.len(), names.invalid), (None, 10_001, 0));
        let odd = names.intern(b"a\xffb");
        assert_eq!((names.text(odd).as_ref(), names.invalid), ("a\u{fffd}b", 1));
    }

    #[test]
    fn a_full_table_has_one_name_for_the_rest() {
        let mut names = InternedNames::default();
        let long = vec![b'x'; MOST_BYTES / 2];
        assert_ne!(names.intern(&long), 0);
        assert_eq!(names.intern(&[b'y'; MOST_BYTES / 2]), 0);
        assert_eq!((names.intern(b"short").min(1), names.refused, names.text(0).as_ref()), (1, 1, OTHER));
    }
}
