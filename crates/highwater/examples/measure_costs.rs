//! What the allocator costs while nothing is measured, and what measures cost: `bench/measures`. Nanoseconds of CPU time, the least of several rounds that take
//! turns.

use highwater::testing;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

const PAIRS: u32 = 2_000_000;
const MEASURED_PAIRS: u32 = 200_000;
const ROUNDS: u32 = 15;
/// The most that a call may cost while nothing is measured.
const GOAL_NS: f64 = 1.0;

/// CPU time of this thread, and of no other.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What is called in a row.
#[derive(Clone, Copy)]
enum Calls {
    Alloc,
    AllocZeroed,
    /// To twice the size and back, in place as a rule.
    Realloc,
}

impl Calls {
    const ALL: [Self; 3] = [Self::Alloc, Self::AllocZeroed, Self::Realloc];

    fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc, dealloc",
            Self::AllocZeroed => "alloc_zeroed, dealloc",
            Self::Realloc => "realloc, realloc",
        }
    }
}

/// Nanoseconds of a pair of calls.
#[inline(never)]
fn per_pair(allocator: &impl GlobalAlloc, calls: Calls, pairs: u32) -> f64 {
    let (layout, twice) = (Layout::new::<[u64; 8]>(), Layout::new::<[u64; 16]>());
    // SAFETY: the layouts are not empty; each block is resized and freed once with the layout that it has.
    unsafe {
        let mut block = allocator.alloc(layout);
        let before = cpu_ns();
        for _ in 0..pairs {
            match calls {
                Calls::Alloc => allocator.dealloc(black_box(allocator.alloc(black_box(layout))), layout),
                Calls::AllocZeroed => allocator.dealloc(black_box(allocator.alloc_zeroed(black_box(layout))), layout),
                Calls::Realloc => {
                    block = black_box(allocator.realloc(black_box(block), layout, twice.size()));
                    block = black_box(allocator.realloc(black_box(block), twice, layout.size()));
                }
            }
        }
        let spent = cpu_ns() - before;
        allocator.dealloc(block, layout);
        spent as f64 / f64::from(pairs)
    }
}

fn main() {
    for calls in Calls::ALL {
        let mut least = [f64::INFINITY; 4];
        for _ in 0..ROUNDS {
            let system = per_pair(&System, calls, PAIRS);
            let idle = per_pair(&ALLOCATOR, calls, PAIRS);
            let measured = testing::measure(|| per_pair(&ALLOCATOR, calls, MEASURED_PAIRS)).value;
            let elsewhere = testing::measure(|| {
                let other = std::thread::spawn(move || per_pair(&ALLOCATOR, calls, MEASURED_PAIRS));
                other.join().expect("no panic")
            });
            let round = [system, idle, measured, elsewhere.value];
            least = std::array::from_fn(|at| least[at].min(round[at]));
        }
        let [system, idle, measured, elsewhere] = least;
        let more = (idle - system) / 2.0;
        let verdict = if more <= GOAL_NS { "reached" } else { "short" };
        println!("{}: {system:.2} ns with the system's allocator", calls.name());
        println!(
            "  while nothing is measured: {idle:.2} ns, {more:.2} ns more for each call (goal {GOAL_NS:.0} ns: {verdict})"
        );
        println!("  in a measure: {measured:.0} ns; on another thread meanwhile: {elsewhere:.0} ns");
    }
}
