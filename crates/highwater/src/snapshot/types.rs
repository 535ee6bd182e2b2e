//! What a snapshot holds.

use crate::event_name::Name;
use crate::event_store::EventStore;
use highwater_model::{Accounts, AddressLedger, Anomalies, Anomaly, Block, Catalog, StackId, ThreadAccount};
use highwater_store::Cursor;
use std::collections::HashMap;

/// A block that was live at the instant of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub stack: Option<StackId>,
    /// Its number. Unlike an address, it is never used for another allocation of the store.
    pub id: u64,
}

/// The figures of the blocks that one thread allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default)]
pub struct MemorySnapshot {
    /// The time of the latest event in it, in nanoseconds since the store was made.
    pub timestamp: u64,
    /// The live blocks, by address.
    pub active_allocations: HashMap<usize, ActiveAllocation>,
    /// Every thread seen, by its number.
    pub thread_stats: HashMap<u64, ThreadMemoryStats>,
    /// The figures of the whole store.
    pub stats: SnapshotStats,
    /// Anomalies of the events.
    pub anomalies: MemoryAnomalies,
    pub(super) ledger: AddressLedger,
    pub(super) cursor: Cursor,
}

impl MemorySnapshot {
    /// A snapshot of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn of(ledger: AddressLedger, cursor: Cursor, store: &EventStore) -> Self {
        let mut snapshot = Self { ledger, cursor, ..Self::default() };
        let accounts = snapshot.ledger.accounts();
        let live = accounts.totals().figures.live_blocks() as usize;
        let mut active = HashMap::with_capacity(live);
        store.log.read_catalog(|catalog| {
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
    pub(super) fn refresh_blocks(&mut self, addresses: &[u64], store: &EventStore) {
        store.log.read_catalog(|catalog| {
            for &address in addresses {
                match self.ledger.find(address) {
                    Some(block) => {
                        let (ptr, active) = active_allocation(&block, self.ledger.accounts(), catalog);
                        self.active_allocations.insert(ptr, active);
                    }
                    None => drop(self.active_allocations.remove(&(address as usize))),
                }
            }
        });
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
    let ptr = block.address as usize;
    let allocation = ActiveAllocation {
        ptr,
        size: block.size as usize,
        allocated_at: block.time.0,
        var_name: name(tag.variable),
        type_name: name(tag.type_name),
        thread_id: accounts.threads()[block.thread as usize].id.0,
        stack: (block.stack != StackId::UNKNOWN).then_some(block.stack),
        id: block.id.0,
    };
    (ptr, allocation)
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
