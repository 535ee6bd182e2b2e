//! Interning stacks: a node is (caller's node, return address), shared with the recorder as it is made.
//!
//! The nodes themselves lie in shared memory ([`stacks_v1`](highwater_shm::stacks_v1)); the index over them is private: a table
//! of node numbers, open addressing, at most three quarters full. A lookup takes no lock. Adding a node does, but a program has soon
//! made all its calls once.

use crate::lock::Lock;
use crate::private_memory::{self, AreaUse};
use crate::session::Session;
use crate::{memory_source, modules};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use highwater_shm::stacks_v1::TrieNode;

/// The node that has no call: the parent of outermost frames.
pub const ROOT: u32 = 0;
/// Replaces a return address where a stack was truncated.
pub const CUT: u64 = 1;

static INDEX: AtomicPtr<TrieIndex> = AtomicPtr::new(core::ptr::null_mut());
static ADDING: Lock = Lock::new();

const FIRST_SLOTS: usize = 1 << 14;

/// The slots follow this head in memory.
#[repr(C)]
struct TrieIndex {
    mask: usize,
    used: usize,
}

impl TrieIndex {
    fn with_slots(slots: usize) -> Option<*mut Self> {
        let index = private_memory::take(Self::bytes(slots), AreaUse::StackIndex)?.cast::<Self>();
        // SAFETY: new memory of that size.
        unsafe { index.write(Self { mask: slots - 1, used: 0 }) };
        Some(index)
    }

    fn bytes(slots: usize) -> usize {
        size_of::<Self>() + slots * 4
    }

    /// Frees the pages of an index that a larger one replaces. Its addresses stay: a thread that still reads it finds zeros, which is an empty index,
    /// and asks again under the lock.
    ///
    /// SAFETY: `index` was made by `with_slots`, and no thread finds it any more.
    unsafe fn retire(index: *mut Self) {
        // SAFETY: the caller's.
        memory_source::give_back_pages(index.cast(), Self::bytes(unsafe { (*index).mask } + 1).next_multiple_of(4096));
    }

    /// Empties the index. A thread that reads it at the same time finds what was there or nothing.
    ///
    /// SAFETY: `index` was made by `with_slots`, and the caller holds the lock.
    unsafe fn clear(index: *mut Self) {
        // The head, which readers need, has a page in common with the first slots.
        const IN_FIRST_PAGE: usize = (4096 - size_of::<TrieIndex>()) / 4;
        // SAFETY: the caller's.
        unsafe {
            let slots = (*index).mask + 1;
            (0..slots.min(IN_FIRST_PAGE)).for_each(|at| Self::slot(index, at).store(0, Ordering::Relaxed));
            (*index).used = 0;
            memory_source::give_back_pages(
                index.cast::<u8>().add(4096),
                Self::bytes(slots).next_multiple_of(4096) - 4096,
            );
        }
    }

    /// SAFETY: `self` was made by `with_slots`, `at` is at most the mask.
    unsafe fn slot(index: *mut Self, at: usize) -> &'static AtomicU32 {
        // SAFETY: the slots follow the head.
        unsafe { &*index.add(1).cast::<AtomicU32>().add(at) }
    }
}

/// Begins an empty trie; false if there is no memory.
pub fn prepare(session: &Session) -> bool {
    let Some(index) = TrieIndex::with_slots(FIRST_SLOTS) else { return false };
    let old = INDEX.swap(index, Ordering::AcqRel);
    if !old.is_null() {
        // SAFETY: after a fork no other thread is left that could read it.
        unsafe { private_memory::give_back(old.cast(), TrieIndex::bytes((*old).mask + 1)) };
    }
    ADDING.reset();
    session.header().nodes.store(1, Ordering::Release);
    true
}

/// Gives new nodes to stacks met from now on: their addresses mean something else than before.
pub fn forget() {
    ADDING.with(|| {
        let index = INDEX.load(Ordering::Acquire);
        if !index.is_null() {
            // SAFETY: the lock is held.
            unsafe { TrieIndex::clear(index) };
        }
    });
}

#[inline(always)]
fn hash(parent: u32, pc: u64) -> usize {
    let mixed = (pc ^ u64::from(parent).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize ^ (mixed >> 15) as usize
}

/// The node of a call from `parent` that returns to `pc`; the parent itself, counted, when there is no room for more. `guess` is tried
/// before the index.
#[inline(always)]
pub fn intern(session: &Session, parent: u32, pc: u64, guess: u32) -> u32 {
    let guessed = session.node(guess);
    if guess < session.header().nodes.load(Ordering::Acquire)
        && guessed.pc.load(Ordering::Relaxed) == pc
        && guessed.parent.load(Ordering::Relaxed) == parent
        && guessed.generation.load(Ordering::Relaxed) == modules::generation()
    {
        return guess;
    }
    find_or_add(session, parent, pc)
}

#[inline(never)]
fn find_or_add(session: &Session, parent: u32, pc: u64) -> u32 {
    let index = INDEX.load(Ordering::Acquire);
    find(session, index, parent, pc).unwrap_or_else(|| add(session, parent, pc))
}

#[inline(always)]
fn find(session: &Session, index: *mut TrieIndex, parent: u32, pc: u64) -> Option<u32> {
    // SAFETY: the index and the nodes that it names stay where they are.
    unsafe {
        let mask = (*index).mask;
        let mut at = hash(parent, pc) & mask;
        loop {
            let number = TrieIndex::slot(index, at).load(Ordering::Acquire);
            if number == 0 {
                return None;
            }
            let node = session.node(number);
            if node.pc.load(Ordering::Relaxed) == pc && node.parent.load(Ordering::Relaxed) == parent {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }
}

#[cold]
fn add(session: &Session, parent: u32, pc: u64) -> u32 {
    ADDING.with(|| {
        let index = INDEX.load(Ordering::Acquire);
        if let Some(number) = find(session, index, parent, pc) {
            return number;
        }
        let number = session.header().nodes.load(Ordering::Relaxed);
        let index = roomy(session, index);
        if number >= session.node_capacity() || index.is_null() {
            session.header().lost_nodes.fetch_add(1, Ordering::Relaxed);
            return parent;
        }
        let TrieNode { parent: parent_word, generation, pc: pc_word } = session.node(number);
        parent_word.store(parent, Ordering::Relaxed);
        generation.store(modules::generation(), Ordering::Relaxed);
        pc_word.store(pc, Ordering::Relaxed);
        session.header().nodes.store(number + 1, Ordering::Release);
        // SAFETY: the index is ours while the lock is held, and not full.
        unsafe {
            put(index, parent, pc, number);
            (*index).used += 1;
        }
        number
    })
}

/// SAFETY: the caller holds the lock, and there is a free slot.
unsafe fn put(index: *mut TrieIndex, parent: u32, pc: u64, number: u32) {
    // SAFETY: the caller's.
    unsafe {
        let mask = (*index).mask;
        let mut at = hash(parent, pc) & mask;
        while TrieIndex::slot(index, at).load(Ordering::Relaxed) != 0 {
            at = (at + 1) & mask;
        }
        TrieIndex::slot(index, at).store(number, Ordering::Release);
    }
}

/// The index with room for one more node; a larger copy when three quarters are taken, null when there is no memory.
fn roomy(session: &Session, index: *mut TrieIndex) -> *mut TrieIndex {
    // SAFETY: the lock is held.
    unsafe {
        let slots = (*index).mask + 1;
        if (*index).used < slots / 4 * 3 {
            return index;
        }
        let Some(larger) = TrieIndex::with_slots(slots * 2) else {
            return if (*index).used < slots - 1 { index } else { core::ptr::null_mut() };
        };
        for at in 0..slots {
            let number = TrieIndex::slot(index, at).load(Ordering::Relaxed);
            if number != 0 {
                let node = session.node(number);
                put(larger, node.parent.load(Ordering::Relaxed), node.pc.load(Ordering::Relaxed), number);
            }
        }
        (*larger).used = (*index).used;
        INDEX.store(larger, Ordering::Release);
        TrieIndex::retire(index);
        larger
    }
}
