//! How much memory is left for us: in a container, what we take may be what the program lacks, and the kernel then ends one of us.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limits of the memory groups that this process is in, from its own up to the outermost.
#[derive(Debug, Default)]
pub struct Room {
    groups: Vec<Group>,
}

/// One group's files.
#[derive(Debug)]
struct Group {
    limit: PathBuf,
    usage: PathBuf,
    statistics: PathBuf,
}

/// Beyond this a limit is none: the first version of groups writes a large number.
const NO_LIMIT: u64 = 1 << 60;

impl Room {
    /// Finds the groups of this process that have a limit. None where groups cannot be read.
    pub fn of_ourselves() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let folders = folders(&groups, &mounts);
        let groups = folders.into_iter().flat_map(|(mount, inside, version)| {
            let mut all: Vec<Group> = Vec::new();
            for part in inside.ancestors() {
                let folder = mount.join(part.strip_prefix("/").unwrap_or(part));
                all.push(Group::new(&folder, version));
            }
            all
        });
        Self { groups: groups.filter(|group| group.left().is_some()).collect() }
    }

    /// Bytes that can still be taken before the first of the limits is reached; `None` where there is none.
    pub fn left(&self) -> Option<u64> {
        self.groups.iter().filter_map(Group::left).min()
    }
}

/// Where memory runs out, the kernel ends us rather than the program: it goes on without us, and what was written can be read. Not for a process that will
/// start others, which would inherit it.
pub fn be_ended_first() {
    const FIRST: &str = "1000";
    let _ = fs::write("/proc/self/oom_score_adj", FIRST);
}

/// What may wait of the room that is left, looked at again from time to time.
pub struct Share {
    room: Room,
    limit: u64,
    looked: Option<Instant>,
}

impl Share {
    /// How much of the room may be taken: most of it is the program's.
    const PART: u64 = 8;
    /// Without this much nothing could be worked through.
    const LEAST: u64 = 1 << 20;
    /// How long a look holds. In this time a program can take some megabytes.
    const HOLDS: Duration = Duration::from_millis(10);

    /// Of our own groups.
    pub fn new() -> Self {
        Self { room: Room::of_ourselves(), limit: u64::MAX, looked: None }
    }

    /// How much may wait, where this much does.
    pub fn of_room(&mut self, waiting: u64) -> u64 {
        let now = Instant::now();
        if !self.room.groups.is_empty() && self.looked.is_none_or(|looked| now - looked >= Self::HOLDS) {
            self.looked = Some(now);
            let left = self.room.left().map(|left| left.saturating_add(waiting) / Self::PART);
            self.limit = left.map_or(u64::MAX, |left| left.max(Self::LEAST));
        }
        self.limit
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Group {
    fn new(folder: &Path, version: Version) -> Self {
        let (limit, usage) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            Version::Two => ("memory.max", "memory.current"),
        };
        Self { limit: folder.join(limit), usage: folder.join(usage), statistics: folder.join("memory.stat") }
    }

    fn left(&self) -> Option<u64> {
        let limit = number_in(&self.limit).filter(|&limit| limit < NO_LIMIT)?;
        let statistics = fs::read_to_string(&self.statistics).unwrap_or_default();
        // Parts of files that nobody has used of late make room for others.
        let given_up = ["total_inactive_file", "inactive_file"].into_iter().find_map(|name| field(&statistics, name));
        Some(limit.saturating_sub(number_in(&self.usage)?.saturating_sub(given_up.unwrap_or(0))))
    }
}

fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn field(statistics: &str, name: &str) -> Option<u64> {
    statistics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Where a hierarchy with limits on memory is mounted, and where in it this process is.
fn folders(groups: &str, mounts: &str) -> Vec<(PathBuf, PathBuf, Version)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let version = if controllers.is_empty() { Version::Two } else { Version::One };
        if version == Version::One && !controllers.split(',').any(|controller| controller == "memory") {
            continue;
        }
        let mount = mounts.lines().find_map(|line| mount_of(line, version));
        if let Some((root, mount)) = mount {
            // In a container a part of the hierarchy may be all that is mounted.
            let inside = Path::new(path)
                .strip_prefix(&root)
                .map_or_else(|_| PathBuf::from("/"), |rest| Path::new("/").join(rest));
            found.push((mount, inside, version));
        }
    }
    found
}

/// The root and the place of a mounted hierarchy: `35 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`.
fn mount_of(line: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    let (about, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let (kind, options) = (system.next()?, system.nth(1)?);
    let fits = match version {
        Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        Version::Two => kind == "cgroup2",
    };
    let mut about = about.split(' ').skip(3);
    let (root, place) = (about.next()?, about.next()?);
    fits.then(|| (root.into(), place.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "24 1 0:22 / /proc rw - proc proc rw\n\
        35 24 0:30 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
        36 24 0:31 /docker/abc /sys/fs/cgroup ro,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate\n";

    #[test]
    fn groups_of_both_versions_are_found_where_they_are_mounted() {
        let first = folders("9:name=systemd:/\n4:cpu,memory:/service/a\n3:cpu:/\n", MOUNTS);
        assert_eq!(first, [("/sys/fs/cgroup/memory".into(), "/service/a".into(), Version::One)]);
        let second = folders("0::/docker/abc/inner\n", MOUNTS);
        assert_eq!(second, [("/sys/fs/cgroup".into(), "/inner".into(), Version::Two)]);
        // Seen from inside, where its own group is the root.
        assert_eq!(folders("0::/\n", MOUNTS), [("/sys/fs/cgroup".into(), "/".into(), Version::Two)]);
        assert_eq!(folders("nonsense\n0::\n", "nonsense - x\n"), []);
    }

    #[test]
    fn what_is_left_is_the_limit_less_what_nobody_gives_up() {
        let folder = std::env::temp_dir().join(format!("highwater-room-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let group = Group::new(&folder, Version::Two);
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        assert_eq!(group.left(), None);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(group.left(), None);
        write("memory.max", "1000\n");
        assert_eq!(group.left(), Some(300));
        write("memory.stat", "anon 500\ninactive_file 150\nactive_file 50\n");
        assert_eq!(group.left(), Some(450));
        write("memory.current", "1200\n");
        assert_eq!(group.left(), Some(0));
        fs::remove_dir_all(&folder).unwrap();
    }
}
