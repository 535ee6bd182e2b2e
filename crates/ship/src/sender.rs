//! Sends what is spooled, and waits while the target is away.

use crate::slot_clock::SlotClock;
use crate::spool::{ShipSpool, SpoolError, SpooledParcel};
use crate::target::{Parcel, SendError, ShipTarget};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which slots are sent together, and when.
#[derive(Clone, Copy, Debug)]
pub struct SendPolicy {
    /// The slots of this host.
    pub clock: SlotClock,
    /// After this many seconds slots are sent.
    pub file_every: i64,
    /// Slots are sent once they have more bytes.
    pub file_bytes: u64,
    /// Each slot is sent by itself, and at once.
    pub whole_slots: bool,
}

impl SendPolicy {
    /// How many of the waiting slots are sent now. `flush` sends all.
    pub fn count(&self, waiting: &[(i64, u64)], flush: bool) -> usize {
        const HOUR: i64 = 3600;
        let (Some(&(oldest, _)), Some(&(newest, _))) = (waiting.first(), waiting.last()) else { return 0 };
        if self.whole_slots {
            return 1;
        }
        // Compaction works by the hour.
        let of_hour = waiting.iter().take_while(|(slot, _)| slot.div_euclid(HOUR) == oldest.div_euclid(HOUR));
        let mut bytes = 0u64;
        let fitting = of_hour
            .take_while(|(_, more)| {
                let fits = bytes == 0 || bytes.saturating_add(*more) <= self.file_bytes;
                bytes = bytes.saturating_add(*more);
                fits
            })
            .count();
        let is_full = fitting < waiting.len() || bytes >= self.file_bytes;
        let file_of = |slot: i64| self.clock.file_of(slot, self.file_every);
        let is_due = file_of(newest.saturating_add(self.clock.every())) != file_of(oldest);
        if is_full || is_due || flush { fitting } else { 0 }
    }
}

/// Wakes the sender.
#[derive(Debug, Default)]
pub struct SenderWake {
    state: Mutex<WakeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WakeState {
    news: bool,
    is_ending: bool,
}

impl SenderWake {
    /// There is a new slot.
    pub fn news(&self) {
        self.change(|state| state.news = true);
    }

    /// No slot follows: the sender tries to send all that is left, once, and ends.
    pub fn end(&self) {
        self.change(|state| state.is_ending = true);
    }

    fn change(&self, change: impl FnOnce(&mut WakeState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn is_ending(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_ending
    }

    /// Waits for news or the end.
    fn wait_for_news(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut WakeState| !state.news && !state.is_ending;
        let mut state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        state.news = false;
    }

    /// Waits for a time, or for the end.
    fn wait(&self, time: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let going = |state: &mut WakeState| !state.is_ending;
        drop(self.changed.wait_timeout_while(state, time, going));
    }
}

/// The thread that sends.
pub struct Sender {
    /// What is to be sent.
    pub spool: Arc<ShipSpool>,
    /// To whom.
    pub target: Box<dyn ShipTarget>,
    /// When.
    pub policy: SendPolicy,
    /// The host of the shipper.
    pub host: String,
    /// Wakes it.
    pub wake: Arc<SenderWake>,
    /// Where lines for the user go.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The shortest and the longest wait after a failure.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The longest wait that a target can ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The failures since the last success.
#[derive(Default)]
struct Failures {
    count: u32,
    said: Option<(String, Instant)>,
}

/// A failure that lasts is said again after this time.
const SAY_AGAIN: Duration = Duration::from_secs(3600);

impl Failures {
    /// The wait after one more failure. Hosts whose store came back do not all return at the same instant: each waits for a part of the time that the parcel's id decides.
    fn wait(&mut self, id: &str) -> Duration {
        self.count = self.count.saturating_add(1);
        let most = SHORTEST_WAIT.saturating_mul(1 << (self.count - 1).min(16)).min(LONGEST_WAIT);
        let part = u32::from_str_radix(id.get(..4).unwrap_or_default(), 16).unwrap_or(0);
        most.mul_f64(0.5 + 0.5 * f64::from(part) / 65536.0)
    }

    /// Whether a line is news.
    fn is_news(&mut self, line: &str) -> bool {
        let is_known = self.said.as_ref().is_some_and(|(said, when)| said == line && when.elapsed() < SAY_AGAIN);
        if !is_known {
            self.said = Some((line.to_owned(), Instant::now()));
        }
        !is_known
    }
}

impl Sender {
    /// Sends until the shipper stops. Returns why slots are left in the spool, if some are.
    pub fn run(mut self) -> Result<(), String> {
        let mut failures = Failures::default();
        loop {
            let is_ending = self.wake.is_ending();
            let parcel = self.spool.next_parcel(|waiting| self.policy.count(waiting, is_ending));
            let failed = match parcel {
                Ok(None) if is_ending => return Ok(()),
                Ok(None) => {
                    self.wake.wait_for_news();
                    continue;
                }
                Ok(Some(parcel)) => {
                    let sent = self.send(&parcel, &mut failures);
                    self.spool.put_back();
                    sent.err().map(|(line, wait)| (line, wait.unwrap_or_else(|| failures.wait(&parcel.id))))
                }
                Err(error) => Some((error.to_string(), failures.wait(""))),
            };
            let Some((line, wait)) = failed else { continue };
            if is_ending {
                return Err(line);
            }
            if failures.is_news(&line) {
                (self.say)(&format!("cannot send to {}: {line}; slots stay in the spool", self.target.name()));
            }
            self.wake.wait(wait);
        }
    }

    /// Sends a parcel. The error is a line, and how long to wait if the target says so.
    fn send(&mut self, spooled: &SpooledParcel, failures: &mut Failures) -> Result<(), (String, Option<Duration>)> {
        let (batch, lines) = self.spool.read(spooled);
        lines.iter().for_each(|line| (self.say)(line));
        let first_slot = spooled.slots.first().copied().unwrap_or_default();
        let is_target_known = self.spool.is_target_known(self.target.name());
        let parcel = Parcel { id: spooled.id.clone(), host: self.host.clone(), first_slot, batch, is_target_known };
        let is_empty = parcel.batch.processes.is_empty() && parcel.batch.sites.is_empty();
        let sent = if is_empty { Ok(String::new()) } else { self.target.send(&parcel) };
        let line = match sent {
            Ok(line) => {
                if !is_empty && !is_target_known {
                    let noted = self.spool.note_target(self.target.name());
                    noted.map_err(|error| (error.to_string(), None))?;
                }
                if std::mem::take(failures).count > 0 {
                    let (slots, _) = self.spool.counts();
                    (self.say)(&format!("{} is there again; {slots} slots are to be sent", self.target.name()));
                }
                line
            }
            Err(SendError::Unacceptable(line)) => {
                self.spool.note_loss();
                format!("{}: {line}; {} slots are dropped", self.target.name(), spooled.slots.len())
            }
            Err(SendError::Away { reason, retry_after }) => {
                return Err((reason, retry_after.map(|wait| wait.min(LONGEST_RETRY_AFTER))));
            }
            Err(SendError::Refused(line)) => return Err((line, Some(LONGEST_WAIT))),
        };
        if !line.is_empty() {
            (self.say)(&line);
        }
        self.spool.remove(spooled).map_err(|error: SpoolError| (error.to_string(), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(file_every: i64, file_bytes: u64) -> SendPolicy {
        let clock = SlotClock::new(60, Duration::ZERO, "host");
        SendPolicy { clock, file_every, file_bytes, whole_slots: false }
    }

    #[test]
    fn slots_are_sent_by_time_by_size_and_at_the_end() {
        let by_time = policy(300, 1000);
        let mut sent = Vec::new();
        let mut waiting: Vec<(i64, u64)> = Vec::new();
        for slot in (36_000..36_000 + 1500).step_by(60) {
            waiting.push((slot, 1));
            let count = by_time.count(&waiting, false);
            if count > 0 {
                assert_eq!(count, waiting.len());
                sent.push(count);
                waiting.clear();
            }
        }
        assert!(sent.len() >= 4 && sent[1..].iter().all(|count| *count == 5), "{sent:?}");
        assert_eq!(by_time.count(&[(36_000, 400), (36_060, 400), (36_120, 400)], false), 2);
        assert_eq!(by_time.count(&[(36_000, 4000)], false), 1);
        assert_eq!(policy(3600, 1000).count(&[(36_060, 1)], false), 0);
        assert_eq!(policy(3600, 1000).count(&[(36_060, 1)], true), 1);
        // Not two hours in one file.
        assert_eq!(policy(7200, 1000).count(&[(35_940, 1), (36_000, 1)], false), 1);
        assert_eq!(by_time.count(&[], true), 0);
        assert_eq!(SendPolicy { whole_slots: true, ..by_time }.count(&[(0, 1), (60, 1)], false), 1);
    }

    #[test]
    fn waits_grow_and_are_bounded() {
        let mut failures = Failures::default();
        let waits: Vec<Duration> = (0..40).map(|_| failures.wait("8000000000000000")).collect();
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]) && waits[39] <= LONGEST_WAIT, "{waits:?}");
        assert!(waits[0] < Duration::from_secs(1) && waits[39] > Duration::from_secs(200));
        assert!(failures.is_news("a") && !failures.is_news("a") && failures.is_news("b"));
    }
}
