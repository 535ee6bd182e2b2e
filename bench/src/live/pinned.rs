//! Threads that stay on one processor.

use rustix::thread::{CpuSet, sched_setaffinity};

/// The calling thread stays on this processor, if there is one of that number.
pub fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    let _ = sched_setaffinity(None, &set);
}
