//! Converts an agent's stamps to times of the recording.

use highwater_clock::Counter;
use highwater_model::Nanos;
use highwater_shm::session_v1::{AgentClock, Header};
use std::sync::atomic::Ordering;

/// All records older than this are settled: the margin of the recorder's `rings.rs`.
const MARGIN_NS: u64 = 20_000;

/// The clock of one process.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    counter: Option<Counter>,
    start: u64,
    start_monotonic: u64,
}

impl Stamps {
    /// The clock that an agent stamps with; `None` if it counts ticks and this process has no counter.
    pub fn of(header: &Header, counter: Option<Counter>) -> Option<Self> {
        let ticks = header.clock.load(Ordering::Relaxed) == AgentClock::Counter as u32;
        let counter = if ticks { Some(counter?) } else { None };
        let (start, start_monotonic) =
            (header.start.load(Ordering::Relaxed), header.start_monotonic.load(Ordering::Relaxed));
        Some(Self { counter, start, start_monotonic })
    }

    /// The time of a stamp.
    #[inline]
    pub fn time(&self, stamp: u64) -> Nanos {
        Nanos(self.counter.map_or(stamp, |counter| counter.nanoseconds(stamp)))
    }

    /// A stamp before which everything is settled now.
    pub fn settled(&self) -> u64 {
        match self.counter {
            Some(counter) => counter.read().saturating_sub(self.start).saturating_sub(counter.ticks(MARGIN_NS)),
            None => monotonic_ns().saturating_sub(self.start).saturating_sub(MARGIN_NS),
        }
    }

    /// The time now.
    pub fn now(&self) -> Nanos {
        let now = self.counter.map_or_else(monotonic_ns, |counter| counter.read());
        self.time(now.saturating_sub(self.start))
    }

    /// When the process began to record, in nanoseconds since the Unix epoch.
    pub fn start_unix_ns(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        (now.as_nanos() as u64).saturating_sub(monotonic_ns().saturating_sub(self.start_monotonic))
    }
}

/// The system's monotonic clock.
pub fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
