//! The thread that reads the pages of processes: the thread that reads the rings must not wait for it.

use super::live_copy::LiveCopy;
use crate::stream::spawn;
use highwater_model::RssBreakdown;
use highwater_resident::{PageScan, ScanOptions};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// A breakdown to make.
pub(super) struct Job {
    pub pid: u32,
    /// The program, if that is known. A process that executed another one meanwhile has none of these blocks.
    pub executable: Option<PathBuf>,
    pub live: LiveCopy,
    pub reply: Sender<Reply>,
}

/// The result of a [`Job`].
pub(super) struct Reply {
    /// `None` if the process has ended, or may not be read.
    pub breakdown: Option<RssBreakdown>,
    /// The processor time that it took.
    pub cost: Duration,
}

/// Sends jobs to the thread, which does one after the other. The thread ends when the last of these is dropped.
#[derive(Clone, Debug)]
pub struct BreakdownWorker(Sender<Job>);

impl BreakdownWorker {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (jobs, received) = channel::<Job>();
        spawn(c"pages", move || {
            for Job { pid, executable, live, reply } in received {
                let began = processor_time();
                let breakdown = is_same_program(pid, executable).then(|| breakdown(pid, live)).flatten();
                // The recording may have ended meanwhile.
                let _ = reply.send(Reply { breakdown, cost: processor_time().saturating_sub(began) });
            }
        })?;
        Ok(Self(jobs))
    }

    /// Hands over a job; false if the thread has ended.
    pub(super) fn send(&self, job: Job) -> bool {
        self.0.send(job).is_ok()
    }
}

/// A failure is no news: processes end, and some cannot be read.
fn breakdown(pid: u32, live: LiveCopy) -> Option<RssBreakdown> {
    let (at, reason) = (live.at, live.reason);
    let scan = PageScan::read(pid, ScanOptions::default()).ok()?;
    let breakdown = RssBreakdown { at, reason, ..scan.breakdown(live.into_memory()) };
    // A process that is ending has given back its memory.
    (breakdown.process.rss > 0 && breakdown.process.rss_after > 0).then_some(breakdown)
}

fn is_same_program(pid: u32, executable: Option<PathBuf>) -> bool {
    executable.is_none_or(|executable| executable_of(pid).is_some_and(|now| now == executable))
}

/// The program that a process runs.
pub(super) fn executable_of(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The processor time of this thread.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
