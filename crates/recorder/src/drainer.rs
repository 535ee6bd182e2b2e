//! A thread that does nothing but empty rings, for all processes that are recorded.
//!
//! What it brings in waits in a queue until it is worked through. So a program whose threads together allocate faster than we can
//! write it down does not wait for us, as long as it does so in bursts: up to [`MOST_WAITING`] bytes may wait, and never more than a [`Share`] of the room
//! that our memory group has left; and for half a second, since a recorder that is killed loses them ([`Backlog`]). A single thread can
//! outrun us only by doing nothing but allocate; it is held back sooner, because what waits long grows cold: working through it
//! then takes half as long again.

use crate::backlog::Backlog;
use crate::drain::{Drain, Haul};
use crate::resident::Resident;
use crate::room::Share;
use crate::shared::Shared;
use crate::stamps::Stamps;
use crate::words::Pool;
use rustix::event::{PollFd, PollFlags};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a sleep lasts at the most: ended processes are noticed after it.
const NAP: Duration = Duration::from_millis(5);
/// How much may wait to be worked through.
const MOST_WAITING: u64 = 256 << 20;
/// How much may wait while only one thread is busy.
const MOST_WAITING_OF_ONE: u64 = 4 << 20;
/// Threads that take turns on a processor are busy at the same time, even if not in every round.
const A_WHILE: Duration = Duration::from_millis(200);
/// A round that brings in less than this is followed by a sleep.
const MUCH: u64 = 32 << 10;

/// What the drainer says.
pub enum News {
    /// It has brought something in.
    Haul(Haul),
    /// That was the last: the process has ended, or we were told to stop.
    Ended(Haul),
}

/// A process, to the drainer.
pub struct Source {
    /// What it shares.
    pub shared: Arc<Shared>,
    /// Its clock.
    pub stamps: Stamps,
    /// Tells when it ends; `None` if it had ended before we could ask.
    pub process: Option<OwnedFd>,
    /// Where to report.
    pub news: Sender<News>,
    /// Set to stop before it ends.
    pub stop: Arc<std::sync::atomic::AtomicBool>,
    /// Its resident set.
    pub resident: Resident,
}

/// The thread.
pub struct Drainer {
    sources: Option<Sender<Source>>,
    /// Bytes brought in and not yet worked through.
    pub waiting: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Drainer {
    /// Starts it.
    pub fn start() -> std::io::Result<Self> {
        let (sources, new) = channel();
        let waiting = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("drainer".into()).spawn(move || run(&new, &counter))?;
        Ok(Self { sources: Some(sources), waiting, thread: Some(thread) })
    }

    /// Gives it one more process to look after.
    pub fn add(&self, source: Source) {
        if let Some(sources) = &self.sources {
            let _ = sources.send(source);
        }
    }
}

impl Drop for Drainer {
    fn drop(&mut self) {
        self.sources = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(new: &Receiver<Source>, waiting: &AtomicU64) {
    let mut sources: Vec<(Source, Drain)> = Vec::new();
    let mut pool = Pool::default();
    let mut last_several = Instant::now();
    let mut share = Share::new();
    let mut backlog = Backlog::default();
    loop {
        loop {
            match new.try_recv() {
                Ok(source) => sources.push((source, Drain::default())),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if sources.is_empty() => return,
                Err(TryRecvError::Disconnected) => break,
            }
        }
        if sources.is_empty() {
            match new.recv() {
                Ok(source) => sources.push((source, Drain::default())),
                Err(_) => return,
            }
        }
        let limit = if last_several.elapsed() < A_WHILE { MOST_WAITING } else { MOST_WAITING_OF_ONE };
        let now = Instant::now();
        let is_waiting = waiting.load(Ordering::Relaxed);
        if is_waiting > limit.min(share.of_room(is_waiting)) || backlog.is_too_old(is_waiting, now) {
            std::thread::sleep(NAP / 20);
            continue;
        }
        let mut bytes = 0;
        let mut busy_rings = 0;
        sources.retain_mut(|(source, drain)| {
            let (brought, rings, goes_on) = look_after(source, drain, &mut pool, waiting);
            bytes += brought;
            busy_rings += rings;
            goes_on
        });
        backlog.add(bytes, now);
        if busy_rings > 1 {
            last_several = Instant::now();
        }
        if bytes < MUCH {
            sleep(&sources);
        }
    }
}

/// A round for one process: how many bytes it brought in, of how many busy threads, and whether there will be another round.
fn look_after(source: &mut Source, drain: &mut Drain, pool: &mut Pool, waiting: &AtomicU64) -> (u64, usize, bool) {
    // Who has ended is asked first: then nothing that it wrote can be missed.
    let ended = has_ended(source.process.as_ref()) || source.stop.load(Ordering::Acquire);
    source.shared.keep_ahead();
    let mut haul = drain.round(&source.shared, (!ended).then(|| source.stamps.settled()), pool);
    if !ended {
        haul.resident = source.resident.due();
    }
    let bytes = haul.bytes();
    let busy_rings = haul.pieces.iter().filter(|piece| piece.words.len() as u64 * 8 >= MUCH / 4).count();
    waiting.fetch_add(bytes, Ordering::Relaxed);
    let news = if ended { News::Ended(haul) } else { News::Haul(haul) };
    let heard = source.news.send(news).is_ok();
    (bytes, busy_rings, heard && !ended)
}

/// Sleeps until a ring fills or some milliseconds have passed.
fn sleep(sources: &[(Source, Drain)]) {
    let [(source, _)] = sources else {
        // Whoever is busy shall not wait for others' bells.
        return std::thread::sleep(NAP / 5);
    };
    let doorbell = &source.shared.header().recorder_sleeps;
    doorbell.store(1, Ordering::SeqCst);
    if source.shared.holds_much() {
        doorbell.store(0, Ordering::Relaxed);
        return;
    }
    let nap = rustix::thread::futex::Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
    let _ = rustix::thread::futex::wait(doorbell, rustix::thread::futex::Flags::empty(), 1, Some(&nap));
    doorbell.store(0, Ordering::Relaxed);
}

fn has_ended(process: Option<&OwnedFd>) -> bool {
    let Some(process) = process else { return true };
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut ended, Some(&now)).is_ok_and(|count| count > 0)
}
