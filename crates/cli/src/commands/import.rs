//! `highwater import`: a recording from JSON lines.

use crate::event_lines;
use crate::failure::Failure;
use crate::open::{open_input, regular_size};
use crate::output::Output;
use crate::print::bytes::{bytes, counted};
use crate::target::replace_file;
use clap::Args;
use std::path::PathBuf;

/// The arguments of `highwater import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater import events.jsonl -o app.hw
  my-tracer | highwater import - -o app.hw
  highwater import events.jsonl -o app.hw --strict   stop at a bad line

A line is one event, such as
  {\"event\":\"allocate\",\"address\":\"0x7f00\",\"size\":64,\"time_ns\":120}
docs/events.md has all of them. A bad line is reported by its number and skipped.")]
pub struct Import {
    /// The file of event lines; '-' reads standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The recording to write
    #[arg(short, long, value_name = "OUT.hw")]
    output: PathBuf,
    /// Stop with exit code 1 at the first bad line, and write nothing
    #[arg(long)]
    strict: bool,
    /// Replace the recording if it exists
    #[arg(long)]
    force: bool,
}

impl Import {
    /// Writes the recording.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let target = self.output.display();
        if !self.force && std::fs::metadata(&self.output).is_ok_and(|there| there.is_file()) {
            return Err(Failure::fault(format_args!("{target} exists; --force replaces it")));
        }
        let size = regular_size(&self.input);
        let loaded = event_lines::load(open_input(&self.input)?, &self.input, size, self.strict)?;
        let written = replace_file(&self.output, |path| loaded.save(path, &self.output))?;
        let per_event = written.bytes as f64 / written.events.max(1) as f64;
        let skipped = match loaded.bad_lines {
            0 => String::new(),
            bad => format!(", {} skipped", counted(bad, "bad line")),
        };
        output.text(&format!(
            "{target}: {}, {}, {per_event:.2} bytes per event{skipped}\n",
            counted(written.events, "event"),
            bytes(written.bytes)
        ))
    }
}
