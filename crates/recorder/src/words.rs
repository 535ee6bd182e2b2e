//! Memory for what waits to be worked through.
//!
//! There may be a lot of it for a short time, and fresh memory is dear: a page fault for each 4 KiB costs more than what is
//! then done with them. So large pieces lie in slots that are used again and again, carved out of huge pages.

use highwater_shm::session_v1::LARGEST_RING;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Words of a slot: as many as a ring can hold.
const SLOT_WORDS: usize = LARGEST_RING as usize / 8;
/// Fewer words than this lie in memory of the ordinary kind.
const FEW: usize = SLOT_WORDS / 32;
const HUGE_PAGE: usize = 2 << 20;

/// The slots that nobody uses now.
#[derive(Debug, Default)]
pub struct Pool {
    free: Mutex<Vec<Slot>>,
}

/// A slot: `SLOT_WORDS` words that belong to whoever holds this.
#[derive(Debug)]
struct Slot(NonNull<u64>);

// SAFETY: plain memory with one owner.
unsafe impl Send for Slot {}
// SAFETY: read through shared references only.
unsafe impl Sync for Slot {}

/// Some words.
#[derive(Debug)]
pub enum Words {
    /// A few.
    Few(Vec<u64>),
    /// Many, in a slot.
    Many(InSlot),
}

/// Words in a slot, which is given back when they are dropped.
#[derive(Debug)]
pub struct InSlot {
    slot: Option<Slot>,
    length: usize,
    pool: Arc<Pool>,
}

impl Words {
    /// As many of these words as a slot has room for.
    pub fn collect(pool: &Arc<Pool>, count: usize, words: impl Iterator<Item = u64>) -> Self {
        if count < FEW {
            return Self::Few(words.collect());
        }
        let Some(slot) = pool.take() else { return Self::Few(words.collect()) };
        let mut length = 0;
        for (at, word) in words.take(SLOT_WORDS).enumerate() {
            // SAFETY: within the slot, which is ours.
            unsafe { slot.0.add(at).write(word) };
            length = at + 1;
        }
        Self::Many(InSlot { slot: Some(slot), length, pool: Arc::clone(pool) })
    }
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::Few(words) => words,
            Self::Many(InSlot { slot: Some(slot), length, .. }) => {
                // SAFETY: so many words were written.
                unsafe { std::slice::from_raw_parts(slot.0.as_ptr(), *length) }
            }
            Self::Many(_) => &[],
        }
    }
}

impl Drop for InSlot {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        }
    }
}

impl Pool {
    fn take(&self) -> Option<Slot> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.is_empty() {
            free.extend(new_slots().into_iter().flatten());
        }
        free.pop()
    }
}

/// Slots in a huge page of their own, which is never given back; none if there is no memory.
fn new_slots() -> Option<impl Iterator<Item = Slot>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping wherever the kernel likes; the advice changes nothing but its cost.
    let start = unsafe {
        let twice = HUGE_PAGE * 2;
        let mapping = rustix::mm::mmap_anonymous(std::ptr::null_mut(), twice, protection, MapFlags::PRIVATE).ok()?;
        let start = mapping.cast::<u8>().add(mapping.align_offset(HUGE_PAGE));
        let _ = rustix::mm::madvise(start.cast(), HUGE_PAGE, Advice::LinuxHugepage);
        start.cast::<u64>()
    };
    Some((0..HUGE_PAGE / 8 / SLOT_WORDS).filter_map(move |index| {
        // SAFETY: within the huge page.
        NonNull::new(unsafe { start.add(index * SLOT_WORDS) }).map(Slot)
    }))
}
