//! Announces the program's modules to the recorder: when one of their addresses is first met, and when they are unloaded.
//!
//! The agent is not notified when a library is loaded, and does not need to be: it asks the loader when it meets an address without a
//! cached rule. Unloading matters more, since the same addresses may then mean another library: `dlclose` is
//! intercepted, and a module found where another one was counts as well. Either begins a new *generation*.

use crate::lock::Lock;
use crate::session::Session;
use crate::unwind::objects::{self, LoadedModule};
use crate::unwind::{code_ranges, rules};
use crate::{clock, trie};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use highwater_shm::modules_v1::{FIXED_WORDS, LOADED, LONGEST_BUILD_ID, LONGEST_PATH, TASK, UNLOADED};
use highwater_shm::session_v1::MODULE_BYTES;

/// The maximum number of modules known at once. In a program with more, further ones are announced without being remembered.
const MOST: usize = 4096;

/// A module that was announced; a start of 0 is one that was unloaded.
struct AnnouncedModule {
    start: AtomicU64,
    end: AtomicU64,
}

static KNOWN: [AnnouncedModule; MOST] =
    [const { AnnouncedModule { start: AtomicU64::new(0), end: AtomicU64::new(0) } }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(0);
static ANNOUNCING: Lock = Lock::new();

/// The current generation: a thread that remembers a stack of another one must forget it.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Begins with no module known.
pub fn prepare() {
    COUNT.store(0, Ordering::Relaxed);
    ANNOUNCING.reset();
    code_ranges::prepare();
}

fn known() -> &'static [AnnouncedModule] {
    &KNOWN[..COUNT.load(Ordering::Acquire).min(MOST)]
}

fn is_known(object: &LoadedModule) -> bool {
    let (start, end) = (object.tables.start, object.tables.end);
    known().iter().any(|known| known.start.load(Ordering::Relaxed) == start && known.end.load(Ordering::Relaxed) == end)
}

/// Announces a module to the recorder, unless it is known already.
pub fn announce(session: &Session, object: &LoadedModule) {
    if is_known(object) {
        return;
    }
    ANNOUNCING.with(|| {
        if is_known(object) {
            return;
        }
        let (start, end) = (object.tables.start, object.tables.end);
        // A known module that overlaps it must have been unloaded without `dlclose` being seen.
        let overlaps = |known: &&AnnouncedModule| {
            let (other_start, other_end) = (known.start.load(Ordering::Relaxed), known.end.load(Ordering::Relaxed));
            other_start != 0 && other_start < end && start < other_end
        };
        // Code that was made there at run time is gone as well.
        let replaces_code = code_ranges::replaced_by_module(start, end);
        if replaces_code || known().iter().any(|known| overlaps(&known)) {
            begin_generation();
            for gone in known().iter().filter(overlaps) {
                forget(session, gone);
            }
        }
        let mut build_id = [0; LONGEST_BUILD_ID];
        let length = object.build_id(&mut build_id);
        let path = object.path();
        write(session, LOADED, start, end, &build_id[..length], &path[..path.len().min(LONGEST_PATH)]);
        let count = COUNT.load(Ordering::Relaxed);
        let unused = known().iter().position(|known| known.start.load(Ordering::Relaxed) == 0);
        let index = unused.unwrap_or(count);
        if let Some(known) = KNOWN.get(index) {
            known.end.store(end, Ordering::Relaxed);
            known.start.store(start, Ordering::Relaxed);
            COUNT.store(count.max(index + 1), Ordering::Release);
        }
    });
}

fn begin_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    rules::forget();
    trie::forget();
}

fn forget(session: &Session, gone: &AnnouncedModule) {
    write(session, UNLOADED, gone.start.load(Ordering::Relaxed), gone.end.load(Ordering::Relaxed), &[], &[]);
    gone.start.store(0, Ordering::Relaxed);
}

/// Announces the name of a task, unless another thread did: `announced` becomes `current` when its name is in the log.
pub fn announce_task(session: &Session, number: u32, name: &[u8], (announced, current): (&AtomicU32, u32)) {
    ANNOUNCING.with(|| {
        if announced.load(Ordering::Relaxed) != current {
            write(session, TASK, number.into(), 0, &[], name);
            announced.store(current, Ordering::Release);
        }
    });
}

/// Appends an entry to the log; does nothing if the log is full.
fn write(session: &Session, kind: u8, start: u64, end: u64, build_id: &[u8], path: &[u8]) {
    let texts = (build_id.len() + path.len()).next_multiple_of(8);
    let at = u64::from(session.header().module_bytes.load(Ordering::Relaxed));
    let length = (FIXED_WORDS * 8 + texts) as u64;
    if at + length > MODULE_BYTES {
        return;
    }
    let head = u64::from(kind) | u64::from(generation()) << 8;
    let lengths = build_id.len() as u64 | (path.len() as u64) << 32;
    // SAFETY: within the log; only the holder of the lock writes after its published length.
    unsafe {
        let entry = session.modules().add(at as usize);
        for (index, word) in [head, clock::now(session), start, end, lengths].into_iter().enumerate() {
            entry.cast::<u64>().add(index).write(word);
        }
        let texts = entry.add(FIXED_WORDS * 8);
        core::ptr::copy_nonoverlapping(build_id.as_ptr(), texts, build_id.len());
        core::ptr::copy_nonoverlapping(path.as_ptr(), texts.add(build_id.len()), path.len());
    }
    session.header().module_bytes.store((at + length) as u32, Ordering::Release);
}

/// A module may have been unloaded: finds out which ones are gone.
pub fn check_after_unload(session: &Session) {
    ANNOUNCING.with(|| {
        let is_gone = |known: &AnnouncedModule| {
            let start = known.start.load(Ordering::Relaxed);
            // Any address within the module will do; the middle certainly is.
            let middle = start + (known.end.load(Ordering::Relaxed) - start) / 2;
            start != 0 && objects::find(middle).is_none_or(|object| object.tables.start != start)
        };
        if known().iter().any(is_gone) {
            begin_generation();
            for gone in known().iter().filter(|known| is_gone(known)) {
                forget(session, gone);
            }
        }
    });
}
