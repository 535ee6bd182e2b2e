//! The part that runs inside a recorded program.
//!
//! The program must never notice it: it takes nothing from the program's heap, takes no lock that a program's thread could hold while
//! it waits, opens no file that stays open, never panics, never changes `errno`, and stops when there is no reader any more.
//!
//! The hooks (the preload library's, or the crate's global allocator) call [`allocated`] after the real allocation and
//! [`freeing`] before the real free; both cost some tens of nanoseconds. In between:
//!
//! * [`unwind`]: the call stack, by the compiler's tables or else by frame pointers, verified rather than walked where it has not changed;
//! * [`trie`]: the stack as a number;
//! * `ring`: the record, for a reader in another process; or [`live`]: the table of live blocks, for a reader that may come at any time;
//! * [`session`]: beginning, forking, ending. [`children`]: programs that are started, with [`executable`]. [`modules`]: the modules that addresses lie in.
//!   [`switch`]: whether and what it records. [`sampling`]: recording only some blocks. [`task`]: the parts of its work that the program names.
//!
//! # Design
//!
//! **The hot path** (`agent`). A hook calls the real function, walks the stack, takes a stamp, writes a record of 16 or 32 bytes into the thread's own
//! ring and publishes it with one store. No lock, no system call, no heap, no `errno`. Reading the clock twice is half of the cost. A free has no stack, unless
//! the recorder asks for it (`freeing_by`).
//!
//! * *Unwinding by rules, verified instead of repeated* (`unwind/walk.rs`). The `.eh_frame` rule for a return address is cached in 31 bits (`rules.rs`). A thread
//!   remembers its last stack as states (return address, stack pointer, frame pointer) and the words that were read between them. The next walk stops at the
//!   first state that it remembers, and compares the remembered words from there outwards. Equal words mean an equal stack, by induction; nothing is guessed.
//!   The frame pointer register is compared only where a rule further out uses it: in most code it is an ordinary register, and different every time. The last
//!   eight *tips* (a few innermost frames on remembered ones) are kept as well, for functions that allocate in several places.
//!   Rules that need more (signal frames, realigned stacks, linkage stubs) run the whole row of the table. Rules that need registers which the walk
//!   does not follow unwind once more with all registers, starting inside the agent (`arch/x86_64/registers.rs`).
//!   Code without tables (JIT code, V8's builtins) is walked by its frame pointer, which is a rule like others; its steps are checked (`unwind/frame_pointer.rs`).
//! * *The stack is read without faulting* (`memory.rs`): within a window of the thread's own stack that was found readable page by page; elsewhere after asking
//!   the kernel.
//! * *Stacks are a trie in shared memory*, so a record has a number. Remembered frames carry their node; only new frames are looked up. Before the index, the
//!   node that was made after the last one found is tried: stacks recur in the order in which they were first met.
//! * *The loader is asked for modules* (`_dl_find_object`, no lock) when an address is new. There is no need to intercept `dlopen`, which would change what
//!   it finds. `dlclose` is intercepted: unloading begins a new generation, in which the same address may be another function. Rules, remembered stacks and
//!   the trie's index are forgotten then; each node has its generation.
//! * *The clock is fenced only if there is another thread* whose work could have been seen. The documentation of `clock::now` says why it is fenced at all.
//!
//! **Order.** An allocation is recorded after the real one, a free before it. A reallocation that moves frees one address and takes another at two different
//! moments: if there are several threads it is two records. At the first, the ledger sets the old block aside (`AddressLedger::set_aside`); the event is
//! the second. So it is one event, and a block that was given the old address in between is not taken for a duplicate. In the accounts the block set aside stays
//! as it was, at its old address, so a keyframe written in between is what a replay gives.
//!
//! **Life and death.** The agent makes a sealed memory object, hands it to the recorder over a socket, and closes both: a program that looks at its
//! descriptors sees none of ours, and one that closes them all does no harm. Since the recorder holds the memory too, a program that is killed leaves
//! everything it published. When a ring is full, the agent finds out by the socket whether the recorder is gone; the program then continues unrecorded. The
//! switch that every hook reads lies on a page that the kernel wipes on every kind of fork: the child finds it zero before it can write into its parent's
//! rings, and begins a session of its own. A ring belongs to a thread until the kernel does not know that thread any more: no hook at a thread's end is
//! needed, and none could be late enough.
//!
//! **Programs that are started** (`preload/exec.rs`, `agent/children.rs`, `agent/executable.rs`). Children load the library by two variables of their
//! environment. The functions that start programs are hooked: if the library would do harm (sanitizers, another C library, a seccomp filter) or could not be
//! loaded (another root directory, other rights), the two variables are taken out. This runs between fork and exec, perhaps in the memory of a parent that
//! waits: no heap, no lock, a changed environment on the stack. Programs started without the library are noted in the header of the shared memory, which a
//! forked child without a session can write too. The command classifies executables by the same code before it starts a program; `symbols/allocator.rs` finds
//! allocators that a program links into itself under other names, when the program begins.
//!
//! **Sampling.** `malloc`'s entry reads one byte, which says whether everything is recorded, and a countdown in the thread's own storage. Until the countdown
//! ends, and for ever if nothing is recorded, the real function does the rest. A free recognizes sampled blocks by their addresses (`sampling.rs`). The
//! weight follows from size and mean, so records carry none; files do, because other sources weigh differently.
#![no_std]
#![cfg_attr(feature = "injected", allow(dead_code, reason = "an injected agent begins no session by itself"))]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod arch;
pub mod children;
pub mod config;
pub mod executable;
#[cfg(feature = "injected")]
pub mod injected;
pub mod live;
mod lock;
mod memory_source;
pub mod modules;
pub mod private_memory;
mod ring;
pub mod sampling;
pub mod session;
#[cfg_attr(feature = "injected", path = "switch_of_image.rs")]
pub mod switch;
pub mod task;
mod thread;
pub mod trie;
pub mod unwind;

pub use arch::here;
use arch::{clock, sys, tls};
use core::sync::atomic::Ordering;
pub use highwater_shm::hello_v1::VARIABLE;
use highwater_shm::ring_v1::kind;
pub use highwater_shm::ring_v1::mapping;
use highwater_shm::session_v1::READS_RETURNS;
pub use live::Stats;
use session::Session;
pub use session::{
    AgentMode, PASS_ALLOCATIONS, PASS_FREES, begin_for_ourselves, begin_live, begin_or_not, begin_recorded,
    end_before_filter, follow_reader, leave_to_linked_library, mode, stay_out_of_own_allocator,
};
use thread::AgentThread;
pub use thread::leave_out as leave_this_thread_out;
pub use unwind::walk::FrameState as Caller;

/// Bytes that a block of this size can be expected to hold: the usable size in the common C library.
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

/// A block was allocated. `usable` is the size it can really hold.
#[inline]
pub fn allocated(address: *mut u8, size: usize, usable: usize, caller: Caller) {
    let Some(thread) = AgentThread::current() else { return };
    let session = session::session();
    thread.ring.set_busy(true);
    if session.is_live() {
        // By the time the stack is known, the slot is in the cache.
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

/// A block is about to be freed.
#[inline]
pub fn freeing(address: *mut u8) {
    freeing_if_known(address);
}

/// The same; false if the live table does not have the block.
#[inline(always)]
fn freeing_if_known(address: *mut u8) -> bool {
    let Some(thread) = AgentThread::current() else { return true };
    let session = session::session();
    thread.ring.set_busy(true);
    if session.is_live() {
        let known = live::freeing(thread, session, address as u64, live::settings::every_block_is_known());
        thread.ring.set_busy(false);
        return known;
    }
    thread.record(2, session, clock::before_next, |words, stamp| {
        // SAFETY: two words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind::FREE));
            words.add(1).write(address as u64);
        }
    });
    thread.ring.set_busy(false);
    true
}

/// As [`freeing`], with the stack of the caller if the recorder wants stacks of frees.
#[inline]
pub fn freeing_by(address: *mut u8, caller: Caller) {
    if session::session().records_free_stacks() {
        return freeing_with_stack(address, caller);
    }
    freeing(address);
}

/// As [`freeing_by`]; false if the live table does not have the block.
#[cfg(feature = "injected")]
#[inline]
pub fn freeing_known_by(address: *mut u8, caller: Caller) -> bool {
    if session::session().records_free_stacks() {
        freeing_with_stack(address, caller);
        return true;
    }
    freeing_if_known(address)
}

#[inline(never)]
fn freeing_with_stack(address: *mut u8, caller: Caller) {
    let Some(thread) = AgentThread::current() else { return };
    let session = session::session();
    thread.ring.set_busy(true);
    let node = thread.walk(caller, session);
    thread.record(3, session, clock::before_next, |words, stamp| {
        // SAFETY: three words were reserved.
        unsafe {
            words.write(stamp << 8 | u64::from(kind::FREE_BY));
            words.add(1).write(address as u64);
            words.add(2).write(u64::from(node));
        }
    });
    thread.ring.set_busy(false);
}

/// A block was allocated in a live process, by the stack of a node that the caller already knows.
#[inline]
pub fn allocated_at(address: u64, size: u64, node: u32) {
    let Some(thread) = AgentThread::current() else { return };
    thread.ring.set_busy(true);
    live::expect(address);
    live::allocated(thread, session::session(), address, size, 0, node);
    thread.ring.set_busy(false);
}

/// A block that is no sample is about to be freed, while only samples go into the live table: it may be older than the sampling.
#[cold]
pub fn freeing_older(address: *mut u8) {
    if live::settings::knows_exact_blocks() {
        with_thread(|thread, session| _ = live::freeing(thread, session, address as u64, false));
    }
}

/// Whether the table has blocks that were not sampled, so that [`freeing_older`] must be called for every free.
#[inline(always)]
pub fn knows_older_blocks() -> bool {
    session::session().is_live() && live::settings::knows_exact_blocks()
}

/// A block is about to be resized. Returns true if the caller must pass `begun` to [`reallocated`]. Only needed if another thread could be given
/// the old address before the event is recorded.
#[inline]
pub fn reallocating(address: *mut u8) -> bool {
    let session = session::session();
    if !session.has_several_threads() {
        return false;
    }
    let Some(thread) = AgentThread::current() else { return false };
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

/// A block was resized, and perhaps moved; `new` is null if that failed, which matters only if it was `begun`. Returns false if it is known that the old one was not in
/// the live table.
#[inline]
pub fn reallocated(old: *mut u8, new: *mut u8, size: usize, usable: usize, begun: bool, caller: Caller) -> bool {
    let Some(thread) = AgentThread::current() else { return true };
    let session = session::session();
    thread.ring.set_busy(true);
    let node = thread.walk(caller, session);
    let surplus = surplus(size, usable);
    if session.is_live() {
        let resized = live::Resized { size: size as u64, surplus, node, begun };
        let was_known = live::reallocated(thread, session, old as u64, new as u64, resized);
        thread.ring.set_busy(false);
        return was_known;
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
    true
}

/// The maximum number of bytes that a thread of a live process allocates before it checks whether its settings have changed.
const STEP: i64 = 64 << 10;
/// The number of bytes that a thread of a dormant process allocates before it checks whether to record.
const DORMANT_STEP: u64 = 16 << 10;
/// The value of the countdown while nothing is recorded: it will not end soon.
const NEVER_SOON: u64 = 1 << 61;

/// Whether the allocation that is about to be made is to be recorded, in [`AgentMode::Sampled`]. The thread's countdown must have ended
/// with it, or not be set yet.
#[cold]
pub fn is_sample(size: usize) -> bool {
    let Some(thread) = AgentThread::current() else { return false };
    if session::session().is_live() {
        live::settings::look_at(live::control().load());
    } else if session::session().is_dormant() {
        follow_reader();
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
    // In steps, each of which ends here, so that new settings are soon noticed.
    let step = if session::session().is_live() { left.min(STEP) } else { left };
    tls::set_countdown(step as u64);
    thread.beyond = left - step;
    is_sample && mode() == AgentMode::Sampled
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

/// Sets whether it is.
pub fn set_looking_up(looking_up: bool) {
    tls::set_looking_up(looking_up.into());
}

/// Whether the countdown is at its end.
#[inline(always)]
pub fn has_counted_down() -> bool {
    tls::countdown() as i64 <= 0
}

/// Nothing is recorded: this thread need not ask again soon.
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
    keep: impl FnOnce(&mut AgentThread, &Session, u64, u64, u32, u32),
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

/// The program gave memory back and keeps the mapping, or asked for it again.
pub fn returned(address: u64, length: u64, is_returned: bool) {
    with_thread(|thread, session| {
        if session.is_live() {
            return live::mappings::given_back(session, address, length, is_returned);
        }
        thread.record(4, session, clock::now, |words, stamp| {
            let fields = [stamp << 8 | u64::from(kind::RETURN), address, length, u64::from(is_returned)];
            for (index, field) in fields.into_iter().enumerate() {
                // SAFETY: four words were reserved.
                unsafe { words.add(index).write(field) };
            }
        });
    });
}

/// Whether the reader has said that it knows [`returned`] memory. A recorder says so soon after it has connected.
pub fn reads_returns() -> bool {
    let session = session::session();
    session.is_live() || session.header().provides.load(Ordering::Relaxed) & READS_RETURNS != 0
}

/// Unmaps by `unmap`, which returns whether it succeeded, and records that before another thread can map there again. The stack of the caller is recorded
/// too if the recorder wants stacks of frees.
pub fn unmapping(address: u64, length: u64, caller: Caller, unmap: impl FnOnce() -> bool) {
    let mut unmap = Some(unmap);
    with_thread(|thread, session| {
        if session.is_live() {
            // Before, so that no other thread can map there in between. (It fails only if there are too many mappings for one to be split.)
            return live::mappings::unmapping(thread, session, address, length);
        }
        let node = session.records_free_stacks().then(|| thread.walk(caller, session));
        let (kind, words) = if node.is_some() { (kind::UNMAP_BY, 4) } else { (kind::UNMAP, 3) };
        let Some(record) = thread.ring.reserve(words, session) else { return };
        let stamp = clock::before_next(session);
        if unmap.take().is_some_and(|unmap| unmap()) {
            let fields = [stamp << 8 | u64::from(kind), address, length, u64::from(node.unwrap_or(0))];
            for (index, field) in fields.into_iter().take(words).enumerate() {
                // SAFETY: this number of words was reserved.
                unsafe { record.add(index).write(field) };
            }
            thread.ring.publish(words, stamp, session);
        }
    });
    if let Some(unmap) = unmap {
        unmap();
    }
}

/// A mapping is about to be moved or resized. If another thread could be given its address before that is recorded, records
/// the beginning and returns true: [`remapped`] must follow then, even if it failed.
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

/// A mapping was moved or resized; a new address of 0 means that it failed. An old length of 0 means that the mapping stays, and there is another one.
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

/// Has a snapshot of this process taken now, and kept under a name. False if the process is not live, or there is no collector.
pub fn take_named_snapshot(name: &[u8]) -> bool {
    let session = session::session();
    is_live() && live::register::ask_for_snapshot(session.config(), name)
}

/// Whether this process keeps a live table.
pub fn is_live() -> bool {
    matches!(mode(), AgentMode::Exact | AgentMode::Sampled) && session::session().is_live()
}

/// Allocations and frees of the process since its live table began; `None` if it keeps none. Estimated if the table has only samples.
pub fn global_stats() -> Option<Stats> {
    is_live().then(live::stats)
}

/// Allocations and frees of the calling thread since then; if only samples are recorded, of those alone.
pub fn thread_stats() -> Option<Stats> {
    let mut stats = None;
    if is_live() {
        with_thread(|thread, _| stats = Some(thread.own.stats));
    }
    stats
}

/// The calling thread, whose kernel thread id is `id`, was given a name.
pub fn thread_named(id: u32, name: &[u8]) {
    with_thread(|thread, session| {
        if session.is_live() {
            return live::name_thread(thread, name);
        }
        thread.record_text(kind::RENAME, Some(id.into()), name, session);
    });
}

/// A module may have been unloaded, if the loader's count differs from `before`.
pub fn unloaded(before: u64) {
    if unwind::objects::unload_count() != before {
        if mode() == AgentMode::Off && session::session().is_dormant() {
            // The list of loaded modules will be needed later.
            return modules::check_after_unload(session::session());
        }
        with_thread(|_, session| modules::check_after_unload(session));
    }
}

/// Whether mappings are to be recorded now.
pub fn records_mappings() -> bool {
    let mode = if session::session().is_dormant() { follow_reader() } else { mode() };
    matches!(mode, AgentMode::Exact | AgentMode::Sampled) && session::session().records_mappings()
}

/// Whether children are to be recorded too.
pub fn follows_children() -> bool {
    session::session().follows_children()
}

/// Whether this process ever began to record.
pub fn has_begun() -> bool {
    session::session().process() != 0
}

/// The number of threads that have recorded anything.
pub fn threads() -> u32 {
    session::session().threads()
}

/// Whether this process was forked from one that records, and has not begun a session of its own.
pub fn is_forked() -> bool {
    mode() == AgentMode::New && has_begun()
}

/// Sets the mode to off for now, unless a session has decided already.
pub fn stay_off() {
    session::stay_off();
}

/// Ends recording for good.
pub fn end() {
    session::session().end();
}

fn with_thread(work: impl FnOnce(&mut AgentThread, &'static session::Session)) {
    if !matches!(mode(), AgentMode::Exact | AgentMode::Sampled) {
        return;
    }
    let Some(thread) = AgentThread::current() else { return };
    thread.ring.set_busy(true);
    work(thread, session::session());
    thread.ring.set_busy(false);
}
