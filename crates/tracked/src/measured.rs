//! How large the memory is.

/// Tells how large the program's memory is now, as far as it can be found out: the linear memory of a WASM module, the resident set of a
/// process on Linux. Elsewhere it is a [mark](crate::mark).
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
    // Kilobytes: the size of pages need not be known.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(not(any(target_arch = "wasm32", target_os = "linux")))]
fn now() -> Option<u64> {
    None
}
