//! A collector that continues in the background.

use std::os::fd::RawFd;

/// Leaves the terminal's session, and closes all inherited descriptors: a pipe that the collector kept open would never end for its reader. To be
/// called before this process has opened anything itself. Standard input, output and error stay open.
pub fn detach() {
    // Fails only if this process already leads a session.
    let _ = rustix::process::setsid();
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    // The list also has the descriptor that reads this directory; it is closed by then.
    for number in numbers.collect::<Vec<_>>() {
        if number > 2 {
            // SAFETY: the descriptor is inherited, and no code here uses it; closing one that is no longer open only fails.
            unsafe { close(number) };
        }
    }
}

unsafe extern "C" {
    fn close(descriptor: RawFd) -> i32;
}
