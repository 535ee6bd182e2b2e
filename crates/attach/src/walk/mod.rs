//! Blocks that are older than the attach: glibc's heap, walked from outside.
//!
//! The heap is copied while all threads are stopped, and read afterwards: what is copied is one instant. Most of the time is copying, 0.2 to 0.4 ms for a mebibyte, so a
//! heap whose copy would stop the program for longer than the caller permits is refused, not read in pieces: a piece that begins at an address that is no longer a
//! block's would show blocks that are none. Nothing is guessed either where the layout is not the one that was verified (glibc 2.35 to 2.41).
//!
//! With hooks that were on before, what the copy shows and the hooks did not see born is older than the attach.

mod arenas;
mod chunks;

use crate::look::{TaskStatus, examine};
use crate::mappings::AddressSpace;
use crate::modules::read_modules;
use crate::refusal::Refusal;
use crate::steps::Steps;
use crate::target_memory::TargetMemory;
use crate::threads::{StopFailure, StoppedThreads};
use crate::worker::{WorkerEnd, run_in_worker};
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
    /// Threads do not stop.
    #[error("the threads of process {0} could not be stopped to read its heap; try again")]
    NotStopped(i32),
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
    memory: TargetMemory,
    layout: arenas::HeapLayout,
    bytes: u64,
}

fn find_heap(pid: i32) -> Result<KnownHeap, NotWalkable> {
    let memory = examine(pid)?;
    let unreadable = |source| NotWalkable::Unreadable { pid, source };
    let swapped_kib = TaskStatus::of_process(pid).map_err(unreadable)?.number("VmSwap");
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
    let bytes: u64 = arenas::heap_ranges(&memory, &layout).iter().map(|(range, _)| range.end - range.start).sum();
    Ok(KnownHeap { memory, layout, bytes })
}

fn copying_takes(bytes: u64) -> Duration {
    COPY_PER_MIB * (bytes >> 20) as u32
}

/// For how long [`walk_heap`] would stop all threads now, about. Nothing is touched, and no thread stops.
pub fn estimate_walk(pid: i32) -> Result<Duration, NotWalkable> {
    find_heap(pid).map(|heap| copying_takes(heap.bytes))
}

/// Reads all blocks of a process's glibc heap. All threads are stopped for at most about `longest`; a heap for which that is not enough is refused.
pub fn walk_heap(pid: i32, longest: Duration) -> Result<OlderBlocks, NotWalkable> {
    let KnownHeap { memory, layout, bytes } = find_heap(pid)?;
    let unreadable = |source| NotWalkable::Unreadable { pid, source };
    let estimate = copying_takes(bytes);
    if estimate > longest {
        return Err(NotWalkable::TooLarge { pid, bytes, estimate });
    }
    let work = || {
        let mut threads = match StoppedThreads::stop(pid, &memory, Duration::from_millis(100), &Steps::NONE) {
            Ok(threads) => threads,
            Err(StopFailure::TooLong { .. } | StopFailure::Failed(_)) => return vec![1],
        };
        let copy = arenas::HeapCopy::take(pid, &memory, &layout, Instant::now() + longest);
        let at = monotonic_ns();
        let pause = threads.release();
        drop(threads);
        let mut answer = vec![0];
        if copy.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return vec![3];
        }
        match copy.map_err(|_| 0).and_then(|copy| chunks::read(&copy)) {
            Ok(found) => {
                for word in [found.cached, pause.as_nanos() as u64, at, 0] {
                    answer.extend(word.to_le_bytes());
                }
                for block in found.blocks {
                    answer.extend(block.address.to_le_bytes());
                    answer.extend(block.size.to_le_bytes());
                }
                answer
            }
            Err(address) => {
                answer[0] = 2;
                answer.extend(address.to_le_bytes());
                answer
            }
        }
    };
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match run_in_worker(longest * 4 + Duration::from_secs(10), work).map_err(unreadable)? {
            WorkerEnd::Answer(answer) if answer[0] == 0 => return Ok(decode(&answer[1..])),
            WorkerEnd::Answer(answer) if answer[0] == 2 => {
                return Err(NotWalkable::Broken { pid, address: crate::elf::u64_at(&answer, 1).unwrap_or(0) });
            }
            WorkerEnd::Answer(answer) if answer[0] == 3 => return Err(NotWalkable::TooSlow { pid, longest }),
            _ if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => return Err(NotWalkable::NotStopped(pid)),
        }
    }
}

fn decode(answer: &[u8]) -> OlderBlocks {
    let word = |index: usize| crate::elf::u64_at(answer, index * 8).unwrap_or(0);
    let blocks = (2..answer.len() / 16).map(|pair| OlderBlock { address: word(pair * 2), size: word(pair * 2 + 1) });
    let (cached, pause, at) = (word(0), Duration::from_nanos(word(1)), word(2));
    let mut found = OlderBlocks { blocks: blocks.collect(), cached, pause, at };
    found.blocks.sort_unstable();
    found
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
