//! The memory of a process over time, in a fixed amount of memory.
//!
//! A timeline is a pyramid of three levels: the last minutes by the second, the last hours by 16 seconds, and all of it. The first two drop their oldest
//! bins. The last one merges its bins in pairs when it is full, so its resolution halves. Each bin has the lowest, the highest and the last reading of its
//! time: no peak between readings of one bin is lost by merging.

use serde_json::{Value, json};
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;
/// The width of a bin and the number of bins, for each level. The last level keeps everything.
const LEVELS: [(u64, usize); 3] = [(SECOND, 512), (16 * SECOND, 512), (SECOND, 1024)];
/// The memory of all timelines of a collector, in bytes. With more processes than fit, each gets a smaller timeline.
const MOST_BYTES: usize = 32 << 20;
/// The smallest timeline has this many bins in each level, however many processes there are.
const FEWEST_BINS: usize = 16;
/// The most bins of one timeline in an answer, and of all together.
const MOST_BINS: usize = 2048;
const MOST_BINS_TOGETHER: usize = 200_000;

/// The clock of the time of day was set if it went this much further than the one that is never set, or less far. It is corrected by less all the time.
const LEAST_STEP: i128 = SECOND as i128;

/// The figures of a process at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineReading {
    /// The time, in nanoseconds since the Unix epoch.
    pub at_unix_ns: u64,
    /// The same time on a clock that is never set: nanoseconds since the system started.
    pub since_boot_ns: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Allocations since the process started.
    pub allocations: u64,
    /// The resident set in bytes; 0 if it is not known.
    pub rss_bytes: u64,
    /// Mean bytes per sample, 0 for every block.
    pub sample_bytes: u64,
    /// True if live bytes and blocks are estimates.
    pub is_estimate: bool,
}

/// The lowest, the highest and the last of some readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The lowest.
    pub low: u64,
    /// The highest.
    pub high: u64,
    /// The last.
    pub last: u64,
}

impl Extremes {
    fn of(value: u64) -> Self {
        Self { low: value, high: value, last: value }
    }

    /// Adds later readings.
    fn add(&mut self, later: Self) {
        *self = Self { low: self.low.min(later.low), high: self.high.max(later.high), last: later.last };
    }
}

/// The readings of a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineBin {
    /// The time of the first reading.
    pub from_unix_ns: u64,
    /// The time of the last reading.
    pub to_unix_ns: u64,
    /// Live bytes.
    pub live_bytes: Extremes,
    /// Live blocks.
    pub live_blocks: Extremes,
    /// The resident set.
    pub rss_bytes: Extremes,
    /// Allocations since the process started, at the last reading.
    pub allocations: u64,
    /// The sampling rate at the last reading.
    pub sample_bytes: u64,
    /// True if any reading is an estimate.
    pub is_estimate: bool,
}

impl From<TimelineReading> for TimelineBin {
    fn from(reading: TimelineReading) -> Self {
        Self {
            from_unix_ns: reading.at_unix_ns,
            to_unix_ns: reading.at_unix_ns,
            live_bytes: Extremes::of(reading.live_bytes),
            live_blocks: Extremes::of(reading.live_blocks),
            rss_bytes: Extremes::of(reading.rss_bytes),
            allocations: reading.allocations,
            sample_bytes: reading.sample_bytes,
            is_estimate: reading.is_estimate,
        }
    }
}

impl TimelineBin {
    /// Adds later readings.
    fn add(&mut self, later: &Self) {
        self.to_unix_ns = later.to_unix_ns;
        self.live_bytes.add(later.live_bytes);
        self.live_blocks.add(later.live_blocks);
        self.rss_bytes.add(later.rss_bytes);
        self.allocations = later.allocations;
        self.sample_bytes = later.sample_bytes;
        self.is_estimate |= later.is_estimate;
    }
}

/// Bins of one width. A bin begins at a multiple of the width, so that two bins of one width are one bin of twice the width.
#[derive(Clone, Debug)]
struct TimelineLevel {
    width_ns: u64,
    bins: VecDeque<TimelineBin>,
    most: usize,
    /// Merges bins when it is full, instead of dropping the oldest.
    keeps_all: bool,
    has_dropped: bool,
}

impl TimelineLevel {
    fn add(&mut self, bin: &TimelineBin) {
        if let Some(last) = self.bins.back_mut()
            && last.from_unix_ns / self.width_ns == bin.from_unix_ns / self.width_ns
        {
            return last.add(bin);
        }
        self.make_room(self.most - 1);
        self.bins.push_back(*bin);
    }

    /// Leaves at most `room` bins.
    fn make_room(&mut self, room: usize) {
        while self.bins.len() > room {
            if self.keeps_all {
                self.halve();
            } else {
                self.bins.pop_front();
                self.has_dropped = true;
            }
        }
    }

    /// Doubles the width of the bins. Bins that lie far apart stay apart, so this may have to be repeated.
    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let mut kept = 0;
        for at in 1..self.bins.len() {
            let bin = self.bins[at];
            if self.bins[kept].from_unix_ns / self.width_ns == bin.from_unix_ns / self.width_ns {
                self.bins[kept].add(&bin);
            } else {
                kept += 1;
                self.bins[kept] = bin;
            }
        }
        self.bins.truncate(kept + 1);
    }

    /// Moves all bins in time.
    fn shift(&mut self, by: i128) {
        let shifted = |time: u64| u64::try_from((i128::from(time) + by).max(0)).unwrap_or(u64::MAX);
        for bin in &mut self.bins {
            (bin.from_unix_ns, bin.to_unix_ns) = (shifted(bin.from_unix_ns), shifted(bin.to_unix_ns));
        }
    }

    fn covers(&self, since_unix_ns: u64) -> bool {
        !self.has_dropped || self.bins.front().is_some_and(|first| first.from_unix_ns <= since_unix_ns)
    }
}

/// The memory of a process over time.
#[derive(Clone, Debug)]
pub struct ProcessTimeline {
    levels: [TimelineLevel; LEVELS.len()],
    /// The time of the last reading on both clocks.
    last_read: Option<(u64, u64)>,
}

impl Default for ProcessTimeline {
    fn default() -> Self {
        let mut left = LEVELS.len();
        let levels = LEVELS.map(|(width_ns, most)| {
            left -= 1;
            TimelineLevel { width_ns, bins: VecDeque::new(), most, keeps_all: left == 0, has_dropped: false }
        });
        Self { levels, last_read: None }
    }
}

impl ProcessTimeline {
    /// Adds a reading. If the clock was set since the last one, earlier readings get the times that the clock would have shown: so bins lie as far apart as they
    /// were read, and fit to times that are taken from now on.
    pub fn add(&mut self, mut reading: TimelineReading) {
        let now = (reading.at_unix_ns, reading.since_boot_ns);
        if let Some((unix, boot)) = self.last_read.replace(now) {
            let went = |from: u64, to: u64| i128::from(to) - i128::from(from);
            let step = went(unix, now.0) - went(boot, now.1);
            if step.abs() >= LEAST_STEP {
                self.levels.iter_mut().for_each(|level| level.shift(step));
            }
        }
        reading.at_unix_ns = reading.at_unix_ns.max(self.last().map_or(0, |last| last.to_unix_ns));
        let bin = TimelineBin::from(reading);
        self.levels.iter_mut().for_each(|level| level.add(&bin));
    }

    /// The latest bin, as fine as there are.
    pub fn last(&self) -> Option<&TimelineBin> {
        self.levels[0].bins.back()
    }

    /// Makes it one of `processes` timelines: their memory together is limited.
    pub fn share(&mut self, processes: usize) {
        let whole: usize = LEVELS.iter().map(|(_, most)| most * size_of::<TimelineBin>()).sum();
        let mut part = 1;
        while processes.saturating_mul(whole / part) > MOST_BYTES && LEVELS[0].1 / part > FEWEST_BINS {
            part *= 2;
        }
        for (level, (_, most)) in self.levels.iter_mut().zip(LEVELS) {
            let most = most / part;
            if level.most > most {
                level.make_room(most);
                level.bins.shrink_to_fit();
            }
            level.most = most;
        }
    }

    /// The bytes of memory that it has reserved.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.bins.capacity() * size_of::<TimelineBin>()).sum()
    }

    /// At most `most` bins since a time, as fine as they are known; and the time that a bin covers at most.
    pub fn since(&self, since_unix_ns: u64, most: usize) -> (u64, Vec<TimelineBin>) {
        let all = &self.levels[LEVELS.len() - 1];
        let finest = self.levels.iter().filter(|level| level.covers(since_unix_ns)).min_by_key(|level| level.width_ns);
        let TimelineLevel { width_ns, bins, .. } = finest.unwrap_or(all);
        let bins = bins.iter().filter(|bin| bin.to_unix_ns >= since_unix_ns).copied().collect();
        let mut wanted =
            TimelineLevel { width_ns: *width_ns, bins, most: most.max(2), keeps_all: true, has_dropped: false };
        wanted.make_room(wanted.most);
        (wanted.width_ns, wanted.bins.into())
    }
}

/// A part of a process's timeline, as the collector sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineInfo {
    /// The process.
    pub pid: u32,
    /// When its table started: another process may have had its pid before.
    pub since_unix_ns: u64,
    /// The time that a bin covers at most.
    pub width_ns: u64,
    /// The bins, oldest first. There are none for times at which the collector did not run.
    pub bins: Vec<TimelineBin>,
}

impl TimelineInfo {
    /// The number of bins that each of some processes may have in an answer.
    pub fn bins_of_each(wanted: u64, processes: usize) -> usize {
        let wanted = usize::try_from(wanted).unwrap_or(MOST_BINS).min(MOST_BINS);
        wanted.min(MOST_BINS_TOGETHER / processes.max(1)).max(2)
    }

    /// As JSON: a list for each figure.
    pub fn to_json(&self) -> Value {
        let list = |of: &dyn Fn(&TimelineBin) -> Value| self.bins.iter().map(of).collect::<Value>();
        let extremes = |of: &dyn Fn(&TimelineBin) -> Extremes| {
            json!({
                "low": list(&|bin| of(bin).low.into()),
                "high": list(&|bin| of(bin).high.into()),
                "last": list(&|bin| of(bin).last.into()),
            })
        };
        json!({
            "pid": self.pid,
            "since_unix_ns": self.since_unix_ns,
            "width_ns": self.width_ns,
            "from_unix_ns": list(&|bin| bin.from_unix_ns.into()),
            "to_unix_ns": list(&|bin| bin.to_unix_ns.into()),
            "live_bytes": extremes(&|bin| bin.live_bytes),
            "live_blocks": extremes(&|bin| bin.live_blocks),
            "rss_bytes": extremes(&|bin| bin.rss_bytes),
            "allocations": list(&|bin| bin.allocations.into()),
            "sample_bytes": list(&|bin| bin.sample_bytes.into()),
            "is_estimate": list(&|bin| bin.is_estimate.into()),
        })
    }

    /// From JSON; `None` if something is missing, or the lists are not of one length.
    pub fn from_json(value: &Value) -> Option<Self> {
        let count = value["from_unix_ns"].as_array()?.len();
        let list = |value: &Value| -> Option<Vec<u64>> {
            let list: Option<Vec<u64>> = value.as_array()?.iter().map(Value::as_u64).collect();
            list.filter(|list| list.len() == count)
        };
        let extremes = |value: &Value| -> Option<Vec<Extremes>> {
            let (low, high, last) = (list(&value["low"])?, list(&value["high"])?, list(&value["last"])?);
            Some((0..count).map(|at| Extremes { low: low[at], high: high[at], last: last[at] }).collect())
        };
        let truths: Option<Vec<bool>> = value["is_estimate"].as_array()?.iter().map(Value::as_bool).collect();
        let truths = truths.filter(|list| list.len() == count)?;
        let (from, to) = (list(&value["from_unix_ns"])?, list(&value["to_unix_ns"])?);
        let (bytes, blocks) = (extremes(&value["live_bytes"])?, extremes(&value["live_blocks"])?);
        let (rss, allocations) = (extremes(&value["rss_bytes"])?, list(&value["allocations"])?);
        let rates = list(&value["sample_bytes"])?;
        let bin = |at: usize| TimelineBin {
            from_unix_ns: from[at],
            to_unix_ns: to[at],
            live_bytes: bytes[at],
            live_blocks: blocks[at],
            rss_bytes: rss[at],
            allocations: allocations[at],
            sample_bytes: rates[at],
            is_estimate: truths[at],
        };
        Some(Self {
            pid: value["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())?,
            since_unix_ns: value["since_unix_ns"].as_u64()?,
            width_ns: value["width_ns"].as_u64()?,
            bins: (0..count).map(bin).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_790_000_000 * SECOND;

    /// A reading that cannot be foreseen, but that can be computed again.
    fn reading(second: u64) -> TimelineReading {
        let noise = second.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        TimelineReading {
            at_unix_ns: START + second * SECOND,
            since_boot_ns: second * SECOND,
            live_bytes: second * 10 + noise,
            live_blocks: noise,
            allocations: second * 100,
            rss_bytes: second * 10 + 2 * noise,
            sample_bytes: 0,
            is_estimate: second == 77,
        }
    }

    #[test]
    fn months_of_readings_take_no_more_memory_than_half_an_hour_and_lose_no_extreme() {
        let mut timeline = ProcessTimeline::default();
        let (mut lowest, mut highest) = (u64::MAX, 0);
        let mut full = 0;
        for second in 0..5_000_000 {
            let reading = reading(second);
            (lowest, highest) = (lowest.min(reading.live_bytes), highest.max(reading.rss_bytes));
            timeline.add(reading);
            if second == 2_000_000 {
                full = timeline.bytes();
            }
        }
        assert_eq!(timeline.bytes(), full);
        assert!(full <= 256 << 10, "{full}");
        let (width, bins) = timeline.since(0, 4096);
        assert!((512..=1024).contains(&bins.len()), "{}", bins.len());
        assert_eq!(width, 8192 * SECOND);
        assert_eq!(bins.iter().map(|bin| bin.live_bytes.low).min(), Some(lowest));
        assert_eq!(bins.iter().map(|bin| bin.rss_bytes.high).max(), Some(highest));
        assert_eq!(bins.iter().filter(|bin| bin.is_estimate).count(), 1);
        assert_eq!(bins[0].from_unix_ns, START);
        assert!(bins.windows(2).all(|pair| pair[1].from_unix_ns == pair[0].to_unix_ns + SECOND));
        // Each bin against the readings of its time.
        for bin in &bins[..20] {
            let readings: Vec<_> = (bin.from_unix_ns..=bin.to_unix_ns)
                .step_by(SECOND as usize)
                .map(|at| reading((at - START) / SECOND))
                .collect();
            assert_eq!(Some(bin.live_bytes.high), readings.iter().map(|each| each.live_bytes).max());
            assert_eq!(Some(bin.live_blocks.low), readings.iter().map(|each| each.live_blocks).min());
            assert_eq!(Some(bin.allocations), readings.last().map(|each| each.allocations));
        }
        // The last minutes are by the second, the last hours by 16 seconds.
        let last = START + 4_999_999 * SECOND;
        let (width, minutes) = timeline.since(last - 299 * SECOND, 512);
        assert_eq!((width, minutes.len()), (SECOND, 300));
        let (width, hours) = timeline.since(last - 7200 * SECOND, 512);
        assert_eq!(width, 16 * SECOND);
        assert!((450..=452).contains(&hours.len()), "{}", hours.len());
        // Fewer bins are coarser ones, with the same extremes.
        let (_, few) = timeline.since(0, 60);
        assert!(few.len() <= 60 && few.len() > 20);
        assert_eq!(few.iter().map(|bin| bin.live_bytes.low).min(), Some(lowest));
    }

    #[test]
    fn many_processes_share_the_memory() {
        let mut timeline = ProcessTimeline::default();
        (0..100_000).for_each(|second| timeline.add(reading(second)));
        let alone = timeline.bytes();
        for processes in [1, 150, 1000, 5000, 1_000_000] {
            timeline.share(processes);
            (100_000..103_000).for_each(|second| timeline.add(reading(second)));
            assert!(timeline.bytes() <= alone);
            assert!(timeline.bytes() * processes <= MOST_BYTES || processes > 4000, "{processes}");
            assert!(timeline.bytes() <= 16 << 10 || processes < 5000, "{}", timeline.bytes());
        }
        assert!(!timeline.since(0, 100).1.is_empty());
    }

    #[test]
    fn a_clock_that_is_set_leaves_bins_as_far_apart_as_they_were_read() {
        for hours in [-1i64, 1] {
            let set = |at: u64| at.wrapping_add_signed(hours * 3600 * SECOND as i64);
            let mut timeline = ProcessTimeline::default();
            (0..100).for_each(|second| timeline.add(reading(second)));
            let before = timeline.since(0, 4096).1;
            for second in 100..300 {
                timeline.add(TimelineReading { at_unix_ns: set(reading(second).at_unix_ns), ..reading(second) });
            }
            let (width, bins) = timeline.since(0, 4096);
            assert_eq!((width, bins.len()), (SECOND, 300));
            for (second, bin) in (0..).zip(&bins) {
                assert_eq!(bin.from_unix_ns, set(reading(second).at_unix_ns));
                assert_eq!(bin.live_bytes.last, reading(second).live_bytes);
            }
            assert_eq!(before[0].from_unix_ns, START);
        }
        // Small corrections of the clock move nothing.
        let mut timeline = ProcessTimeline::default();
        timeline.add(reading(1));
        timeline.add(TimelineReading { at_unix_ns: reading(2).at_unix_ns + SECOND / 2, ..reading(2) });
        assert_eq!(timeline.since(0, 10).1[0].from_unix_ns, reading(1).at_unix_ns);
    }

    #[test]
    fn clocks_that_jump_and_single_readings_do_no_harm() {
        let mut timeline = ProcessTimeline::default();
        timeline.add(reading(100));
        // No time runs backwards.
        timeline.add(reading(50));
        assert_eq!(timeline.last().unwrap().to_unix_ns, reading(100).at_unix_ns);
        assert_eq!(timeline.last().unwrap().live_bytes.last, reading(50).live_bytes);
        // Set far into the future, and the most that there is.
        timeline.add(TimelineReading { at_unix_ns: u64::MAX, live_bytes: u64::MAX, ..reading(101) });
        (0..3000).for_each(|_| timeline.add(TimelineReading { at_unix_ns: u64::MAX, ..reading(102) }));
        (0..3000).for_each(|_| timeline.add(reading(103)));
        let (_, bins) = timeline.since(0, 2);
        assert_eq!(bins.iter().map(|bin| bin.live_bytes.high).max(), Some(u64::MAX));
        assert!(ProcessTimeline::default().since(0, 0).1.is_empty());
    }

    #[test]
    fn a_timeline_is_the_same_after_its_journey_as_json() {
        let mut timeline = ProcessTimeline::default();
        (0..2000).for_each(|second| timeline.add(reading(second)));
        let (width_ns, bins) = timeline.since(0, 100);
        let info = TimelineInfo { pid: 7, since_unix_ns: START, width_ns, bins };
        assert_eq!(TimelineInfo::from_json(&info.to_json()), Some(info.clone()));
        let mut cut = info.to_json();
        cut["rss_bytes"]["low"].as_array_mut().unwrap().pop();
        assert_eq!(TimelineInfo::from_json(&cut), None);
        assert_eq!(TimelineInfo::bins_of_each(u64::MAX, 1), 2048);
        assert_eq!(TimelineInfo::bins_of_each(1000, 1000), 200);
        assert_eq!(TimelineInfo::bins_of_each(0, 10_000_000), 2);
    }
}
