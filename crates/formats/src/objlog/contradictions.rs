//! What a log says that cannot all be true, by id.

use rustc_hash::FxHashMap;

/// Ids of a kind that are remembered; those after them are counted.
const REMEMBERED: usize = 10_000;
/// Drops of another size than the birth's that may still turn out to be growth.
const PENDING: usize = 1 << 16;

/// Ids of which one thing is odd.
#[derive(Clone, Debug, Default)]
pub struct OddIds {
    /// How often it occurred.
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

    /// The ids, in order and each once: all of them, or the first ten thousand found.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Everything that a log says against itself.
#[derive(Clone, Debug, Default)]
pub struct Contradictions {
    /// Births of an id that was born before.
    pub duplicate_allocate: OddIds,
    /// Drops of an id that was dropped before.
    pub duplicate_drop: OddIds,
    /// Drops of another type than the birth's.
    pub type_mismatch: OddIds,
    /// Drops of another size than the birth's, of objects that are not known to have changed theirs.
    pub size_mismatch: OddIds,
    /// Drops whose birth is not in the log.
    pub drop_without_allocate: OddIds,
    /// Changes of size of objects whose birth is not in the log.
    pub resize_without_allocate: OddIds,
}

impl Contradictions {
    /// Every kind with its key in JSON and what it means.
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

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.kinds().iter().map(|(_, _, odd)| odd.count).sum()
    }
}

/// Drops of another size than the birth's. The line that says that the object has grown may come later, as order in the
/// file is not order in time.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeMismatches {
    pending: FxHashMap<u64, Mismatch>,
    beyond: OddIds,
}

/// Of what site, and how large.
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

    /// The object was resized after all.
    pub fn resolve(&mut self, id: u64) -> Option<Mismatch> {
        if self.pending.is_empty() { None } else { self.pending.remove(&id) }
    }

    /// Those that remain.
    pub fn all(&self) -> OddIds {
        let mut odd = OddIds::default();
        self.pending.keys().for_each(|id| odd.add(*id));
        odd.ids.extend(self.beyond.ids.iter().take(REMEMBERED - odd.ids.len()));
        odd.count += self.beyond.count;
        odd
    }
}
