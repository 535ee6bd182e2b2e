//! When slots are taken.

use crate::taken_slots::TakenSlots;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Slots of a host: multiples of the interval, taken a little later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotClock {
    every: i64,
    jitter: Duration,
    /// A number that the host's name decides.
    spread: u64,
}

impl SlotClock {
    /// Slots of `every` seconds, at least one; taken up to `jitter` later. The host's name decides by how much.
    pub fn new(every: i64, jitter: Duration, host: &str) -> Self {
        let digest = Sha256::digest(host.as_bytes());
        let spread = u64::from_le_bytes(digest[..8].try_into().expect("a digest has 32 bytes"));
        let every = every.max(1);
        let most = jitter.as_nanos().min(u128::from(every.unsigned_abs()) * 1_000_000_000) as u64;
        let jitter = Duration::from_nanos(spread.checked_rem(most).unwrap_or(0));
        Self { every, jitter, spread }
    }

    /// The interval in seconds.
    pub fn every(&self) -> i64 {
        self.every
    }

    /// How much later than the slot snapshots are taken.
    pub fn jitter(&self) -> Duration {
        self.jitter
    }

    /// The slot that is to be taken next, and how long to wait for it. `now` is the time since the Unix epoch.
    ///
    /// A shipper that starts in the middle of a slot takes that one at once. Slots that have passed are not made up for. After the clock was set back, those that were
    /// taken are not taken again.
    pub fn next(&self, now: Duration, taken: &TakenSlots) -> (i64, Duration) {
        let seconds = i64::try_from(now.saturating_sub(self.jitter).as_secs()).unwrap_or(0);
        let current = seconds - seconds.rem_euclid(self.every);
        let slot = taken.first_free(current, self.every);
        let due = Duration::from_secs(slot.max(0).unsigned_abs()) + self.jitter;
        (slot, due.saturating_sub(now))
    }

    /// The number of the file that a slot belongs to, if files are closed every `file_every` seconds: hosts close theirs in different slots.
    pub fn file_of(&self, slot: i64, file_every: i64) -> i64 {
        let file_every = file_every.max(self.every);
        let slots = (file_every / self.every).max(1).unsigned_abs();
        let offset = (self.spread / 7 % slots) as i64 * self.every;
        slot.saturating_add(offset).div_euclid(file_every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_multiples_and_each_is_taken_once() {
        let clock = SlotClock::new(60, Duration::from_secs(10), "web-1");
        assert!(clock.jitter() < Duration::from_secs(10) && !clock.jitter().is_zero());
        let at = |seconds: u64| clock.jitter() + Duration::from_secs(seconds);
        let mut taken = TakenSlots::default();
        assert_eq!(clock.next(at(6000), &taken), (6000, Duration::ZERO));
        taken.note(5940);
        assert_eq!(clock.next(at(6030), &taken), (6000, Duration::ZERO));
        taken.note(6000);
        assert_eq!(clock.next(at(6030), &taken), (6060, Duration::from_secs(30)));
        // A machine that slept, and one whose clock was set back.
        assert_eq!(clock.next(at(60_030), &taken), (60_000, Duration::ZERO));
        taken.note(6060);
        assert_eq!(clock.next(at(6030), &taken), (6120, Duration::from_secs(90)));
        // One whose clock was ahead goes on at once.
        taken.note(9_000_000);
        assert_eq!(clock.next(at(6130), &taken), (6120, Duration::ZERO));
    }

    #[test]
    fn hosts_take_and_upload_at_different_times() {
        let clocks: Vec<SlotClock> =
            (0..500).map(|host| SlotClock::new(60, Duration::from_secs(10), &format!("host-{host}"))).collect();
        let mut seconds = [0u32; 10];
        let mut uploads = [0u32; 5];
        for clock in &clocks {
            seconds[clock.jitter().as_secs() as usize] += 1;
            let closes = (0..5).find(|slot| clock.file_of(slot * 60, 300) != clock.file_of((slot + 1) * 60, 300));
            uploads[closes.expect("one of five slots is the last of a file") as usize] += 1;
        }
        assert!(seconds.iter().all(|count| (25..=80).contains(count)), "{seconds:?}");
        assert!(uploads.iter().all(|count| (60..=140).contains(count)), "{uploads:?}");
    }

    #[test]
    fn no_jitter_is_possible() {
        let clock = SlotClock::new(1, Duration::ZERO, "a");
        assert_eq!(clock.next(Duration::from_millis(5500), &TakenSlots::parse("5")), (6, Duration::from_millis(500)));
        assert_eq!(clock.file_of(7, 0), 7);
    }
}
