//! The words of a thread in an injected agent, where the loader provides no thread-local storage.
//!
//! They lie in a table in shared memory, found by the thread pointer. Stacks are used again, and thread pointers with them: the kernel's number of the
//! thread, which the C library keeps in the thread's block, says whether the words are still this thread's.

use super::thread_pointer::half_word_at;
pub use super::thread_pointer::thread_pointer;
use crate::{injected, sys};
use core::sync::atomic::Ordering;
use highwater_shm::attach_v1::{SLOT_PROBES, THREAD_SLOTS, THREADS, ThreadSlot, slot_home};

/// The places of the words in a slot.
const THREAD: usize = 0;
const COUNTDOWN: usize = 1;
const TASK: usize = 2;
/// If the C library's place for the thread's number is not known: the number when the kernel was asked last.
const ASKED_ID: usize = 3;
/// Value of the thread's word that means: never records.
const NEVER: u64 = 1;
/// If the C library's place for the thread's number is not known, the kernel is asked once in this number of calls: a power of two.
const CALLS_BETWEEN_QUESTIONS: u64 = 256;

/// The calling thread's slot; `None` if the table is full.
#[inline(always)]
pub fn slot() -> Option<&'static ThreadSlot> {
    let pointer = thread_pointer();
    let offset = injected::header().thread_id_offset;
    // SAFETY: the attacher has found out that the C library has the thread's number there.
    let id = if offset == 0 { 0 } else { u64::from(unsafe { half_word_at(offset) }) };
    let slot = slot_at(slot_home(pointer));
    if slot.pointer.load(Ordering::Relaxed) == pointer && slot.id.load(Ordering::Relaxed) == id {
        return Some(slot);
    }
    find_or_claim(pointer, id)
}

#[inline(always)]
fn slot_at(index: usize) -> &'static ThreadSlot {
    let table = (injected::header().shared + THREADS) as *const ThreadSlot;
    // SAFETY: the table has this number of slots, and is mapped for as long as hooks are on.
    unsafe { &*table.add(index & (THREAD_SLOTS - 1)) }
}

#[cold]
#[inline(never)]
fn find_or_claim(pointer: u64, id: u64) -> Option<&'static ThreadSlot> {
    let slots = || (0..SLOT_PROBES).map(|distance| slot_at(slot_home(pointer).wrapping_add(distance)));
    for slot in slots() {
        let mut owner = slot.pointer.load(Ordering::Relaxed);
        if owner == 0 {
            owner = match slot.pointer.compare_exchange(0, pointer, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => pointer,
                Err(other) => other,
            };
        }
        if owner == pointer {
            if slot.id.load(Ordering::Relaxed) != id {
                begin(slot, id);
            }
            return Some(slot);
        }
    }
    // All are taken. A thread that is gone needs its slot no more.
    let process = sys::process_id();
    slots().find_map(|slot| {
        let owner = slot.pointer.load(Ordering::Relaxed);
        let last = slot.id.load(Ordering::Relaxed);
        let is_free = last != 0 && sys::is_gone(process, last as u32);
        let claimed =
            is_free && slot.pointer.compare_exchange(owner, pointer, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        claimed.then(|| {
            begin(slot, id);
            slot
        })
    })
}

/// Another thread uses the slot from now on.
fn begin(slot: &ThreadSlot, id: u64) {
    slot.depth.store(0, Ordering::Relaxed);
    slot.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    slot.id.store(id, Ordering::Relaxed);
}

/// If the C library's place for the thread's number is not known: asks the kernel, now and then, whether the slot is still the thread's.
#[inline(always)]
pub fn check_owner(slot: &ThreadSlot, calls: u64) {
    if calls.is_multiple_of(CALLS_BETWEEN_QUESTIONS) && injected::header().thread_id_offset == 0 {
        let id = u64::from(sys::thread_id());
        if slot.words[ASKED_ID].load(Ordering::Relaxed) != id {
            slot.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            slot.words[ASKED_ID].store(id, Ordering::Relaxed);
        }
    }
}

fn load(word: usize) -> Option<u64> {
    slot().map(|slot| slot.words[word].load(Ordering::Relaxed))
}

fn store(word: usize, value: u64) {
    if let Some(slot) = slot() {
        slot.words[word].store(value, Ordering::Relaxed);
    }
}

/// The address of the calling thread's data; 0 until it has some.
#[inline(always)]
pub fn get() -> u64 {
    load(THREAD).unwrap_or(NEVER)
}

/// Sets the address of the calling thread's data.
pub fn set(word: u64) {
    store(THREAD, word);
}

/// The calling thread's countdown, a signed number.
#[inline(always)]
pub fn countdown() -> u64 {
    load(COUNTDOWN).unwrap_or(0)
}

/// Sets the calling thread's countdown.
#[inline(always)]
pub fn set_countdown(word: u64) {
    store(COUNTDOWN, word);
}

/// The number of the task that the calling thread works for: an injected agent knows of none.
#[inline(always)]
pub fn task() -> u64 {
    load(TASK).unwrap_or(0)
}

/// Sets the task that the calling thread works for.
pub fn set_task(word: u64) {
    store(TASK, word);
}

/// An injected agent never looks functions up.
pub fn looking_up() -> u64 {
    0
}

/// Does nothing, for the same reason.
pub fn set_looking_up(_: u64) {}
