//! The memory limit of a process's control group: the tightest among the group and its parents, in version 2 and version 1.

use highwater_model::MemoryLimit;
use std::fs;
use std::path::{Path, PathBuf};

/// A version of control groups, and its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    limit: &'static str,
    used: &'static str,
}

const V2: Version = Version { limit: "memory.max", used: "memory.current" };
const V1: Version = Version { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes" };

/// Version 1 has no word for "no limit": it shows the largest multiple of the page size. No machine has a quarter of it.
const NO_LIMIT: u64 = 1 << 61;

/// The groups above a group that are looked at.
const MOST_PARENTS: usize = 64;

/// The limit that the process of this number meets first; `None` if it has none.
pub fn limit_of(pid: u32) -> Option<MemoryLimit> {
    let groups = fs::read(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let limits = memory_groups(&groups, &mounts)
        .into_iter()
        .filter_map(|(version, mount, group)| tightest(version, &mount, &group));
    limits.min_by_key(|limit| limit.bytes.saturating_sub(limit.used))
}

/// The groups that may limit memory: their version, the mount, and the path of the group under it.
pub fn memory_groups(groups: &[u8], mounts: &[u8]) -> Vec<(Version, PathBuf, String)> {
    let groups = String::from_utf8_lossy(groups);
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let version = match controllers {
            "" => V2,
            _ if controllers.split(',').any(|name| name == "memory") => V1,
            _ => continue,
        };
        // A group outside of our own root (`/../x`) cannot be found in our mounts.
        if let Some((root, mount)) = mount_of(version, mounts)
            && !group.split('/').any(|part| part == "..")
        {
            let group = group.strip_prefix(root.as_str()).unwrap_or(group);
            found.push((version, mount, group.trim_matches('/').to_owned()));
        }
    }
    found
}

/// The group that is mounted, and where, for memory.
fn mount_of(version: Version, mounts: &[u8]) -> Option<(String, PathBuf)> {
    let mounts = String::from_utf8_lossy(mounts);
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let is_right = match (kind.next()?, version == V2) {
            ("cgroup2", true) => true,
            ("cgroup", false) => kind.nth(1)?.split(',').any(|option| option == "memory"),
            _ => false,
        };
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        is_right.then(|| (root.trim_end_matches('/').to_owned(), PathBuf::from(unescaped(at))))
    })
}

/// The kernel writes spaces and the like as `\040`.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

/// The limit that is nearest to what its group uses, from a group up to the root.
fn tightest(version: Version, mount: &Path, group: &str) -> Option<MemoryLimit> {
    let mut limits = Vec::new();
    let mut directory = mount.join(group);
    for _ in 0..MOST_PARENTS {
        limits.extend(limit_in(version, &directory));
        if directory == mount || !directory.pop() {
            break;
        }
    }
    limits.into_iter().min_by_key(|limit| limit.bytes.saturating_sub(limit.used))
}

fn limit_in(version: Version, directory: &Path) -> Option<MemoryLimit> {
    let number = |name| fs::read_to_string(directory.join(name)).ok()?.trim().parse::<u64>().ok();
    // Version 2 writes `max` for no limit.
    let bytes = number(version.limit).filter(|&bytes| bytes < NO_LIMIT)?;
    Some(MemoryLimit { bytes, used: number(version.used)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
        31 1 0:27 /docker/7f /sys/fs/cgroup/with\\040space rw - cgroup cgroup rw,memory\n\
        32 1 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn the_groups_of_both_versions_are_found_under_their_mounts() {
        let groups = b"12:cpu,cpuacct:/x\n4:memory:/docker/7f/inner\n0::/user.slice/a:b\n";
        let found = memory_groups(groups, MOUNTS);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], (V1, PathBuf::from("/sys/fs/cgroup/with space"), "inner".to_owned()));
        assert_eq!(found[1], (V2, PathBuf::from("/sys/fs/cgroup"), "user.slice/a:b".to_owned()));
        assert_eq!(memory_groups(b"0::/../other", MOUNTS), []);
    }

    #[test]
    fn the_limit_of_a_parent_counts_if_it_is_nearer() {
        let root = std::env::temp_dir().join(format!("highwater-cgroup-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let write = |directory: &Path, limit: &str, used: &str| {
            fs::write(directory.join("memory.max"), limit).unwrap();
            fs::write(directory.join("memory.current"), used).unwrap();
        };
        write(&inner, "max\n", "100\n");
        write(&root.join("a"), "5000\n", "4900\n");
        write(&root, "6000\n", "4950\n");
        let limit = tightest(V2, &root, "a/b");
        fs::write(inner.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        fs::write(inner.join("memory.usage_in_bytes"), "100\n").unwrap();
        let none = limit_in(V1, &inner);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(limit, Some(MemoryLimit { bytes: 5000, used: 4900 }));
        assert_eq!(none, None);
    }
}
