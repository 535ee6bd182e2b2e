//! Blocks that a process had before `highwater attach`: found in its heap, and handed over to the collector.

use super::nanoseconds;
use super::order::LiveOrder;
use crate::attaching::{self, AttachedProcess};
use crate::print::bytes::{bytes, counted};
use highwater_attach::{NotWalkable, walk_heap_of_attached};
use highwater_collector::{CollectorClient, LiveTable, MOST_OLDER};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// What was found.
pub(super) enum OlderFound {
    /// Blocks, their bytes, and how long threads were stopped.
    Known(u64, u64, Duration),
    /// Why they are unknown.
    Unknown(String),
}

impl OlderFound {
    /// Reads the heap at an instant at which no thread is in a call of the agent, and hands over what the agent has not recorded until then.
    pub(super) fn read(attached: &AttachedProcess, order: &LiveOrder, socket: &Path) -> Self {
        match (order.sample_bytes, order.pause) {
            (0, Duration::ZERO) => Self::Unknown("they were not read".to_owned()),
            (0, longest) => Self::try_to_read(attached, longest, socket).unwrap_or_else(Self::Unknown),
            _ => Self::Unknown("a sample does not show when they are freed".to_owned()),
        }
    }

    fn try_to_read(attached: &AttachedProcess, longest: Duration, socket: &Path) -> Result<Self, String> {
        let pid = attached.pid();
        let object = attached.attached.object.try_clone().map_err(|error| error.to_string())?;
        let table = LiveTable::open_attached(object.into(), &attached.layout, attached.counter)
            .map_err(|refused| refused.to_string())?;
        let log = attached.memory.unknown_frees();
        // First how many frees are logged, then what is recorded. Nothing if that cannot be read.
        let look = || {
            let position = log.written.load(std::sync::atomic::Ordering::Acquire);
            table.addresses().map_or(Vec::new(), |all| std::iter::once(position).chain(all).collect())
        };
        let (found, seen) = walk_heap_of_attached(pid.cast_signed(), longest, look).map_err(|problem| {
            let more = attaching::longer_pause(&problem);
            format!("{problem}{more}")
        })?;
        let (position, recorded) = seen.split_first().ok_or("the live table cannot be read")?;
        let recorded: HashSet<u64> = recorded.iter().copied().collect();
        let older = || {
            let all = found.blocks.iter().filter(|block| !recorded.contains(&block.address));
            all.map(|block| (block.address, block.size))
        };
        let count = older().count() as u64;
        if count > MOST_OLDER {
            return Err(format!("{} are too many", counted(count, "block")));
        }
        let (blocks, size) = CollectorClient::connect(socket)
            .and_then(|mut client| client.set_older(pid, *position, older()))
            .map_err(|problem| problem.to_string())?;
        Ok(Self::Known(blocks, size, found.pause))
    }

    /// A line for people.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Known(blocks, size, pause) => {
                let (found, size) = (counted(*blocks, "block"), bytes(*size));
                let pause = attaching::milliseconds(*pause);
                format!("{found} from before ({size}), read while threads were stopped for {pause}")
            }
            Self::Unknown(why) => format!("blocks from before are in no figure: {why}"),
        }
    }

    /// For a document.
    pub(super) fn as_json(&self) -> Value {
        match self {
            Self::Known(blocks, size, pause) => {
                json!({"blocks": blocks, "bytes": size, "pause_ns": nanoseconds(*pause)})
            }
            Self::Unknown(why) => json!({"problem": why}),
        }
    }
}

/// What a dry run says.
pub(super) fn estimate_in_words(older: &Result<Duration, NotWalkable>) -> String {
    match older {
        Ok(pause) => format!(
            "the heap is read for blocks from before, in a second stop of about {}",
            attaching::milliseconds(*pause)
        ),
        Err(problem) => format!("blocks from before are left out: {problem}"),
    }
}
