//! `highwater snapshots`: snapshots that programs took of themselves, which the collector keeps.

use crate::failure::Failure;
use crate::live::{Asking, Delivery, TakenSnapshot};
use crate::output::Output;
use crate::print::age::age;
use crate::print::bytes::{bytes, count, counted};
use crate::print::colour::Style;
use crate::print::table::{Align, Cell, Table};
use clap::{Args, Subcommand};
use highwater_collector::protocol::{KeptInfo, Retention};
use highwater_formats::json;
use serde_json::{Map, json};

/// The arguments of `highwater snapshots`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater snapshots                     all of them
  highwater snapshots get 3               a report of one
  highwater snapshots get 3 -o loaded.hw  or a file, as with 'highwater snapshot'
  highwater snapshots rm 1 2              let some go
  highwater snapshots rm --all")]
pub struct Snapshots {
    #[command(subcommand)]
    action: Option<SnapshotsAction>,
    #[command(flatten)]
    list: List,
    #[command(flatten)]
    collector: Asking,
}

/// What is done with them.
#[derive(Debug, Subcommand)]
enum SnapshotsAction {
    /// All of them, oldest first
    List(List),
    /// A report of one, or a file
    Get(Get),
    /// Let some go
    Rm(Remove),
}

/// How they are listed.
#[derive(Debug, Args)]
struct List {
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

/// Which one is wanted, and what of it.
#[derive(Debug, Args)]
struct Get {
    /// Its number
    #[arg(value_name = "ID")]
    id: u64,
    #[command(flatten)]
    delivery: Delivery,
}

/// Which ones shall go.
#[derive(Debug, Args)]
struct Remove {
    /// Their numbers
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<u64>,
    /// All of them
    #[arg(long)]
    all: bool,
}

impl Snapshots {
    /// Runs the subcommand.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if self.list.json && self.action.is_some() {
            return Err(Failure::Usage(
                "--json belongs behind what it is for: 'highwater snapshots list --json'".into(),
            ));
        }
        match &self.action {
            None => self.list(&self.list, output),
            Some(SnapshotsAction::List(list)) => self.list(list, output),
            Some(SnapshotsAction::Get(get)) => self.get(get, output),
            Some(SnapshotsAction::Rm(remove)) => {
                let removed = self.collector.connect()?.remove(&remove.ids).map_err(Failure::fault)?;
                output.text(&format!("{} removed\n", counted(removed, "snapshot")))
            }
        }
    }

    fn list(&self, list: &List, output: &mut Output) -> Result<(), Failure> {
        let (kept, most) = self.collector.connect()?.kept().map_err(Failure::fault)?;
        if list.json {
            let entries: Vec<_> = kept.iter().map(KeptInfo::to_json).collect();
            return output.json(json!({
                "schema": json::SCHEMA,
                "command": "snapshots",
                "snapshots": entries,
                "retention": most.to_json(),
            }));
        }
        if kept.is_empty() {
            return output.text(&format!(
                "No snapshot is kept; at most {}. Programs take them: see docs/live.md.\n",
                limit(most)
            ));
        }
        output.text(&table(&kept).render(output.paint, output.width))?;
        let size = kept.iter().map(|kept| kept.file_bytes).sum();
        output.text(&format!(
            "\n{}, {}; at most {} are kept, the oldest go first.\n",
            counted(kept.len() as u64, "snapshot"),
            bytes(size),
            limit(most)
        ))
    }

    fn get(&self, get: &Get, output: &mut Output) -> Result<(), Failure> {
        get.delivery.check(false)?;
        let (kept, file) = self.collector.connect()?.get(get.id).map_err(Failure::fault)?;
        let taken = TakenSnapshot::open(file, &get.delivery.filters(), &mut get.delivery.symbolizer())?;
        let more = Map::from_iter([("snapshot".to_owned(), kept.to_json())]);
        get.delivery.deliver("snapshots", &taken, None, more, output)
    }
}

fn limit(most: Retention) -> String {
    format!("{} with {}", counted(most.count, "snapshot"), bytes(most.bytes))
}

fn table(kept: &[KeptInfo]) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "ID")
        .column(Align::Right, "AGE")
        .column(Align::Right, "LIVE")
        .column(Align::Right, "BLOCKS")
        .column(Align::Right, "FILE")
        .column(Align::Right, "PID")
        .column(Align::Left, "PROGRAM")
        .column(Align::Left, "NAME");
    for one in kept {
        table.row(vec![
            one.id.to_string().into(),
            age(one.taken_unix_ns).into(),
            bytes(one.live_bytes).into(),
            count(one.live_blocks).into(),
            bytes(one.file_bytes).into(),
            one.pid.to_string().into(),
            one.program.as_str().into(),
            Cell::new(Style::Bold, &one.name),
        ]);
    }
    table
}
