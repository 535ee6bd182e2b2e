//! The differences between two snapshots of one store.

use super::types::{ActiveAllocation, MemorySnapshot};
use crate::event_name::Name;
use highwater_model::StackId;
use std::collections::HashMap;
use std::hash::Hash;

/// Live blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Blocks.
    pub count: usize,
    /// Bytes.
    pub bytes: usize,
}

/// The usage of one owner before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageChange {
    /// In the first snapshot.
    pub before: Usage,
    /// In the second.
    pub after: Usage,
}

impl UsageChange {
    /// The change of live bytes.
    pub fn bytes_change(&self) -> i128 {
        self.after.bytes as i128 - self.before.bytes as i128
    }

    /// The change of live blocks.
    pub fn count_change(&self) -> i128 {
        self.after.count as i128 - self.before.count as i128
    }

    /// True for an owner that had nothing before.
    pub fn has_appeared(&self) -> bool {
        self.before.count == 0 && self.after.count > 0
    }

    /// True for an owner that has nothing now.
    pub fn is_gone(&self) -> bool {
        self.before.count > 0 && self.after.count == 0
    }

    /// True for an owner that has more bytes than before.
    pub fn has_grown(&self) -> bool {
        self.after.bytes > self.before.bytes
    }
}

/// The changes from one snapshot of a store to another. Owners with unchanged usage are left out.
#[derive(Clone, Debug, Default)]
pub struct SnapshotDiff {
    /// Blocks that are live now and were not before, oldest first.
    pub appeared: Vec<ActiveAllocation>,
    /// Blocks that were live before and are not now, oldest first.
    pub gone: Vec<ActiveAllocation>,
    /// Blocks that are live in both with different sizes: the old and the new state.
    pub resized: Vec<(ActiveAllocation, ActiveAllocation)>,
    /// By call stack; `None` for events without one.
    pub sites: HashMap<Option<StackId>, UsageChange>,
    /// By thread.
    pub threads: HashMap<u64, UsageChange>,
    /// By type; blocks without a type are left out.
    pub types: HashMap<Name, UsageChange>,
}

impl SnapshotDiff {
    /// The blocks that are larger than before.
    pub fn grown(&self) -> impl Iterator<Item = &(ActiveAllocation, ActiveAllocation)> {
        self.resized.iter().filter(|(before, after)| after.size > before.size)
    }

    /// True when nothing changed.
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty() && self.gone.is_empty() && self.resized.is_empty()
    }
}

impl MemorySnapshot {
    /// The changes from this snapshot to a `later` one of the same store. Blocks are matched by their number, so a block that only reuses the
    /// address of another one counts as new.
    pub fn diff(&self, later: &Self) -> SnapshotDiff {
        let mut diff = SnapshotDiff::default();
        let before: HashMap<u64, &ActiveAllocation> = by_number(self);
        let after: HashMap<u64, &ActiveAllocation> = by_number(later);
        for (id, new) in &after {
            match before.get(id) {
                None => diff.appeared.push((*new).clone()),
                Some(old) if old.size != new.size => diff.resized.push(((*old).clone(), (*new).clone())),
                Some(_) => {}
            }
        }
        diff.gone.extend(before.iter().filter(|(id, _)| !after.contains_key(id)).map(|(_, old)| (*old).clone()));
        diff.appeared.sort_by_key(|block| block.id);
        diff.gone.sort_by_key(|block| block.id);
        diff.resized.sort_by_key(|(block, _)| block.id);
        diff.sites = changes(self, later, |block| Some(block.stack));
        diff.threads = changes(self, later, |block| Some(block.thread_id));
        diff.types = changes(self, later, |block| block.type_name.clone());
        diff
    }
}

fn by_number(snapshot: &MemorySnapshot) -> HashMap<u64, &ActiveAllocation> {
    snapshot.active_allocations.values().map(|block| (block.id, block)).collect()
}

fn changes<K: Eq + Hash>(
    before: &MemorySnapshot,
    after: &MemorySnapshot,
    owner: impl Fn(&ActiveAllocation) -> Option<K>,
) -> HashMap<K, UsageChange> {
    let mut changes: HashMap<K, UsageChange> = HashMap::new();
    let mut add = |block: &ActiveAllocation, side: fn(&mut UsageChange) -> &mut Usage| {
        if let Some(key) = owner(block) {
            let usage = side(changes.entry(key).or_default());
            usage.count += 1;
            usage.bytes = usage.bytes.saturating_add(block.size);
        }
    };
    before.active_allocations.values().for_each(|block| add(block, |change| &mut change.before));
    after.active_allocations.values().for_each(|block| add(block, |change| &mut change.after));
    changes.retain(|_, change| change.before != change.after);
    changes
}
