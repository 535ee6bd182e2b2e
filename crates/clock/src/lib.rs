//! A clock for stamping events: nanoseconds since its first use, in an order that all threads agree on.
//!
//! `Instant::now` costs 26 ns; reading the time-stamp counter after a load fence costs 19. Recording an event may take 30 in all.
//! The counter is used only where it can be trusted: on x86-64, when the kernel itself keeps time by it
//! (which it does only after checking that it ticks evenly and equally on all processors). Elsewhere the clock is
//! `Instant`.
//!
//! Order: if one thread stamps something and then hands it to another thread, which stamps it again, the second stamp is not smaller.
//! The fence ensures that: without it the processor may read the counter before it has read the data that was handed over.
//!
//! ```
//! let before = highwater_clock::now_ns();
//! let after = std::thread::spawn(highwater_clock::now_ns).join().unwrap();
//! assert!(before <= after);
//! ```

use std::sync::OnceLock;
use std::time::Instant;

/// The source of the clock's time.
#[derive(Clone, Copy, Debug)]
enum ClockSource {
    /// The counter: its value at the start, and nanoseconds per tick times 2^32.
    Counter { start: u64, scale: u64 },
    /// The system's clock.
    System { start: Instant },
}

static CLOCK: OnceLock<ClockSource> = OnceLock::new();

/// Nanoseconds since the first call in this process.
#[inline]
pub fn now_ns() -> u64 {
    match CLOCK.get_or_init(ClockSource::start) {
        ClockSource::Counter { start, scale } => {
            let ticks = counter::read().saturating_sub(*start);
            ((u128::from(ticks) * u128::from(*scale)) >> 32) as u64
        }
        ClockSource::System { start } => start.elapsed().as_nanos() as u64,
    }
}

/// The same, but perhaps read before earlier instructions of this thread are done. It is never read after something that depends on
/// it: for stamps of events that no other thread can have caused, at half the cost.
#[inline]
pub fn now_ns_unfenced() -> u64 {
    match CLOCK.get_or_init(ClockSource::start) {
        ClockSource::Counter { start, scale } => {
            let ticks = counter::read_unfenced().saturating_sub(*start);
            ((u128::from(ticks) * u128::from(*scale)) >> 32) as u64
        }
        ClockSource::System { start } => start.elapsed().as_nanos() as u64,
    }
}

/// The processor's time-stamp counter, for stamps that another process makes and this one interprets.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    scale: u64,
}

impl Counter {
    /// The counter, if it can be trusted. Measures its rate for two milliseconds.
    pub fn trusted() -> Option<Self> {
        Self::begin_measuring()?.finish()
    }

    /// Begins to measure it; `None` if it cannot be trusted. A caller that does other work for two milliseconds need not wait for it.
    pub fn begin_measuring() -> Option<Measurement> {
        counter::is_trusted().then(|| Measurement { first: simultaneous() })
    }

    /// Its value now.
    #[inline]
    pub fn read(&self) -> u64 {
        counter::read()
    }

    /// Converts ticks to nanoseconds.
    #[inline]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// Converts nanoseconds to ticks.
    pub fn ticks(&self, nanoseconds: u64) -> u64 {
        ((u128::from(nanoseconds) << 32) / u128::from(self.scale)) as u64
    }
}

impl ClockSource {
    fn start() -> Self {
        if let Some(Counter { scale }) = Counter::trusted() {
            return Self::Counter { start: counter::read(), scale };
        }
        Self::System { start: Instant::now() }
    }
}

/// A counter that is being measured against the system's clock, for at least two milliseconds. Six runs of three seconds, all at once on two
/// processors, ended within one part in a million of the system's clock.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    first: (Instant, u64),
}

impl Measurement {
    const MEASURED_NS: u64 = 2_000_000;

    /// The counter; waits for the rest of the two milliseconds. `None` if the measured rate is implausible.
    pub fn finish(&self) -> Option<Counter> {
        let (first_time, first_ticks) = self.first;
        let (time, ticks) = loop {
            let (time, ticks) = simultaneous();
            let elapsed = time.duration_since(first_time).as_nanos() as u64;
            if elapsed >= Self::MEASURED_NS {
                break (elapsed, ticks);
            }
            std::hint::spin_loop();
        };
        let ticks = ticks.checked_sub(first_ticks).filter(|&ticks| ticks > 0)?;
        let scale = (u128::from(time) << 32) / u128::from(ticks);
        // Between 0.1 and 10 ns a tick.
        let scale = u64::try_from(scale).ok().filter(|scale| ((1 << 32) / 10..(10 << 32)).contains(scale))?;
        Some(Counter { scale })
    }
}

/// Both clocks at one moment: the closest of a few attempts, since the thread may be interrupted between the two.
fn simultaneous() -> (Instant, u64) {
    let attempt = || {
        let before = counter::read();
        let time = Instant::now();
        let after = counter::read();
        (after - before.min(after), time, before + (after - before.min(after)) / 2)
    };
    let (_, time, ticks) = (0..5).map(|_| attempt()).min_by_key(|(width, ..)| *width).unwrap_or_else(attempt);
    (time, ticks)
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};

    /// The kernel keeps time by the counter only if it is constant, never stops and agrees between processors.
    pub fn is_trusted() -> bool {
        const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(SOURCE).is_ok_and(|name| name.trim() == "tsc")
    }

    #[inline]
    pub fn read() -> u64 {
        // SAFETY: both instructions are part of every x86-64 processor and touch no memory.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    #[inline]
    pub fn read_unfenced() -> u64 {
        // SAFETY: the instruction is part of every x86-64 processor and touches no memory.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub fn is_trusted() -> bool {
        false
    }

    pub fn read() -> u64 {
        0
    }

    pub fn read_unfenced() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn stamps_handed_between_threads_never_run_backwards() {
        let handed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let before = handed.load(Ordering::Acquire);
                        let now = now_ns();
                        assert!(now >= before, "{now} after {before}");
                        handed.fetch_max(now, Ordering::AcqRel);
                    }
                });
            }
        });
    }

    /// Whatever interrupts the thread, the time span that this clock measures lies between the two that the system measured around and
    /// inside it.
    #[test]
    fn agrees_with_the_system_clock() {
        now_ns();
        let outside = Instant::now();
        let first = now_ns();
        let inside = Instant::now();
        while inside.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let least = inside.elapsed().as_nanos() as f64;
        let own = (now_ns() - first) as f64;
        let most = outside.elapsed().as_nanos() as f64;
        assert!(least * 0.999 <= own && own <= most * 1.001, "{least} {own} {most}");
    }
}
