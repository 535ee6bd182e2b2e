//! Contradictions in a log, by id.

use rustc_hash::FxHashMap;

/// Limit for the number of remembered ids of one kind. Further ids are only counted.
const REMEMBERED: usize = 10_000;
/// Limit for the number of drops with another size than the birth's that may still turn out to be growth.
const PENDING: usize = 1 << 16;

/// Ids with one kind of contradiction.
#[derive(Clone, Debug, Default)]
pub struct OddIds {
    /// The number of occurrences.
    pub count: u64,
    ids: Vec<u64>,
}

impl OddIds {
    pub(super) fn add(&mut self, id: u64) {
        self.count += 1;
        if self.ids.len() < REMEMBERED {
            self.ids.push(id);
        }
    }

    /// The ids, sorted and without duplicates: all of them, or the first ten thousand found.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// All contradictions of a log.
#[derive(Clone, Debug, Default)]
pub struct Contradictions {
    /// Births of an id that was born before.
    pub duplicate_allocate: OddIds,
    /// Drops of an id that was dropped before.
    pub duplicate_drop: OddIds,
    /// Drops of another type than the birth's.
    pub type_mismatch: OddIds,
    /// Drops with another size than the birth's, of objects without a `RESIZE` line.
    pub size_mismatch: OddIds,
    /// Drops whose birth is not in the log.
    pub drop_without_allocate: OddIds,
    /// Changes of size of objects whose birth is not in the log.
    pub resize_without_allocate: OddIds,
}

impl Contradictions {
    /// Every kind with its key in JSON and its description.
    pub fn kinds(&self) -> [(&'static str, &'static str, &OddIds); 6] {
        [
            ("duplicate_allocate_ids", "ALLOCATE twice", &self.duplicate_allocate),
            ("duplicate_drop_ids", "DROP twice", &self.duplicate_drop),
            ("drop_without_allocate_ids", "DROP without ALLOCATE", &self.drop_without_allocate),
            ("size_mismatch_ids", "another size at DROP", &self.size_mismatch),
            ("type_mismatch_ids", "another type at DROP", &self.type_mismatch),
            ("resize_without_allocate_ids", "RESIZE without ALLOCATE", &self.resize_without_allocate),
        ]
    }

    /// The number of all contradictions.
    pub fn count(&self) -> u64 {
        self.kinds().iter().map(|(_, _, odd)| odd.count).sum()
    }
}

/// Drops with another size than the birth's. The line that reports the growth of the object may come later, since order in the file is not order in
/// time.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeMismatches {
    pending: FxHashMap<u64, Mismatch>,
    beyond: OddIds,
}

/// The site of an object, and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub site: u32,
    pub at_birth: u64,
    pub at_drop: u64,
}

impl SizeMismatches {
    pub fn add(&mut self, id: u64, mismatch: Mismatch) {
        if self.pending.len() < PENDING {
            self.pending.insert(id, mismatch);
        } else {
            self.beyond.add(id);
        }
    }

    /// Removes an object because a `RESIZE` line came after all.
    pub fn resolve(&mut self, id: u64) -> Option<Mismatch> {
        if self.pending.is_empty() { None } else { self.pending.remove(&id) }
    }

    /// The remaining size mismatches.
    pub fn all(&self) -> OddIds {
        let mut odd = OddIds::default();
        self.pending.keys().for_each(|id| odd.add(*id));
        odd.ids.extend(self.beyond.ids.iter().take(REMEMBERED - odd.ids.len()));
        odd.count += self.beyond.count;
        odd
    }
}
