//! Blocks that are older than the attach: glibc's heap, walked from outside.
//!
//! The heap is copied while all threads are stopped, and read afterwards: what is copied is one instant. Most of the time is copying, 0.2 to 0.4 ms for a mebibyte, so a
//! heap whose copy would stop the program for longer than the caller permits is refused, not read in pieces: a piece that begins at an address that is no longer a
//! block's would show blocks that are none. Nothing is guessed either where the layout is not the one that was verified (glibc 2.35 to 2.41).
//!
//! With hooks that were on before, what the copy shows and the hooks did not see born is older than the attach. A thread that is inside a hook at that instant has a block
//! in its hands that may or may not be known: a reader that has no record of what follows lets such threads run on first, one after the other.

mod arenas;
mod chunks;

use crate::leftover::{Leftover, depth_of};
use crate::look::{TaskStatus, examine, living_thread};
use crate::mappings::AddressSpace;
use crate::modules::read_modules;
use crate::patch::DEFAULT_STOP_BUDGET;
use crate::refusal::Refusal;
use crate::steps::Steps;
use crate::target_memory::TargetMemory;
use crate::threads::StoppedThreads;
use crate::worker::{ThreadsGoOn, WorkerEnd, run_in_stages};
use highwater_shm::attach_v1::RECORDING;
use std::io;
use std::time::{Duration, Instant};

/// A block that was live when all threads were stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OlderBlock {
    /// What `malloc` returned.
    pub address: u64,
    /// Its usable size.
    pub size: u64,
}

/// All blocks of glibc's heap at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OlderBlocks {
    /// In the order of their addresses.
    pub blocks: Vec<OlderBlock>,
    /// Free chunks that the caches of threads hold: they look like blocks to the arena.
    pub cached: u64,
    /// For how long all threads were stopped.
    pub pause: Duration,
    /// The instant of the copy, by the monotonic clock, in nanoseconds.
    pub at: u64,
}

/// Why a heap is not walked. Its blocks are then unknown.
#[derive(Debug, thiserror::Error)]
pub enum NotWalkable {
    /// It cannot be read at all.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// musl, another allocator, or another version of glibc.
    #[error("no heap of glibc with a known layout was found in process {0}")]
    UnknownLayout(i32),
    /// Reading would bring it back into memory.
    #[error("{swapped_kib} KiB of process {pid} are swapped out, and reading would bring them back")]
    Swapped {
        /// The process.
        pid: i32,
        /// How much.
        swapped_kib: u64,
    },
    /// The stop would be too long.
    #[error("the heap of process {pid} has {bytes} bytes: copying it would stop the program for about {} ms", estimate.as_millis())]
    TooLarge {
        /// The process.
        pid: i32,
        /// How much would be copied.
        bytes: u64,
        /// How long that takes.
        estimate: Duration,
    },
    /// The stop became too long.
    #[error("copying the heap of process {pid} took longer than {} ms", longest.as_millis())]
    TooSlow {
        /// The process.
        pid: i32,
        /// What was permitted.
        longest: Duration,
    },
    /// A chunk whose size is impossible.
    #[error("the heap of process {pid} is damaged, or not glibc's, at {address:#x}")]
    Broken {
        /// The process.
        pid: i32,
        /// Where.
        address: u64,
    },
    /// Chunks with mappings of their own are not as many as glibc counts, or not as large.
    #[error(
        "the large blocks of process {0} could not be told from its other memory: they are not those that glibc counts"
    )]
    UncertainMappings(i32),
    /// Threads do not stop.
    #[error("the threads of process {0} could not be stopped to read its heap; try again")]
    NotStopped(i32),
    /// A thread is in a call of malloc or free at each instant, as one whose signal handler waits is.
    #[error("a thread of process {0} was inside of malloc or free each time its heap was to be read; try again")]
    AlwaysInside(i32),
    /// Something else.
    #[error("the heap of process {pid} cannot be read: {source}")]
    Unreadable {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
}

/// What copying takes, measured with blocks of 64 bytes.
const COPY_PER_MIB: Duration = Duration::from_micros(400);

/// A heap that can be read.
struct KnownHeap {
    pid: i32,
    memory: TargetMemory,
    layout: arenas::HeapLayout,
    bytes: u64,
}

fn find_heap(pid: i32) -> Result<KnownHeap, NotWalkable> {
    let memory = examine(pid)?;
    let unreadable = |source| NotWalkable::Unreadable { pid, source };
    let living = TaskStatus::of_thread(pid, living_thread(pid)).map_err(unreadable)?;
    let swapped_kib = living.number("VmSwap");
    if swapped_kib > 0 {
        return Err(NotWalkable::Swapped { pid, swapped_kib });
    }
    let space = AddressSpace::read(pid).map_err(unreadable)?;
    let modules = read_modules(pid, &memory, &space);
    // glibc 2.35 and later: before that, caches are marked in another way.
    if !modules.iter().any(|module| !module.symbols.find(0, &["_dl_find_object"]).is_empty()) {
        return Err(NotWalkable::UnknownLayout(pid));
    }
    let layout = arenas::find_layout(&memory, &modules).ok_or(NotWalkable::UnknownLayout(pid))?;
    let bytes = arenas::bytes_of(&arenas::heap_ranges(&memory, &layout));
    Ok(KnownHeap { pid, memory, layout, bytes })
}

fn copying_takes(bytes: u64) -> Duration {
    COPY_PER_MIB.saturating_mul(u32::try_from(bytes >> 20).unwrap_or(u32::MAX))
}

/// For how long [`walk_heap`] would stop all threads now, about. Nothing is touched, and no thread stops.
pub fn estimate_walk(pid: i32) -> Result<Duration, NotWalkable> {
    find_heap(pid).map(|heap| copying_takes(heap.bytes))
}

/// Reads all blocks of a process's glibc heap. All threads are stopped for at most about `longest`; a heap for which that is not enough is refused.
pub fn walk_heap(pid: i32, longest: Duration) -> Result<OlderBlocks, NotWalkable> {
    walk(find_heap(pid)?, longest, None, Vec::new, &Steps::NONE).map(|(found, _)| found)
}

/// The same for a process that is attached to, at an instant at which no thread is inside a hook: what the agent has recorded until then is complete. `look` runs at that
/// instant, in a process that is a copy of this one, and its words are returned too.
pub fn walk_heap_of_attached(
    pid: i32,
    longest: Duration,
    look: impl Fn() -> Vec<u64>,
) -> Result<(OlderBlocks, Vec<u64>), NotWalkable> {
    walk_attached_in_steps(pid, longest, look, &Steps::NONE)
}

/// The same, for tests that kill the walker.
#[doc(hidden)]
pub fn walk_attached_in_steps(
    pid: i32,
    longest: Duration,
    look: impl Fn() -> Vec<u64>,
    steps: &Steps,
) -> Result<(OlderBlocks, Vec<u64>), NotWalkable> {
    let heap = find_heap(pid)?;
    let space = AddressSpace::read(pid).map_err(|source| NotWalkable::Unreadable { pid, source })?;
    let leftovers = Leftover::find_all(&heap.memory, &space);
    let slots = leftovers.iter().find(|leftover| leftover.is_active(&heap.memory)).and_then(|one| one.slots(&space));
    let slots = slots.ok_or(NotWalkable::NotStopped(pid))?;
    walk(heap, longest, Some(slots), look, steps)
}

/// What a worker answers first.
mod answer {
    pub(super) const FOUND: u8 = 0;
    pub(super) const NOT_STOPPED: u8 = 1;
    pub(super) const BROKEN: u8 = 2;
    pub(super) const TOO_SLOW: u8 = 3;
    pub(super) const NEVER_OUTSIDE: u8 = 4;
    pub(super) const UNCERTAIN: u8 = 5;
}

/// How often threads are stopped anew because of what one of them was doing.
const TRIES_OUTSIDE: u32 = 5;

fn walk(
    heap: KnownHeap,
    longest: Duration,
    slots: Option<u64>,
    look: impl Fn() -> Vec<u64>,
    steps: &Steps,
) -> Result<(OlderBlocks, Vec<u64>), NotWalkable> {
    let KnownHeap { pid, memory, layout, bytes } = heap;
    let unreadable = |source| NotWalkable::Unreadable { pid, source };
    let estimate = copying_takes(bytes);
    if estimate > longest {
        return Err(NotWalkable::TooLarge { pid, bytes, estimate });
    }
    // It may have grown since.
    let most = bytes.saturating_mul(2).saturating_add(64 << 20);
    let work = |go_on: &mut ThreadsGoOn<'_>| {
        // Written before any thread stops: that the kernel provides new memory takes longer than the copy.
        let mut room = vec![1_u8; (bytes + bytes / 8) as usize + (1 << 20)];
        let Ok(mut threads) = StoppedThreads::stop(pid, &memory, DEFAULT_STOP_BUDGET, steps, go_on) else {
            return vec![answer::NOT_STOPPED];
        };
        let deadline = Instant::now() + longest;
        if let Some(slots) = slots
            && threads.let_out(deadline, steps, |registers| records_now(&memory, slots, registers.fs_base)).is_err()
        {
            threads.release(go_on);
            return vec![answer::NEVER_OUTSIDE];
        }
        let copy = arenas::HeapCopy::take(living_thread(pid), &memory, &layout, most, &mut room, deadline);
        let (at, seen) = (monotonic_ns(), look());
        steps.at("the heap is copied");
        let pause = threads.release(go_on);
        drop(threads);
        steps.at("threads go on after the copy");
        match copy.as_ref().map_err(io::Error::kind) {
            Err(io::ErrorKind::TimedOut) => return vec![answer::TOO_SLOW],
            Err(io::ErrorKind::InvalidData) => return vec![answer::UNCERTAIN],
            _ => (),
        }
        match copy.map_err(|_| 0).and_then(|copy| chunks::read(&copy)) {
            Ok(found) => encode(&found, pause, at, &seen),
            Err(address) => std::iter::once(answer::BROKEN).chain(address.to_le_bytes()).collect(),
        }
    };
    let until = Instant::now() + Duration::from_secs(5);
    let (mut inside, mut uncertain, mut late) = (0, 0, 0_u32);
    loop {
        // While threads are stopped, nothing takes long but what a stopped thread would have to answer: then they go on.
        let budgets = [longest * 2 + Duration::from_secs(1), longest * 4 + Duration::from_secs(60)];
        match run_in_stages(budgets, work).map_err(unreadable)? {
            WorkerEnd::Answer(words) if words[0] == answer::FOUND => return Ok(decode(&words[1..])),
            WorkerEnd::Answer(words) if words[0] == answer::BROKEN => {
                return Err(NotWalkable::Broken { pid, address: crate::elf::u64_at(&words, 1).unwrap_or(0) });
            }
            WorkerEnd::Answer(words) if words[0] == answer::TOO_SLOW => {
                return Err(NotWalkable::TooSlow { pid, longest });
            }
            WorkerEnd::Answer(words) if words[0] == answer::NEVER_OUTSIDE && inside == TRIES_OUTSIDE => {
                return Err(NotWalkable::AlwaysInside(pid));
            }
            // The program has not been held up for nothing for long.
            WorkerEnd::Answer(words) if words[0] == answer::NEVER_OUTSIDE => {
                inside += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            WorkerEnd::Answer(words) if words[0] == answer::UNCERTAIN && uncertain == TRIES_OUTSIDE => {
                return Err(NotWalkable::UncertainMappings(pid));
            }
            // A thread may have been making or freeing one.
            WorkerEnd::Answer(words) if words[0] == answer::UNCERTAIN => {
                uncertain += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            WorkerEnd::TooLong => return Err(NotWalkable::TooSlow { pid, longest }),
            // Each attempt stops threads for some milliseconds: for a small part of the time.
            _ if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20 << late));
                late = (late + 1).min(5);
            }
            _ => return Err(NotWalkable::NotStopped(pid)),
        }
    }
}

/// Whether the thread with this thread pointer is at a call that is being recorded. If its slot cannot be read, it may be.
fn records_now(memory: &TargetMemory, slots: u64, pointer: u64) -> bool {
    depth_of(memory, slots, pointer).is_none_or(|depth| depth & RECORDING != 0)
}

fn encode(found: &OlderBlocks, pause: Duration, at: u64, seen: &[u64]) -> Vec<u8> {
    let head = [found.cached, pause.as_nanos() as u64, at, seen.len() as u64];
    let blocks = found.blocks.iter().flat_map(|block| [block.address, block.size]);
    let words = head.into_iter().chain(seen.iter().copied()).chain(blocks);
    std::iter::once(answer::FOUND).chain(words.flat_map(u64::to_le_bytes)).collect()
}

fn decode(answer: &[u8]) -> (OlderBlocks, Vec<u64>) {
    let words: Vec<u64> = answer.chunks_exact(8).filter_map(|word| crate::elf::u64_at(word, 0)).collect();
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let (seen, blocks) =
        words.get(4..).unwrap_or_default().split_at((word(3) as usize).min(words.len().saturating_sub(4)));
    let blocks = blocks.chunks_exact(2).map(|pair| OlderBlock { address: pair[0], size: pair[1] });
    let pause = Duration::from_nanos(word(1));
    let mut found = OlderBlocks { blocks: blocks.collect(), cached: word(0), pause, at: word(2) };
    found.blocks.sort_unstable();
    (found, seen.to_vec())
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
