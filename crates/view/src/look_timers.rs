//! Looks at live processes every few seconds, as a page has chosen it: they go on when the page is hidden or closed, until the process or the viewer ends.
//!
//! One thread takes all looks, one after the other. It runs only while there is something to look at.

use crate::sources::ProcessKey;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most processes that are looked at. The one that was chosen the longest ago is left.
const MOST: usize = 4;

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookOutcome {
    /// The process runs, or the collector did not answer: the next look is worth trying.
    GoesOn,
    /// The process has ended, or another one has its number.
    HasEnded,
}

/// The processes that are looked at, and how often. When it is dropped, the looks end.
#[derive(Default)]
pub struct LookTimers(Arc<SharedTimers>);

#[derive(Default)]
struct SharedTimers {
    state: Mutex<TimersState>,
    changed: Condvar,
}

#[derive(Default)]
struct TimersState {
    /// The one that was chosen last comes last.
    timers: Vec<LookTimer>,
    has_thread: bool,
    is_over: bool,
}

#[derive(Clone, Copy)]
struct LookTimer {
    process: ProcessKey,
    every: Duration,
    due: Instant,
}

impl Drop for LookTimers {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl LookTimers {
    /// How often a process is looked at, if it is.
    pub fn every(&self, process: ProcessKey) -> Option<Duration> {
        self.0.state().timers.iter().find(|timer| timer.process == process).map(|timer| timer.every)
    }

    /// Ends the looks at a process.
    pub fn end(&self, process: ProcessKey) {
        self.0.state().timers.retain(|timer| timer.process != process);
        self.0.changed.notify_all();
    }

    /// Looks at a process every so often, the first time after that time. The looks of all processes are taken by the `look` with which the thread was started.
    pub fn begin(
        &self,
        process: ProcessKey,
        every: Duration,
        look: impl Fn(ProcessKey) -> LookOutcome + Send + 'static,
    ) -> std::io::Result<()> {
        let mut state = self.0.state();
        state.timers.retain(|timer| timer.process != process);
        state.timers.push(LookTimer { process, every, due: Instant::now() + every });
        if state.timers.len() > MOST {
            state.timers.remove(0);
        }
        if !state.has_thread {
            let shared = Arc::clone(&self.0);
            std::thread::Builder::new().name("looks".into()).spawn(move || shared.take_looks(look))?;
            state.has_thread = true;
        }
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl SharedTimers {
    fn state(&self) -> MutexGuard<'_, TimersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_looks(&self, look: impl Fn(ProcessKey) -> LookOutcome) {
        while let Some(process) = self.next() {
            if look(process) == LookOutcome::HasEnded {
                self.state().timers.retain(|timer| timer.process != process);
            }
        }
    }

    /// Waits until a process is due. `None` if there is none any more, or the viewer has ended: then the thread ends.
    fn next(&self) -> Option<ProcessKey> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let is_over = state.is_over;
            let Some(timer) = state.timers.iter_mut().min_by_key(|timer| timer.due).filter(|_| !is_over) else {
                state.has_thread = false;
                return None;
            };
            let wait = timer.due.saturating_duration_since(now);
            if wait.is_zero() {
                // Counted from now on: looks that take longer than the time between two do not pile up.
                timer.due = now + timer.every;
                return Some(timer.process);
            }
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const SOON: Duration = Duration::from_millis(1);

    fn process(pid: u32) -> ProcessKey {
        ProcessKey { pid, since_unix_ns: 1 }
    }

    #[test]
    fn looks_go_on_until_the_process_or_the_viewer_ends() {
        let timers = LookTimers::default();
        let (sender, looks) = mpsc::channel();
        let taken = std::cell::Cell::new(0);
        let look = move |process: ProcessKey| {
            let _ = sender.send(process.pid);
            taken.set(taken.get() + 1);
            if taken.get() == 3 { LookOutcome::HasEnded } else { LookOutcome::GoesOn }
        };
        timers.begin(process(7), SOON, look).unwrap();
        // Nothing asks for these looks. The third one shows the end, and the thread ends as well: its end of the channel is gone.
        assert_eq!(looks.iter().collect::<Vec<u32>>(), [7, 7, 7]);
        assert_eq!(timers.every(process(7)), None);

        let (sender, looks) = mpsc::channel();
        let look = move |process: ProcessKey| {
            let _ = sender.send(process.pid);
            LookOutcome::GoesOn
        };
        timers.begin(process(8), SOON, look).unwrap();
        assert_eq!((looks.recv(), timers.every(process(8))), (Ok(8), Some(SOON)));
        timers.begin(process(9), Duration::from_secs(1 << 30), |_| LookOutcome::GoesOn).unwrap();
        drop(timers);
        assert!(looks.iter().all(|pid| pid == 8));
    }

    #[test]
    fn few_processes_are_looked_at_and_a_look_can_be_ended() {
        let timers = LookTimers::default();
        let rarely = Duration::from_secs(1 << 20);
        let (sender, looks) = mpsc::channel::<u32>();
        for pid in 0..10 {
            let sender = sender.clone();
            let look = move |process: ProcessKey| {
                let _ = sender.send(process.pid);
                LookOutcome::GoesOn
            };
            timers.begin(process(pid), rarely, look).unwrap();
        }
        drop(sender);
        let watched = |timers: &LookTimers| (0..10).filter(|pid| timers.every(process(*pid)).is_some()).count();
        assert_eq!((watched(&timers), timers.every(process(9))), (MOST, Some(rarely)));
        (0..10).for_each(|pid| timers.end(process(pid)));
        assert_eq!((watched(&timers), looks.iter().count()), (0, 0));
    }
}
