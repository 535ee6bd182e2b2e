//! What attaching to a process would do. Nothing is touched.

use crate::allocators::{Allocator, find_allocators, is_preloaded};
use crate::borrow::script_areas;
use crate::holes::hole_near;
use crate::hooks::{AllocatorHooks, ISLAND_BYTES, plan_hooks};
use crate::leftover::Leftover;
use crate::look::{AttachLock, TaskStatus, examine, refuse_shared_memory, threads_of};
use crate::mappings::AddressSpace;
use crate::modules::{TargetModule, read_modules};
use crate::refusal::Refusal;
use crate::target_memory::TargetMemory;
use highwater_shm::attach_v1::{AttachPage, FUNCTIONS, MOST_IMPLEMENTATIONS, VERSION};
use std::mem::offset_of;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A process that can be attached to. While this lives, other attachers wait.
#[derive(Debug)]
pub struct AttachPlan {
    pub(crate) pid: i32,
    pub(crate) memory: TargetMemory,
    pub(crate) space: AddressSpace,
    pub(crate) modules: Vec<TargetModule>,
    pub(crate) allocators: Vec<Allocator>,
    pub(crate) islands: Vec<u64>,
    pub(crate) hooks: Vec<AllocatorHooks>,
    pub(crate) leftovers: Vec<Leftover>,
    pub(crate) areas: Vec<Range<u64>>,
    threads: usize,
    pub(crate) is_filtered: bool,
    _lock: AttachLock,
}

/// One allocator of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedAllocator {
    /// Its file.
    pub module: String,
    /// The functions that will be hooked.
    pub functions: Vec<&'static str>,
    /// Functions on whose entry a probe of another tool is. It goes on working.
    pub probed: Vec<&'static str>,
}

/// Examines a process. Nothing in it is touched, and no thread stops.
pub fn plan(pid: i32) -> Result<AttachPlan, Refusal> {
    let (memory, lock) = examine_locked(pid)?;
    refuse_shared_memory(pid)?;
    let space = AddressSpace::read(pid).map_err(|error| crate::look::explain(pid, &error))?;
    let mut modules = read_modules(pid, &memory, &space);
    if modules.is_empty() {
        return Err(if threads_of(pid).is_ok() { Refusal::NoAllocator(pid) } else { Refusal::NoSuchProcess(pid) });
    }
    if is_preloaded(&modules) {
        return Err(Refusal::AlreadyPreloaded(pid));
    }
    let mut allocators = find_allocators(pid, &mut modules)?;
    allocators.truncate(MOST_IMPLEMENTATIONS);
    let leftovers = Leftover::find_all(&memory, &space);
    if let Some(other) = leftovers.iter().find(|leftover| !leftover.is_known()) {
        return Err(Refusal::OtherVersion { pid, version: other.header.version, known: VERSION });
    }
    let areas = script_areas(&memory, &modules);
    if areas.is_empty() {
        return Err(Refusal::NoSlack(pid));
    }
    let mut taken: Vec<Range<u64>> = Vec::new();
    let mut islands = Vec::new();
    for allocator in &allocators {
        let module = &modules[allocator.module];
        let island = hole_near(&space, &module.range, ISLAND_BYTES, &taken)
            .ok_or_else(|| Refusal::NoRoom(module.file_name().to_owned()))?;
        taken.push(island..island + ISLAND_BYTES);
        islands.push(island);
    }
    let hooks = plan_hooks(pid, &memory, &modules, &allocators, &islands)?;
    let threads = threads_of(pid).map_err(|_| Refusal::NoSuchProcess(pid))?;
    let is_filtered = threads
        .iter()
        .any(|&thread| TaskStatus::of_thread(pid, thread).is_ok_and(|status| status.number("Seccomp") == 2));
    Ok(AttachPlan {
        pid,
        memory,
        space,
        modules,
        allocators,
        islands,
        hooks,
        leftovers,
        areas,
        threads: threads.len(),
        is_filtered,
        _lock: lock,
    })
}

/// Examines a process with other attachers kept away. The worker of one that was killed may trace it for a moment longer.
pub(crate) fn examine_locked(pid: i32) -> Result<(TargetMemory, AttachLock), Refusal> {
    let lock = AttachLock::take(pid)?;
    for _ in 0..5 {
        match examine(pid) {
            Err(Refusal::Traced { .. }) => std::thread::sleep(Duration::from_millis(10)),
            other => return Ok((other?, lock)),
        }
    }
    Ok((examine(pid)?, lock))
}

impl AttachPlan {
    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its threads now.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Its allocators.
    pub fn allocators(&self) -> Vec<PlannedAllocator> {
        let describe = |(allocator, hooks): (&Allocator, &AllocatorHooks)| PlannedAllocator {
            module: self.modules[allocator.module].path.clone(),
            functions: hooks.hooks.iter().map(|hook| FUNCTIONS[hook.function].name).collect(),
            probed: hooks
                .hooks
                .iter()
                .filter(|hook| hook.is_probed)
                .map(|hook| FUNCTIONS[hook.function].name)
                .collect(),
        };
        self.allocators.iter().zip(&self.hooks).map(describe).collect()
    }

    /// How long all threads would be stopped on a quiet machine: what was measured for 1, 50 and 500 threads. A busy machine adds its scheduler's latency, since a
    /// thread must run to stop.
    pub fn estimated_pause(&self) -> Duration {
        Duration::from_micros(150 + 19 * self.threads as u64)
    }

    /// Whether an allocator that is linked into the program is hooked.
    pub fn hooks_program(&self) -> bool {
        self.allocators.iter().any(|allocator| self.modules[allocator.module].is_program)
    }

    /// Whether threads have seccomp filters. They are read when a thread is stopped for the first time, and attaching is refused if they forbid a call.
    pub fn is_filtered(&self) -> bool {
        self.is_filtered
    }

    /// Whether an earlier attach has left something, and whether that records now.
    pub fn is_attached(&self) -> bool {
        self.leftovers.iter().any(|leftover| leftover.is_active(&self.memory) && leftover.hooked_now(&self.memory) > 0)
    }

    /// Whether a reader gives the agent of an attach that records signs of life. Waits for one.
    pub fn has_reader(&self, patience: Duration) -> bool {
        let beat = |leftover: &Leftover| {
            let heartbeat = leftover.object(&self.space)?.start + offset_of!(AttachPage, heartbeat) as u64;
            self.memory.read_u64(heartbeat).ok()
        };
        let beats = || self.leftovers.iter().map(beat).collect::<Vec<_>>();
        let (first, deadline) = (beats(), Instant::now() + patience);
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
            if beats() != first {
                return true;
            }
        }
        false
    }

    /// Whether an earlier attach has left something.
    pub fn has_leftover(&self) -> bool {
        !self.leftovers.is_empty()
    }
}
