//! `highwater import`: a recording from JSON lines, a trace or an object log.

use crate::event_lines;
use crate::failure::Failure;
use crate::memtrace;
use crate::object_log;
use crate::open::{SNIFFED, cannot_read, open_input, regular_size, warn_of_damage};
use crate::output::Output;
use crate::print::bytes::{bytes, counted};
use crate::target::{Overwrite, create_file};
use clap::Args;
use highwater_formats::memtrace::looks_like_memtrace;
use highwater_formats::objlog::looks_like_object_log;
use highwater_model::Source;
use highwater_store::{Writer, Written};
use std::io::{self, Read};
use std::path::PathBuf;

/// The arguments of `highwater import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater import events.jsonl -o app.hw
  my-tracer | highwater import - -o app.hw
  highwater import events.jsonl -o app.hw --strict   stop at a bad line
  highwater import trace.ctf -o app.hw               an OCaml program's memtrace
  highwater import console.log -o app.hw             objects of a WASM module

A line is one event, such as
  {\"event\":\"allocate\",\"address\":\"0x7f00\",\"size\":64,\"time_ns\":120}
docs/events.md has all of them, docs/objlog.md the lines about objects. A bad line is reported by its number and skipped.")]
pub struct Import {
    /// The file of event lines, a memtrace or an object log; '-' reads standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The recording to write
    #[arg(short, long, value_name = "OUT.hw")]
    output: PathBuf,
    /// Stop with exit code 1 at a bad line or where a trace is damaged, and write nothing
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Import {
    /// Writes the recording.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let target = self.output.display();
        self.overwrite.check(&self.output)?;
        let mut input = open_input(&self.input)?;
        let mut start = Vec::new();
        let read = input.by_ref().take(SNIFFED).read_to_end(&mut start);
        read.map_err(|error| cannot_read(&self.input, &error))?;
        let (is_trace, is_object_log) = (looks_like_memtrace(&start), looks_like_object_log(&start));
        let input = start.as_slice().chain(input);
        let (written, skipped) = match (is_trace, is_object_log) {
            (true, _) => self.import_trace(input)?,
            (false, true) => self.import_object_log(input)?,
            (false, false) => self.import_lines(input)?,
        };
        let per_event = written.bytes as f64 / written.events.max(1) as f64;
        output.line(&format!(
            "{target}: {}, {}, {per_event:.2} bytes per event{skipped}",
            counted(written.events, "event"),
            bytes(written.bytes)
        ))
    }

    fn import_lines(&self, input: impl Read) -> Result<(Written, String), Failure> {
        let loaded = event_lines::load(input, &self.input, regular_size(&self.input), self.strict)?;
        let written = create_file(&self.output, self.overwrite, |file| loaded.save(file, &self.output))?;
        Ok((written, skipped(loaded.bad_lines)))
    }

    fn import_object_log(&self, input: impl Read) -> Result<(Written, String), Failure> {
        let target = self.output.display().to_string();
        let cannot_write = |error: &io::Error| Failure::writing(&target, error);
        let converted = create_file(&self.output, self.overwrite, |file| {
            let make = |source: &Source| Writer::new(file, source);
            object_log::convert(input, &self.input, self.strict, make, &cannot_write)
        })?;
        Ok((converted.written, skipped(converted.bad_lines)))
    }

    fn import_trace(&self, input: impl Read) -> Result<(Written, String), Failure> {
        let target = self.output.display().to_string();
        let cannot_write = |error: &io::Error| Failure::writing(&target, error);
        let converted = create_file(&self.output, self.overwrite, |file| {
            let make = |source: &Source| Writer::new(file, source);
            let converted = memtrace::convert(input, &self.input, make, &cannot_write)?;
            match converted.damage.first() {
                Some(first) if self.strict || converted.written.events == 0 => {
                    Err(Failure::in_file(&self.input, format_args!("damaged: {first}; nothing was written")))
                }
                _ => Ok(converted),
            }
        })?;
        warn_of_damage(&self.input, &converted.damage, 0);
        let damaged = match converted.damage.len() {
            0 => String::new(),
            parts => format!(", {}", counted(parts as u64, "damaged part")),
        };
        Ok((converted.written, damaged))
    }
}

fn skipped(bad_lines: u64) -> String {
    match bad_lines {
        0 => String::new(),
        bad => format!(", {} skipped", counted(bad, "bad line")),
    }
}
