//! A collector that goes on in the background.

use std::os::fd::RawFd;

/// Leaves the session of the terminal, and everything that whoever started us had open: a pipe that we held would never end. To be called before
/// this process has opened anything itself; what it was given as standard input, output and error stays.
pub fn detach() {
    // That fails only for one that leads a session already.
    let _ = rustix::process::setsid();
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    // The one by which this directory is read is in the list, and closed by then.
    for number in numbers.collect::<Vec<_>>() {
        if number > 2 {
            // SAFETY: inherited, and nobody here knows it; one that is not open any more is only refused.
            unsafe { close(number) };
        }
    }
}

unsafe extern "C" {
    fn close(descriptor: RawFd) -> i32;
}
