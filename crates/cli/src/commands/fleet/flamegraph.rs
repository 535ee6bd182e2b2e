//! `highwater fleet flamegraph`: the sites of a fleet at one slot, in another tool's format.

use super::ask::{FleetAskArgs, time};
use super::rows::mark;
use crate::failure::Failure;
use crate::output::{Output, warn};
use crate::print::bytes::bytes;
use crate::target::{Overwrite, write_file};
use clap::Args;
use highwater_export::{EXPORTS, ExportFormat, ExportOptions, Write, by_file_name, by_key};
use highwater_fleet::{FleetPart, ProfileSlots, profile, slot_in_words};
use highwater_formats::json::SCHEMA;
use highwater_input::temporary_file;
use highwater_model::When;
use highwater_model::groups::Metric;
use highwater_store::Recording;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The arguments of `highwater fleet flamegraph`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet flamegraph /lake -o peak.svg          at the fleet's peak
  highwater fleet flamegraph /lake --at latest -o now.folded
  highwater fleet flamegraph /lake --where version=1.43 -o new.pb.gz
  highwater fleet flamegraph /lake --at 2026-11-18T09:30:00Z -o then.speedscope.json

The outermost frame of each stack is its service. Figures are those of one slot, in all processes together; beyond 50,000 sites, \
the smallest of each service are one, '[other sites]'.")]
pub struct FleetFlamegraph {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// The instant: peak, latest, or a time
    #[arg(long, value_name = "WHEN", default_value = "peak", value_parser = slots)]
    at: ProfileSlots,
    /// The file to write; its ending names the format: .svg, .folded, .pb.gz, .speedscope.json, .hw …
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The format, if the ending of OUT does not name it
    #[arg(long = "to", value_name = "FORMAT")]
    format: Option<String>,
    #[command(flatten)]
    overwrite: Overwrite,
}

fn slots(text: &str) -> Result<ProfileSlots, String> {
    match text {
        "peak" => Ok(ProfileSlots::Peak),
        "latest" => Ok(ProfileSlots::Latest),
        _ => time(text).map(ProfileSlots::At).map_err(|line| format!("{line}; or 'peak' or 'latest'")),
    }
}

impl FleetFlamegraph {
    /// Writes the file.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let format = self.format()?;
        let to_stdout = self.output == Path::new("-");
        if !to_stdout {
            self.overwrite.check(&self.output)?;
        }
        let asked = self.ask.open()?;
        let progress = |_: Option<(f64, &str)>| true;
        let scope = asked.kept_scope()?;
        let part = FleetPart::new(&asked.lake, &scope, &progress);
        let made = profile(&part, self.at, "fleet")?;
        part.left_out().iter().for_each(|line| warn(&format!("left out: {line}")));
        let sample_period = made.source.sample_rate.unwrap_or(0);
        let slot = (made.source.start_unix_ns / 1_000_000_000).cast_signed();
        let written = made.write(&self.output, temporary_file().map_err(Failure::fault)?).map_err(Failure::fault)?;
        let recording = Recording::from_file(written.file).map_err(Failure::fault)?;
        let snapshot = recording.snapshot(&When::End).map_err(Failure::fault)?;
        let options = ExportOptions {
            metric: Metric::Live,
            keep: None,
            naming: None,
            memtrace_version: 3,
            per_block: false,
            uncompressed: self.output.extension().is_some_and(|ending| ending == "pb"),
            recording: None,
        };
        let write = |out: &mut dyn std::io::Write| match format.write() {
            Write::Figures(write) | Write::Blocks(write) | Write::WithHistory(write) | Write::Snapshot(write) => {
                write(&snapshot, &options, out).map_err(Failure::fault)
            }
            Write::History(_) => {
                let why = format!("{} holds a whole history, and a fleet has figures at single slots", format.key());
                Err(Failure::Usage(why))
            }
        };
        if to_stdout {
            return write(output.stream());
        }
        write_file(&self.output, self.overwrite, write)?;
        let live = snapshot.accounts.totals().figures.live_bytes();
        if self.ask.json {
            return output.json(json!({
                "schema": SCHEMA, "command": "fleet flamegraph", "slot": slot, "bytes": live, "sample_period": sample_period, "file": self.output.display().to_string(), "left_out": part.left_out(),
            }));
        }
        output.line(&format!(
            "{}: {}{} live at {}",
            self.output.display(),
            mark(sample_period > 0),
            bytes(live),
            slot_in_words(slot)
        ))
    }

    fn format(&self) -> Result<&'static dyn ExportFormat, Failure> {
        let found = match &self.format {
            Some(key) => by_key(key),
            None => by_file_name(&self.output.file_name().unwrap_or_default().to_string_lossy()),
        };
        found.ok_or_else(|| {
            let known: Vec<&str> = EXPORTS.iter().map(|format| format.ending()).collect();
            Failure::Usage(format!("no format has this name: end OUT with {}, or use --to", known.join(", ")))
        })
    }
}
