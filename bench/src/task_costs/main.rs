//! What tasks cost: `bench/tasks`. Prints nanoseconds of CPU time, the least of five rounds, measured in turn.

use highwater::task;
use std::alloc::System;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

const PAIRS: u32 = 2_000_000;
const ROUNDS: u32 = 5;

/// CPU time of this thread, and of no other.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts what a thread runs");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number of nanoseconds")
}

fn per_call(work: impl Fn()) -> f64 {
    let before = cpu_ns();
    (0..PAIRS).for_each(|_| work());
    (cpu_ns() - before) as f64 / f64::from(PAIRS)
}

/// A future that is never ready.
fn polls(future: impl Future) -> f64 {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let before = cpu_ns();
    for _ in 0..PAIRS {
        let _ = black_box(future.as_mut().poll(&mut context));
    }
    (cpu_ns() - before) as f64 / f64::from(PAIRS)
}

fn measure() -> [f64; 4] {
    let pair = || drop(black_box(Box::new(black_box([1u64; 8]))));
    let never = || std::future::poll_fn(|_| Poll::<()>::Pending);
    let mut least = [f64::INFINITY; 4];
    for _ in 0..ROUNDS {
        let outside = per_call(pair);
        let inside = {
            let _entered = task::enter("measured");
            per_call(pair)
        };
        let figures = [outside, inside, polls(never()), polls(task::scope("measured", never()))];
        least = std::array::from_fn(|at| least[at].min(figures[at]));
    }
    least
}

fn main() -> std::io::Result<()> {
    let print = |when: &str, [outside, inside, poll, scoped]: [f64; 4]| {
        println!(
            "{when}: allocation and free {outside:.1} ns, in a task {inside:.1} ns; a task adds {:.1} ns to a poll",
            scoped - poll
        );
    };
    print("not recorded", measure());
    highwater::record_to("/dev/null")?;
    print("recorded", measure());
    Ok(())
}
