//! Making a process as it was.

use crate::borrow::{Errand, borrow_thread, script_areas};
use crate::error::AttachError;
use crate::leftover::Leftover;
use crate::look::refuse_shared_memory;
use crate::mappings::AddressSpace;
use crate::modules::read_modules;
use crate::patch::{Change, DEFAULT_STOP_BUDGET, StopReport, change_functions, wipe_left_scripts};
use crate::plan::examine_locked;
use crate::steps::Steps;
use highwater_shm::attach_v1::MODE_OFF;
use std::time::{Duration, Instant};

/// How to detach.
#[derive(Clone, Copy, Debug)]
pub struct DetachOptions {
    /// The longest that threads are stopped in one attempt.
    pub stop_budget: Duration,
    /// Whether the agent's memory is unmapped too, if no thread is in its code.
    pub unmap: bool,
    /// For tests that kill the attacher.
    pub steps: Steps,
}

impl Default for DetachOptions {
    fn default() -> Self {
        Self { stop_budget: DEFAULT_STOP_BUDGET, unmap: true, steps: Steps::NONE }
    }
}

/// What a detach did.
#[derive(Clone, Copy, Debug)]
pub struct Detached {
    /// The stop in which functions were restored.
    pub stop: StopReport,
    /// Whether the agent's memory is unmapped. Otherwise it stays, inert, and the next attach or detach unmaps it.
    pub is_unmapped: bool,
}

/// Whether a process has anything that an attach has left: hooks that record, or unused memory. Nothing in it is touched, and no thread stops.
pub fn has_leftover(pid: i32) -> Result<bool, AttachError> {
    let (memory, _lock) = examine_locked(pid)?;
    let space = AddressSpace::read(pid).map_err(|_| AttachError::Ended(pid))?;
    Ok(!Leftover::find_all(&memory, &space).is_empty())
}

/// Restores all functions, and unmaps the agent if no thread is in it.
pub fn detach(pid: i32, options: &DetachOptions) -> Result<Detached, AttachError> {
    let (memory, _lock) = examine_locked(pid)?;
    let space = AddressSpace::read(pid).map_err(|_| AttachError::Ended(pid))?;
    let leftovers = Leftover::find_all(&memory, &space);
    if leftovers.is_empty() {
        return Err(AttachError::NotAttached(pid));
    }
    refuse_shared_memory(pid)?;
    let areas = script_areas(&memory, &read_modules(pid, &memory, &space));
    let mut detached = Detached { stop: StopReport::default(), is_unmapped: true };
    let mut unmapped = Vec::new();
    for leftover in &leftovers {
        memory.write(leftover.switch(), &MODE_OFF.to_le_bytes()).map_err(|_| AttachError::Ended(pid))?;
        options.steps.at("it is switched off");
        let stop =
            change_functions(pid, &memory, &areas, Change::Restore { leftover }, options.stop_budget, &options.steps)?;
        detached.stop = StopReport {
            changed: detached.stop.changed + stop.changed,
            foreign: detached.stop.foreign + stop.foreign,
            ..stop
        };
        if stop.is_clear {
            unmapped.extend(leftover.mapped(&space));
        } else {
            detached.is_unmapped = false;
        }
    }
    unmapped.truncate(12);
    // A script that a thread has not yet come to may unmap the same.
    let is_alone = options.unmap && wipe_left_scripts(pid, &memory, &areas, options.stop_budget, &options.steps);
    if !is_alone || unmapped.is_empty() {
        detached.is_unmapped = false;
        return Ok(detached);
    }
    // What follows only gives memory back: nothing is lost if it does not succeed.
    if borrow_thread(pid, &memory, &areas, Errand::Clean, &unmapped, &options.steps).is_err() {
        detached.is_unmapped = false;
        return Ok(detached);
    }
    let deadline = Instant::now() + Duration::from_secs(1);
    let is_mapped = |space: &AddressSpace| {
        unmapped
            .iter()
            .any(|range| space.mappings.iter().any(|mapping| mapping.start == range.start && mapping.end >= range.end))
    };
    while is_mapped(&AddressSpace::read(pid).unwrap_or_default()) {
        if Instant::now() > deadline {
            detached.is_unmapped = false;
            return Ok(detached);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    options.steps.at("the agent is unmapped");
    let _ = change_functions(pid, &memory, &areas, Change::Wipe, options.stop_budget, &options.steps);
    Ok(detached)
}
