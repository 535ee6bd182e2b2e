//! Breakdowns of the resident memory of a process while it is recorded: when they are made, and which of them are kept.
//!
//! The thread that reads the rings copies the live blocks ([`live_copy`]); another one reads the pages ([`worker`]). The processor time of both stays below
//! [two thirds of a percent](SHARE) of the elapsed time and a [credit](CREDIT): after a breakdown the next one waits. So a small process has a few points in a
//! second, and a process with a million blocks one every few seconds. The credit is for programs that run for seconds only: they would have no breakdown near
//! their peak.

mod live_copy;
mod worker;

pub use live_copy::{AboutMemory, LiveCopy};
pub use worker::BreakdownWorker;

use crate::resident::RssEvery;
use highwater_model::{BreakdownReason, RssBreakdown};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use worker::{Job, Reply, executable_of, processor_time};

/// The elapsed time for each unit of processor time. With the credit, and with the last breakdown, this stays below one percent after some seconds.
const SHARE: u32 = 160;
/// Processor time that a process has in addition, once.
const CREDIT: Duration = Duration::from_millis(15);
/// The first one is made with the first reading of RSS after this time: before, the program has hardly begun.
const FIRST_AFTER: Duration = Duration::from_millis(10);
/// The number of marks that have one.
const MOST_MARKS: u32 = 100;
/// A copy takes 32 bytes for each live block. Beyond this number there are no breakdowns: the recorder would take too much memory.
const MOST_BLOCKS: usize = 1 << 23;
/// How much RSS must exceed that of the last breakdown at the peak for another one: this part of it, or these bytes if that is less.
const HIGHER_PART: u64 = 100;
const HIGHER_BYTES: u64 = 1 << 20;
/// How long the end of a recording waits for a breakdown that is being made.
const PATIENCE: Duration = Duration::from_secs(2);

/// The breakdowns of one process.
pub struct Breakdowns {
    pid: u32,
    executable: Option<PathBuf>,
    worker: Option<BreakdownWorker>,
    every: Duration,
    began: Instant,
    /// The processor time of all so far.
    spent: Duration,
    /// The next one is not made before.
    not_before: Instant,
    /// The processor time of the copy for the one that is being made.
    copying: Option<Duration>,
    replies: (Sender<Reply>, Receiver<Reply>),
    marks: u32,
    /// A mark was read while another breakdown was made: its own comes next.
    owes_mark: bool,
    /// Events until the last one. RSS is an event when it changes; without any, the next one would be the same.
    last_events: u64,
    peak: Option<RssBreakdown>,
    last: Option<RssBreakdown>,
}

impl Breakdowns {
    /// For a process; there are none without a worker, or if its resident memory is never read.
    pub fn of(pid: u32, every: RssEvery, worker: Option<BreakdownWorker>) -> Self {
        let began = Instant::now();
        Self {
            pid,
            executable: executable_of(pid),
            worker: worker.filter(|_| every.get().is_some()),
            every: every.get().unwrap_or_default(),
            began,
            spent: Duration::ZERO,
            not_before: began + FIRST_AFTER,
            copying: None,
            replies: channel(),
            marks: 0,
            owes_mark: false,
            last_events: 0,
            peak: None,
            last: None,
        }
    }

    fn is_idle(&self, blocks: usize) -> bool {
        self.worker.is_some() && self.copying.is_none() && blocks <= MOST_BLOCKS
    }

    /// Whether one is due, after this number of events and with this number of live blocks. Asked when RSS was read, so that both are of one instant.
    pub fn is_due(&self, events: u64, blocks: usize) -> bool {
        self.is_idle(blocks) && Instant::now() >= self.not_before && self.last_events != events
    }

    /// Whether the mark that was just read gets one now. Marks need not wait for the budget. One that is read while another breakdown is made gets its own right
    /// after that ([`owed_mark`](Self::owed_mark)). Those after the first hundred have none.
    pub fn takes_mark(&mut self, blocks: usize) -> bool {
        self.owes_mark |= self.copying.is_some();
        let takes = self.is_idle(blocks) && self.marks < MOST_MARKS;
        self.marks += u32::from(takes);
        takes
    }

    /// Whether a mark that had to wait gets its breakdown now.
    pub fn owed_mark(&mut self, blocks: usize) -> bool {
        self.owes_mark && self.copying.is_none() && {
            self.owes_mark = false;
            self.takes_mark(blocks)
        }
    }

    /// Hands a copy of the live blocks to the thread that reads pages.
    pub fn make(&mut self, events: u64, copy: impl FnOnce() -> LiveCopy) {
        let Some(worker) = &self.worker else { return };
        let began = processor_time();
        let live = copy();
        self.last_events = events;
        let (executable, reply) = (self.executable.clone(), self.replies.0.clone());
        if worker.send(Job { pid: self.pid, executable, live, reply }) {
            self.copying = Some(processor_time().saturating_sub(began));
        }
    }

    /// The breakdown that was made meanwhile, if there is one.
    pub fn take(&mut self) -> Option<&RssBreakdown> {
        let reply = self.replies.1.try_recv().ok()?;
        self.keep(reply)
    }

    /// Waits for the one that is being made.
    pub fn settle(&mut self) -> Option<&RssBreakdown> {
        self.copying?;
        let reply = self.replies.1.recv_timeout(PATIENCE).ok()?;
        self.keep(reply)
    }

    fn keep(&mut self, reply: Reply) -> Option<&RssBreakdown> {
        self.spent += self.copying.take().unwrap_or_default() + reply.cost;
        let earned = self.began + self.spent.saturating_sub(CREDIT) * SHARE;
        self.not_before = earned.max(Instant::now() + self.every);
        let breakdown = reply.breakdown?;
        if self.peak.as_ref().is_none_or(|peak| is_higher(breakdown.process.rss, peak.process.rss)) {
            self.peak = Some(RssBreakdown { reason: BreakdownReason::RssPeak, ..breakdown.clone() });
        }
        self.last = Some(breakdown);
        self.last.as_ref()
    }

    /// Those that are written at the end: at the highest RSS, and the last one.
    pub fn into_last(self) -> impl Iterator<Item = RssBreakdown> {
        let last = self.last.map(|last| RssBreakdown { reason: BreakdownReason::End, ..last });
        self.peak.into_iter().chain(last)
    }
}

fn is_higher(rss: u64, peak: u64) -> bool {
    rss > peak.saturating_add((peak / HIGHER_PART).min(HIGHER_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{Nanos, ProcessMemory};

    fn reply(at: u64, rss: u64) -> Reply {
        let process = ProcessMemory { rss, ..ProcessMemory::default() };
        let breakdown = RssBreakdown { at: Nanos(at), process, ..RssBreakdown::default() };
        Reply { breakdown: Some(breakdown), cost: Duration::from_millis(30) }
    }

    #[test]
    fn the_highest_and_the_last_are_kept() {
        let mut breakdowns = Breakdowns::of(1, RssEvery::default(), None);
        for (at, rss) in [(1, 50 << 20), (2, 90 << 20), (3, (90 << 20) + 4096), (4, 60 << 20)] {
            assert!(breakdowns.keep(reply(at, rss)).is_some());
        }
        // Four of 30 ms are 105 ms beyond the credit.
        let waits = breakdowns.not_before - breakdowns.began;
        assert_eq!(waits, Duration::from_millis(16_800));
        let kept: Vec<_> = breakdowns.into_last().map(|one| (one.at.0, one.reason)).collect();
        assert_eq!(kept, [(2, BreakdownReason::RssPeak), (4, BreakdownReason::End)]);
    }

    #[test]
    fn a_process_that_is_never_read_has_none() {
        let mut never = Breakdowns::of(1, RssEvery::NEVER, BreakdownWorker::start().ok());
        assert!(!never.takes_mark(1) && !never.is_due(5, 1));
        assert_eq!(never.into_last().count(), 0);
    }
}
