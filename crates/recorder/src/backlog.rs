//! How old the records are that were brought in and wait to be worked through: a recorder that is killed loses them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Records may wait for so long. Bursts of several threads are brought in meanwhile without holding the program back.
const MOST_AGE: Duration = Duration::from_millis(500);
/// Fewer bytes than this may wait longer: they are worked through in a moment, and a program that allocates little is not held back
/// while a keyframe is written.
const FEW: u64 = 16 << 20;

/// How long the work is watched to see how much of it is done in a while.
const A_WHILE: Duration = Duration::from_millis(100);

/// When which bytes were brought in, and how many are worked through in a while.
#[derive(Debug, Default)]
pub struct Backlog {
    /// All bytes so far.
    brought: u64,
    /// How many these were after each round, and when that was; only rounds that were not yet seen to be worked through.
    rounds: VecDeque<(u64, Instant)>,
    /// How many bytes were done, and when; none while there is next to nothing to do.
    watched_since: Option<(u64, Instant)>,
    /// How many bytes can be worked through in [`MOST_AGE`], as was seen last.
    done_in_time: Option<u64>,
}

impl Backlog {
    /// Notes a round.
    pub fn add(&mut self, bytes: u64, now: Instant) {
        if bytes > 0 {
            self.brought += bytes;
            self.rounds.push_back((self.brought, now));
        }
    }

    /// Whether what waits, `waiting` bytes of it, is too old to bring in more, or what is brought in now would become so.
    pub fn is_too_old(&mut self, waiting: u64, now: Instant) -> bool {
        let done = self.brought.saturating_sub(waiting);
        while self.rounds.front().is_some_and(|&(end, _)| end <= done) {
            self.rounds.pop_front();
        }
        if waiting <= FEW {
            (self.watched_since, self.done_in_time) = (None, None);
            return false;
        }
        let (before, since) = *self.watched_since.get_or_insert((done, now));
        let watched = now.saturating_duration_since(since);
        if watched >= A_WHILE {
            let share = MOST_AGE.as_secs_f64() / watched.as_secs_f64();
            self.done_in_time = Some((done.saturating_sub(before) as f64 * share) as u64);
            self.watched_since = Some((done, now));
        }
        let is_old = self.rounds.front().is_some_and(|&(_, at)| now.saturating_duration_since(at) > MOST_AGE);
        is_old || self.done_in_time.is_some_and(|most| waiting > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn what_waits_is_worked_through_within_half_a_second_of_its_coming() {
        let start = Instant::now();
        // Every 10 ms 4 MiB come and 1 MiB is worked through: the recorder falls behind.
        let (mut backlog, mut waiting, mut come) = (Backlog::default(), 0, VecDeque::<(u64, Instant)>::new());
        let (mut oldest, mut largest) = (Duration::ZERO, 0);
        for round in 0..2000 {
            let now = after(start, round * 10);
            let mut done = MIB;
            while let Some((bytes, at)) = come.pop_front() {
                let part = done.min(bytes);
                (done, waiting) = (done - part, waiting - part);
                oldest = oldest.max(now - at);
                if bytes > part {
                    come.push_front((bytes - part, at));
                    break;
                }
            }
            if !backlog.is_too_old(waiting, now) {
                backlog.add(4 * MIB, now);
                come.push_back((4 * MIB, now));
                waiting += 4 * MIB;
                largest = largest.max(waiting);
            }
        }
        assert!(oldest <= MOST_AGE + A_WHILE && oldest > MOST_AGE / 2, "{oldest:?}");
        assert!(largest > FEW && largest < 64 * MIB, "{largest}");
    }

    #[test]
    fn a_burst_of_less_than_half_a_second_and_few_bytes_hold_nobody_back() {
        let start = Instant::now();
        let mut burst = Backlog::default();
        // Half of it is worked through meanwhile.
        for round in 0..30 {
            assert!(!burst.is_too_old(round * 5 * MIB / 2, after(start, round * 10)), "{round}");
            burst.add(5 * MIB, after(start, round * 10));
        }
        let mut few = Backlog::default();
        few.add(8 * MIB, start);
        assert!(!few.is_too_old(8 * MIB, after(start, 60_000)));
        few.add(16 * MIB, after(start, 60_000));
        assert!(few.is_too_old(24 * MIB, after(start, 60_000)));
        // The first round is done.
        assert!(!few.is_too_old(16 * MIB, after(start, 60_000)));
    }
}
