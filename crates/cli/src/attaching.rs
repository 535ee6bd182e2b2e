//! Attaching to a process that runs already, and detaching from it: for `record --pid`, `attach` and `detach`.

use crate::descendants::descendants_of;
use crate::failure::Failure;
use crate::print::bytes::counted;
use highwater_attach::{
    AttachError, AttachOptions, AttachPlan, Attached, DetachOptions, Detached, NotWalkable, Refusal,
    has_leftover as find_leftover, is_loading, plan as examine,
};
use highwater_clock::Counter;
use highwater_inject::IMAGE;
use highwater_session::{AttachedEnd, AttachedMemory, ModuleWatch, allocator_of};
use highwater_shm::attach_v1::{AttachHeader, AttachLayout, OBJECT_NAME};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long it is tried again, if the process is busy in a way that passes.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for a sign that a process is read by another command. Readers give many a second.
pub const SIGN_PATIENCE: Duration = Duration::from_millis(1500);
const PAUSE_BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// How often it is tried to unmap an agent that a thread was in.
const TRIES_TO_UNMAP: u32 = 3;

/// What would be done with a process. Nothing is touched.
pub fn plan(pid: u32) -> Result<AttachPlan, Failure> {
    again(|| Ok(examine_for_blocks(pid)?)).map_err(Failure::fault)
}

/// Examines a process, and refuses one that has an allocator which no hook sees.
fn examine_for_blocks(pid: u32) -> Result<AttachPlan, Refusal> {
    let number = i32::try_from(pid).map_err(|_| Refusal::NoSuchProcess(i32::MAX))?;
    let plan = examine(number)?;
    match allocator_of(pid) {
        Some(allocator) if !plan.hooks_program() => Err(Refusal::UnseenAllocator { pid: number, allocator }),
        _ => Ok(plan),
    }
}

/// Whether a process has anything that an attach has left. Nothing is touched.
pub fn has_leftover(pid: u32) -> Result<bool, Failure> {
    again(|| find_leftover(number(pid)?)).map_err(Failure::fault)
}

/// The failure of an attach to a process that is attached to already.
pub fn already_attached(pid: u32) -> Failure {
    Failure::fault(AttachError::AlreadyAttached(pid.cast_signed()))
}

/// Puts the agent into a process, with the first of the layouts that has room in its address space. `configure` completes what the agent finds when it begins. With
/// `replace`, an attach whose reader is gone is ended first.
pub fn attach(
    pid: u32,
    layouts: &[AttachLayout],
    replace: bool,
    mut configure: impl FnMut(&mut AttachHeader),
) -> Result<AttachedProcess, Failure> {
    // An allocator that the loader has not mapped yet would not be hooked.
    let deadline = Instant::now() + PATIENCE;
    while i32::try_from(pid).is_ok_and(is_loading) && Instant::now() < deadline {
        std::thread::sleep(PAUSE_BETWEEN_TRIES);
    }
    again(|| try_to_attach(pid, layouts, replace, &mut configure)).map_err(Failure::fault)
}

/// The same, once.
pub fn try_to_attach(
    pid: u32,
    layouts: &[AttachLayout],
    replace: bool,
    configure: &mut impl FnMut(&mut AttachHeader),
) -> Result<AttachedProcess, AttachError> {
    let counter = Counter::trusted();
    let mut try_with = |layout: AttachLayout| {
        let mut memory = None;
        let options = AttachOptions { replace, ..AttachOptions::new(layout.bytes()) };
        let attached = examine_for_blocks(pid)?.attach(IMAGE, &options, |header, object| {
            configure(header);
            let opened = AttachedMemory::open(object, layout).map_err(io::Error::other)?;
            opened.prepare(header, pid, counter).map_err(io::Error::other)?;
            memory = Some(opened);
            Ok(())
        })?;
        let memory = Arc::new(memory.ok_or(AttachError::BadImage)?);
        Ok(AttachedProcess { pid, attached, memory, layout, counter })
    };
    let mut last = None;
    for &layout in layouts {
        match try_with(layout) {
            Err(error @ AttachError::Script { call: "mmap", .. }) => last = Some(error),
            done => return done,
        }
    }
    Err(last.unwrap_or(AttachError::BadImage))
}

/// Makes a process as it was. A thread that was inside of the agent has left it a moment later: then the agent's memory is unmapped as well.
pub fn detach(pid: u32) -> Result<Detached, AttachError> {
    let detach = || again(|| highwater_attach::detach(number(pid)?, &DetachOptions::default()));
    let mut detached = detach()?;
    for _ in 0..TRIES_TO_UNMAP {
        if detached.is_unmapped {
            break;
        }
        std::thread::sleep(PAUSE_BETWEEN_TRIES);
        match detach() {
            Ok(later) => {
                detached.is_unmapped = later.is_unmapped;
                detached.stop.pause = detached.stop.pause.max(later.stop.pause);
            }
            Err(AttachError::NotAttached(_)) => detached.is_unmapped = true,
            // Its functions are restored.
            Err(_) => break,
        }
    }
    Ok(detached)
}

/// What was done with the descendants of a process.
#[derive(Debug, Default)]
pub struct DetachedDescendants {
    /// The number that nothing records any more.
    pub count: u64,
    /// What did not succeed.
    pub problems: Vec<String>,
}

/// Makes all descendants of processes as they were: those that were attached to, and those that have copies of the hooks because they were forked. `before` is
/// called with each.
pub fn detach_descendants(roots: &[u32], mut before: impl FnMut(u32)) -> DetachedDescendants {
    let mut done = DetachedDescendants::default();
    let mut seen: HashSet<u32> = roots.iter().copied().collect();
    // A process may fork while others are detached from.
    loop {
        let all: Vec<u32> =
            roots.iter().flat_map(|&root| descendants_of(root)).filter(|&pid| seen.insert(pid)).collect();
        if all.is_empty() {
            return done;
        }
        for pid in all {
            // It may be attached to at this moment. What cannot be examined has no hooks.
            if !again(|| find_leftover(number(pid)?)).unwrap_or(false) {
                continue;
            }
            before(pid);
            match detach(pid) {
                Ok(_) => done.count += 1,
                Err(AttachError::Ended(_) | AttachError::NotAttached(_)) => {}
                Err(AttachError::Refused(Refusal::NoSuchProcess(_) | Refusal::Zombie(_))) => {}
                Err(error) => done.problems.push(format!("child {pid} keeps hooks that pass calls on: {error}")),
            }
        }
    }
}

/// A stop, in milliseconds: `0.21 ms`.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// What would permit to read a heap that took too long, as the end of a sentence; empty if something else is the problem.
pub fn longer_pause(problem: &NotWalkable) -> String {
    let permitted = match problem {
        NotWalkable::TooLarge { estimate, .. } => Some(*estimate * 3 / 2),
        NotWalkable::TooSlow { longest, .. } => Some(*longest * 4),
        _ => None,
    };
    permitted.map_or_else(String::new, |time| format!("; '--pause {}ms' permits more", time.as_millis() + 1))
}

/// What a detach did, in a sentence.
pub fn detached_in_words(detached: &Detached) -> String {
    let pause = milliseconds(detached.stop.pause);
    let rest = match detached.is_unmapped {
        true => "nothing stays in it",
        false => "unused memory of the agent stays mapped in it",
    };
    format!("detached; threads were stopped for {pause}; {rest}")
}

fn number(pid: u32) -> Result<i32, AttachError> {
    i32::try_from(pid).map_err(|_| Refusal::NoSuchProcess(i32::MAX).into())
}

/// Tries for some seconds.
fn again<T>(mut attempt: impl FnMut() -> Result<T, AttachError>) -> Result<T, AttachError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if error.is_temporary() && Instant::now() < deadline => std::thread::sleep(PAUSE_BETWEEN_TRIES),
            done => return done,
        }
    }
}

/// A process with hooks.
pub struct AttachedProcess {
    pid: u32,
    /// The attach: the object, the stop.
    pub attached: Attached,
    /// What reader and agent share.
    pub memory: Arc<AttachedMemory>,
    /// Where the parts of the object are.
    pub layout: AttachLayout,
    /// What the agent stamps with.
    pub counter: Option<Counter>,
}

impl AttachedProcess {
    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What was done, in a sentence.
    pub fn in_words(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        let hooked = counted(self.attached.header.hook_count, "function");
        let stop = &self.attached.stop;
        let (threads, pause) = (counted(stop.threads as u64, "thread"), milliseconds(stop.pause));
        let verb = if stop.threads == 1 { "was" } else { "were" };
        format!("attached to {} ({}): {hooked} hooked, {threads} {verb} stopped for {pause}", name.trim_end(), self.pid)
    }

    /// Makes the process as it was; says what was done. Nothing if it has ended.
    pub fn detach(&self) -> Result<Option<String>, Failure> {
        match detach(self.pid) {
            Ok(detached) => Ok(Some(detached_in_words(&detached))),
            Err(AttachError::Ended(_) | AttachError::NotAttached(_)) => Ok(None),
            Err(AttachError::Refused(Refusal::NoSuchProcess(_) | Refusal::Zombie(_))) => Ok(None),
            Err(error) => Err(Failure::fault(error)),
        }
    }

    /// Keeps the agent alive, and looks at the process every so often.
    pub fn keeper(&self, look_every: Duration) -> Keeper {
        Keeper {
            pid: self.pid,
            memory: Arc::clone(&self.memory),
            watch: ModuleWatch::of(self.pid),
            look_every,
            last_look: Instant::now(),
            is_replaced: false,
        }
    }
}

/// The reader's duties towards an agent.
pub struct Keeper {
    pid: u32,
    memory: Arc<AttachedMemory>,
    watch: ModuleWatch,
    look_every: Duration,
    last_look: Instant,
    is_replaced: bool,
}

impl Keeper {
    /// To be called often: memory is allocated ahead of the agent.
    pub fn keep(&mut self) {
        self.memory.keep_alive();
        if self.last_look.elapsed() < self.look_every {
            return;
        }
        self.last_look = Instant::now();
        if self.watch.has_lost_any() {
            self.memory.note_unload();
        }
        let maps = std::fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let name = OBJECT_NAME.to_bytes();
        self.is_replaced = !maps.is_empty() && !maps.windows(name.len()).any(|window| window == name);
    }

    /// Whether the process executes another program now: nothing of the agent is left.
    pub fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// Why the agent has ended by itself.
    pub fn ended(&self) -> Option<&'static str> {
        Some(match self.memory.ended()? {
            AttachedEnd::NoReader => "recording ended: this command stood still for longer than 10 s",
            AttachedEnd::Asked => "recording ended: it was detached",
            AttachedEnd::Filter => "recording ended: the program installed a seccomp filter",
            AttachedEnd::Damaged => "recording ended: the program has written into the agent's memory",
        })
    }
}
