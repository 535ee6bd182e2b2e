//! `highwater ps`: lists the processes that the collector knows.

use crate::failure::Failure;
use crate::live::Asking;
use crate::output::Output;
use crate::print::age::age;
use crate::print::bytes::{bytes, count};
use crate::print::colour::Style;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_collector::TimelineInfo;
use highwater_collector::protocol::{ProcessInfo, ProcessState, Which};
use highwater_formats::json;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The arguments of `highwater ps`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater ps
  highwater ps --json | jq '.processes[] | select(.state == \"live\") | .pid'
  highwater ps --json --timeline 60 | jq '.processes[].timeline.live_bytes.high'

Programs that were started with 'highwater run' are here, with the processes they started, and those that 'highwater attach' attached to; those that ended \
stay for a while.")]
pub struct Ps {
    /// All processes that ended and are still known, not only the latest
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    collector: Asking,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
    /// With --json: the memory of each process over time, in at most this many bins
    #[arg(long, value_name = "BINS", requires = "json", value_parser = clap::value_parser!(u64).range(1..))]
    timeline: Option<u64>,
}

/// The number of exited processes that are shown without `--all`.
const EXITED: usize = 5;

impl Ps {
    /// Prints the processes.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut client = self.collector.connect()?;
        let mut processes = client.processes().map_err(Failure::fault)?;
        processes.sort_by_key(|process| {
            let is_exited = process.state == ProcessState::Exited;
            (
                is_exited,
                process.state != ProcessState::Live,
                Reverse(process.exited_unix_ns),
                process.since_unix_ns,
                process.pid,
            )
        });
        if self.json {
            let timelines = self.timeline.map(|bins| client.timelines(&Which::All, bins, None)).transpose();
            let timelines = timelines.map_err(Failure::fault)?;
            let list: Vec<_> = processes.iter().map(|process| with_timeline(process, timelines.as_deref())).collect();
            return output.json(json!({"schema": json::SCHEMA, "command": "ps", "processes": list}));
        }
        if processes.is_empty() {
            return output.text("No process is registered. 'highwater run PROGRAM' starts one that is, 'highwater attach --pid N' adds one that runs.\n");
        }
        let others = processes.iter().filter(|process| process.state != ProcessState::Exited).count();
        let shown = if self.all { processes.len() } else { processes.len().min(others + EXITED) };
        let (shown, rest) = processes.split_at(shown);
        output.text(&table(shown).render(output.paint, output.width))?;
        if rest.is_empty() {
            return Ok(());
        }
        output.text(&format!("\n… {} more that ended before; '--all' shows them.\n", count(rest.len() as u64)))
    }
}

fn with_timeline(process: &ProcessInfo, timelines: Option<&[TimelineInfo]>) -> Value {
    let mut value = process.to_json();
    if let Some(timelines) = timelines {
        let is_its = |each: &&TimelineInfo| (each.pid, each.since_unix_ns) == (process.pid, process.since_unix_ns);
        value["timeline"] = timelines.iter().find(is_its).map_or(Value::Null, TimelineInfo::to_json);
    }
    value
}

fn table(processes: &[ProcessInfo]) -> Table {
    // The column is left out if all processes are live.
    let with_state = processes.iter().any(|process| process.state != ProcessState::Live);
    let mut table = Table::default().column(Align::Right, "PID").column(Align::Left, "NAME");
    if with_state {
        table = table.column(Align::Left, "STATE");
    }
    table = table
        .column(Align::Right, "SINCE")
        .column(Align::Right, "LIVE")
        .column(Align::Right, "BLOCKS")
        .column(Align::Left, "MODE")
        .column(Align::Left, "VERSION");
    for process in processes {
        table.row(row(process, with_state));
    }
    table
}

fn row(process: &ProcessInfo, with_state: bool) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![process.pid.to_string().into(), Cell::new(Style::Bold, &process.name)];
    if with_state {
        cells.push(match process.state {
            ProcessState::Live => Cell::default(),
            ProcessState::Exited => Cell::new(Style::Dim, "exited"),
            ProcessState::Refused => Cell::new(Style::Red, "refused"),
        });
    }
    cells.push(age(process.since_unix_ns).into());
    if process.state == ProcessState::Refused {
        // A refused process has no figures; its problem is shown instead.
        cells.extend([Cell::default(), Cell::default(), Cell::default(), Cell::new(Style::Red, &process.problem)]);
        return cells;
    }
    let about = if process.is_estimate { "~" } else { "" };
    cells.extend([
        format!("{about}{}", bytes(process.live_bytes)).into(),
        format!("{about}{}", count(process.live_blocks)).into(),
        format!("{}{}", mode(process.sample_bytes), if process.is_attached { ", attached" } else { "" }).into(),
        process.version.to_string().into(),
    ]);
    cells
}

/// How blocks are selected: `exact`, `1 in 512.0 KiB`.
pub fn mode(sample_bytes: u64) -> String {
    match sample_bytes {
        0 => "exact".to_owned(),
        rate => format!("1 in {}", round_bytes(rate)),
    }
}

/// Bytes, without decimals if they are zero: `512 KiB`.
fn round_bytes(count: u64) -> String {
    bytes(count).replace(".0 ", " ")
}
