//! The moment at which functions are changed, or changed back: all threads stopped, none at a wrong place.

use crate::borrow::left_scripts;
use crate::elf::u64_at;
use crate::error::AttachError;
use crate::leftover::Leftover;
use crate::mappings::AddressSpace;
use crate::script::MOST_SCRIPT_BYTES;
use crate::seccomp::{FilterVerdict, check_agent_calls};
use crate::steps::Steps;
use crate::target_memory::TargetMemory;
use crate::threads::{LATE_BUDGET, StopFailure, StoppedThreads};
use crate::worker::{ThreadsGoOn, WorkerEnd, run_in_stages};
use highwater_shm::attach_v1::Hook;
use std::io;
use std::ops::Range;
use std::time::Duration;

/// What the stop was for.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Write jumps, then store a mode at an address. If threads have filters, first ask these about the agent's calls.
    Hook { hooks: &'a [Hook], switch: u64, mode: u64, is_filtered: bool },
    /// Restore what an attach has left.
    Restore { leftover: &'a Leftover },
    /// Only remove scripts.
    Wipe,
}

/// How a stop went.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopReport {
    /// From the first interrupted thread to the last one released.
    pub pause: Duration,
    /// Threads that were stopped.
    pub threads: usize,
    /// System calls that were begun again.
    pub mended: u32,
    /// Stops that were released again because a thread was at a wrong place.
    pub attempts: u32,
    /// Functions that were changed.
    pub changed: usize,
    /// Functions that another tool has changed since, and that were left as they are.
    pub foreign: usize,
    /// Whether no thread is, or will come back, in the agent's code.
    pub is_clear: bool,
}

enum Outcome {
    Done(StopReport),
    /// A thread is at a wrong place.
    Unsafe,
    TooLong(char),
    /// A function has other bytes than when the hooks were planned.
    Changed,
    WriteForbidden(io::Error),
    Filter(FilterVerdict),
    Failed(io::Error),
}

/// How long threads may take to stop, beside what each of them needs.
pub(crate) const DEFAULT_STOP_BUDGET: Duration = Duration::from_millis(25);
/// All attempts at one change.
const MOST_ATTEMPTS: u32 = 40;
/// Attempts in which threads did not stop within the budget.
const MOST_TOO_LONG: u32 = 10;
/// Attempts in which the worker had to be killed: something that stands still with the target holds it up, and will each time.
const MOST_KILLED: u32 = 2;

/// The pause before the next attempt, so that threads are stopped for a small part of the time. Not in step with anything that the target does regularly.
fn pause_before(attempt: u32, too_long: u32) -> Duration {
    let after_short = 1500 + u64::from(attempt * 7919 % 4000);
    let after_long = if too_long == 0 { 0 } else { 20_000 << too_long.min(5) };
    Duration::from_micros(after_short + after_long)
}

/// When a worker that stops threads is killed. It looks at their stacks and lets them go within a small part of this.
fn watchdog(budget: Duration) -> Duration {
    budget * 4 + Duration::from_millis(400)
}

/// Makes the change, in as many attempts as it takes.
pub(crate) fn change_functions(
    pid: i32,
    memory: &TargetMemory,
    areas: &[Range<u64>],
    change: Change<'_>,
    budget: Duration,
    steps: &Steps,
) -> Result<StopReport, AttachError> {
    let mut last = AttachError::NoSafeMoment(pid);
    let (mut too_long, mut killed) = (0, 0);
    for attempt in 0..MOST_ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(pause_before(attempt, too_long));
        }
        let end = run_in_stages([watchdog(budget), LATE_BUDGET + watchdog(budget)], |go_on| {
            encode(&attempt_change(pid, memory, areas, change, budget, steps, go_on))
        });
        let end = end.map_err(|source| AttachError::Failed { pid, what: "no worker", source })?;
        let outcome = match end {
            WorkerEnd::Answer(answer) => decode(&answer),
            WorkerEnd::TooLong => {
                killed += 1;
                if killed == MOST_KILLED {
                    return Err(AttachError::HeldUp(pid));
                }
                Outcome::TooLong('?')
            }
            WorkerEnd::Died => Outcome::TooLong('?'),
        };
        match outcome {
            Outcome::Done(report) => return Ok(StopReport { attempts: attempt + 1, ..report }),
            Outcome::Unsafe => last = AttachError::NoSafeMoment(pid),
            Outcome::TooLong(state) => {
                last = AttachError::DoesNotStop { pid, state, budget_ms: budget.as_millis() as u64 };
                too_long += 1;
                if too_long == MOST_TOO_LONG {
                    break;
                }
            }
            Outcome::Changed => return Err(AttachError::ChangedMeanwhile(pid)),
            Outcome::Filter(verdict) => return Err(verdict.refusal_of_agent(pid).into()),
            Outcome::WriteForbidden(source) => return Err(AttachError::WriteForbidden { pid, source }),
            Outcome::Failed(error)
                if error.raw_os_error() == Some(libc::ESRCH) || error.kind() == io::ErrorKind::NotFound =>
            {
                return Err(AttachError::Ended(pid));
            }
            Outcome::Failed(source) => {
                last = AttachError::Failed { pid, what: "its threads cannot be stopped", source }
            }
        }
    }
    Err(last)
}

/// Wipes the scripts of attachers that died, if there are any. False if one stays: a thread may be on its way to it, and would unmap what it was told to. Nothing may be
/// mapped there meanwhile, so no other script may unmap it.
pub(crate) fn wipe_left_scripts(
    pid: i32,
    memory: &TargetMemory,
    areas: &[Range<u64>],
    budget: Duration,
    steps: &Steps,
) -> bool {
    left_scripts(memory, areas).is_empty() || change_functions(pid, memory, areas, Change::Wipe, budget, steps).is_ok()
}

/// Between the instructions that a jump covers. Its first byte is no danger: the jump does what stood there.
fn interiors(hooks: &[Hook]) -> Vec<Range<u64>> {
    hooks.iter().map(|hook| hook.address + 1..hook.address + hook.length).collect()
}

fn attempt_change(
    pid: i32,
    memory: &TargetMemory,
    areas: &[Range<u64>],
    change: Change<'_>,
    budget: Duration,
    steps: &Steps,
    go_on: &mut ThreadsGoOn<'_>,
) -> Outcome {
    let space = match AddressSpace::read(pid) {
        Ok(space) => space,
        Err(error) => return Outcome::Failed(error),
    };
    let mut threads = match StoppedThreads::stop(pid, memory, budget, steps, go_on) {
        Ok(threads) => threads,
        Err(StopFailure::TooLong { state }) => return Outcome::TooLong(state),
        Err(StopFailure::Failed(error)) => return Outcome::Failed(error),
    };
    let result = while_stopped(pid, memory, areas, &space, &threads, change, steps);
    let (count, mended) = (threads.count(), threads.mended);
    let pause = threads.release(go_on);
    match result {
        Outcome::Done(report) => Outcome::Done(StopReport { pause, threads: count, mended, ..report }),
        other => other,
    }
}

fn while_stopped(
    pid: i32,
    memory: &TargetMemory,
    areas: &[Range<u64>],
    space: &AddressSpace,
    threads: &StoppedThreads<'_>,
    change: Change<'_>,
    steps: &Steps,
) -> Outcome {
    let mut report = StopReport::default();
    match change {
        Change::Hook { hooks, switch, mode, is_filtered } => {
            if is_filtered && let Err(verdict) = check_agent_calls(pid, threads.tracees()) {
                return Outcome::Filter(verdict);
            }
            match threads.any_in(memory, space, &interiors(hooks)) {
                Ok(false) => (),
                Ok(true) => return Outcome::Unsafe,
                Err(error) => return Outcome::Failed(error),
            }
            steps.at("no thread is at a wrong place");
            // An attacher that another mount of /proc hides, or a debugger, may have come between the plan and this stop.
            if hooks.iter().any(|hook| !memory.holds(hook.address, &hook.original[..hook.length as usize])) {
                return Outcome::Changed;
            }
            for hook in hooks {
                if let Err(error) = memory.write(hook.address, &hook.patched[..hook.length as usize]) {
                    return Outcome::WriteForbidden(error);
                }
                report.changed += 1;
                steps.at("a function is hooked");
            }
            wipe_scripts(memory, areas, space, threads);
            steps.at("the script is wiped");
            if let Err(error) = memory.write(switch, &mode.to_le_bytes()) {
                return Outcome::Failed(error);
            }
            steps.at("it is switched on");
        }
        Change::Wipe => {
            wipe_scripts(memory, areas, space, threads);
            // A thread that has made the last call of a script may still be on its way back.
            if !left_scripts(memory, areas).is_empty() {
                return Outcome::Unsafe;
            }
        }
        Change::Restore { leftover } => {
            for hook in leftover.hooks() {
                let length = hook.length as usize;
                if memory.holds(hook.address, &hook.patched[..length]) {
                    if let Err(error) = memory.write(hook.address, &hook.original[..length]) {
                        return Outcome::WriteForbidden(error);
                    }
                    report.changed += 1;
                    steps.at("a function is restored");
                } else if !memory.holds(hook.address, &hook.original[..length]) {
                    report.foreign += 1;
                }
            }
            wipe_scripts(memory, areas, space, threads);
            report.is_clear = report.foreign == 0
                && leftover.is_known()
                && !leftover.any_inside(memory, space, threads.registers().map(|registers| registers.fs_base))
                && threads.any_in(memory, space, &leftover.code()).is_ok_and(|any| !any);
            steps.at("it is known whether the agent is still in use");
        }
    }
    Outcome::Done(report)
}

/// Removes scripts that no thread runs, those of attachers that died included.
fn wipe_scripts(memory: &TargetMemory, areas: &[Range<u64>], space: &AddressSpace, threads: &StoppedThreads<'_>) {
    for area in left_scripts(memory, areas) {
        if threads.any_in(memory, space, std::slice::from_ref(&area)).is_ok_and(|any| !any) {
            let _ = memory.write(area.start, &[0; MOST_SCRIPT_BYTES]);
        }
    }
}

fn encode(outcome: &Outcome) -> Vec<u8> {
    let words: Vec<u64> = match outcome {
        Outcome::Done(report) => vec![
            0,
            report.pause.as_nanos() as u64,
            report.threads as u64,
            report.mended.into(),
            report.changed as u64,
            report.foreign as u64,
            report.is_clear.into(),
        ],
        Outcome::Unsafe => vec![1],
        Outcome::Changed => vec![7],
        Outcome::TooLong(state) => vec![2, u64::from(u32::from(*state))],
        Outcome::Filter(FilterVerdict::Unreadable) => vec![5],
        Outcome::Filter(FilterVerdict::Forbidden { call, answer }) => vec![6, (*call).into(), (*answer).into()],
        Outcome::WriteForbidden(error) => vec![3, error.raw_os_error().unwrap_or(libc::EIO) as u64],
        Outcome::Failed(error) => vec![4, error.raw_os_error().unwrap_or(libc::EIO) as u64],
    };
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn decode(answer: &[u8]) -> Outcome {
    let word = |index: usize| u64_at(answer, index * 8).unwrap_or(0);
    let error = || io::Error::from_raw_os_error(word(1) as i32);
    match word(0) {
        0 => Outcome::Done(StopReport {
            pause: Duration::from_nanos(word(1)),
            threads: word(2) as usize,
            mended: word(3) as u32,
            attempts: 0,
            changed: word(4) as usize,
            foreign: word(5) as usize,
            is_clear: word(6) != 0,
        }),
        1 => Outcome::Unsafe,
        2 => Outcome::TooLong(char::from_u32(word(1) as u32).unwrap_or('?')),
        3 => Outcome::WriteForbidden(error()),
        7 => Outcome::Changed,
        5 => Outcome::Filter(FilterVerdict::Unreadable),
        6 => Outcome::Filter(FilterVerdict::Forbidden { call: word(1) as u32, answer: word(2) as u32 }),
        _ => Outcome::Failed(error()),
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_STOP_BUDGET, MOST_ATTEMPTS, MOST_KILLED, MOST_TOO_LONG, pause_before, watchdog};
    use std::time::Duration;

    #[test]
    fn threads_are_stopped_for_a_small_part_of_all_attempts() {
        let (mut stopped, mut going_on, mut last) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for too_long in 1..MOST_TOO_LONG {
            let pause = pause_before(too_long, too_long);
            assert!(pause >= DEFAULT_STOP_BUDGET && (too_long > 5 || pause > last), "{too_long}: {pause:?}");
            last = pause;
            stopped += DEFAULT_STOP_BUDGET;
            going_on += pause;
        }
        assert!(stopped * 10 < going_on, "{stopped:?} beside {going_on:?}");
        assert!(going_on < Duration::from_secs(10), "{going_on:?}");
        assert!((1..MOST_ATTEMPTS).all(|attempt| pause_before(attempt, 0) < Duration::from_millis(10)));
        assert!(watchdog(DEFAULT_STOP_BUDGET) * MOST_KILLED <= Duration::from_secs(1));
    }
}
