//! CPU time and memory of this process, as the kernel counts them.

use std::time::Duration;

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    let nanoseconds = read("/proc/thread-self/schedstat").split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.expect("schedstat begins with a number"))
}

/// CPU time that `work` takes on this thread.
pub fn cpu_of<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let before = thread_cpu();
    let result = work();
    (thread_cpu() - before, result)
}

fn status_bytes(key: &str) -> u64 {
    let status = read("/proc/self/status");
    let line = status.lines().find(|line| line.starts_with(key)).expect("the kernel tells it");
    let kibibytes: u64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kibibytes * 1024
}

/// Memory of this process now.
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// The most memory this process ever had.
pub fn highest_resident_bytes() -> u64 {
    status_bytes("VmHWM:")
}
