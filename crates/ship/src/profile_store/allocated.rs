//! Allocated bytes and blocks as differences: what a process allocated since its slot before.

use highwater_lake::rows::SiteRow;
use std::collections::HashMap;

/// A process that has not been seen for this time is forgotten, in seconds.
const FORGOTTEN_AFTER: i64 = 3600;
/// A process with more stacks is forgotten, and counts anew.
const MOST_STACKS: usize = 200_000;

/// The counters of all processes at their last slot.
#[derive(Debug, Default)]
pub(super) struct AllocatedBefore {
    processes: HashMap<i64, ProcessBefore>,
    /// The latest slot of all processes.
    latest_slot: Option<i64>,
}

#[derive(Debug)]
struct ProcessBefore {
    slot: i64,
    /// By stack and names: bytes and blocks.
    stacks: HashMap<(i64, i64), (i64, i64)>,
}

/// What a process allocated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AllocatedSince {
    /// Since when, in nanoseconds since the Unix epoch.
    pub(super) since_unix_ns: u64,
    /// Bytes and blocks of each row.
    pub(super) rows: Vec<(u64, u64)>,
}

impl AllocatedBefore {
    /// The differences for the rows of one process at one slot. `None` if its counters are not known, or were not known at the slot before. A process that
    /// started after the last slot of all has allocated everything since its start.
    pub(super) fn difference(&mut self, rows: &[&SiteRow]) -> Option<AllocatedSince> {
        let first = rows.first()?;
        let (slot, process) = (first.slot, &first.process);
        let key = |row: &SiteRow| (row.stack_id, row.site_id);
        let counters: Option<Vec<(i64, i64)>> =
            rows.iter().map(|row| Some((row.alloc_bytes?.max(0), row.alloc_blocks?.max(0)))).collect();
        let Some(counters) = counters else {
            self.processes.remove(&process.process_id);
            return None;
        };
        let is_new = self.latest_slot.is_some_and(|latest| process.start_us >= latest.saturating_mul(1_000_000));
        let known = self.processes.get(&process.process_id);
        let since = match known {
            // An older slot, or this one again.
            Some(before) if before.slot >= slot => return None,
            Some(before) => Some(before.slot.max(0).cast_unsigned().saturating_mul(1_000_000_000)),
            None => is_new.then(|| process.start_us.max(0).cast_unsigned().saturating_mul(1000)),
        };
        let difference = |(row, (bytes, blocks)): (&&SiteRow, &(i64, i64))| {
            let before = known.and_then(|known| known.stacks.get(&key(row))).copied().unwrap_or_default();
            let grown = |now: i64, before: i64| now.saturating_sub(before).max(0).cast_unsigned();
            (grown(*bytes, before.0), grown(*blocks, before.1))
        };
        let differences = rows.iter().zip(&counters).map(difference).collect();
        // A stack without live blocks may have no row, and come back: its counters are kept.
        let before = self.processes.entry(process.process_id).or_insert(ProcessBefore { slot, stacks: HashMap::new() });
        before.slot = slot;
        before.stacks.extend(rows.iter().map(|row| key(row)).zip(counters));
        if before.stacks.len() > MOST_STACKS {
            self.processes.remove(&process.process_id);
        }
        since.map(|since_unix_ns| AllocatedSince { since_unix_ns, rows: differences })
    }

    /// All processes of a slot are counted.
    pub(super) fn end_slot(&mut self, slot: i64) {
        self.latest_slot = self.latest_slot.max(Some(slot));
        self.processes.retain(|_, before| before.slot.saturating_add(FORGOTTEN_AFTER) >= slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_lake::rows::LakeProcess;
    use std::sync::Arc;

    fn row(slot: i64, start: i64, stack_id: i64, bytes: Option<i64>) -> SiteRow {
        let process = LakeProcess { process_id: 7 + start, start_us: start * 1_000_000, ..LakeProcess::default() };
        let alloc_blocks = bytes.map(|bytes| bytes / 10);
        SiteRow {
            slot,
            process: Arc::new(process),
            stack_id,
            site_id: stack_id,
            sample_period: 0,
            live_bytes: 1,
            live_blocks: 1,
            alloc_bytes: bytes,
            alloc_blocks,
        }
    }

    #[test]
    fn counters_become_differences() {
        let mut before = AllocatedBefore::default();
        let mut slot = |slot: i64, rows: &[SiteRow]| {
            let rows: Vec<&SiteRow> = rows.iter().collect();
            let found = before.difference(&rows);
            before.end_slot(slot);
            found.map(|found| (found.since_unix_ns / 1_000_000_000, found.rows))
        };
        assert_eq!(slot(60, &[row(60, 1, 1, Some(100))]), None, "nothing is known of the slot before");
        assert_eq!(
            slot(120, &[row(120, 1, 1, Some(130)), row(120, 1, 2, Some(50))]),
            Some((60, vec![(30, 3), (50, 5)]))
        );
        assert_eq!(slot(120, &[row(120, 1, 1, Some(130))]), None, "the same slot again");
        assert_eq!(slot(180, &[row(180, 1, 1, Some(120))]), Some((120, vec![(0, 0)])), "an estimate may fall");
        assert_eq!(slot(240, &[row(240, 1, 2, Some(70))]), Some((180, vec![(20, 2)])), "a stack comes back");
        assert_eq!(slot(300, &[row(300, 1, 2, None)]), None);
        assert_eq!(slot(360, &[row(360, 1, 2, Some(90))]), None, "the slot before had no counters");
        assert_eq!(slot(420, &[row(420, 400, 2, Some(90))]), Some((400, vec![(90, 9)])), "a new process");
        assert_eq!(slot(9_000, &[row(9_000, 8_000, 2, Some(99))]), Some((8_000, vec![(99, 9)])));
        assert_eq!(slot(9_060, &[row(9_060, 1, 2, Some(99))]), None, "forgotten");
    }
}
