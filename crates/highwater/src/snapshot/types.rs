//! What a snapshot holds.

use crate::event_name::Name;
use crate::event_store::EventStore;
use highwater_model::{
    Accounts, AddressLedger, Anomalies, Anomaly, Block, Catalog, Source, StackId, StoreId, ThreadAccount,
};
use highwater_store::{Cursor, SharedCatalog};
use std::collections::HashMap;
use std::sync::Arc;

/// A block that was live at the instant of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ActiveAllocation {
    /// Its address.
    pub ptr: usize,
    /// Its size in bytes.
    pub size: usize,
    /// When it was first allocated, in nanoseconds since the store was made.
    pub allocated_at: u64,
    /// The variable it is for.
    pub var_name: Option<Name>,
    /// The type it holds.
    pub type_name: Option<Name>,
    /// The thread that allocated it, or last resized it.
    pub thread_id: u64,
    /// The call stack that allocated it, or last resized it.
    #[cfg_attr(feature = "serde", serde(with = "super::json::stack_handle"))]
    pub stack: Option<StackId>,
    /// Its number. Unlike an address, it is never used for another allocation of the store.
    pub id: u64,
}

/// The figures of the blocks that one thread allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ThreadMemoryStats {
    /// Which thread.
    pub thread_id: u64,
    /// Blocks it allocated.
    pub allocation_count: usize,
    /// Bytes it ever allocated, reallocations included.
    pub total_allocated: usize,
    /// Bytes of those that were freed, by any thread.
    pub total_deallocated: usize,
    /// Bytes of its blocks that are live.
    pub current_memory: usize,
    /// Its blocks that are live.
    pub active_allocations: usize,
    /// The most bytes of its blocks that were live at once.
    pub peak_memory: usize,
    /// Its blocks that another thread freed.
    pub cross_thread_deallocations: usize,
}

/// The whole store's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SnapshotStats {
    /// Blocks ever allocated.
    pub total_allocations: usize,
    /// Blocks ever resized.
    pub total_reallocations: usize,
    /// Blocks ever freed.
    pub total_deallocations: usize,
    /// Blocks live.
    pub active_allocations: usize,
    /// Bytes ever allocated, reallocations included.
    pub total_allocated: usize,
    /// Bytes ever freed, reallocations included.
    pub total_deallocated: usize,
    /// Bytes live.
    pub current_memory: usize,
    /// The most bytes that were live at once.
    pub peak_memory: usize,
    /// The time of that peak, in nanoseconds since the store was made.
    pub peak_at: u64,
    /// The most bytes held at once, counting the instant inside a moving reallocation, at which the allocator has both the old and the new block.
    /// At least `peak_memory`.
    pub peak_memory_inside_reallocation: usize,
    /// The most blocks that were live at once.
    pub peak_allocations: usize,
    /// Blocks freed before their thread allocated anything else.
    pub temporary_allocations: usize,
    /// Frees of addresses where no block was live.
    pub unmatched_deallocations: usize,
}

/// Anomalies of the events. Each was handled so that the figures stay consistent, and is counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct MemoryAnomalies {
    /// Frees of addresses where no block was live; they change nothing.
    pub unmatched_deallocations: u64,
    /// Reallocations of addresses where no block was live; the new block counts as an allocation.
    pub unmatched_reallocations: u64,
    /// Allocations at an address that was still live; the older block counts as freed.
    pub duplicate_allocations: u64,
    /// Frees and reallocations that gave a size other than the allocated one; the allocated size counts.
    pub size_mismatches: u64,
    /// Events that arrived after a later one of the same thread, and were sorted back into order.
    pub out_of_order_events: u64,
    /// Events that arrived too late to be sorted back; they count at the latest known time.
    pub repaired_times: u64,
    /// Events that could not be kept.
    pub dropped_events: u64,
    /// Sizes too large to add up, reduced to a value that fits.
    pub clamped_sizes: u64,
    /// Events lost to damage of an opened recording.
    pub lost_to_damage: u64,
}

impl MemoryAnomalies {
    /// True if there are no anomalies.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn of(anomalies: &Anomalies) -> Self {
        Self {
            unmatched_deallocations: anomalies.get(Anomaly::UnmatchedFree),
            unmatched_reallocations: anomalies.get(Anomaly::UnmatchedReallocation),
            duplicate_allocations: anomalies.get(Anomaly::DuplicateAllocation),
            size_mismatches: anomalies.get(Anomaly::SizeMismatch),
            out_of_order_events: anomalies.get(Anomaly::OutOfOrder),
            repaired_times: anomalies.get(Anomaly::RepairedTime),
            dropped_events: anomalies.get(Anomaly::DroppedEvent),
            clamped_sizes: anomalies.get(Anomaly::ClampedSize),
            lost_to_damage: anomalies.get(Anomaly::LostToDamage),
        }
    }
}

/// The state of a program's memory at one instant.
///
/// It can be [saved](Self::save) as a `.hw` file, which every command of `highwater` shows, and [opened](Self::open) again. With the feature `serde` it
/// is `Serialize` and `Deserialize`: `serde_json` makes one JSON object of it, with the names and the call stacks of its blocks.
#[derive(Clone, Debug, Default)]
pub struct MemorySnapshot {
    /// The time of the latest event in it, in nanoseconds since the store was made.
    pub timestamp: u64,
    /// The live blocks, by address. A mapping, which only opened files have, is found at its address plus 1: the first block that an allocator places
    /// in it has the same address.
    pub active_allocations: HashMap<usize, ActiveAllocation>,
    /// Every thread seen, by its number.
    pub thread_stats: HashMap<u64, ThreadMemoryStats>,
    /// The figures of the whole store.
    pub stats: SnapshotStats,
    /// Anomalies of the events.
    pub anomalies: MemoryAnomalies,
    pub(super) ledger: AddressLedger,
    pub(super) cursor: Cursor,
    pub(super) origin: SnapshotOrigin,
}

/// Where a snapshot comes from.
#[derive(Clone, Debug, Default)]
pub(super) struct SnapshotOrigin {
    pub source: Arc<Source>,
    /// The catalog that the handles refer to.
    pub catalog: SharedCatalog,
    /// The store that numbered the blocks; `None` if the numbers mean nothing elsewhere.
    pub store: Option<StoreId>,
    /// True if the handles of the catalog are not those of the store: the snapshot was read from text.
    pub has_own_handles: bool,
}

/// A call of a stack, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct StackFrame {
    /// The function; empty where not known.
    pub function: String,
    /// The source file; empty where not known.
    pub file: String,
    /// The source line; 0 where not known.
    pub line: u32,
    /// The executable or library; empty where not known.
    pub module: String,
}

/// The frames of a stack, innermost first. Code without a name is named by its offset in its build of its module: unlike an address, it is the
/// same in every process.
pub(super) fn frames_of(catalog: &Catalog, stack: StackId) -> Vec<StackFrame> {
    let frame = |text: highwater_model::FrameText<'_>| StackFrame {
        function: match (text.function, text.file, text.offset) {
            ("", "", Some(offset)) if text.build_id.is_empty() => format!("+{offset:#x}"),
            ("", "", Some(offset)) => format!("+{offset:#x} of build {}", text.build_id),
            ("", "", None) if text.address != 0 => format!("{:#x}", text.address),
            (function, ..) => function.to_owned(),
        },
        file: text.file.to_owned(),
        line: text.line,
        module: text.module.to_owned(),
    };
    catalog.frame_texts(stack).map(frame).collect()
}

impl MemorySnapshot {
    /// A snapshot of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn of(ledger: AddressLedger, cursor: Cursor, store: Option<StoreId>, from: &EventStore) -> Self {
        let catalog = from.log.shared_catalog().clone();
        let origin = SnapshotOrigin { source: Arc::clone(&from.source), catalog, store, has_own_handles: false };
        Self::of_ledger(ledger, cursor, origin)
    }

    pub(super) fn of_ledger(ledger: AddressLedger, cursor: Cursor, origin: SnapshotOrigin) -> Self {
        let mut snapshot = Self { ledger, cursor, origin, ..Self::default() };
        let accounts = snapshot.ledger.accounts();
        let live = accounts.totals().figures.live_blocks() as usize;
        let mut active = HashMap::with_capacity(live);
        snapshot.origin.catalog.read(|catalog| {
            active.extend(accounts.blocks().map(|block| active_allocation(&block, accounts, catalog)));
        });
        snapshot.active_allocations = active;
        snapshot.refresh_figures();
        snapshot
    }

    /// Copies the figures, but not the blocks, from the ledger.
    pub(super) fn refresh_figures(&mut self) {
        let accounts = self.ledger.accounts();
        let totals = accounts.totals();
        let figures = &totals.figures;
        self.timestamp = accounts.last_time().0;
        self.anomalies = MemoryAnomalies::of(accounts.anomalies());
        self.thread_stats = accounts.threads().iter().map(|thread| (thread.id.0, thread_stats(thread))).collect();
        self.stats = SnapshotStats {
            total_allocations: figures.allocations as usize,
            total_reallocations: figures.reallocations as usize,
            total_deallocations: figures.frees as usize,
            active_allocations: figures.live_blocks() as usize,
            total_allocated: figures.allocated_bytes as usize,
            total_deallocated: figures.freed_bytes as usize,
            current_memory: figures.live_bytes() as usize,
            peak_memory: figures.peak_bytes as usize,
            peak_at: totals.peak_at.0,
            peak_memory_inside_reallocation: totals.peak_bytes_inside_reallocation.max(figures.peak_bytes) as usize,
            peak_allocations: totals.peak_blocks as usize,
            temporary_allocations: figures.temporary_allocations as usize,
            unmatched_deallocations: self.anomalies.unmatched_deallocations as usize,
        };
    }

    /// Brings the blocks at these addresses up to date with the ledger.
    pub(super) fn refresh_blocks(&mut self, addresses: &[u64]) {
        self.origin.catalog.clone().read(|catalog| {
            for &address in addresses {
                match self.ledger.find(address) {
                    Some(block) => {
                        let (key, active) = active_allocation(&block, self.ledger.accounts(), catalog);
                        self.active_allocations.insert(key, active);
                    }
                    None => drop(self.active_allocations.remove(&(address as usize))),
                }
            }
        });
    }

    /// The calls of a stack of this snapshot, innermost first; empty for a stack that it does not know.
    pub fn frames(&self, stack: StackId) -> Vec<StackFrame> {
        self.origin.catalog.read(|catalog| frames_of(catalog, stack))
    }

    /// False for a snapshot of a live process, opened from a file: nothing measured its peaks, and they are the live figures.
    pub fn knows_peaks(&self) -> bool {
        !self.origin.source.lacks_past()
    }

    /// How many blocks are live.
    pub fn active_count(&self) -> usize {
        self.stats.active_allocations
    }

    /// How many bytes are live.
    pub fn current_memory(&self) -> usize {
        self.stats.current_memory
    }

    /// The most bytes that were live at once.
    pub fn peak_memory(&self) -> usize {
        self.stats.peak_memory
    }
}

fn active_allocation(block: &Block, accounts: &Accounts, catalog: &Catalog) -> (usize, ActiveAllocation) {
    let tag = catalog.tag(block.tag);
    let name = |id| crate::event_store::name_of(catalog, id);
    let key = block.address as usize;
    let allocation = ActiveAllocation {
        ptr: tag.heap.true_address(block.address) as usize,
        size: block.size as usize,
        allocated_at: block.time.0,
        var_name: name(tag.variable),
        type_name: name(tag.type_name),
        thread_id: accounts.threads()[block.thread as usize].id.0,
        stack: (block.stack != StackId::UNKNOWN).then_some(block.stack),
        id: block.id.0,
    };
    (key, allocation)
}

fn thread_stats(thread: &ThreadAccount) -> ThreadMemoryStats {
    let figures = &thread.figures;
    ThreadMemoryStats {
        thread_id: thread.id.0,
        allocation_count: figures.allocations as usize,
        total_allocated: figures.allocated_bytes as usize,
        total_deallocated: figures.freed_bytes as usize,
        current_memory: figures.live_bytes() as usize,
        active_allocations: figures.live_blocks() as usize,
        peak_memory: figures.peak_bytes as usize,
        cross_thread_deallocations: figures.cross_thread_frees as usize,
    }
}

/// Two snapshots are equal if everything that they show is. Call stacks are compared by their frames, so the snapshots may come from two stores.
impl PartialEq for MemorySnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.timestamp == other.timestamp
            && self.stats == other.stats
            && self.anomalies == other.anomalies
            && self.thread_stats == other.thread_stats
            && self.active_allocations.len() == other.active_allocations.len()
            && self.has_same_blocks(other)
    }
}

impl Eq for MemorySnapshot {}

impl MemorySnapshot {
    fn has_same_blocks(&self, other: &Self) -> bool {
        let has_one_catalog = self.origin.catalog.is_same(&other.origin.catalog);
        let mut equal_stacks: HashMap<[StackId; 2], bool> = HashMap::new();
        self.active_allocations.iter().all(|(key, block)| {
            let Some(same) = other.active_allocations.get(key) else { return false };
            let has_same_stack = match [block.stack, same.stack] {
                [Some(a), Some(b)] if !has_one_catalog => {
                    *equal_stacks.entry([a, b]).or_insert_with(|| self.frames(a) == other.frames(b))
                }
                [a, b] => a == b,
            };
            has_same_stack && *block == ActiveAllocation { stack: block.stack, ..same.clone() }
        })
    }
}
