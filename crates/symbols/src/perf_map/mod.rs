//! Names of code that a program made while it ran, from the map that its runtime writes for `perf`.
//!
//! `/tmp/perf-PID.map` has a line for each function: `START SIZE NAME`, addresses in hexadecimal digits, with or without `0x`. Code is moved and
//! replaced, so a line overrides earlier ones for the same addresses. The file is written while the program runs, often with a buffer: what is read may end
//! in the middle of a line.
//!
//! The file is foreign: lines that make no sense are counted and ignored, and memory is bounded.

#[cfg(feature = "catalog")]
mod catalog;
mod name;

#[cfg(feature = "catalog")]
pub use catalog::resolve_jit_frames;
pub use name::JitName;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The path of the module in which recordings place code that lies in no file.
pub const JIT_MODULE: &str = "[JIT]";

/// The longest name that is kept, in bytes. Longer ones are cut.
const LONGEST_NAME: usize = 1024;
/// The longest line that is looked at.
const LONGEST_LINE: usize = 2 * LONGEST_NAME;
/// The maximum number of ranges that have a name.
const MOST_RANGES: usize = 1 << 20;
/// The maximum number of bytes of all names.
const MOST_NAME_BYTES: usize = 64 << 20;

/// The lines of a map, read piece by piece.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// By start: the end of the range, and its name. No two overlap.
    ranges: BTreeMap<u64, (u64, Arc<str>)>,
    names: HashSet<Arc<str>>,
    name_bytes: usize,
    /// The beginning of the line that is not complete yet.
    line: Vec<u8>,
    /// How many lines were used, and how many make no sense or did not fit.
    used: u64,
    ignored: u64,
}

impl PerfMap {
    /// The maximum number of bytes of a file that are worth reading.
    pub const MOST_BYTES: u64 = 256 << 20;

    /// Takes the next bytes of the file.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.extend_line(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.extend_line(rest);
    }

    /// The file ends here: its last line may lack an end.
    pub fn finish(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
    }

    /// The name of the code at an address: that of the last line that covers it.
    pub fn lookup(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    /// How many lines were used so far.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How many lines made no sense, or did not fit.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        let room = LONGEST_LINE - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let is_used = match parse(&line) {
            Some((start, end, name)) => self.insert(start, end, &clean(name)),
            None => false,
        };
        *(if is_used { &mut self.used } else { &mut self.ignored }) += 1;
        self.line = line;
        self.line.clear();
    }

    /// Names a range; false if there is no room.
    fn insert(&mut self, start: u64, end: u64, name: &str) -> bool {
        // A new range may split an old one in two.
        if self.ranges.len() + 2 > MOST_RANGES {
            return false;
        }
        let Some(name) = self.intern(name) else { return false };
        self.clear(start, end);
        self.ranges.insert(start, (end, name));
        true
    }

    /// Removes the names of a range, and keeps those of what lies beside it.
    fn clear(&mut self, start: u64, end: u64) {
        if let Some((_, (before_end, name))) = self.ranges.range_mut(..start).next_back()
            && *before_end > start
        {
            let (old_end, name) = (std::mem::replace(before_end, start), Arc::clone(name));
            if old_end > end {
                self.ranges.insert(end, (old_end, name));
            }
        }
        while let Some((&first, _)) = self.ranges.range(start..end).next() {
            if let Some((old_end, name)) = self.ranges.remove(&first)
                && old_end > end
            {
                self.ranges.insert(end, (old_end, name));
            }
        }
    }

    fn intern(&mut self, name: &str) -> Option<Arc<str>> {
        if let Some(known) = self.names.get(name) {
            return Some(Arc::clone(known));
        }
        if self.name_bytes + name.len() > MOST_NAME_BYTES {
            return None;
        }
        self.name_bytes += name.len();
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        Some(name)
    }
}

/// The range and the name of a line.
fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (start, rest) = split_word(line)?;
    let (size, name) = split_word(rest)?;
    let (start, size) = (hexadecimal(start)?, hexadecimal(size)?);
    let end = start.checked_add(size).filter(|&end| end > start)?;
    (!name.is_empty()).then_some((start, end, name))
}

fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', text)?;
    Some((&text[..at], &text[at + 1..]))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// A name as text of bounded length, without control characters.
fn clean(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]);
    text.chars().map(|letter| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map_of(text: &[u8]) -> PerfMap {
        let mut map = PerfMap::default();
        map.add(text);
        map.finish();
        map
    }

    #[test]
    fn lines_of_node_java_and_python_are_read() {
        let map = map_of(
            b"3ef4c0a1b00 1c0 JS:~render file:///srv/my app.js:10:5\n\
            0x00007f2c48a00000 0x00000000000000e0 void java.util.HashMap.put(int, int)\n\
            7f0000000000 b py::fib:/srv/fib.py",
        );
        assert_eq!(map.lookup(0x3ef_4c0a_1b00), Some("JS:~render file:///srv/my app.js:10:5"));
        assert_eq!(map.lookup(0x3ef_4c0a_1cc0), None);
        assert_eq!(map.lookup(0x7f2c_48a0_00df), Some("void java.util.HashMap.put(int, int)"));
        assert_eq!(map.lookup(0x7f00_0000_000a), Some("py::fib:/srv/fib.py"));
        assert_eq!((map.used(), map.ignored()), (3, 0));
    }

    #[test]
    fn lines_that_make_no_sense_are_counted_and_ignored() {
        let map = map_of(
            b"\n1000\n1000 10\n1000 10 \nxyz 10 a\n1000 -1 a\n+1000 10 a\nffffffffffffffff 10 a\n1000 0 a\n\
            11112222333344445 10 a\n2000 10 good\n",
        );
        assert_eq!((map.used(), map.ignored()), (1, 10));
        assert_eq!(map.lookup(0x2005), Some("good"));
    }

    #[test]
    fn names_are_bounded_and_have_no_control_characters() {
        let mut text = b"1000 10 a\x1b[31mb\xff\n2000 10 ".to_vec();
        text.resize(text.len() + 100_000, b'x');
        let map = map_of(&text);
        assert_eq!(map.lookup(0x1000), Some("a\u{fffd}[31mb\u{fffd}"));
        assert_eq!(map.lookup(0x2000).map(str::len), Some(LONGEST_NAME));
    }

    proptest! {
        /// The name at an address is that of the last line that covers it, however the file is cut into pieces.
        #[test]
        fn the_last_line_that_covers_an_address_names_it(
            lines in prop::collection::vec((0u64..64, 1u64..32, 0u8..8), 0..40),
            pieces in 1usize..30,
        ) {
            let text: String = lines.iter().map(|(start, size, name)| format!("{start:x} {size:x} f{name}\n")).collect();
            let mut map = PerfMap::default();
            text.as_bytes().chunks(pieces).for_each(|piece| map.add(piece));
            for address in 0..100 {
                let covers = |(start, size, _): &&(u64, u64, u8)| (*start..start + size).contains(&address);
                let expected = lines.iter().rev().find(covers).map(|(_, _, name)| format!("f{name}"));
                prop_assert_eq!(map.lookup(address), expected.as_deref());
            }
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let map = map_of(&bytes);
            let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
            prop_assert!(map.used() + map.ignored() <= lines);
        }
    }
}
