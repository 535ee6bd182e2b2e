//! What one call of the allocator costs, by the clock of the process.

use std::hint::black_box;

const PAIRS: u32 = 20_000_000;

/// Prints nanoseconds of CPU per call: allocations and frees of a small block, one after the other.
pub fn measure() {
    let cpu_ns = || {
        let text = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel counts what a process runs");
        text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).expect("a number of nanoseconds")
    };
    for _ in 0..PAIRS / 10 {
        drop(black_box(Box::new(black_box([1u64; 8]))));
    }
    let before = cpu_ns();
    for _ in 0..PAIRS {
        drop(black_box(Box::new(black_box([1u64; 8]))));
    }
    println!("{}", (cpu_ns() - before) as f64 / f64::from(PAIRS) / 2.0);
}
