//! Notices that a process has unloaded a module, from outside.

use std::collections::HashSet;

/// The executable mappings of files that a process had when they were read last.
pub struct ModuleWatch {
    pid: u32,
    known: HashSet<String>,
}

impl ModuleWatch {
    /// Begins with what the process has now.
    pub fn of(pid: u32) -> Self {
        Self { pid, known: code_of(pid) }
    }

    /// Whether one that it had is not there any more.
    pub fn has_lost_any(&mut self) -> bool {
        let now = code_of(self.pid);
        let has_lost = !self.known.is_subset(&now);
        self.known = now;
        has_lost
    }
}

/// Start, file and offset of each mapping with code. The end changes when a part of it is protected differently.
fn code_of(pid: u32) -> HashSet<String> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let of_line = |line: &str| {
        let mut fields = line.splitn(6, ' ').map(str::trim_start);
        let (range, permissions, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let file = fields.nth(2)?;
        let is_code = permissions.contains('x') && file.starts_with('/');
        is_code.then(|| format!("{} {offset} {file}", range.split('-').next().unwrap_or_default()))
    };
    maps.lines().filter_map(of_line).collect()
}

/// The lowest address of the program of a process, and its end.
pub fn program_range(pid: u32) -> Option<[u64; 2]> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let program = program.to_str()?;
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    let own = maps.lines().filter(|line| line.splitn(6, ' ').nth(5).is_some_and(|file| file.trim_start() == program));
    let ranges = own.filter_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some([u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?])
    });
    ranges.reduce(|[low, high], [start, end]| [low.min(start), high.max(end)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_where_its_functions_are() {
        let [start, end] = program_range(std::process::id()).unwrap();
        let here = program_range as *const () as u64;
        assert!((start..end).contains(&here), "{here:x} is not in {start:x}-{end:x}");
        assert_eq!(program_range(u32::MAX), None);
    }

    #[test]
    fn a_mapping_that_goes_is_noticed_once() {
        let mut watch = ModuleWatch::of(std::process::id());
        assert!(!watch.has_lost_any());
        watch.known.insert("7f0000000000 00000000 /lib/gone.so".to_owned());
        assert!(watch.has_lost_any());
        assert!(!watch.has_lost_any());
    }
}
