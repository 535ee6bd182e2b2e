//! Parts of the program's memory that it gave back to the kernel (`madvise`) and keeps mapped.
//!
//! A part ends when it is mapped, moved or protected anew, or when the program asks the kernel for it. The program may also touch it without any call, so the
//! sum is an upper bound. The live table keeps the same list (`live/returned.rs` of the agent).

use std::collections::BTreeMap;

/// The maximum number of parts. A program that gives back every other page has more; its further parts are not counted.
const MOST_PARTS: usize = 1 << 20;

/// The parts, by their start. They do not overlap, and neighbours are one part.
#[derive(Debug, Default)]
pub struct ReturnedParts {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl ReturnedParts {
    /// Their sum.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// These addresses are memory of the program, and it gave them back.
    pub fn add(&mut self, start: u64, end: u64) {
        let at_or_before = self.ends.range(..=start).next_back();
        // Runtimes give the same memory back again and again.
        if at_or_before.is_some_and(|(_, until)| end <= *until) {
            return;
        }
        self.take_out(start, end);
        let before = self.ends.range(..start).next_back().filter(|(_, until)| **until == start);
        let from = before.map_or(start, |(&from, _)| from);
        let to = self.ends.get(&end).copied().unwrap_or(end);
        self.remove(from);
        self.remove(end);
        self.insert(from, to);
    }

    /// These addresses are not given back any more.
    pub fn take_out(&mut self, start: u64, end: u64) {
        while let Some((&from, &to)) = self.ends.range(..end).next_back().filter(|(_, to)| **to > start) {
            self.remove(from);
            self.insert(from, start);
            self.insert(end, to);
        }
    }

    fn remove(&mut self, from: u64) {
        if let Some(to) = self.ends.remove(&from) {
            self.bytes -= to - from;
        }
    }

    fn insert(&mut self, from: u64, to: u64) {
        if from < to && self.ends.len() < MOST_PARTS {
            self.ends.insert(from, to);
            self.bytes += to - from;
        }
    }
}
