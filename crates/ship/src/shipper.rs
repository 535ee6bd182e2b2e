//! The loop: one slot after the other.

use crate::batch_maker::BatchMaker;
use crate::label_rules::LabelRules;
use crate::process_start::BootClock;
use crate::sender::{SendPolicy, Sender, SenderWake};
use crate::slot_clock::SlotClock;
use crate::spool::{ShipSpool, SpoolError};
use crate::taken_slots::TakenSlots;
use crate::target::ShipTarget;
use highwater_collector::{CollectorClient, CollectorError};
use highwater_symbols::DebuginfodServers;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How a host is shipped.
#[derive(Clone, Debug)]
pub struct ShipOptions {
    /// The collector's socket.
    pub socket: PathBuf,
    /// The time limit for each of its answers, if the user set one.
    pub timeout: Option<Duration>,
    /// Seconds from slot to slot.
    pub every: i64,
    /// How much later than a slot its snapshots may be taken.
    pub jitter: Duration,
    /// Labels.
    pub rules: LabelRules,
    /// The spool.
    pub spool: PathBuf,
    /// The most bytes in the spool.
    pub spool_bytes: u64,
    /// Seconds after which a file is closed.
    pub file_every: i64,
    /// Bytes in the spool after which a file is closed.
    pub file_bytes: u64,
    /// Texts in the names of the programs that are shipped; empty for all.
    pub names: Vec<String>,
    /// Take one slot, send it, and end.
    pub once: bool,
    /// Servers that are asked for debug files.
    pub servers: DebuginfodServers,
}

/// Why shipping ended. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The spool cannot be used.
    #[error("{0}")]
    Spool(#[from] SpoolError),
    /// The kernel does not say when it was booted.
    #[error("/proc cannot be read: {0}")]
    Proc(io::Error),
    /// The collector does not answer this user, or not at all.
    #[error("{0}")]
    Collector(CollectorError),
    /// Not everything was sent when it ended.
    #[error("{slots} slots are not sent and stay in {spool}: {reason}")]
    Unsent {
        /// How many.
        slots: usize,
        /// Where.
        spool: PathBuf,
        /// Why.
        reason: String,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A shipper, ready to run.
pub struct Shipper {
    options: ShipOptions,
    clock: SlotClock,
    maker: BatchMaker,
    spool: Arc<ShipSpool>,
    target: Box<dyn ShipTarget>,
}

/// Lines for the user.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// How often a signal is looked for, and a collector that is not there.
const LOOK: Duration = Duration::from_millis(200);
const COLLECTOR_LOOK: Duration = Duration::from_secs(1);

impl Shipper {
    /// Opens the spool.
    pub fn new(options: ShipOptions, target: Box<dyn ShipTarget>) -> Result<Self, ShipError> {
        let spool = Arc::new(ShipSpool::open(&options.spool, options.spool_bytes)?);
        let boot = BootClock::stored_in(&options.spool.join("boot")).map_err(ShipError::Proc)?;
        let clock = SlotClock::new(options.every, options.jitter, &options.rules.host());
        let (rules, servers) = (options.rules.clone(), options.servers.clone());
        let maker = BatchMaker::new(rules, boot, servers, target.wants_whole_slots());
        Ok(Self { options, clock, maker, spool, target })
    }

    /// How much later than its slots this host is taken.
    pub fn jitter(&self) -> Duration {
        self.clock.jitter()
    }

    /// Ships until `stop` is set, then sends what is left.
    pub fn run(self, stop: &AtomicBool, say: Say) -> Result<(), ShipError> {
        let Self { options, clock, maker, spool, target } = self;
        let wake = Arc::new(SenderWake::default());
        let policy = SendPolicy {
            clock,
            file_every: options.file_every,
            file_bytes: options.file_bytes,
            whole_slots: target.wants_whole_slots(),
        };
        let sender = Sender {
            spool: Arc::clone(&spool),
            target,
            policy,
            host: options.rules.host(),
            wake: Arc::clone(&wake),
            say: Arc::clone(&say),
        };
        let sending =
            std::thread::Builder::new().name("sender".to_owned()).spawn(|| sender.run()).map_err(ShipError::Thread)?;
        let mut slots =
            SlotLoop { options, clock, maker, spool: Arc::clone(&spool), wake: Arc::clone(&wake), say, losses: 0 };
        let taken = slots.run(stop);
        wake.end();
        let sent = sending.join().unwrap_or_else(|_| Err("the thread that sends has failed".to_owned()));
        taken?;
        let (slots, _) = spool.counts();
        sent.map_err(|reason| ShipError::Unsent { slots, spool: spool.root().to_owned(), reason })
    }
}

/// The thread that takes slots.
struct SlotLoop {
    options: ShipOptions,
    clock: SlotClock,
    maker: BatchMaker,
    spool: Arc<ShipSpool>,
    wake: Arc<SenderWake>,
    say: Say,
    /// The losses of the spool when names were last shipped again.
    losses: u64,
}

impl SlotLoop {
    fn run(&mut self, stop: &AtomicBool) -> Result<(), ShipError> {
        let mut said: Option<String> = None;
        let mut is_clock_said = false;
        loop {
            let taken = self.spool.taken();
            let (slot, wait) = self.clock.next(now(), &taken);
            let clock_line = self.clock_line(&taken, slot, wait);
            if let Some(line) = clock_line.as_ref().filter(|_| !is_clock_said) {
                (self.say)(line);
            }
            is_clock_said = clock_line.is_some();
            if !sleep(wait, stop) {
                return Ok(());
            }
            match self.take(slot) {
                Ok(()) => {
                    if said.take().is_some() {
                        (self.say)("the collector is there");
                    }
                    if self.options.once {
                        return Ok(());
                    }
                }
                Err(error) => {
                    if matches!(
                        error,
                        CollectorError::Stranger { .. } | CollectorError::Forbidden(_) | CollectorError::NoPath(_)
                    ) {
                        return Err(ShipError::Collector(error));
                    }
                    let line = format!("waiting: {error}");
                    if said.as_ref() != Some(&line) {
                        (self.say)(&line);
                        said = Some(line);
                    }
                    if !sleep(COLLECTOR_LOOK, stop) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// What to say of a clock that was set back: slots that it has not reached again were shipped, or those that come next were.
    fn clock_line(&self, taken: &TakenSlots, slot: i64, wait: Duration) -> Option<String> {
        let last = taken.last()?;
        let usual = Duration::from_secs(self.clock.every().unsigned_abs() * 2) + self.clock.jitter();
        if wait > usual {
            return Some(format!(
                "the clock was set back: slots up to {} are taken already; the next one is taken in {} s",
                slot - self.clock.every(),
                wait.as_secs()
            ));
        }
        (slot < last).then(|| {
            format!("the clock was set back: slots up to {last} were taken while it was ahead; it goes on with {slot}")
        })
    }

    /// Takes a slot. The error is that of a collector which does not answer.
    fn take(&mut self, slot: i64) -> Result<(), CollectorError> {
        let mut client = CollectorClient::with_limit(&self.options.socket, self.options.timeout)?;
        let losses = self.spool.losses();
        if std::mem::replace(&mut self.losses, losses) != losses {
            self.maker.ship_names_again();
        }
        let made = self.maker.make(&mut client, slot, &self.options.names)?;
        made.problems.iter().for_each(|line| (self.say)(line));
        if made.batch.processes.is_empty() {
            self.spool.pass(slot);
            if self.options.once {
                (self.say)("no live process is registered; 'highwater run PROGRAM' starts one that is");
            }
            return Ok(());
        }
        match self.spool.add(slot, &made.batch) {
            Ok(0) => {}
            Ok(dropped) => {
                let (_, all) = self.spool.counts();
                (self.say)(&format!("the spool is full: {dropped} slots dropped, the oldest first; {all} so far"));
            }
            // A full disk may have room in a minute.
            Err(error) => {
                (self.say)(&format!("slot {slot} is lost: {error}"));
                self.spool.pass(slot);
                self.spool.note_loss();
            }
        }
        self.wake.news();
        Ok(())
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Sleeps; false if `stop` was set.
fn sleep(time: Duration, stop: &AtomicBool) -> bool {
    // By the wall clock, because a machine may have slept; and no longer than the time, because the clock may be set back meanwhile.
    let (until, began) = (now() + time, Instant::now());
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = until.saturating_sub(now()).min(time.saturating_sub(began.elapsed()));
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
}
