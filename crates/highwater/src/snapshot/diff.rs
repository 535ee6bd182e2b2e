//! The differences between two snapshots.

use super::types::{ActiveAllocation, MemorySnapshot, StackFrame, frames_of};
use crate::event_name::Name;
use highwater_model::{Catalog, Figures, FrameText, StackId, StringId, Tag};
use highwater_store::SharedCatalog;
use std::collections::HashMap;
use std::hash::Hash;

/// What two snapshots were compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum DiffBasis {
    /// Both are of one store: single blocks are matched by their numbers.
    #[default]
    Blocks,
    /// They are of different stores, whose blocks have nothing in common: call stacks, types and variables are matched by their names.
    Sites,
}

/// Live blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Usage {
    /// Blocks.
    pub count: usize,
    /// Bytes.
    pub bytes: usize,
}

/// The usage of one owner before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

/// The changes from one snapshot to another. Owners with unchanged usage are left out.
#[derive(Clone, Debug, Default)]
pub struct SnapshotDiff {
    /// What was compared.
    pub basis: DiffBasis,
    /// Blocks that are live now and were not before, oldest first. None of these three lists has any if the basis is not single blocks. A block's
    /// stack is one of the snapshot that has the block.
    pub appeared: Vec<ActiveAllocation>,
    /// Blocks that were live before and are not now, oldest first.
    pub gone: Vec<ActiveAllocation>,
    /// Blocks that are live in both with different sizes: the old and the new state.
    pub resized: Vec<(ActiveAllocation, ActiveAllocation)>,
    /// By call stack; `None` for blocks without one. [`frames`](Self::frames) has the calls. The number of a stack is that of the store, or if there are
    /// two stores, one of this difference alone.
    pub sites: HashMap<Option<StackId>, UsageChange>,
    /// By thread. Threads of two stores have nothing in common but their numbers; they are not compared.
    pub threads: HashMap<u64, UsageChange>,
    /// By type; blocks without a type are left out.
    pub types: HashMap<Name, UsageChange>,
    /// By variable; blocks without a variable are left out.
    pub variables: HashMap<Name, UsageChange>,
    pub(super) catalog: SharedCatalog,
}

impl SnapshotDiff {
    /// The blocks that are larger than before.
    pub fn grown(&self) -> impl Iterator<Item = &(ActiveAllocation, ActiveAllocation)> {
        self.resized.iter().filter(|(before, after)| after.size > before.size)
    }

    /// True when nothing changed.
    pub fn is_empty(&self) -> bool {
        match self.basis {
            DiffBasis::Blocks => self.appeared.is_empty() && self.gone.is_empty() && self.resized.is_empty(),
            DiffBasis::Sites => self.sites.is_empty() && self.types.is_empty() && self.variables.is_empty(),
        }
    }

    /// The calls of a stack of [`sites`](Self::sites), innermost first.
    pub fn frames(&self, stack: StackId) -> Vec<StackFrame> {
        self.catalog.read(|catalog| frames_of(catalog, stack))
    }
}

impl MemorySnapshot {
    /// The changes from this snapshot to a `later` one.
    ///
    /// Blocks of one store are matched by their number, so a block that only reuses the address of another one counts as new. It makes no difference
    /// whether the snapshots were [saved](Self::save) and [opened](Self::open) in between.
    ///
    /// Snapshots of two stores, of two processes, or from before and after [`clear`](crate::event_store::EventStore::clear) have no block in common.
    /// They are compared by call stack, by type and by variable ([`DiffBasis::Sites`]):
    ///
    /// ```
    /// use highwater::event_store::{EventStore, MemoryEvent};
    /// use highwater::snapshot::{DiffBasis, MemorySnapshot, SnapshotEngine};
    /// use std::sync::Arc;
    ///
    /// fn run(blocks: usize) -> MemorySnapshot {
    ///     let store = Arc::new(EventStore::new());
    ///     for block in 1..=blocks {
    ///         store.record(MemoryEvent::allocate(block * 0x1000, 100, 1).with_type_name("Session"));
    ///     }
    ///     SnapshotEngine::new(store).build_snapshot()
    /// }
    ///
    /// let diff = run(2).diff(&run(5));
    /// assert_eq!(diff.basis, DiffBasis::Sites);
    /// assert!(diff.appeared.is_empty()); // no block is known in both
    /// assert_eq!(diff.types["Session"].count_change(), 3);
    /// ```
    pub fn diff(&self, later: &Self) -> SnapshotDiff {
        if self.has_numbers_of(later) { self.diff_blocks(later) } else { self.diff_sites(later) }
    }

    fn diff_blocks(&self, later: &Self) -> SnapshotDiff {
        let mut diff = SnapshotDiff { catalog: self.known_catalog(later), ..SnapshotDiff::default() };
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
        if self.has_handles_of(later) {
            diff.sites = changes(self, later, |block| Some(block.stack));
        } else {
            let by_name = self.diff_sites(later);
            (diff.sites, diff.catalog) = (by_name.sites, by_name.catalog);
        }
        diff.threads = changes(self, later, |block| Some(block.thread_id));
        diff.types = changes(self, later, |block| block.type_name.clone());
        diff.variables = changes(self, later, |block| block.var_name.clone());
        diff
    }

    /// True if a number means the same block in both.
    ///
    /// A late event with an earlier time than others shifts the numbers of a store. Then a block has two numbers, or a number two times of birth.
    fn has_numbers_of(&self, other: &Self) -> bool {
        let is_empty = |one: &Self| one.ledger.accounts().events() == 0;
        if is_empty(self) || is_empty(other) {
            return true;
        }
        let has_one_store = self.origin.store.is_some() && self.origin.store == other.origin.store;
        let next = |one: &Self| one.ledger.accounts().next_id().0;
        let (early, late) = if next(self) <= next(other) { (self, other) } else { (other, self) };
        let has_every_block = |one: &Self| !one.origin.source.aggregated;
        has_one_store && has_every_block(self) && has_every_block(other) && {
            let births: HashMap<u64, u64> =
                early.active_allocations.values().map(|block| (block.id, block.allocated_at)).collect();
            let numbers: HashMap<(usize, u64), u64> =
                early.active_allocations.values().map(|block| ((block.ptr, block.allocated_at), block.id)).collect();
            late.active_allocations.values().all(|block| {
                let birth = block.allocated_at;
                let has_one_number = numbers.get(&(block.ptr, birth)).is_none_or(|number| *number == block.id);
                let has_one_birth = births.get(&block.id).is_none_or(|other| *other == birth);
                let is_old = block.id < next(early);
                let is_of_its_time = if is_old { birth <= early.timestamp } else { birth >= early.timestamp };
                has_one_number && has_one_birth && is_of_its_time
            })
        }
    }

    /// True if a stack's number means the same in both, given that they are of one store. Handles of an opened file are those of the store when it was
    /// saved: the catalog of a store only grows.
    fn has_handles_of(&self, other: &Self) -> bool {
        let is_empty = |one: &Self| one.active_allocations.is_empty();
        let is_of_store = |one: &Self| !one.origin.has_own_handles || is_empty(one);
        self.origin.catalog.is_same(&other.origin.catalog)
            || (is_of_store(self) && is_of_store(other))
            || is_empty(self)
            || is_empty(other)
    }

    /// The catalog that knows the stacks of both: of one store, the one that was looked at last has all entries.
    fn known_catalog(&self, other: &Self) -> SharedCatalog {
        let known = |one: &Self| one.origin.catalog.read(|catalog| catalog.stacks.nodes().len());
        if known(self) > known(other) { self.origin.catalog.clone() } else { other.origin.catalog.clone() }
    }

    fn diff_sites(&self, later: &Self) -> SnapshotDiff {
        let mut common = Catalog::default();
        let mut diff = SnapshotDiff { basis: DiffBasis::Sites, ..SnapshotDiff::default() };
        let sides: [(&Self, Side); 2] = [(self, |change| &mut change.before), (later, |change| &mut change.after)];
        for (snapshot, side) in sides {
            let accounts = snapshot.ledger.accounts();
            snapshot.origin.catalog.read(|catalog| {
                for (stack, figures) in accounts.sites().iter() {
                    let stack = (stack != StackId::UNKNOWN).then(|| translated(catalog, stack, &mut common));
                    add(side(diff.sites.entry(stack).or_default()), figures);
                }
                for (tag, figures) in catalog.tags().iter().zip(accounts.tags()).skip(1) {
                    let add_named = |owners: &mut HashMap<Name, UsageChange>, name: fn(&Tag) -> StringId| {
                        if let Some(name) = crate::event_store::name_of(catalog, name(tag)) {
                            add(side(owners.entry(name).or_default()), figures);
                        }
                    };
                    add_named(&mut diff.types, |tag| tag.type_name);
                    add_named(&mut diff.variables, |tag| tag.variable);
                }
            });
        }
        diff.sites.retain(|_, change| change.before != change.after);
        diff.types.retain(|_, change| change.before != change.after);
        diff.variables.retain(|_, change| change.before != change.after);
        diff.catalog = common.into();
        diff
    }
}

/// One side of a change.
type Side = fn(&mut UsageChange) -> &mut Usage;

fn add(usage: &mut Usage, figures: &Figures) {
    usage.count = usage.count.saturating_add(figures.live_blocks() as usize);
    usage.bytes = usage.bytes.saturating_add(figures.live_bytes() as usize);
}

/// A stack in another catalog, by its words.
pub(super) fn translated(catalog: &Catalog, stack: StackId, into: &mut Catalog) -> StackId {
    intern_frames(&frames_of(catalog, stack), into)
}

/// The stack with these frames, innermost first.
pub(super) fn intern_frames(frames: &[StackFrame], into: &mut Catalog) -> StackId {
    let texts: Vec<FrameText<'_>> = frames
        .iter()
        .map(|StackFrame { function, file, line, module }| FrameText {
            function,
            file,
            line: *line,
            module,
            ..FrameText::default()
        })
        .collect();
    into.intern_stack(&texts)
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
    let mut add = |block: &ActiveAllocation, side: Side| {
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
