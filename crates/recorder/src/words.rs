//! Memory for what waits to be worked through.
//!
//! No lock is taken on the way: whoever works through it has a lower priority than whoever empties rings, and would hold it up.
//!
//! There may be a lot of it for a short time, and fresh memory is dear: a page fault for each 4 KiB costs more than what is
//! then done with them. So large pieces lie in slots that are used again and again, carved out of huge pages.

use highwater_shm::session_v1::LARGEST_RING;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Words of a slot: as many as a ring can hold.
const SLOT_WORDS: usize = LARGEST_RING as usize / 8;
/// Fewer words than this lie in memory of the ordinary kind.
const FEW: usize = SLOT_WORDS / 32;
const HUGE_PAGE: usize = 2 << 20;

/// The slots that nobody uses now, and where those that are used come back to.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Slot>,
    returned: Receiver<Slot>,
    to_return: Sender<Slot>,
}

impl Default for Pool {
    fn default() -> Self {
        let (to_return, returned) = channel();
        Self { free: Vec::new(), returned, to_return }
    }
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
    pool: Sender<Slot>,
}

impl Words {
    /// As many of these words as a slot has room for.
    pub fn collect(pool: &mut Pool, count: usize, words: impl Iterator<Item = u64>) -> Self {
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
        Self::Many(InSlot { slot: Some(slot), length, pool: pool.to_return.clone() })
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
            // Nobody there any more: the memory goes with the process.
            let _ = self.pool.send(slot);
        }
    }
}

impl Pool {
    fn take(&mut self) -> Option<Slot> {
        if let Ok(slot) = self.returned.try_recv() {
            return Some(slot);
        }
        if self.free.is_empty() {
            self.free.extend(new_slots().into_iter().flatten());
        }
        self.free.pop()
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
