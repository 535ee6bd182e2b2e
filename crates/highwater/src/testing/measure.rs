//! Open measures, the threads that they belong to, and what the allocator does for them.
//!
//! A measure counts what threads allocate while they are *in* it. It is theirs from then on: the free of a block counts for the measures that the block
//! belongs to, whichever thread frees it, in a measure or not. A measure within another one counts for both.
//!
//! Measures are never unmapped, but used again, so a pointer to one is always valid. Their generation says which use is meant.

use super::accounts::{BlockWeight, HeapUse, MeasureAccounts};
use super::block_table::{self, BlockEntry, Shard, shard_of};
use highwater_agent::private_memory::{self, AreaUse};
use highwater_agent::unwind::call_stack::{self, call_stack};
use highwater_agent::unwind::memory::StackWindow;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of open measures. While it is 0, the allocator does nothing for them.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// Counts the allocations of all measures.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Measures that can be used again.
static UNUSED: Mutex<UnusedMeasures> = Mutex::new(UnusedMeasures(std::ptr::null()));

/// The frames that a stack is kept with.
const MOST_FRAMES: usize = 128;
/// Keys from here on are no addresses: of blocks that are being reallocated.
const FIRST_TRANSIT: u64 = 1 << 63;

/// A measure, open or not.
pub(super) struct Measure {
    state: Mutex<MeasureState>,
    /// Handles of it, in threads too.
    handles: AtomicUsize,
    /// Threads that are in it by a handle.
    threads: AtomicUsize,
}

struct MeasureState {
    generation: u64,
    is_open: bool,
    /// The measure that it lies in.
    outer: Option<Handle>,
    accounts: MeasureAccounts,
    /// Events that there was no memory for.
    lost: u64,
    next_unused: *const Measure,
}

// SAFETY: measures are never unmapped, and their state is locked.
unsafe impl Send for MeasureState {}

struct UnusedMeasures(*const Measure);
// SAFETY: as above.
unsafe impl Send for UnusedMeasures {}

/// The last allocation of a thread, which outlives it: its blocks may.
pub(super) struct ThreadMark(AtomicU64);

struct ThreadState {
    /// The innermost measure that the thread is in.
    measure: Cell<*const Measure>,
    /// The allocator is at work for measures.
    is_busy: Cell<bool>,
    mark: Cell<*const ThreadMark>,
    window: UnsafeCell<StackWindow>,
}

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            measure: Cell::new(std::ptr::null()),
            is_busy: Cell::new(false),
            mark: Cell::new(std::ptr::null()),
            window: UnsafeCell::new(StackWindow::unknown()),
        }
    };
}

impl Measure {
    fn state(&self) -> MutexGuard<'_, MeasureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A measure that threads can enter: what they allocate there counts for it, and for the measures around it.
///
/// The thread may be in another measure when it enters:
///
/// * The handle's measure has ended, or there is none: the thread stays where it is. If a measure around the ended one is still open, the thread enters that one.
/// * The thread's measure is the handle's, or lies within it: the thread stays, since both count already.
/// * Otherwise the work counts for the handle's measure and not for the one that the thread was in. A thread of a pool that takes over work of another
///   test while it waits needs this: the figures of tests must not mix.
#[derive(Debug)]
pub struct Handle(*const Measure);

// SAFETY: measures are never unmapped, and any thread may use them.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// The measure that the calling thread is in.
    pub fn current() -> Self {
        // SAFETY: the thread is in it, so it is in use.
        unsafe { Self::of(THREAD.with(|thread| thread.measure.get())) }
    }

    /// SAFETY: null, or a measure that is in use.
    unsafe fn of(measure: *const Measure) -> Self {
        // SAFETY: the caller's.
        if let Some(measure) = unsafe { measure.as_ref() } {
            measure.handles.fetch_add(1, Ordering::Relaxed);
        }
        Self(measure)
    }

    fn measure(&self) -> Option<&Measure> {
        // SAFETY: null, or never unmapped.
        unsafe { self.0.as_ref() }
    }

    /// Runs `work` on the calling thread, in the measure.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _joined = self.clone().join();
        work()
    }

    /// The calling thread is in the measure until the guard is dropped.
    pub(super) fn join(self) -> Joined {
        let entered = self.into_open().filter(|open| !is_in(open.0));
        let inside = entered.as_ref().and_then(Self::measure).map(|measure| {
            measure.threads.fetch_add(1, Ordering::Relaxed);
            Inside::of(measure)
        });
        Joined { _inside: inside, entered }
    }

    /// Its measure, or the innermost one around it that is open.
    fn into_open(mut self) -> Option<Self> {
        loop {
            let outer = {
                let state = self.measure()?.state();
                (!state.is_open).then(|| state.outer.clone())
            };
            match outer {
                None => return Some(self),
                Some(outer) => self = outer?,
            }
        }
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        // SAFETY: this handle keeps it in use.
        unsafe { Self::of(self.0) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Some(measure) = self.measure() else { return };
        if measure.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let outer = {
            let mut state = measure.state();
            state.accounts.clear();
            let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
            state.next_unused = std::mem::replace(&mut unused.0, self.0);
            state.outer.take()
        };
        drop(outer);
    }
}

/// A thread is in a measure, which is not always the one that began on it.
pub(super) struct Joined {
    _inside: Option<Inside>,
    /// The measure, unless the thread stayed where it was.
    entered: Option<Handle>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(measure) = self.entered.as_ref().and_then(Handle::measure) {
            measure.threads.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The calling thread is in a measure, or in none, while this lives. The measure stays in use for as long.
struct Inside {
    before: *const Measure,
    not_send: PhantomData<*const ()>,
}

impl Inside {
    fn of(measure: *const Measure) -> Self {
        let before = THREAD.with(|thread| thread.measure.replace(measure));
        Self { before, not_send: PhantomData }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.measure.set(self.before));
    }
}

/// Whether what the calling thread allocates counts for a measure.
fn is_in(measure: *const Measure) -> bool {
    let mut is_in = false;
    THREAD.with(|thread| thread.for_each_measure(|at| is_in |= at == measure));
    is_in
}

/// Runs `work`, whose allocations do not count.
pub(super) fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let _outside = Inside::of(std::ptr::null());
    work()
}

/// An open measure that the calling thread is in, until it is dropped.
pub(super) struct OpenMeasure {
    handle: Handle,
    inside: Option<Inside>,
}

/// What an open measure has counted so far.
pub(super) struct Counted {
    pub(super) total: HeapUse,
    /// Return addresses, innermost first, and figures.
    pub(super) sites: Vec<(Box<[u64]>, HeapUse)>,
    /// Threads that are in it, besides the one that began it.
    pub(super) threads: usize,
    /// Events that there was no memory for.
    pub(super) lost: u64,
}

impl OpenMeasure {
    /// Begins a measure within the one that the thread is in. `None` if there is no memory.
    pub(super) fn begin() -> Option<Self> {
        if !call_stack::prepare() {
            return None;
        }
        let outer = Handle::current();
        let measure = unused_measure()?;
        {
            // SAFETY: never unmapped.
            let mut state = unsafe { (*measure).state() };
            state.generation += 1;
            state.is_open = true;
            state.lost = 0;
            state.outer = Some(outer);
        }
        OPEN.fetch_add(1, Ordering::SeqCst);
        // SAFETY: in use from now on.
        let handle = unsafe { Handle::of(measure) };
        Some(Self { handle, inside: Some(Inside::of(measure)) })
    }

    fn measure(&self) -> &Measure {
        // SAFETY: the handle of a measure that is in use.
        unsafe { &*self.handle.0 }
    }

    /// What it has counted so far.
    pub(super) fn counted(&self) -> Counted {
        uncounted(|| {
            let (mut frames, mut sites) = (Vec::<u64>::new(), Vec::<(usize, HeapUse)>::new());
            // No heap while the lock is held: an allocation may have to wait for a thread that waits for the lock.
            let (total, lost) = loop {
                let (frame_count, site_count) = self.measure().state().accounts.sizes();
                frames.reserve(frame_count);
                sites.reserve(site_count);
                let state = self.measure().state();
                let (frame_count, site_count) = state.accounts.sizes();
                if frame_count <= frames.capacity() && site_count <= sites.capacity() {
                    for (stack, used) in state.accounts.sites() {
                        frames.extend_from_slice(stack);
                        sites.push((stack.len(), used));
                    }
                    break (state.accounts.total(), state.lost);
                }
            };
            let mut rest = &frames[..];
            let sites = sites.iter().map(|&(depth, used)| {
                let (stack, others) = rest.split_at(depth);
                rest = others;
                (stack.into(), used)
            });
            let sites = sites.collect();
            Counted { total, sites, threads: self.measure().threads.load(Ordering::Relaxed), lost }
        })
    }

    /// The live blocks and bytes of each site so far.
    pub(super) fn live_by_site(&self) -> Vec<(u64, u64)> {
        uncounted(|| {
            let mut live = Vec::new();
            loop {
                let (_, site_count) = self.measure().state().accounts.sizes();
                live.reserve(site_count);
                let state = self.measure().state();
                if state.accounts.sizes().1 <= live.capacity() {
                    live.extend(state.accounts.sites().map(|(_, used)| (used.live_blocks, used.live_bytes)));
                    return live;
                }
            }
        })
    }

    /// Ends it. What happens to its blocks from now on does not count any more.
    pub(super) fn end(mut self) -> Counted {
        let has_ended = self.inside.take().is_some();
        debug_assert!(has_ended);
        self.measure().state().is_open = false;
        self.counted()
    }
}

impl Drop for OpenMeasure {
    fn drop(&mut self) {
        self.inside = None;
        let has_blocks = {
            let mut state = self.measure().state();
            state.is_open = false;
            let total = state.accounts.total();
            total.live_blocks > 0 || total.reallocations > 0 || state.lost > 0
        };
        // A block that was resized may have an entry that counts as nothing.
        if has_blocks {
            block_table::forget(self.handle.0);
        }
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }
}

fn unused_measure() -> Option<*const Measure> {
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: never unmapped.
    if let Some(measure) = unsafe { unused.0.as_ref() } {
        unused.0 = measure.state().next_unused;
        return Some(measure);
    }
    let memory = private_memory::take(size_of::<Measure>(), AreaUse::Various)?.cast::<Measure>();
    let state = MeasureState {
        generation: 0,
        is_open: false,
        outer: None,
        accounts: MeasureAccounts::new(),
        lost: 0,
        next_unused: std::ptr::null(),
    };
    // SAFETY: a page of its own, which is never given back.
    unsafe {
        memory.write(Measure { state: Mutex::new(state), handles: AtomicUsize::new(0), threads: AtomicUsize::new(0) });
    }
    Some(memory)
}

/// Whether the allocator has something to do for measures.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    OPEN.load(Ordering::Relaxed) > 0
}

/// Runs `work` unless the calling thread is within it.
fn with_thread<T>(work: impl FnOnce(&ThreadState) -> T) -> Option<T> {
    THREAD.with(|thread| {
        if thread.is_busy.replace(true) {
            return None;
        }
        let done = work(thread);
        thread.is_busy.set(false);
        Some(done)
    })
}

impl ThreadState {
    /// Runs `work` with the thread's stack.
    #[inline(never)]
    fn with_stack<T>(&self, work: impl FnOnce(&[u64]) -> T) -> T {
        let mut frames = [0; MOST_FRAMES];
        // SAFETY: the thread's own, and used nowhere else.
        let window = unsafe { &mut *self.window.get() };
        if window.is_unknown() {
            *window = call_stack::window_of_this_thread();
        }
        let depth = call_stack(window, &mut frames);
        work(&frames[..depth])
    }

    /// The thread's mark; null if there is no memory for one.
    fn mark(&self) -> *const ThreadMark {
        if self.mark.get().is_null() {
            self.mark.set(new_mark());
        }
        self.mark.get()
    }

    /// The measures that the thread is in, from the innermost.
    fn for_each_measure(&self, mut work: impl FnMut(*const Measure)) {
        let mut measure = self.measure.get();
        // SAFETY: the thread is in it, so it is in use, and keeps the outer ones in use.
        while let Some(at) = unsafe { measure.as_ref() } {
            work(measure);
            measure = at.state().outer.as_ref().map_or(std::ptr::null(), |outer| outer.0);
        }
    }
}

fn new_mark() -> *const ThreadMark {
    const BYTES: usize = 4096;
    struct Page(*mut ThreadMark, usize);
    // SAFETY: its pages are never given back.
    unsafe impl Send for Page {}
    static PAGE: Mutex<Page> = Mutex::new(Page(std::ptr::null_mut(), 0));
    let mut page = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    if page.1 == 0 {
        let Some(memory) = private_memory::take(BYTES, AreaUse::Various) else { return std::ptr::null() };
        *page = Page(memory.cast(), BYTES / size_of::<ThreadMark>());
    }
    page.1 -= 1;
    // SAFETY: within the page, whose words are zero.
    unsafe { page.0.add(page.1) }
}

/// The next allocation's number; it is the thread's latest from now on.
fn next_allocation(mark: *const ThreadMark) -> u64 {
    let number = ALLOCATIONS.fetch_add(1, Ordering::Relaxed) + 1;
    // SAFETY: null, or never unmapped.
    if let Some(mark) = unsafe { mark.as_ref() } {
        mark.0.store(number, Ordering::Relaxed);
    }
    number
}

impl BlockEntry {
    fn weight(&self) -> BlockWeight {
        BlockWeight { bytes: self.bytes, blocks: u64::from(self.older_bytes.is_none()) }
    }

    /// Runs `work` with the state of its measure, unless that measure has ended.
    fn in_measure<T>(&self, work: impl FnOnce(&mut MeasureState) -> T) -> Option<T> {
        // SAFETY: never unmapped.
        let mut state = unsafe { (*self.measure).state() };
        let counts = state.is_open && state.generation == self.generation;
        counts.then(|| work(&mut state))
    }

    fn is_temporary(&self) -> bool {
        // SAFETY: null, or never unmapped.
        let mark = unsafe { self.thread.as_ref() };
        self.allocation > 0 && mark.is_some_and(|mark| mark.0.load(Ordering::Relaxed) == self.allocation)
    }
}

/// Adds an entry that was counted. A lost entry is counted in its measure.
fn insert(shard: &mut Shard, entry: BlockEntry) {
    if !shard.insert(entry) {
        entry.in_measure(|state| state.lost += 1);
    }
}

/// A block was allocated.
#[cold]
#[inline(never)]
pub(crate) fn allocated(block: *mut u8, size: usize) {
    let is_in_measure = THREAD.with(|thread| !thread.measure.get().is_null());
    if block.is_null() || !is_in_measure {
        return;
    }
    with_thread(|thread| {
        thread.with_stack(|stack| {
            let (key, mark) = (block as u64, thread.mark());
            let allocation = next_allocation(mark);
            let mut shard = shard_of(key);
            // Only a block whose free was not seen can still be there.
            while shard.take(key).is_some() {}
            thread.for_each_measure(|measure| {
                // SAFETY: the thread is in it.
                let mut state = unsafe { (*measure).state() };
                if !state.is_open {
                    return;
                }
                let Some(site) = state.accounts.site(stack) else { return state.lost += 1 };
                let entry = BlockEntry {
                    key,
                    measure,
                    generation: state.generation,
                    bytes: size as u64,
                    older_bytes: None,
                    allocation,
                    thread: mark,
                    site,
                };
                if shard.insert(entry) {
                    state.accounts.allocated(site, size as u64);
                } else {
                    state.lost += 1;
                }
            });
        });
    });
}

/// A block is about to be freed.
#[cold]
#[inline(never)]
pub(crate) fn freeing(block: *mut u8) {
    with_thread(|_| {
        let mut shard = shard_of(block as u64);
        while let Some(entry) = shard.take(block as u64) {
            let is_temporary = entry.is_temporary();
            entry.in_measure(|state| state.accounts.freed(entry.site, entry.weight(), is_temporary));
        }
    });
}

/// A block that is being reallocated.
#[derive(Clone, Copy)]
pub(crate) struct Transit {
    key: u64,
    old: u64,
}

fn move_entries(from: u64, to: u64) {
    loop {
        let taken = shard_of(from).take(from);
        let Some(entry) = taken else { return };
        insert(&mut shard_of(to), BlockEntry { key: to, ..entry });
    }
}

/// A block is about to be resized. Another thread may be given its address before [`reallocated`] is called.
#[cold]
#[inline(never)]
pub(crate) fn reallocating(block: *mut u8) -> Transit {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST_TRANSIT);
    let old = block as u64;
    let key = NEXT.fetch_add(1, Ordering::Relaxed) | FIRST_TRANSIT;
    with_thread(|_| move_entries(old, key));
    Transit { key, old }
}

/// A block was resized, and perhaps moved; `new` is null if that failed.
#[cold]
#[inline(never)]
pub(crate) fn reallocated(transit: Transit, new: *mut u8, old_size: usize, size: usize) {
    with_thread(|thread| {
        if new.is_null() {
            return move_entries(transit.key, transit.old);
        }
        let is_in_measure = !thread.measure.get().is_null();
        let first = shard_of(transit.key).take(transit.key);
        if first.is_none() && !is_in_measure {
            return;
        }
        thread.with_stack(|stack| {
            let (key, mark) = (new as u64, thread.mark());
            let mut taken = first;
            while let Some(entry) = taken {
                resize_known(entry, key, size as u64, mark, stack);
                taken = shard_of(transit.key).take(transit.key);
            }
            if is_in_measure {
                resize_older(thread, key, [old_size as u64, size as u64], mark, stack);
            }
        });
    });
}

/// Resizes a block in a measure that has it.
fn resize_known(old: BlockEntry, key: u64, size: u64, mark: *const ThreadMark, stack: &[u64]) {
    let bytes = size.saturating_sub(old.older_bytes.unwrap_or(0));
    let mut shard = shard_of(key);
    let new = old.in_measure(|state| {
        let Some(site) = state.accounts.site(stack) else {
            state.lost += 1;
            return None;
        };
        let new = BlockEntry { key, thread: mark, site, bytes, ..old };
        state.accounts.resized(Some((old.site, old.weight())), site, size, new.weight());
        Some(new)
    });
    if let Some(new) = new.flatten() {
        insert(&mut shard, new);
    }
}

/// Resizes a block in the thread's measures that do not have it: it is older than they are.
fn resize_older(thread: &ThreadState, key: u64, [old_size, size]: [u64; 2], mark: *const ThreadMark, stack: &[u64]) {
    let mut shard = shard_of(key);
    thread.for_each_measure(|measure| {
        // SAFETY: the thread is in it.
        let mut state = unsafe { (*measure).state() };
        if !state.is_open || shard.has(key, measure) {
            return;
        }
        let Some(site) = state.accounts.site(stack) else { return state.lost += 1 };
        let entry = BlockEntry {
            key,
            measure,
            generation: state.generation,
            bytes: size.saturating_sub(old_size),
            older_bytes: Some(old_size),
            allocation: 0,
            thread: mark,
            site,
        };
        if shard.insert(entry) {
            state.accounts.resized(None, site, size, entry.weight());
        } else {
            state.lost += 1;
        }
    });
}
