//! `highwater detach`: leaves a process as it was before `highwater attach`.

use super::attach::{name_of, nanoseconds};
use crate::attaching;
use crate::failure::Failure;
use crate::live::{CollectorSocket, ProcessChoice};
use crate::output::{Output, warn};
use crate::print::bytes::count;
use clap::Args;
use highwater_attach::AttachError;
use highwater_collector::{CollectorClient, CollectorError};
use highwater_formats::json;
use serde_json::json;

/// The arguments of `highwater detach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater detach --pid 4711
  highwater detach --name server

Restores the functions that were hooked, and unmaps the agent. Threads are stopped for some tenths of a millisecond. It works as well if the collector is \
gone, on a recording of 'highwater record --pid', which ends, and on a child that an attached process has forked. The children of the process are detached \
from too.")]
pub struct Detach {
    #[command(flatten)]
    choice: ProcessChoice,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: CollectorSocket,
}

impl Detach {
    /// Detaches.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if self.choice.is_any() {
            return Err(Failure::Usage("which process to detach from? Name it with --pid or --name".to_owned()));
        }
        let pid = self.choice.outside()?;
        // What cannot be detached stays known. Not by a plan: a process that could not be attached to any more can be detached from.
        if attaching::has_leftover(pid)? {
            self.tell_collector(pid)?;
        }
        let detached = attaching::detach(pid);
        // The collector attaches to no further child of a process that it has forgotten.
        let children = attaching::detach_descendants(&[pid], |child| {
            if let Err(failure) = self.tell_collector(child) {
                warn(failure.line().unwrap_or_default());
            }
        });
        children.problems.iter().for_each(|problem| warn(problem));
        let detached = match detached {
            Err(AttachError::NotAttached(_)) if children.count > 0 => None,
            detached => Some(detached.map_err(Failure::fault)?),
        };
        if self.json {
            return output.json(json!({
                "schema": json::SCHEMA,
                "command": "detach",
                "pid": pid,
                "name": name_of(pid),
                "functions": detached.map_or(0, |detached| detached.stop.changed),
                "threads": detached.map_or(0, |detached| detached.stop.threads),
                "pause_ns": detached.map_or(0, |detached| nanoseconds(detached.stop.pause)),
                "is_unmapped": detached.is_none_or(|detached| detached.is_unmapped),
                "children": children.count,
            }));
        }
        let own = detached.map_or_else(|| "was not attached to".to_owned(), |one| attaching::detached_in_words(&one));
        let of_children = match children.count {
            0 => String::new(),
            1 => "; 1 child too".to_owned(),
            number => format!("; {} children too", count(number)),
        };
        output.line(&format!("{} ({pid}): {own}{of_children}", name_of(pid)))
    }

    /// The collector forgets the process. Without a collector there is nothing to forget.
    fn tell_collector(&self, pid: u32) -> Result<(), Failure> {
        match CollectorClient::connect(&self.socket.path()?).and_then(|mut client| client.detach(pid)) {
            Ok(_) | Err(CollectorError::Nobody(_)) => {}
            // The process comes first.
            Err(problem) => warn(&format!("the collector was not told: {problem}")),
        }
        Ok(())
    }
}
