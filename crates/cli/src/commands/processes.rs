//! `highwater processes`: a recorded tree of processes, on one time axis.

use crate::args::keyed_parser;
use crate::failure::Failure;
use crate::output::{Output, warn};
use crate::print::bytes::{bytes, count};
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::progress::Progress;
use crate::print::table::{Align, Cell, Table};
use crate::print::text::printable;
use crate::process_files::{recordings_in, recordings_of_children};
use clap::Args;
use highwater_formats::json;
use highwater_model::Nanos;
use highwater_query::{ProcessAnswer, ProcessFile, ProcessesAnswer, ProcessesOptions, QueryError, Relation, processes};
use highwater_store::history::Work;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::path::PathBuf;

/// The arguments of `highwater processes`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater processes app.hw                the program and its recorded children
  highwater processes app.hw --sort peak    the largest first
  highwater processes app.children          the recordings in a folder
  highwater processes app.hw --json | jq '.processes[] | {pid, name, peak_bytes}'

Times count from the start of the first process. 'highest' is the instant at which all processes together held the most, and AT HIGHEST what each held \
then. A forked child's recording begins empty: what it inherited is in its parent's figures only.")]
pub struct ProcessesArgs {
    /// Recordings (.hw), with those of their children, or folders of recordings
    #[arg(value_name = "FILE", required = true)]
    paths: Vec<PathBuf>,
    /// The order of the rows
    #[arg(long, value_name = "ORDER", default_value = "tree", value_parser = order_parser())]
    sort: ProcessOrder,
    /// How many rows; 0 for all [default: 40, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessOrder {
    Tree,
    Start,
    Peak,
    Allocated,
    Held,
}

fn order_parser() -> impl clap::builder::TypedValueParser<Value = ProcessOrder> {
    keyed_parser([
        ("tree", "children below their parents", ProcessOrder::Tree),
        ("start", "the first to begin first", ProcessOrder::Start),
        ("peak", "the highest peak first", ProcessOrder::Peak),
        ("allocated", "the most allocated bytes first", ProcessOrder::Allocated),
        ("held", "the most at the highest total first", ProcessOrder::Held),
    ])
}

/// The number of rows for people.
const ROWS: usize = 40;
/// The bins of the axis. They bound the work for the highest total; few of them are printed.
const POINTS: usize = 500;

impl ProcessesArgs {
    /// Prints the processes.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut answer = self.ask()?;
        if answer.processes.is_empty() {
            let why = answer.problems.first().map_or_else(
                || "no recording given".to_owned(),
                |problem| format!("{}: {}", problem.path, problem.what),
            );
            return Err(Failure::fault(why));
        }
        let (all, head) = (answer.processes.len(), head(&answer));
        let key = |process: &ProcessAnswer| match self.sort {
            ProcessOrder::Tree => 0,
            ProcessOrder::Start => process.start_ns,
            ProcessOrder::Peak => u64::MAX - process.peak_bytes,
            ProcessOrder::Allocated => u64::MAX - process.allocated_bytes,
            ProcessOrder::Held => u64::MAX - process.held_bytes,
        };
        answer.processes.sort_by_key(key);
        let default_rows = if self.json { 0 } else { ROWS };
        let rows = Some(self.top.unwrap_or(default_rows)).filter(|top| *top > 0).unwrap_or(usize::MAX);
        answer.processes.truncate(rows);
        if self.json {
            return output.json(document(&answer)?);
        }
        for problem in &answer.problems {
            warn(&format!("{}: {}; the rest is shown", problem.path, problem.what));
        }
        output.text(&head.render(output.paint, output.width))?;
        output.text(&format!("\n{}", self.table(&answer).render(output.paint, output.width)))?;
        if all > answer.processes.len() {
            let more = count((all - answer.processes.len()) as u64);
            output.text(&format!("\n… {more} more; '--top 0' shows all.\n"))?;
        }
        for (number, note) in answer.notes.iter().enumerate() {
            let line = if number == 0 { "\n" } else { "" };
            output.text(&format!("{line}{}.\n", printable(note.trim_end_matches('.'))))?;
        }
        if answer.processes.iter().any(|process| process.relation == Some(Relation::Fork)) {
            output.text("\nA forked process inherits its parent's memory, which counts in the parent only.\n")?;
        }
        Ok(())
    }

    fn ask(&self) -> Result<ProcessesAnswer, Failure> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in &self.paths {
            let found = recordings_in(path);
            match found.is_empty() {
                true => paths.extend([path.clone()].into_iter().chain(recordings_of_children(path))),
                false => paths.extend(found),
            }
        }
        let mut seen = std::collections::HashSet::new();
        paths.retain(|path| seen.insert(path.clone()));
        let files: Vec<ProcessFile> =
            paths.into_iter().enumerate().map(|(id, path)| ProcessFile { id, path }).collect();
        let options = ProcessesOptions { from: None, to: None, points: POINTS, lane_points: POINTS, stacked: 0 };
        let mut progress = Progress::new("reading");
        let mut tell = |told: Option<(f64, &str)>| {
            told.into_iter().for_each(|(part, _)| progress.update(part));
            true
        };
        processes(&files, &options, &Work::asked_by(&mut tell)).map_err(|problem| match problem {
            QueryError::Bad(line) => Failure::Usage(line),
            other => Failure::fault(other),
        })
    }

    fn table(&self, answer: &ProcessesAnswer) -> Table {
        let has_rss = answer.processes.iter().any(|process| process.rss_peak.is_some());
        let mut table = Table::default();
        for heading in ["PID", "START", "LASTED", "PEAK", "AT HIGHEST", "ALLOCATED", "AT EXIT"] {
            table = table.column(Align::Right, heading);
        }
        if has_rss {
            table = table.column(Align::Right, "RSS PEAK");
        }
        table = table.column(Align::Left, "PROGRAM");
        for process in &answer.processes {
            let about = if process.estimated { "~" } else { "" };
            let figure = |value: u64| Cell::from(format!("{about}{}", bytes(value)));
            let mut cells: Vec<Cell> = vec![
                process.pid.to_string().into(),
                Nanos(process.start_ns).to_string().into(),
                Nanos(process.duration_ns).to_string().into(),
                figure(process.peak_bytes),
                figure(process.held_bytes),
                figure(process.allocated_bytes),
                figure(process.live_at_end_bytes),
            ];
            if has_rss {
                cells.push(process.rss_peak.map(|peak| bytes(peak.bytes)).unwrap_or_default().into());
            }
            cells.push(self.program(process));
            table.row(cells);
        }
        table
    }

    /// The program, indented as the tree is, and how it came from the process above it.
    fn program(&self, process: &ProcessAnswer) -> Cell {
        const DEEPEST: usize = 12;
        let is_tree = self.sort == ProcessOrder::Tree;
        let indent = if is_tree { "  ".repeat(process.depth.min(DEEPEST)) } else { String::new() };
        let name = if process.name.is_empty() { "(unnamed)" } else { &process.name };
        let cell = Cell::new(Style::Plain, &indent).and(Style::Bold, name);
        let how = match (process.relation, process.inherited_bytes) {
            (Some(Relation::Fork), Some(inherited)) => format!("  forked, inherited up to {}", bytes(inherited)),
            (Some(Relation::Fork), None) => "  forked".to_owned(),
            (Some(Relation::Exec), _) => "  executed by the process above".to_owned(),
            (Some(Relation::Start), _) => String::new(),
            (None, _) if process.parent_pid != 0 && is_tree && process.start_ns > 0 => {
                format!("  parent {} not recorded", process.parent_pid)
            }
            (None, _) if is_tree && process.start_ns > 0 => "  parent not known".to_owned(),
            (None, _) => String::new(),
        };
        let cell = cell.and(Style::Dim, &how);
        if process.complete { cell } else { cell.and(Style::Dim, "  cut off, or still running") }
    }
}

fn head(answer: &ProcessesAnswer) -> Heading {
    let mut head = Heading::default();
    let mut line = format!("{} in {}", counted_processes(answer.processes.len()), Nanos(answer.end_ns));
    if answer.left_out > 0 {
        line.push_str(&format!("; {} smaller ones are left out of all figures", count(answer.left_out as u64)));
    }
    head.line("recorded", line);
    if let Some(highest) = answer.highest {
        let at = Nanos(highest.at_ns);
        let held = answer.processes.iter().filter(|process| process.held_bytes > 0).count();
        let about = if answer.processes.iter().any(|process| process.estimated) { "~" } else { "" };
        let bound = match highest.at_most_bytes > highest.bytes {
            true => format!("; no instant has more than {about}{}", bytes(highest.at_most_bytes)),
            false => String::new(),
        };
        let line = format!("{about}{} at {at}, in {}{bound}", bytes(highest.bytes), counted_processes(held));
        head.line("highest", line);
    }
    let peaks = answer.processes.iter().max_by_key(|process| (process.peak_bytes, Reverse(process.start_ns)));
    if let Some(largest) = peaks {
        head.line("largest", format!("{} (pid {}), {}", largest.name, largest.pid, bytes(largest.peak_bytes)));
    }
    head
}

fn counted_processes(number: usize) -> String {
    format!("{} {}", count(number as u64), if number == 1 { "process" } else { "processes" })
}

fn document(answer: &ProcessesAnswer) -> Result<Value, Failure> {
    let mut document = json!({ "schema": json::SCHEMA, "command": "processes" });
    let answer = serde_json::to_value(answer).map_err(Failure::fault)?;
    answer.as_object().into_iter().flatten().for_each(|(name, value)| document[name] = value.clone());
    Ok(document)
}
