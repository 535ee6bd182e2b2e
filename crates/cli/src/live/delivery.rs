//! The output for a snapshot: a report, or a file whose ending selects the format.

use super::contents::{LargestBlocks, contents_of};
use super::taken::TakenSnapshot;
use crate::args::Selection;
use crate::commands::export;
use crate::commands::report::{ReportView, Subject};
use crate::failure::Failure;
use crate::name_sources::NameSources;
use crate::output::Output;
use crate::print::colour::Style;
use crate::print::hex::hex;
use crate::print::stack::Depth;
use crate::target::{Overwrite, cannot_be_written, create_file, write_file};
use clap::Args;
use highwater_collector::contents::Contents;
use highwater_collector::protocol::Detail;
use highwater_export::{EXPORTS, ExportError, ExportFormat, ExportOptions, Write, WriteSnapshot, by_file_name};
use highwater_formats::json;
use highwater_model::groups::Metric;
use highwater_model::{Block, Snapshot, When};
use highwater_query::{Filter, GroupBy};
use highwater_store::write_snapshot_with_breakdown;
use highwater_symbols::Symbolizer;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// What is wanted of a snapshot.
#[derive(Debug, Args)]
pub struct Delivery {
    /// Write a file instead of a report: .hw (a snapshot), .json, .csv, .pb.gz or .pb (pprof), .svg (flame graph) or .folded
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    view: ReportView,
    #[command(flatten)]
    sources: NameSources,
    /// In pprof, one sample for each block, with labels for its address, its time of birth and its thread
    #[arg(long)]
    per_block: bool,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

/// The kind of output file.
#[derive(Clone, Copy)]
enum Ending {
    /// A snapshot that every reading command opens.
    Snapshot,
    /// Another tool's format.
    Foreign(&'static dyn ExportFormat, WriteSnapshot),
}

const SNAPSHOT_ENDING: &str = ".hw";

impl Ending {
    fn of(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(SNAPSHOT_ENDING) {
            return Ok(Self::Snapshot);
        }
        let of_one_instant = |format: &&'static dyn ExportFormat| match format.write() {
            Write::Figures(write) | Write::Blocks(write) | Write::WithHistory(write) => {
                Some(Self::Foreign(*format, write))
            }
            Write::Snapshot(_) | Write::History(_) => None,
        };
        by_file_name(&name).as_ref().and_then(of_one_instant).ok_or_else(|| {
            let known = EXPORTS.iter().filter(|format| of_one_instant(format).is_some()).map(|format| format.ending());
            let all: Vec<&str> = [SNAPSHOT_ENDING].into_iter().chain(known).collect();
            let all = all.join(", ");
            Failure::Usage(format!("{}: the ending says what is written; there are: {all}", path.display()))
        })
    }

    fn is_json(self) -> bool {
        matches!(self, Self::Foreign(format, _) if format.key() == "json")
    }

    /// Whether it needs individual blocks.
    fn needs_blocks(self) -> bool {
        match self {
            Self::Snapshot => true,
            Self::Foreign(format, _) => matches!(format.write(), Write::Blocks(_) | Write::WithHistory(_)),
        }
    }
}

impl Delivery {
    /// Finds names as the options say.
    pub fn symbolizer(&self) -> Symbolizer {
        self.sources.symbolizer()
    }

    /// Rejects impossible combinations before the collector is asked for anything.
    pub fn check(&self, with_contents: bool) -> Result<(), Failure> {
        let ReportView { grouping, selection: Selection { top, filters }, stacks, .. } = &self.view;
        let usage = |line: &str| Err(Failure::Usage(line.to_owned()));
        let is_pprof = |ending: &Ending| matches!(ending, Ending::Foreign(format, _) if format.key() == "pprof");
        if self.per_block
            && !self.output.as_deref().map(Ending::of).transpose()?.is_some_and(|ending| is_pprof(&ending))
        {
            return usage("--per-block is for pprof: name a file with -o, such as now.pb.gz");
        }
        let Some(path) = &self.output else { return Ok(()) };
        let ending = Ending::of(path)?;
        if grouping.by != GroupBy::default() || top.is_some() || *stacks != Depth::default() || self.json {
            return usage("--by, --top, --stacks and --json shape a report; they do not go with -o");
        }
        if matches!(ending, Ending::Snapshot) && !filters.is_empty() {
            return usage("a .hw file holds the whole snapshot; use --filter when you read it");
        }
        if with_contents && !ending.is_json() {
            return usage("contents go into a .json file, or without -o to the terminal");
        }
        self.overwrite.check(path)
    }

    /// The pprof file for a snapshot of all processes; `None` for a table.
    pub fn profile_of_all(&self) -> Result<Option<&Path>, Failure> {
        let ReportView { grouping, selection: Selection { top, .. }, stacks, .. } = &self.view;
        let usage = |line: &str| Err(Failure::Usage(line.to_owned()));
        let is_shaped = grouping.by != GroupBy::default() || top.is_some() || *stacks != Depth::default();
        let Some(path) = &self.output else {
            return match (is_shaped, self.per_block, self.filters().is_empty() && self.keep().is_some()) {
                (true, ..) => usage("--all has a row for each process: --by, --top and --stacks do not go with it"),
                (_, true, _) => usage("--per-block is for pprof: name a file with -o, such as now.pb.gz"),
                (.., true) => usage("--all has a row for each process: only filters that select blocks go with it"),
                _ => Ok(None),
            };
        };
        if !matches!(Ending::of(path), Ok(Ending::Foreign(format, _)) if format.key() == "pprof") {
            return usage("--all writes pprof, which labels samples with their processes: name a file .pb.gz or .pb");
        }
        if is_shaped || self.json {
            return usage("--by, --top, --stacks and --json shape a report; they do not go with -o");
        }
        self.overwrite.check(path)?;
        Ok(Some(path))
    }

    /// The predicate on texts.
    pub fn keep(&self) -> Option<impl Fn(&str) -> bool + '_> {
        self.view.selection.filters.keep()
    }

    /// The figure that is ranked by.
    pub fn metric(&self) -> Metric {
        self.view.ranking.metric
    }

    /// True for one sample per block.
    pub fn is_per_block(&self) -> bool {
        self.per_block
    }

    /// Whether a file may be replaced.
    pub fn overwrite(&self) -> Overwrite {
        self.overwrite
    }

    /// True for a JSON document instead of text.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// The level of detail that the output needs.
    pub fn detail(&self, with_contents: bool) -> Result<Detail, Failure> {
        let ending = self.output.as_deref().map(Ending::of).transpose()?;
        let blocks = with_contents || !self.filters().is_empty() || ending.is_some_and(Ending::needs_blocks);
        Ok(if blocks { Detail::Blocks } else { Detail::Sites })
    }

    /// Whether the output has a place for the resident memory: a file that holds the whole snapshot, or a report.
    pub fn wants_pages(&self) -> Result<bool, Failure> {
        let ending = self.output.as_deref().map(Ending::of).transpose()?;
        Ok(matches!(ending, Some(Ending::Snapshot)))
    }

    /// The filters that select blocks.
    pub fn filters(&self) -> Vec<Filter> {
        self.view.selection.filters.of_blocks()
    }

    /// Prints the report or writes the file; `more` holds additional members of the JSON document.
    pub fn deliver(
        &self,
        command: &'static str,
        taken: &TakenSnapshot,
        contents: Option<&Contents>,
        more: Map<String, Value>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let snapshot = &taken.snapshot;
        match &self.output {
            None => self.report(command, taken, contents, more, output),
            Some(path) => match Ending::of(path)? {
                Ending::Snapshot => write_snapshot_file(path, self.overwrite, taken),
                Ending::Foreign(_, write) => self.write_foreign(path, write, snapshot, contents),
            },
        }
    }

    fn report(
        &self,
        command: &'static str,
        taken: &TakenSnapshot,
        contents: Option<&Contents>,
        mut more: Map<String, Value>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let TakenSnapshot { recording, snapshot, .. } = taken;
        let keep = self.view.selection.filters.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let largest = contents.map(|contents| LargestBlocks::new(snapshot, keep, contents));
        if let Some(largest) = &largest {
            more.insert("largest_blocks".to_owned(), largest.to_json());
        }
        let whole = *snapshot.accounts.totals();
        let events = recording.stats().events;
        let (when, lifetimes) = (&When::End, None);
        let naming = self.view.names.of_snapshot(snapshot)?;
        let subject = Subject { command, events, snapshot, when, whole, lifetimes, naming, more };
        self.view.print(subject, self.json, output)?;
        match largest {
            Some(largest) if !self.json => {
                let title = output.paint.paint(Style::Dim, "the largest blocks");
                let table = largest.table().render(output.paint, output.width);
                output.text(&format!("\n{title}\n{table}"))
            }
            _ => Ok(()),
        }
    }

    fn write_foreign(
        &self,
        path: &Path,
        write: WriteSnapshot,
        snapshot: &Snapshot,
        contents: Option<&Contents>,
    ) -> Result<(), Failure> {
        let keep = self.view.selection.filters.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let naming = self.view.names.of_snapshot(snapshot)?;
        let options = ExportOptions {
            metric: self.view.ranking.metric,
            keep,
            naming: Some(&naming),
            per_block: self.per_block,
            uncompressed: export::is_uncompressed(path),
            ..ExportOptions::default()
        };
        write_file(path, self.overwrite, |out| {
            let written = match contents {
                Some(contents) => {
                    let more = |block: &Block, value: &mut Value| {
                        value["contents"] = contents_of(snapshot, contents, block).map(hex).into();
                    };
                    json::write_full_with("export", snapshot, keep, more, out).map_err(ExportError::Write)
                }
                None => write(snapshot, &options, out),
            };
            written.map_err(|error| export::failure(&path.display().to_string(), error))
        })
    }
}

/// Writes a snapshot that every reading command opens.
fn write_snapshot_file(path: &Path, overwrite: Overwrite, taken: &TakenSnapshot) -> Result<(), Failure> {
    let TakenSnapshot { snapshot, breakdown, .. } = taken;
    create_file(path, overwrite, |file| {
        let state = snapshot.accounts.to_state();
        let written =
            write_snapshot_with_breakdown(file, &snapshot.source, &snapshot.catalog, &state, breakdown.as_ref());
        written.map(drop).map_err(|error| cannot_be_written(path, &error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_what_is_written() {
        let is = |name: &str, key: &str| matches!(Ending::of(Path::new(name)), Ok(Ending::Foreign(format, _)) if format.key() == key);
        assert!(matches!(Ending::of(Path::new("a/b.hw")), Ok(Ending::Snapshot)));
        assert!(is("b.pb.gz", "pprof") && is("b.csv", "csv") && is("b.json", "json") && is("b.dhat.json", "dhat"));
        let Err(failure) = Ending::of(Path::new("b.png")) else { panic!("it is no format") };
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.line().unwrap().contains(
            ".hw, .pb.gz, .otlp.pb, .folded, .svg, .speedscope.json, .firefox.json, .dhat.json, .json, .csv, .parquet"
        ));
    }
}
