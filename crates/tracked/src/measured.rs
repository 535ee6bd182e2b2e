//! Measuring the size of the memory.

/// Reports the size of the program's memory now: the linear memory of a WASM module, or the resident set of a process on Linux. Where the size is
/// not known, reports a [mark](crate::mark).
pub fn measure(label: &str) {
    if !crate::switch::is_on() {
        return;
    }
    match now() {
        Some(bytes) => crate::memory(bytes, label),
        None => crate::mark(label),
    }
}

#[cfg(target_arch = "wasm32")]
fn now() -> Option<u64> {
    const PAGE: u64 = 1 << 16;
    Some(core::arch::wasm32::memory_size(0) as u64 * PAGE)
}

#[cfg(target_os = "linux")]
fn now() -> Option<u64> {
    // In kilobytes, so the page size is not needed.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(not(any(target_arch = "wasm32", target_os = "linux")))]
fn now() -> Option<u64> {
    None
}
