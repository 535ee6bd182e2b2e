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
//! * `ring`: the record, for a reader in another process; or [`live`]: the table of what is live, for one that may come at any time;
//! * [`session`]: beginning, forking, ending. [`children`]: programs that are started, with [`executable`]. [`modules`]: what addresses mean. [`sampling`]: recording only some.
#![no_std]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod arch;
pub mod children;
pub mod config;
pub mod executable;
pub mod live;
mod lock;
pub mod modules;
mod ring;
pub mod sampling;
pub mod session;
mod thread;
pub mod trie;
pub mod unwind;

pub use arch::here;
use arch::{clock, sys, tls};
pub use highwater_shm::hello_v1::VARIABLE;
use highwater_shm::ring_v1::kind;
pub use highwater_shm::ring_v1::mapping;
pub use live::Stats;
use session::Session;
pub use session::{
    Mode, PASS_ALLOCATIONS, PASS_FREES, begin_for_ourselves, begin_live, begin_or_not, end_before_filter,
    look_for_orders, mode, stay_out_of_own_allocator,
};
use thread::Thread;
pub use thread::leave_out as leave_this_thread_out;
pub use unwind::walk::State as Caller;

/// Bytes that a block of this size can be expected to hold: what the common C library gives.
#[inline(always)]
pub fn expected_usable(size: usize) -> usize {
    (size.wrapping_add(8 + 15) & !15).max(32).wrapping_sub(8)
}

#[inline(always)]
fn surplus(size: usize, usable: usize) -> i32 {
    let surplus = usable.wrapping_sub(expected_usable(size)) as isize;
    surplus.clamp(i32::MIN as isize, i32::MAX as isize) as i32
}

/// A stack and a surplus in one word.
#[inline(always)]
fn node_and_surplus(node: u32, surplus: i32) -> u64 {
    u64::from(node) | u64::from(surplus as u32) << 32
}

/// A block was handed out. `usable` is what it can really hold.
#[inline]
pub fn allocated(address: *mut u8, size: usize, usable: usize, caller: Caller) {
    let Some(thread) = Thread::current() else { return };
    let session = session::session();
    thread.ring.set_busy(true);
    if session.is_live() {
        // By the time the stack is known it is there.
        live::expect(address as u64);
    }
    let node = thread.walk(caller, session);
    let surplus = surplus(size, usable);
    if session.is_live() {
        live::allocated(thread, session, address as u64, size as u64, surplus, node);
        return thread.ring.set_busy(false);
    }
    thread.record(4, session, clock::now, |words, stamp| {
        // SAFETY: four words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind::ALLOCATE));
            words.add(1).write(address as u64);
            words.add(2).write(size as u64);
            words.add(3).write(node_and_surplus(node, surplus));
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
    if session.is_live() {
        live::freeing(thread, session, address as u64, live::settings::every_block_is_known());
        return thread.ring.set_busy(false);
    }
    thread.record(2, session, clock::before_next, |words, stamp| {
        // SAFETY: two words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind::FREE));
            words.add(1).write(address as u64);
        }
    });
    thread.ring.set_busy(false);
}

/// A block was handed out in a live process, by the stack of a node that the caller knows already.
#[inline]
pub fn allocated_at(address: u64, size: u64, node: u32) {
    let Some(thread) = Thread::current() else { return };
    thread.ring.set_busy(true);
    live::expect(address);
    live::allocated(thread, session::session(), address, size, 0, node);
    thread.ring.set_busy(false);
}

/// Where only samples go into the live table, and a block is about to be given back that is none: it may be older than that.
#[cold]
pub fn freeing_older(address: *mut u8) {
    if live::settings::knows_exact_blocks() {
        with_thread(|thread, session| live::freeing(thread, session, address as u64, false));
    }
}

/// Whether the table has blocks that were not sampled, so that [`freeing_older`] must be told of every free.
#[inline(always)]
pub fn knows_older_blocks() -> bool {
    session::session().is_live() && live::settings::knows_exact_blocks()
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
    if session.is_live() {
        live::reallocating(thread, session, address as u64);
        thread.ring.set_busy(false);
        return true;
    }
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
    let surplus = surplus(size, usable);
    if session.is_live() {
        let resized = live::Resized { size: size as u64, surplus, node, begun };
        live::reallocated(thread, session, old as u64, new as u64, resized);
        return thread.ring.set_busy(false);
    }
    let kind = if begun { kind::REALLOC_END } else { kind::REALLOCATE };
    thread.record(5, session, clock::now, |words, stamp| {
        // SAFETY: five words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind));
            words.add(1).write(old as u64);
            words.add(2).write(new as u64);
            words.add(3).write(size as u64);
            words.add(4).write(node_and_surplus(node, surplus));
        }
    });
    thread.ring.set_busy(false);
}

/// Bytes that a thread of a live process allocates at most before it looks whether its settings have changed.
const STEP: i64 = 64 << 10;
/// Bytes that a thread of a dormant process allocates before it looks whether that is over.
const DORMANT_STEP: u64 = 16 << 10;
/// What the countdown is set to where nothing is recorded: it will not end soon.
const NEVER_SOON: u64 = 1 << 61;

/// Whether the allocation that is about to be made is to be recorded, in [`Mode::Sampled`]. The thread's countdown must have been brought
/// to its end by it, or not be set yet.
#[cold]
pub fn is_sample(size: usize) -> bool {
    let Some(thread) = Thread::current() else { return false };
    if session::session().is_live() {
        live::settings::look_at(live::control().load());
    } else if session::session().is_dormant() {
        look_for_orders();
    }
    let settings = Some(live::settings::number().wrapping_add(session::session().wakes()));
    let left = if thread.drawn_for == settings {
        (tls::countdown() as i64).saturating_add(thread.beyond)
    } else {
        thread.drawn_for = settings;
        thread.distances.draw().saturating_sub(size.min(1 << 60) as i64)
    };
    let is_sample = left <= 0;
    let left = if is_sample { thread.distances.draw() } else { left };
    // In steps, each of which ends here: so that new settings are soon noticed.
    let step = if session::session().is_live() { left.min(STEP) } else { left };
    tls::set_countdown(step as u64);
    thread.beyond = left - step;
    is_sample && mode() == Mode::Sampled
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

/// Whether the countdown is at its end.
#[inline(always)]
pub fn has_counted_down() -> bool {
    tls::countdown() as i64 <= 0
}

/// This thread need not ask again soon: nothing is recorded.
#[cold]
pub fn rest() {
    tls::set_countdown(if session::session().is_dormant() { DORMANT_STEP } else { NEVER_SOON });
}

/// A mapping was made; `what` is one of [`mapping`].
pub fn mapped(address: u64, length: u64, what: u32, caller: Caller) {
    record_mapping(kind::MAP, address, length, what, caller, live::mappings::mapped);
}

/// The protection of memory was changed: `what` says whether the program can touch it now.
pub fn protected(address: u64, length: u64, what: u32, caller: Caller) {
    record_mapping(kind::PROTECT, address, length, what, caller, live::mappings::protected);
}

fn record_mapping(
    record: u8,
    address: u64,
    length: u64,
    what: u32,
    caller: Caller,
    keep: impl FnOnce(&mut Thread, &Session, u64, u64, u32, u32),
) {
    with_thread(|thread, session| {
        let node = thread.walk(caller, session);
        if session.is_live() {
            return keep(thread, session, address, length, what, node);
        }
        thread.record(4, session, clock::now, |words, stamp| {
            // SAFETY: four words were reserved.
            unsafe {
                words.write(stamp << 8 | u64::from(record));
                words.add(1).write(address);
                words.add(2).write(length);
                words.add(3).write(u64::from(what) << 32 | u64::from(node));
            }
        });
    });
}

/// Unmaps by `unmap`, which tells whether it did, and records that it was before anyone can map there again.
pub fn unmapping(address: u64, length: u64, unmap: impl FnOnce() -> bool) {
    let mut unmap = Some(unmap);
    with_thread(|thread, session| {
        if session.is_live() {
            // Before, so that nobody can map there in between. (It fails only where there are too many mappings for one to be cut in two.)
            return live::mappings::unmapping(thread, session, address, length);
        }
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
    if session::session().is_live() || session::session().has_several_threads() {
        with_thread(|thread, session| {
            begun = true;
            if session.is_live() {
                return live::mappings::remapping(thread, session, address, length);
            }
            thread.record(3, session, clock::before_next, |words, stamp| {
                for (index, field) in
                    [stamp << 8 | u64::from(kind::REMAP_BEGIN), address, length].into_iter().enumerate()
                {
                    // SAFETY: three words were reserved.
                    unsafe { words.add(index).write(field) };
                }
            });
        });
    }
    begun
}

/// A mapping was moved or resized; a new address of 0 says that it was not.
pub fn remapped(old: u64, old_length: u64, new: u64, new_length: u64, caller: Caller) {
    with_thread(|thread, session| {
        let node = thread.walk(caller, session);
        if session.is_live() {
            let (old, new) = ((old, old_length), (new, new_length));
            return live::mappings::remapped(thread, session, old, new, node);
        }
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
    with_thread(|thread, session| {
        if !session.is_live() {
            thread.record_text(kind::MARK, None, name, session);
        }
    });
}

/// Has a snapshot of this process taken now, and kept under a name. False if it is not live, or no collector is there.
pub fn take_named_snapshot(name: &[u8]) -> bool {
    let session = session::session();
    is_live() && live::register::ask_for_snapshot(session.config(), name)
}

/// Whether this process keeps a live table.
pub fn is_live() -> bool {
    matches!(mode(), Mode::Exact | Mode::Sampled) && session::session().is_live()
}

/// What the process has allocated and freed since its live table began; `None` if it keeps none. Estimated where only samples are in it.
pub fn global_stats() -> Option<Stats> {
    is_live().then(live::stats)
}

/// What the calling thread has allocated and freed since then; of samples only those.
pub fn thread_stats() -> Option<Stats> {
    let mut stats = None;
    if is_live() {
        with_thread(|thread, _| stats = Some(thread.own.stats));
    }
    stats
}

/// The calling thread, whose kernel's number is `id`, was given a name.
pub fn thread_named(id: u32, name: &[u8]) {
    with_thread(|thread, session| {
        if session.is_live() {
            return live::name_thread(thread, name);
        }
        thread.record_text(kind::RENAME, Some(id.into()), name, session);
    });
}

/// Something may have been unloaded, if the loader's count is not what it was `before`.
pub fn unloaded(before: u64) {
    if unwind::objects::unload_count() != before {
        if mode() == Mode::Off && session::session().is_dormant() {
            // What was loaded is of interest later.
            return modules::check_after_unload(session::session());
        }
        with_thread(|_, session| modules::check_after_unload(session));
    }
}

/// Whether mappings are to be recorded now.
pub fn records_mappings() -> bool {
    let mode = if session::session().is_dormant() { look_for_orders() } else { mode() };
    matches!(mode, Mode::Exact | Mode::Sampled) && session::session().records_mappings()
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

/// Whether this process was forked from one that records, and has not begun anew.
pub fn is_forked() -> bool {
    mode() == Mode::New && has_begun()
}

/// Settles that nothing is recorded for now, where nobody has decided yet.
pub fn stay_off() {
    session::stay_off();
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
