//! The processes that a process starts, found from outside while they run.
//!
//! The kernel lists the children of each thread. These lists are read many times a second, but a child that ends between two readings is not seen. (The kernel's
//! process events would show it, only to root and only in the first network namespace.)

use std::collections::HashMap;
use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

/// How often lists are read, at least.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A look may take this part of the time: programs can have thousands of threads.
pub const PAUSE_PER_LOOK: u32 = 30;

/// The kernel's ticks in a second, as programs see them (`USER_HZ`).
const TICKS: u64 = 100;

/// A moment as the kernel stamps the beginnings of processes: ticks since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartTime(pub u64);

impl StartTime {
    /// Processes that begin from now on have this stamp, or a later one.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(now.tv_sec.cast_unsigned() * TICKS + now.tv_nsec.cast_unsigned() * TICKS / 1_000_000_000)
    }

    /// When a process has begun; `None` if it has ended, even if its parent has not noticed.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A program's name may have any characters. After it come the state and numbers.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let start = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self(start))
    }
}

/// A family of processes, each known by its number and when it began: numbers are used again.
#[derive(Debug, Default)]
pub struct Descendants {
    known: HashMap<u32, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    began: StartTime,
    root: (u32, StartTime),
    since: StartTime,
}

/// A process that a root has started, directly or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descendant {
    /// The process.
    pub pid: u32,
    /// When it began.
    pub began: StartTime,
    /// Whose descendant it is.
    pub root: u32,
}

impl Descendants {
    /// Adds a process whose descendants are looked for, unless it is one already. Those that began before `since` are not new.
    pub fn add_root(&mut self, pid: u32, since: StartTime) {
        let Some(began) = StartTime::of(pid) else { return };
        if self.known.get(&pid).is_none_or(|known| known.began != began) {
            self.known.insert(pid, Known { began, root: (pid, began), since });
        }
    }

    /// Forgets families whose root still runs and is not among these: it was detached from. Children of a root that has ended are known on.
    pub fn retain_roots(&mut self, is_root: impl Fn(u32) -> bool) {
        self.known.retain(|_, known| {
            let (pid, began) = known.root;
            is_root(pid) || StartTime::of(pid) != Some(began)
        });
    }

    /// Whether any process can have descendants.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The processes that are new since the last look, parents before their children.
    pub fn look(&mut self) -> Vec<Descendant> {
        self.known.retain(|&pid, known| StartTime::of(pid) == Some(known.began));
        let children = ChildLists::read();
        let mut queue: Vec<(u32, Known)> = self.known.iter().map(|(&pid, &known)| (pid, known)).collect();
        let mut new = Vec::new();
        while let Some((parent, family)) = queue.pop() {
            for pid in children.of(parent) {
                let Some(began) = StartTime::of(pid) else { continue };
                if self.known.get(&pid).is_some_and(|known| known.began == began) {
                    continue;
                }
                let known = Known { began, ..family };
                self.known.insert(pid, known);
                queue.push((pid, known));
                if began >= family.since {
                    new.push(Descendant { pid, began, root: family.root.0 });
                }
            }
        }
        new
    }
}

/// All descendants that a process has now.
pub fn descendants_of(pid: u32) -> Vec<u32> {
    let mut all = Descendants::default();
    all.add_root(pid, StartTime(0));
    all.look().into_iter().map(|one| one.pid).collect()
}

/// Who is whose child.
enum ChildLists {
    /// The kernel lists them (`CONFIG_PROC_CHILDREN`).
    Listed,
    /// Found by the parents of all processes.
    ByParent(HashMap<u32, Vec<u32>>),
}

impl ChildLists {
    fn read() -> Self {
        static IS_LISTED: OnceLock<bool> = OnceLock::new();
        match IS_LISTED.get_or_init(|| fs::exists("/proc/thread-self/children").unwrap_or(false)) {
            true => Self::Listed,
            false => Self::ByParent(all_by_parent()),
        }
    }

    fn of(&self, pid: u32) -> Vec<u32> {
        match self {
            Self::Listed => listed_children(pid),
            Self::ByParent(all) => all.get(&pid).cloned().unwrap_or_default(),
        }
    }
}

fn listed_children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn all_by_parent() -> HashMap<u32, Vec<u32>> {
    let mut all: HashMap<u32, Vec<u32>> = HashMap::new();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        all.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn children_and_their_children_are_found_once() {
        let me = std::process::id();
        let mut family = Descendants::default();
        family.add_root(me, StartTime::now());
        // A shell that waits for its child, which waits for its input.
        let mut shell = Command::new("sh").args(["-c", "cat; true"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut found = Vec::new();
        while !found.iter().any(|one: &Descendant| {
            fs::read_to_string(format!("/proc/{}/comm", one.pid)).is_ok_and(|name| name == "cat\n")
        }) {
            found.extend(family.look());
        }
        assert!(found.iter().any(|one| one.pid == shell.id()) && found.iter().all(|one| one.root == me), "{found:?}");
        let again: Vec<_> = family.look().into_iter().filter(|one| found.contains(one)).collect();
        assert_eq!(again, []);
        let by_parent = all_by_parent();
        assert!(by_parent[&me].contains(&shell.id()) && listed_children(me).contains(&shell.id()));
        let older: Vec<_> = {
            let mut later = Descendants::default();
            later.add_root(me, StartTime(StartTime::now().0 + 1000));
            later.look()
        };
        assert_eq!(older, [], "they began before");
        assert!(descendants_of(me).contains(&shell.id()));
        family.retain_roots(|_| false);
        assert!(family.is_empty());
        shell.stdin.take().unwrap().flush().unwrap();
        shell.wait().unwrap();
    }
}
