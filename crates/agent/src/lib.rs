//! What runs inside a recorded program.
//!
//! It must never be noticed: it takes nothing from the program's heap, takes no lock that a program's thread could hold while
//! it waits, opens no file that stays open, never panics, never changes `errno`, and stops when nobody reads any more.
//!
//! The hooks (the preload library's, or the crate's global allocator) call [`allocated`] after the real allocation and
//! [`freeing`] before the real free; both cost some tens of nanoseconds. In between:
//!
//! * [`unwind`]: the call stack, by the compiler's tables, verified rather than walked where it has not changed;
//! * [`trie`]: the stack as a number;
//! * `ring`: the record, for a reader in another process;
//! * [`session`]: beginning, forking, ending. [`modules`]: what addresses mean. [`sampling`]: recording only some.
#![no_std]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod clock;
pub mod config;
pub mod here;
mod lock;
pub mod modules;
mod ring;
pub mod sampling;
pub mod session;
mod sys;
mod thread;
mod tls;
pub mod trie;
pub mod unwind;

pub use highwater_shm::hello_v1::VARIABLE;
use highwater_shm::ring_v1::kind;
pub use session::{Mode, begin_for_ourselves, begin_or_not, mode};
use thread::Thread;
pub use thread::leave_out as leave_this_thread_out;
pub use unwind::walk::State as Caller;

/// Bytes that a block of this size can be expected to hold: what the common C library gives.
#[inline(always)]
pub fn expected_usable(size: usize) -> usize {
    (size.wrapping_add(8 + 15) & !15).max(32).wrapping_sub(8)
}

#[inline(always)]
fn surplus(size: usize, usable: usize) -> u64 {
    let surplus = usable.wrapping_sub(expected_usable(size)) as isize;
    (surplus.clamp(i32::MIN as isize, i32::MAX as isize) as i32 as u32).into()
}

/// A block was handed out. `usable` is what it can really hold.
#[inline]
pub fn allocated(address: *mut u8, size: usize, usable: usize, caller: Caller) {
    let Some(thread) = Thread::current() else { return };
    let session = session::session();
    thread.ring.set_busy(true);
    let node = thread.walk(caller, session);
    thread.record(4, session, clock::now, |words, stamp| {
        // SAFETY: four words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind::ALLOCATE));
            words.add(1).write(address as u64);
            words.add(2).write(size as u64);
            words.add(3).write(u64::from(node) | surplus(size, usable) << 32);
        }
    });
    thread.ring.set_busy(false);
}

/// A block is about to be given back.
#[inline]
pub fn freeing(address: *mut u8) {
    let Some(thread) = Thread::current() else { return };
    let session = session::session();
    thread.ring.set_busy(true);
    thread.record(2, session, clock::before_next, |words, stamp| {
        // SAFETY: two words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind::FREE));
            words.add(1).write(address as u64);
        }
    });
    thread.ring.set_busy(false);
}

/// A block is about to be resized; true if [`reallocated`] must be told so. Only needed where another thread could be given
/// the old place before the event is recorded.
#[inline]
pub fn reallocating(address: *mut u8) -> bool {
    let session = session::session();
    if !session.has_several_threads() {
        return false;
    }
    let Some(thread) = Thread::current() else { return false };
    thread.ring.set_busy(true);
    thread.record(2, session, clock::before_next, |words, stamp| {
        // SAFETY: two words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind::REALLOC_BEGIN));
            words.add(1).write(address as u64);
        }
    });
    thread.ring.set_busy(false);
    true
}

/// A block was resized, and perhaps moved; `new` is null if that failed, which matters only if it was `begun`.
#[inline]
pub fn reallocated(old: *mut u8, new: *mut u8, size: usize, usable: usize, begun: bool, caller: Caller) {
    let Some(thread) = Thread::current() else { return };
    let session = session::session();
    thread.ring.set_busy(true);
    let node = thread.walk(caller, session);
    let kind = if begun { kind::REALLOC_END } else { kind::REALLOCATE };
    thread.record(5, session, clock::now, |words, stamp| {
        // SAFETY: five words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind));
            words.add(1).write(old as u64);
            words.add(2).write(new as u64);
            words.add(3).write(size as u64);
            words.add(4).write(u64::from(node) | surplus(size, usable) << 32);
        }
    });
    thread.ring.set_busy(false);
}

/// What the countdown is set to where nothing is recorded: it will not end soon.
const NEVER_SOON: u64 = 1 << 61;

/// Whether the allocation that is about to be made is to be recorded, in [`Mode::Sampled`]. The thread's countdown must have been brought
/// to its end by it, or not be set yet.
#[cold]
pub fn is_sample(size: usize) -> bool {
    let Some(thread) = Thread::current() else { return false };
    if !thread.has_drawn {
        thread.has_drawn = true;
        let left = thread.distances.draw().saturating_sub(size.min(1 << 60) as i64);
        tls::set_countdown(left as u64);
        if left > 0 {
            return false;
        }
    }
    tls::set_countdown(thread.distances.draw() as u64);
    true
}

/// Counts an allocation down; true if it brought the countdown to its end.
#[inline(always)]
pub fn count_down(size: usize) -> bool {
    let left = (tls::countdown() as i64).wrapping_sub(size.min(1 << 60) as i64);
    tls::set_countdown(left as u64);
    left <= 0
}

/// Whether this thread is looking a function up, which may allocate.
pub fn is_looking_up() -> bool {
    tls::looking_up() != 0
}

/// Says whether it is.
pub fn set_looking_up(looking_up: bool) {
    tls::set_looking_up(looking_up.into());
}

/// Brings the countdown to its end, from where it cannot wrap.
#[cold]
pub fn count_anew() {
    tls::set_countdown(0);
}

/// This thread need not ask again soon: nothing is recorded.
#[cold]
pub fn rest() {
    tls::set_countdown(NEVER_SOON);
}

/// A mapping was made.
pub fn mapped(address: u64, length: u64, caller: Caller) {
    with_thread(|thread, session| {
        let node = thread.walk(caller, session);
        thread.record(4, session, clock::now, |words, stamp| {
            // SAFETY: four words were reserved.
            unsafe {
                words.write(stamp << 8 | u64::from(kind::MAP));
                words.add(1).write(address);
                words.add(2).write(length);
                words.add(3).write(u64::from(node));
            }
        });
    });
}

/// Unmaps by `unmap`, which tells whether it did, and records that it was before anyone can map there again.
pub fn unmapping(address: u64, length: u64, unmap: impl FnOnce() -> bool) {
    let mut unmap = Some(unmap);
    with_thread(|thread, session| {
        let Some(place) = thread.ring.reserve(3, session) else { return };
        let stamp = clock::before_next(session);
        if unmap.take().is_some_and(|unmap| unmap()) {
            // SAFETY: three words were reserved.
            unsafe {
                place.write(stamp << 8 | u64::from(kind::UNMAP));
                place.add(1).write(address);
                place.add(2).write(length);
            }
            thread.ring.publish(3, stamp, session);
        }
    });
    if let Some(unmap) = unmap {
        unmap();
    }
}

/// A mapping is about to be moved or resized. Where another thread could be given its place before that is recorded, it is recorded
/// that it begins, and true returned: [`remapped`] must follow then, even if it failed.
pub fn remapping(address: u64, length: u64) -> bool {
    let mut begun = false;
    if session::session().has_several_threads() {
        with_thread(|thread, session| {
            thread.record(3, session, clock::before_next, |words, stamp| {
                for (index, field) in
                    [stamp << 8 | u64::from(kind::REMAP_BEGIN), address, length].into_iter().enumerate()
                {
                    // SAFETY: three words were reserved.
                    unsafe { words.add(index).write(field) };
                }
            });
            begun = true;
        });
    }
    begun
}

/// A mapping was moved or resized; a new address of 0 says that it was not.
pub fn remapped(old: u64, old_length: u64, new: u64, new_length: u64, caller: Caller) {
    with_thread(|thread, session| {
        let node = thread.walk(caller, session);
        thread.record(6, session, clock::now, |words, stamp| {
            let fields = [stamp << 8 | u64::from(kind::REMAP), old, old_length, new, new_length, u64::from(node)];
            for (index, field) in fields.into_iter().enumerate() {
                // SAFETY: six words were reserved.
                unsafe { words.add(index).write(field) };
            }
        });
    });
}

/// The program names this instant.
pub fn mark(name: &[u8]) {
    with_thread(|thread, session| thread.record_text(kind::MARK, None, name, session));
}

/// A thread, by its kernel's number, was given a name.
pub fn thread_named(id: u32, name: &[u8]) {
    with_thread(|thread, session| thread.record_text(kind::RENAME, Some(id.into()), name, session));
}

/// Something may have been unloaded, if the loader's count is not what it was `before`.
pub fn unloaded(before: u64) {
    if unwind::objects::unload_count() != before {
        with_thread(|_, session| modules::check_after_unload(session));
    }
}

/// Whether mappings are to be recorded now.
pub fn records_mappings() -> bool {
    matches!(mode(), Mode::Exact | Mode::Sampled) && session::session().records_mappings()
}

/// Whether children are to be recorded too.
pub fn follows_children() -> bool {
    session::session().follows_children()
}

/// Whether this process ever began to record.
pub fn has_begun() -> bool {
    session::session().process() != 0
}

/// How many threads have recorded anything.
pub fn threads() -> u32 {
    session::session().threads()
}

/// Ends recording for good.
pub fn end() {
    session::session().end();
}

fn with_thread(work: impl FnOnce(&mut Thread, &'static session::Session)) {
    if !matches!(mode(), Mode::Exact | Mode::Sampled) {
        return;
    }
    let Some(thread) = Thread::current() else { return };
    thread.ring.set_busy(true);
    work(thread, session::session());
    thread.ring.set_busy(false);
}
