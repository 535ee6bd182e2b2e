//! When processes began, as numbers that stay the same.
//!
//! The kernel counts a process's start from its own boot. The time of that boot on the wall clock changes whenever the clock is corrected, so it is read once and stored: the
//! start of a process is the same in all rows, whichever shipper writes them.

use std::fs;
use std::io;
use std::path::Path;

/// The unit of `/proc/PID/stat`, whatever the kernel's own clock is.
const TICKS_PER_SECOND: i64 = 100;

/// The boot of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootClock {
    /// The kernel's random number of this boot.
    pub boot_id: String,
    /// When it was, in microseconds since the Unix epoch.
    boot_us: i64,
}

impl BootClock {
    /// As it is stored in a file, if that is of this boot. Otherwise it is read from the kernel, and stored.
    pub fn stored_in(file: &Path) -> io::Result<Self> {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let stored = fs::read_to_string(file).unwrap_or_default();
        if let Some((id, boot)) = stored.trim().split_once(' ')
            && id == boot_id
            && let Ok(boot_us) = boot.parse()
        {
            return Ok(Self { boot_id, boot_us });
        }
        let kernel = fs::read_to_string("/proc/stat")?;
        let seconds = kernel.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<i64>().ok());
        let boot_us = seconds.unwrap_or(0).saturating_mul(1_000_000);
        crate::spool_file::write_durably(file, format!("{boot_id} {boot_us}\n").as_bytes())?;
        Ok(Self { boot_id, boot_us })
    }

    /// When a process began: in microseconds since the boot, and since the Unix epoch. `None` if it is gone.
    pub fn start_of(&self, pid: u32) -> Option<(i64, i64)> {
        let since_boot =
            start_ticks(&fs::read(format!("/proc/{pid}/stat")).ok()?)?.checked_mul(1_000_000 / TICKS_PER_SECOND)?;
        Some((since_boot, self.boot_us.checked_add(since_boot)?))
    }
}

/// The start in a `stat` line.
fn start_ticks(stat: &[u8]) -> Option<i64> {
    // The name, in parentheses, may contain anything. The start is field 22 in proc(5), counted from 1; the number and the name are the first two.
    const AFTER_NAME: usize = 22 - 3;
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    String::from_utf8_lossy(&stat[after_name..]).split_ascii_whitespace().nth(AFTER_NAME)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_stays_the_same_though_the_clock_is_corrected() {
        let file = std::env::temp_dir().join(format!("highwater-boot-{}", std::process::id()));
        let first = BootClock::stored_in(&file).unwrap();
        let start = first.start_of(std::process::id()).expect("this process runs");
        assert!(start.1 > start.0 && start.0 > 0, "{start:?}");
        // The same boot, seen with another clock.
        fs::write(&file, format!("{} {}\n", first.boot_id, first.boot_us + 7)).unwrap();
        let corrected = BootClock::stored_in(&file).unwrap();
        assert_eq!(corrected.start_of(std::process::id()), Some((start.0, start.1 + 7)));
        fs::write(&file, "another-boot 5\n").unwrap();
        assert_eq!(BootClock::stored_in(&file).unwrap().boot_id, first.boot_id);
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_name_cannot_disguise_the_start() {
        assert_eq!(start_ticks(b"7 (a) R 1 ) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 2200 23"), Some(2200));
        assert_eq!(start_ticks(b"7 (x) Z"), None);
    }
}
