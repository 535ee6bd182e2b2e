//! Programs that were started and are not recorded: their number, the reasons, and their names.

use crate::session_memory::SessionMemory;
pub use highwater_shm::unrecorded_v1::Reason;
use std::collections::BTreeMap;

/// The number of names shown for each reason.
const SHOWN: usize = 3;

/// A reason in words, to follow "not recorded: ".
pub fn reason_in_words(reason: Reason) -> &'static str {
    match reason {
        Reason::Static => "statically linked",
        Reason::OtherMachine => "for another processor",
        Reason::OtherLibrary => "for another C library than the GNU one",
        Reason::AddressSanitizer => "AddressSanitizer",
        Reason::LeakSanitizer => "LeakSanitizer",
        Reason::ThreadSanitizer => "ThreadSanitizer",
        Reason::MemorySanitizer => "MemorySanitizer",
        Reason::MoreRights => "setuid or setgid",
        Reason::OutOfReach => "run with other rights or another root directory",
        Reason::Filter => "under a seccomp filter",
        Reason::OwnAllocator => "own allocator",
    }
}

/// Programs with the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UnrecordedGroup {
    count: u64,
    /// The number of times each name was noted.
    names: BTreeMap<String, u64>,
}

/// All unrecorded programs, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnrecordedPrograms {
    groups: BTreeMap<Reason, UnrecordedGroup>,
}

impl UnrecordedPrograms {
    /// Reads an agent's notes. Names are whatever its process wrote there.
    pub fn of(shared: &SessionMemory) -> Self {
        let noted = &shared.header().unrecorded;
        let mut all = Self::default();
        for reason in Reason::ALL {
            let count = noted.count(reason);
            if count > 0 {
                all.groups.insert(reason, UnrecordedGroup { count: count.into(), names: BTreeMap::new() });
            }
        }
        for (reason, name, length) in noted.names() {
            let name = String::from_utf8_lossy(&name[..length]).into_owned();
            if let Some(group) = all.groups.get_mut(&reason) {
                *group.names.entry(name).or_default() += 1;
            }
        }
        all
    }

    /// Adds one program.
    pub fn add(&mut self, reason: Reason, name: &str) {
        let group = self.groups.entry(reason).or_default();
        group.count += 1;
        *group.names.entry(name.to_owned()).or_default() += 1;
    }

    /// Adds all programs of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (reason, theirs) in &other.groups {
            let group = self.groups.entry(*reason).or_default();
            group.count += theirs.count;
            for (name, count) in &theirs.names {
                *group.names.entry(name.clone()).or_default() += count;
            }
        }
    }

    /// The number of programs in all.
    pub fn count(&self) -> u64 {
        self.groups.values().map(|group| group.count).sum()
    }

    /// The names, as far as they are known.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.groups.values().flat_map(|group| group.names.keys());
        names.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// A sentence for each reason, the most frequent first: `3 children not recorded: AddressSanitizer (test_a, test_b)`.
    pub fn sentences(&self) -> Vec<String> {
        let mut groups: Vec<(&Reason, &UnrecordedGroup)> =
            self.groups.iter().filter(|(_, group)| group.count > 0).collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
        groups.into_iter().map(|(&reason, group)| group.sentence(reason)).collect()
    }
}

/// The names in one of the [sentences](UnrecordedPrograms::sentences) that recordings keep; `None` if it is another sentence. More may have run than are named.
pub fn names_in_sentence(sentence: &str) -> Option<Vec<&str>> {
    let (count, rest) = sentence.split_once(' ')?;
    let rest = rest.strip_prefix("child ").or_else(|| rest.strip_prefix("children "))?;
    let rest = rest.strip_prefix("not recorded: ").filter(|_| count.parse::<u64>().is_ok())?;
    let names = rest.strip_suffix(')').and_then(|rest| rest.split_once(" (")).map(|(_, names)| names.split(", "));
    Some(names.into_iter().flatten().filter(|name| *name != "…").collect())
}

impl UnrecordedGroup {
    fn sentence(&self, reason: Reason) -> String {
        let children = if self.count == 1 { "child" } else { "children" };
        let mut names: Vec<(&String, &u64)> = self.names.iter().filter(|(name, _)| !name.is_empty()).collect();
        names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut shown: Vec<&str> = names.iter().take(SHOWN).map(|(name, _)| name.as_str()).collect();
        if names.len() > SHOWN {
            shown.push("…");
        }
        let names = if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) };
        format!("{} {children} not recorded: {}{names}", self.count, reason_in_words(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_reason_and_name_come_first() {
        let mut all = UnrecordedPrograms::default();
        all.add(Reason::Static, "hugo");
        for name in ["b", "a", "b", "c", "d"] {
            all.add(Reason::AddressSanitizer, name);
        }
        let mut other = UnrecordedPrograms::default();
        other.add(Reason::Static, "hugo");
        other.extend(&all);
        assert_eq!(other.count(), 7);
        let expected = [
            "5 children not recorded: AddressSanitizer (b, a, c, …)",
            "2 children not recorded: statically linked (hugo)",
        ];
        assert_eq!(other.sentences(), expected);
        assert_eq!(other.names().collect::<Vec<_>>(), ["hugo", "a", "b", "c", "d"]);
        assert_eq!(names_in_sentence(expected[0]), Some(vec!["b", "a", "c"]));
        assert_eq!(names_in_sentence(expected[1]), Some(vec!["hugo"]));
        assert_eq!(names_in_sentence("1 child not recorded: statically linked"), Some(vec![]));
        assert_eq!(names_in_sentence("the recording ended before the program did"), None);
    }
}
