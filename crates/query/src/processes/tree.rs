//! Which process came from which.

use super::files::RecordedFacts;
use serde::Serialize;
use std::collections::HashMap;

/// How a process came from the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// It was started: a new program in a new process.
    Start,
    /// It was forked and goes on in the same program, with its parent's memory.
    Fork,
    /// The same process executed another program.
    Exec,
}

/// The processes as a tree.
pub(super) struct ProcessTree {
    /// The process above each one, by their numbers.
    pub parents: Vec<Option<(usize, Relation)>>,
    /// All processes with their depths, each before those below it.
    pub order: Vec<(usize, usize)>,
}

/// Arranges processes. No process is above itself: what is above began earlier, or comes earlier in the list.
pub(super) fn arrange(all: &[RecordedFacts]) -> ProcessTree {
    let mut parents: Vec<Option<(usize, Relation)>> = vec![None; all.len()];
    // The latest process so far with each process id: the kernel gives ids anew.
    let mut latest: HashMap<(&str, u64), usize> = HashMap::new();
    let mut in_order: Vec<usize> = (0..all.len()).collect();
    in_order.sort_by_key(|number| (all[*number].start(), all[*number].start_unix_ns, *number));
    for &number in &in_order {
        let (source, facts) = (&all[number].source, &all[number]);
        let known = |pid: u64| latest.get(&(source.host.as_str(), pid)).copied().filter(|_| pid != 0);
        let is_earlier = |before: &RecordedFacts| {
            before.source.parent_pid == source.parent_pid && before.start_unix_ns < facts.start_unix_ns
        };
        let before = known(source.pid).filter(|&before| is_earlier(&all[before]));
        parents[number] = match (before, known(source.parent_pid)) {
            (Some(before), _) => Some((before, Relation::Exec)),
            (None, Some(parent)) if facts.source.forked => Some((parent, Relation::Fork)),
            (None, Some(parent)) => Some((parent, Relation::Start)),
            (None, None) => None,
        };
        latest.insert((source.host.as_str(), source.pid), number);
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    let mut open: Vec<(usize, usize)> = Vec::new();
    for &number in in_order.iter().rev() {
        match parents[number] {
            Some((parent, _)) => children[parent].push(number),
            None => open.push((number, 0)),
        }
    }
    // Both lists have the latest first, so that the earliest is taken from the end. A deep tree needs no deep call stack.
    let mut order = Vec::with_capacity(all.len());
    while let Some((number, depth)) = open.pop() {
        order.push((number, depth));
        open.extend(children[number].iter().map(|child| (*child, depth + 1)));
    }
    ProcessTree { parents, order }
}
