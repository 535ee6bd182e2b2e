//! The map of a process, `/tmp/perf-PID.map`, as the process sees it: in its own file system, under its own number.
//!
//! Any user can make files in `/tmp`. Only a regular file is read, and no link; it must belong to the process's user or to root, and not be older than the process. It
//! is read as far as it has grown, at most [`PerfMap::MOST_BYTES`].

use highwater_symbols::perf_map::PerfMap;
use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The resolution of a process's start time, and of the time of a file.
const TIME_SLACK: Duration = Duration::from_secs(2);
const PIECE: usize = 1 << 16;

/// A process's map, which may not exist yet.
pub struct PerfMapFile {
    /// The folder of temporary files: it can be used even when the process is gone.
    folder: OwnedFd,
    name: String,
    user: u32,
    not_before: SystemTime,
    file: Option<File>,
    read: u64,
}

impl PerfMapFile {
    /// The map of a running process. `None` if the process is gone, or its files cannot be seen.
    pub fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let pids = pids(&status);
        let inner = pids.last().copied().unwrap_or(pid);
        let user = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        Some(Self {
            folder: temporary_folder(pid).or_else(|| (pids.len() <= 1).then(own_temporary_folder)?)?,
            name: format!("perf-{inner}.map"),
            user,
            not_before: started(pid).unwrap_or(UNIX_EPOCH) - TIME_SLACK,
            file: None,
            read: 0,
        })
    }

    /// Whether the process began before a time, in nanoseconds since the Unix epoch: a later one with the same number is another process.
    pub fn began_before(&self, unix_ns: u64) -> bool {
        self.not_before <= UNIX_EPOCH + Duration::from_nanos(unix_ns)
    }

    /// Adds what the file has grown by.
    pub fn read_on(&mut self, map: &mut PerfMap) -> io::Result<()> {
        if self.file.is_none() {
            self.file = self.open();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut piece = vec![0; PIECE];
        while self.read < PerfMap::MOST_BYTES {
            let length = file.read(&mut piece)?;
            if length == 0 {
                break;
            }
            self.read += length as u64;
            map.add(&piece[..length]);
        }
        Ok(())
    }

    fn open(&self) -> Option<File> {
        // Not blocking: it may be a pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.folder, self.name.as_str(), flags, Mode::empty()).ok()?;
        let about = fstat(&file).ok()?;
        let is_regular = rustix::fs::FileType::from_raw_mode(about.st_mode) == rustix::fs::FileType::RegularFile;
        let changed = UNIX_EPOCH + Duration::from_secs(u64::try_from(about.st_mtime).unwrap_or(0));
        let is_ours = about.st_uid == self.user || about.st_uid == 0;
        (is_regular && is_ours && changed >= self.not_before).then(|| file.into())
    }
}

/// The folder `/tmp` of a process, in its own file system. A link in it leads to nowhere outside of that.
fn temporary_folder(pid: u32) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
    match openat2(&root, "tmp", flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        // Older kernels cannot: then a link is not followed.
        Err(rustix::io::Errno::NOSYS) => openat(&root, "tmp", flags | OFlags::NOFOLLOW, Mode::empty()).ok(),
        opened => opened.ok(),
    }
}

/// Our own folder `/tmp`, for a process that has ended before its files could be seen.
fn own_temporary_folder() -> Option<OwnedFd> {
    rustix::fs::open("/tmp", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The numbers of a process in its namespaces, from ours inwards: it knows itself by the last one.
fn pids(status: &str) -> Vec<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// When a process was started.
fn started(pid: u32) -> Option<SystemTime> {
    const START_FIELD_AFTER_NAME: usize = 19;
    /// The unit of this file, whatever the kernel's own clock is.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(START_FIELD_AFTER_NAME)?.parse().ok()?;
    let kernel = std::fs::read_to_string("/proc/stat").ok()?;
    let booted: u64 = kernel.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let since = Duration::from_secs(ticks / TICKS_PER_SECOND);
    Some(UNIX_EPOCH + Duration::from_secs(booted) + since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_number_is_the_one_a_process_knows() {
        assert_eq!(pids("Name:\tnode\nNSpid:\t4711\t12\t7\nVmPeak:\t1"), [4711, 12, 7]);
        assert_eq!(pids("NSpid:\t4711\n"), [4711]);
        assert!(pids("Name:\tnode\n").is_empty());
    }

    /// This process has a start, a folder, and no map until one is made; then it is read as it grows.
    #[test]
    fn a_map_is_read_as_it_grows() {
        let pid = std::process::id();
        let path = format!("/tmp/perf-{pid}.map");
        let (mut ours, mut map) = (PerfMapFile::of(pid).expect("this process"), PerfMap::default());
        ours.read_on(&mut map).expect("no file is no error");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        ours.read_on(&mut map).expect("a link is not followed");
        assert!(ours.file.is_none());
        std::fs::remove_file(&path).expect("the link");
        std::fs::write(&path, "1000 10 a\n2000 10 ").expect("a map");
        ours.read_on(&mut map).expect("the map");
        assert_eq!((map.lookup(0x1001), map.lookup(0x2001)), (Some("a"), None));
        let mut file = File::options().append(true).open(&path).expect("the map");
        io::Write::write_all(&mut file, b"b\n").expect("more");
        std::fs::remove_file(&path).expect("the map");
        ours.read_on(&mut map).expect("the rest");
        assert_eq!(map.lookup(0x2001), Some("b"));
    }
}
