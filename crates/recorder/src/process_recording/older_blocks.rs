//! Blocks that a process had before it was recorded. Who attached to it finds them by reading its heap, which takes a moment. Records wait until then, because older
//! blocks come first: a block that is freed meanwhile is known, and live totals are the process's own from the beginning.

use super::ProcessRecording;
use crate::record::{RecordedBlock, RingRecord};
use crate::rings::RecordSink;
use highwater_model::{Event, EventKind, FrameText, Nanos, Placement, StackId, TagId, ThreadId, Weight};
use highwater_session::{BEFORE_ATTACH, BEFORE_ATTACH_THREAD, Stamps, monotonic_ns};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// The number of records that wait at most: 200 MB. A program that writes more while its heap is read is recorded without its older blocks.
const MOST_HELD: usize = 4 << 20;
/// The number of events that are written before rings are read again.
const SLICE: usize = 1 << 14;

enum HeldRecord {
    Allocate(RecordedBlock),
    Free(u64),
    FreeBy(u64, u32),
    Other(Box<RingRecord>),
}

/// Records in the order of their stamps, with stamp and ring.
#[derive(Default)]
pub(super) struct HeldRecords(VecDeque<(u64, u32, HeldRecord)>);

impl RecordSink for HeldRecords {
    fn allocate(&mut self, stamp: u64, ring: u32, block: &RecordedBlock) {
        self.0.push_back((stamp, ring, HeldRecord::Allocate(*block)));
    }

    fn free(&mut self, stamp: u64, ring: u32, address: u64) {
        self.0.push_back((stamp, ring, HeldRecord::Free(address)));
    }

    fn free_by(&mut self, stamp: u64, ring: u32, address: u64, node: u32) {
        self.0.push_back((stamp, ring, HeldRecord::FreeBy(address, node)));
    }

    fn other(&mut self, stamp: u64, ring: u32, record: RingRecord) {
        self.0.push_back((stamp, ring, HeldRecord::Other(Box::new(record))));
    }
}

impl HeldRecords {
    pub(super) fn are_too_many(&self) -> bool {
        self.0.len() > MOST_HELD
    }

    /// The addresses that records until `then` name. What the heap has there at `then` is recorded, or is being freed or allocated.
    fn addresses_until(&self, then: Nanos, stamps: &Stamps) -> FxHashSet<u64> {
        let until = self.0.iter().take_while(|(stamp, ..)| stamps.time(*stamp) <= then);
        let mut addresses = FxHashSet::default();
        for (_, _, record) in until {
            match record {
                HeldRecord::Allocate(block) => _ = addresses.insert(block.address),
                HeldRecord::Free(address) | HeldRecord::FreeBy(address, _) => _ = addresses.insert(*address),
                HeldRecord::Other(record) => match **record {
                    RingRecord::Reallocate { old, new } | RingRecord::ReallocEnd { old, new } => {
                        addresses.extend([old, new.address]);
                    }
                    RingRecord::ReallocBegin { old } => _ = addresses.insert(old),
                    _ => {}
                },
            }
        }
        addresses
    }
}

impl ProcessRecording {
    /// Records wait from now on, until [`ProcessRecording::take_older`].
    pub(crate) fn await_older(&mut self) {
        self.held = Some(HeldRecords::default());
    }

    /// The addresses and usable sizes of all blocks of the heap at an instant since the recording began, by the monotonic clock. Those that no record names until then
    /// are older. The records that have waited follow. Returns the number of older blocks and their bytes, `None` if no record waits any more.
    pub(crate) fn take_older(&mut self, at: u64, heap: impl Iterator<Item = (u64, u64)>) -> Option<(u64, u64)> {
        let held = self.held.take()?;
        let ago = monotonic_ns().saturating_sub(at);
        let known = held.addresses_until(Nanos(self.stamps.now().0.saturating_sub(ago)), &self.stamps);
        let stack = self.catalog.intern_stack(&[FrameText { function: BEFORE_ATTACH, ..FrameText::default() }]);
        self.older_stack = Some(stack);
        self.catalog.name_thread(ThreadId::UNKNOWN, BEFORE_ATTACH_THREAD);
        let (mut count, mut bytes) = (0, 0u64);
        self.held = Some(held);
        for (address, size) in heap.filter(|(address, _)| !known.contains(address)) {
            let place = Placement { address, size, stack, tag: TagId::NONE, surplus: 0, weight: Weight::ONE };
            self.push(Nanos(0), ThreadId::UNKNOWN, EventKind::Allocate(place));
            (count, bytes) = (count + 1, bytes.saturating_add(size));
            if count % SLICE as u64 == 0 {
                self.hold(Some(self.stamps.settled()));
            }
        }
        self.pass_on_held(false);
        Some((count, bytes))
    }

    /// Reads the records written since the last round, unless too many wait already; they wait. Returns their size in bytes.
    fn hold(&mut self, until: Option<u64>) -> u64 {
        let Some(mut held) = self.held.take_if(|held| until.is_none() || !held.are_too_many()) else { return 0 };
        let (mut rings, shared) = (std::mem::take(&mut self.rings), Arc::clone(&self.shared));
        let round = rings.round(&shared, until, &mut held);
        self.rings = rings;
        self.held = Some(held);
        self.missed_and_dropped(round.dropped);
        round.bytes
    }

    /// A round while records wait.
    pub(super) fn round_of_held(&mut self, until: Option<u64>) -> u64 {
        let bytes = self.hold(until);
        if until.is_none() || self.held.as_ref().is_some_and(HeldRecords::are_too_many) {
            self.pass_on_held(until.is_none());
        }
        bytes
    }

    /// No record waits any more. The program goes on meanwhile, and its rings must not fill: they are read after every slice.
    fn pass_on_held(&mut self, has_ended: bool) {
        while let Some(held) = &mut self.held {
            let slice: Vec<_> = held.0.drain(..held.0.len().min(SLICE)).collect();
            if slice.is_empty() {
                self.held = None;
            }
            for (stamp, ring, record) in slice {
                match record {
                    HeldRecord::Allocate(block) => self.allocate(stamp, ring, &block),
                    HeldRecord::Free(address) => self.free(stamp, ring, address),
                    HeldRecord::FreeBy(address, node) => self.free_by(stamp, ring, address, node),
                    HeldRecord::Other(record) => self.other(stamp, ring, *record),
                }
            }
            self.hand_over();
            if !has_ended {
                self.hold(Some(self.stamps.settled()));
            }
        }
    }

    /// A block comes to an address where the ledger has an older one: that one was not older, and this is its own record; or its free was not recorded, because the
    /// call had begun before the attach.
    pub(super) fn take_back_older(&mut self, event: &Event) -> io::Result<()> {
        let (new, old) = match &event.kind {
            EventKind::Allocate(new) => (new, None),
            EventKind::Reallocate { old_address, new, .. } => (new, Some(*old_address)),
            _ => return Ok(()),
        };
        if old != Some(new.address) && self.older_stack.is_some_and(|older| self.is_at(new.address, older)) {
            let kind = EventKind::free(new.address, None);
            return self.hand_to_all(Event { kind, ..*event });
        }
        Ok(())
    }

    fn is_at(&self, address: u64, stack: StackId) -> bool {
        self.ledger.find(address).is_some_and(|block| block.stack == stack)
    }
}
