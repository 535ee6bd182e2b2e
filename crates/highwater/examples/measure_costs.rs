//! What the allocator costs while nothing is measured, and what measures cost: `bench/measures`. Nanoseconds of CPU time for an allocation and its free, the
//! least of several rounds that take turns.

use highwater::testing;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

const PAIRS: u32 = 2_000_000;
const MEASURED_PAIRS: u32 = 200_000;
const ROUNDS: u32 = 15;

/// CPU time of this thread, and of no other.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of a pair of calls.
#[inline(never)]
fn per_pair(allocator: &impl GlobalAlloc, pairs: u32) -> f64 {
    let layout = Layout::new::<[u64; 8]>();
    let before = cpu_ns();
    for _ in 0..pairs {
        // SAFETY: the layout is not empty, and each block is freed once with it.
        unsafe { allocator.dealloc(black_box(allocator.alloc(black_box(layout))), layout) };
    }
    (cpu_ns() - before) as f64 / f64::from(pairs)
}

fn main() {
    let mut least = [f64::INFINITY; 4];
    for _ in 0..ROUNDS {
        let system = per_pair(&System, PAIRS);
        let idle = per_pair(&ALLOCATOR, PAIRS);
        let measured = testing::measure(|| per_pair(&ALLOCATOR, MEASURED_PAIRS)).value;
        let elsewhere = testing::measure(|| {
            let other = std::thread::spawn(|| per_pair(&ALLOCATOR, MEASURED_PAIRS));
            other.join().expect("no panic")
        });
        let round = [system, idle, measured, elsewhere.value];
        least = std::array::from_fn(|at| least[at].min(round[at]));
    }
    let [system, idle, measured, elsewhere] = least;
    println!("an allocation and its free: the system's {system:.2} ns");
    println!("while nothing is measured: {idle:.2} ns, {:.2} ns more for each call", (idle - system) / 2.0);
    println!("in a measure: {measured:.0} ns; on another thread meanwhile: {elsewhere:.0} ns");
}
