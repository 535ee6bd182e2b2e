//! Attaching to the children of a process that was attached to, as soon as they are seen.
//!
//! A child that was forked has copies of the hooks, which pass calls on: they are removed, and its own agent is put into it. A child that has executed a program has none.

use crate::attaching::{AttachedProcess, try_to_attach};
use crate::descendants::{Descendant, Descendants, LOOK_EVERY, PAUSE_PER_LOOK, StartTime};
use highwater_attach::{AttachError, Refusal, has_leftover, is_loading};
use highwater_shm::attach_v1::{AttachHeader, AttachLayout};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a child may be busy, or without a C library, before it is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A child that is not attached to yet.
#[derive(Debug)]
pub struct NewChild {
    /// The child.
    pub process: Descendant,
    seen: Instant,
}

/// How an attempt to attach to a child has ended.
pub enum ChildAttempt {
    /// It is attached to. The flag says whether it was forked, and runs the program of its parent.
    Attached(Box<AttachedProcess>, bool),
    /// It is not fit for it now: as in `vfork`, or while its libraries are loaded.
    Later(NewChild),
    /// It has ended before.
    Ended,
    /// It cannot be attached to.
    Refused(AttachError),
}

impl NewChild {
    /// A child that was just seen.
    pub fn new(process: Descendant) -> Self {
        Self { process, seen: Instant::now() }
    }

    /// Tries to attach to it.
    pub fn try_to_attach(
        self,
        layouts: &[AttachLayout],
        configure: &mut impl FnMut(&mut AttachHeader),
    ) -> ChildAttempt {
        let pid = self.process.pid;
        let Ok(number) = i32::try_from(pid) else { return ChildAttempt::Ended };
        if self.has_ended() {
            return ChildAttempt::Ended;
        }
        let is_late = self.seen.elapsed() > PATIENCE;
        if is_loading(number) && !is_late {
            return ChildAttempt::Later(self);
        }
        let was_forked = has_leftover(number).unwrap_or(false);
        match try_to_attach(pid, layouts, false, configure) {
            Ok(attached) => ChildAttempt::Attached(Box::new(attached), was_forked),
            Err(_) if self.has_ended() => ChildAttempt::Ended,
            Err(error) if may_pass(&error) && !is_late => ChildAttempt::Later(self),
            Err(error) => ChildAttempt::Refused(error),
        }
    }

    fn has_ended(&self) -> bool {
        StartTime::of(self.process.pid) != Some(self.process.began)
    }
}

/// Whether an error can be different in a moment, for a process that has just begun.
fn may_pass(error: &AttachError) -> bool {
    error.is_temporary()
        || matches!(
            error,
            AttachError::Refused(
                Refusal::SharedMemory { .. } | Refusal::NoAllocator(_) | Refusal::Traced { .. } | Refusal::NoSlack(_)
            )
        )
}

/// What became of a child.
pub enum FollowedChild {
    /// It is attached to. The flag says whether it was forked, and runs the program of its parent.
    Attached(Box<AttachedProcess>, bool),
    /// It had ended before.
    Ended,
    /// It cannot be attached to, and why.
    Refused(AttachError),
}

/// A thread that attaches to the children of a process.
pub struct ChildFollower {
    children: Receiver<FollowedChild>,
    again: Sender<u32>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ChildFollower {
    /// Follows the children that a process has started since a moment.
    pub fn start(
        root: u32,
        since: StartTime,
        layouts: Vec<AttachLayout>,
        mut configure: impl FnMut(&mut AttachHeader) + Send + 'static,
    ) -> io::Result<Self> {
        let (to, children) = channel();
        let (again, to_retry) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let mut family = Descendants::default();
        family.add_root(root, since);
        let has_to_end = Arc::clone(&is_over);
        let follow = move || {
            let mut pending: Vec<NewChild> = Vec::new();
            while !has_to_end.load(Ordering::Relaxed) {
                let began = Instant::now();
                pending.extend(family.look().into_iter().map(NewChild::new));
                pending.extend(
                    to_retry
                        .try_iter()
                        .filter_map(|pid| Some(NewChild::new(Descendant { pid, began: StartTime::of(pid)?, root }))),
                );
                let took = began.elapsed();
                for child in std::mem::take(&mut pending) {
                    let became = match child.try_to_attach(&layouts, &mut configure) {
                        ChildAttempt::Later(child) => {
                            pending.push(child);
                            continue;
                        }
                        ChildAttempt::Attached(attached, was_forked) => FollowedChild::Attached(attached, was_forked),
                        ChildAttempt::Ended => FollowedChild::Ended,
                        ChildAttempt::Refused(error) => FollowedChild::Refused(error),
                    };
                    if to.send(became).is_err() {
                        return;
                    }
                }
                thread::park_timeout(LOOK_EVERY.max(took * PAUSE_PER_LOOK));
            }
        };
        let thread = Some(thread::Builder::new().name("children".to_owned()).spawn(follow)?);
        Ok(Self { children, again, is_over, thread })
    }

    /// What became of children since the last time.
    pub fn take(&self) -> impl Iterator<Item = FollowedChild> {
        self.children.try_iter()
    }

    /// A child executes another program, which has no hooks.
    pub fn follow_again(&self, pid: u32) {
        let _ = self.again.send(pid);
    }

    /// No further child is attached to. Those that were meanwhile are returned.
    pub fn end(mut self) -> Vec<FollowedChild> {
        self.join();
        self.children.try_iter().collect()
    }

    fn join(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for ChildFollower {
    fn drop(&mut self) {
        self.join();
    }
}
