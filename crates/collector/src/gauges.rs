//! The present figures of running processes, for monitoring: counters that are read without a cut, and, if requested, how much of the live memory is old.

use crate::cut::{Cut, Unread};
use crate::sums::{BlockOwner, Sums};
use crate::table::{LiveTable, TableExtent};
use crate::take::{FIRST_LEASE, MOST_ATTEMPTS, NotTaken};
use crate::weigh::Scale;
use highwater_model::{AllocId, Nanos};
use highwater_shm::table_v1::STAMP_SHIFT;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The figures of a running process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessGauges {
    /// Its pid.
    pub pid: u32,
    /// When its table started, in nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// The executable's file name.
    pub name: String,
    /// Live bytes; an estimate if not every block is in the table.
    pub live_bytes: u64,
    /// Live blocks; likewise an estimate.
    pub live_blocks: u64,
    /// Bytes allocated since the table started, including growth by resizing.
    pub allocated_bytes: u64,
    /// Blocks allocated since then.
    pub allocated_blocks: u64,
    /// Blocks missing from the table because it was full.
    pub untracked: u64,
    /// Mean bytes per sample, 0 for every block.
    pub sample_bytes: u64,
    /// True if the figures are estimates.
    pub is_estimate: bool,
    /// How much of the memory is old, if that was requested and could be read.
    pub survivors: Option<Survivors>,
}

/// The blocks of a process that are at least as old as some age, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survivors {
    /// The age in nanoseconds.
    pub age_ns: u64,
    /// Bytes of the blocks that are at least this old. A block that was resized has the age of its first allocation.
    pub bytes: u64,
    /// The number of these blocks.
    pub blocks: u64,
    /// Bytes of all blocks at that instant.
    pub live_bytes: u64,
    /// The number of all blocks at that instant.
    pub live_blocks: u64,
    /// Nanoseconds to make the cut and to read the table.
    pub scan_ns: u64,
}

impl ProcessGauges {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let survivors = self.survivors.map(|old| {
            json!({
                "age_ns": old.age_ns,
                "bytes": old.bytes,
                "blocks": old.blocks,
                "live_bytes": old.live_bytes,
                "live_blocks": old.live_blocks,
                "scan_ns": old.scan_ns,
            })
        });
        json!({
            "pid": self.pid,
            "since_unix_ns": self.since_unix_ns,
            "name": self.name,
            "live_bytes": self.live_bytes,
            "live_blocks": self.live_blocks,
            "allocated_bytes": self.allocated_bytes,
            "allocated_blocks": self.allocated_blocks,
            "untracked": self.untracked,
            "sample_bytes": self.sample_bytes,
            "is_estimate": self.is_estimate,
            "survivors": survivors,
        })
    }

    /// From JSON; `None` if something is missing.
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        let survivors = match &value["survivors"] {
            Value::Null => None,
            old => Some(Survivors {
                age_ns: old["age_ns"].as_u64()?,
                bytes: old["bytes"].as_u64()?,
                blocks: old["blocks"].as_u64()?,
                live_bytes: old["live_bytes"].as_u64()?,
                live_blocks: old["live_blocks"].as_u64()?,
                scan_ns: old["scan_ns"].as_u64()?,
            }),
        };
        Some(Self {
            pid: u32::try_from(number("pid")?).ok()?,
            since_unix_ns: number("since_unix_ns")?,
            name: value["name"].as_str()?.to_owned(),
            live_bytes: number("live_bytes")?,
            live_blocks: number("live_blocks")?,
            allocated_bytes: number("allocated_bytes")?,
            allocated_blocks: number("allocated_blocks")?,
            untracked: number("untracked")?,
            sample_bytes: number("sample_bytes")?,
            is_estimate: value["is_estimate"].as_bool()?,
            survivors,
        })
    }
}

/// Reads how much of a running process's memory is at least this old. Nothing is kept for single blocks: the cost is that of reading the table.
pub fn survivors(table: &LiveTable, age: Duration) -> Result<Survivors, NotTaken> {
    for attempt in 0..MOST_ATTEMPTS {
        let begin = Instant::now();
        let mut cut = table.cut(FIRST_LEASE * (1 << attempt))?;
        cut.settle();
        match read(table, &mut cut, age) {
            Ok(found) if cut.end() => {
                return Ok(Survivors { scan_ns: begin.elapsed().as_nanos() as u64, ..found });
            }
            Ok(_) | Err(Unread::Void) => {}
            Err(Unread::Overclaimed) => return Err(NotTaken::Overclaimed),
        }
    }
    Err(NotTaken::Void)
}

fn read(table: &LiveTable, cut: &mut Cut<'_>, age: Duration) -> Result<Survivors, Unread> {
    let extent = table.extent()?;
    // One owner for all blocks: only the sums are wanted.
    let one_owner = TableExtent { nodes: 1, threads: 1, ..extent };
    let (mut all, mut old) = (Sums::new(&one_owner), Sums::new(&one_owner));
    let (mut scale, stamps) = (Scale::of(table), table.stamps());
    let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
    // A process younger than the age has no old blocks.
    let newest = cut.instant().0.checked_sub(age_ns).map(Nanos);
    let owner = BlockOwner { node: 0, thread: 0, is_mapping: false };
    cut.scan(&extent, |_, block| {
        let weight = scale.weight(block.rate, block.size);
        let id = AllocId(all.records);
        let (size, weight) = all.add_weighed(owner, id, block.size, weight);
        if newest.is_some_and(|newest| stamps.time(block.stamp << STAMP_SHIFT) <= newest) {
            old.add_weighed(owner, id, size, weight);
        }
    })?;
    Ok(Survivors {
        age_ns,
        bytes: old.whole.bytes.rounded(),
        blocks: old.whole.blocks,
        live_bytes: all.whole.bytes.rounded(),
        live_blocks: all.whole.blocks,
        scan_ns: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_read_back_what_was_written() {
        let survivors = Survivors { age_ns: 1, bytes: 2, blocks: 3, live_bytes: 4, live_blocks: 5, scan_ns: 6 };
        let gauges = ProcessGauges {
            pid: 7,
            since_unix_ns: 8,
            name: "a \"b\"\n".to_owned(),
            live_bytes: u64::MAX,
            live_blocks: 9,
            allocated_bytes: 10,
            allocated_blocks: 11,
            untracked: 12,
            sample_bytes: 13,
            is_estimate: true,
            survivors: Some(survivors),
        };
        for gauges in [ProcessGauges { survivors: None, ..gauges.clone() }, gauges] {
            assert_eq!(ProcessGauges::from_json(&gauges.to_json()), Some(gauges));
        }
        assert_eq!(ProcessGauges::from_json(&json!({"pid": 1})), None);
    }
}
