//! `highwater export`: an instant, or the whole course, in another tool's format.

use crate::args::{Filter, Input, Instant, RankBy};
use crate::failure::Failure;
use crate::open::{self, OnDamage};
use crate::output::{Output, warn};
use crate::print::bytes;
use crate::target::{Overwrite, write_file};
use clap::{Args, ValueEnum};
use highwater_formats::flamegraph::FlameGraphError;
use highwater_formats::memtrace::{LeftOut, TraceWriter};
use highwater_formats::{flamegraph, folded, json, memtrace, pprof};
use highwater_model::groups::{Keep, Metric};
use highwater_model::{Snapshot, When};
use highwater_store::{Recording, Seen};
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The arguments of `highwater export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater export app.hw --to pprof -o app.pb.gz   then: go tool pprof app.pb.gz
  highwater export app.hw --to flamegraph --at peak -o peak.svg
  highwater export app.hw --to folded --metric allocated -o - | less
  highwater export app.hw --to json -o app.json
  highwater export app.hw --to memtrace -o app.ctf   for viewers of OCaml traces

A file that could not be written completely is not left behind.")]
pub struct Export {
    #[command(flatten)]
    input: Input,
    /// The format
    #[arg(long = "to", value_enum, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    instant: Instant,
    /// Which figure: what a flame graph and folded stacks count, what pprof shows first
    #[arg(long, value_enum, default_value_t, value_name = "FIGURE")]
    metric: RankBy,
    /// Only stacks with a function, file or module that this regular expression finds. Or heap:NAME, only what lies in that
    /// heap: heap:malloc, heap:mmap
    #[arg(long, value_name = "REGEX|heap:NAME")]
    filter: Option<Filter>,
    /// The file to write; '-' for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Which version of the memtrace format is written: 2 is read by older tools, 3 knows domains
    #[arg(long, value_name = "2|3", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    memtrace_version: u8,
    /// Stop with exit code 1 if the file is damaged, instead of using the rest of it
    #[arg(long)]
    strict: bool,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Gzipped profile.proto for 'go tool pprof' and many others
    Pprof,
    /// Collapsed stacks, one a line, for flame graph tools
    Folded,
    /// An interactive SVG
    Flamegraph,
    /// Everything: what 'highwater report --json' has, and every live block that is known
    Json,
    /// The whole course as a trace of OCaml's memtrace format; what is exact becomes a trace with every word sampled
    Memtrace,
}

impl Format {
    fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Memtrace)
    }
}

impl Export {
    /// Writes the file.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let to_stdout = self.output == Path::new("-");
        if to_stdout && self.format.is_binary() && io::stdout().is_terminal() {
            return Err(Failure::Usage(format!(
                "{} is binary and would garble the terminal; name a file with -o",
                self.format.name()
            )));
        }
        if !to_stdout {
            self.overwrite.check(&self.output)?;
        }
        if self.format == Format::Memtrace {
            return self.write_trace(output, to_stdout);
        }
        let on_damage = if self.strict { OnDamage::Fail } else { OnDamage::Warn };
        let heap = Filter::heap(self.filter.as_ref());
        let snapshot = open::open(&self.input.path, on_damage)?.snapshot_of(&self.instant.when, heap)?;
        self.metric.must_be_known(&snapshot)?;
        let keep = Filter::keep(self.filter.as_ref());
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let write = |out: &mut dyn Write| self.format.write(&snapshot, self.metric.metric(), keep, out);
        if to_stdout {
            return write(output.stream()).map_err(|error| failure("to standard output", error));
        }
        let target = self.output.display().to_string();
        write_file(&self.output, self.overwrite, |out| write(out).map_err(|error| failure(&target, error)))
    }
}

impl Export {
    /// Writes the whole course.
    fn write_trace(&self, output: &mut Output, to_stdout: bool) -> Result<(), Failure> {
        if self.instant.when != When::End || self.filter.is_some() {
            let why = "a memtrace tells the whole course of the whole memory: --at and --filter do not apply";
            return Err(Failure::Usage(why.to_owned()));
        }
        let on_damage = if self.strict { OnDamage::Fail } else { OnDamage::Warn };
        let opened = open::open(&self.input.path, on_damage)?;
        let version = if self.memtrace_version == 2 { memtrace::Version::V2 } else { memtrace::Version::V3 };
        if opened.source().snapshot {
            let why = "a snapshot knows one instant only; it has no course to write";
            return Err(Failure::in_file(&self.input.path, why));
        }
        let recording = opened.recording()?;
        let mut left_out = LeftOut::default();
        let mut write = |target: &str, out: &mut dyn Write| -> Result<(), Failure> {
            left_out = write_course(recording, version, out).map_err(|failed| match failed {
                CourseError::Reading(error) => open::cannot_read(&self.input.path, &error),
                CourseError::Writing(error) => Failure::writing(target, &error),
            })?;
            Ok(())
        };
        if to_stdout {
            write("to standard output", output.stream())?;
        } else {
            let target = self.output.display().to_string();
            write_file(&self.output, self.overwrite, |out| write(&target, out))?;
        }
        opened.ask(|_| Ok(()))?;
        let LeftOut { remarks, unmatched, cut_stacks } = left_out;
        for (count, what) in [
            (remarks, "marks and gauges, which the format does not know, are left out"),
            (unmatched, "frees of blocks that are not known are left out"),
            (cut_stacks, "stacks are too deep for the format, and lack their innermost frames"),
        ] {
            if count > 0 {
                warn(&format!("{}: {what}: {}", self.input.path.display(), bytes::count(count)));
            }
        }
        Ok(())
    }
}

/// Why a course could not be written.
enum CourseError {
    Reading(io::Error),
    Writing(io::Error),
}

/// Writes every step of a recording as a trace.
fn write_course(
    recording: &Recording,
    version: memtrace::Version,
    out: &mut dyn Write,
) -> Result<LeftOut, CourseError> {
    let catalog = recording.catalog();
    let mut writer = TraceWriter::new(out, recording.source(), version).map_err(CourseError::Writing)?;
    let mut written = Ok(());
    let walked = recording.walk(|seen| {
        written = match seen {
            Seen::Block(..) => Ok(()),
            Seen::Step(ledger, step) => writer.write_step(step, ledger.accounts().next_id(), catalog),
            // A stream that was joined late, or events that were left out.
            Seen::Stored(ledger) => writer.catch_up(ledger.accounts(), |_| true, catalog),
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    walked.map_err(CourseError::Reading)?;
    written.map_err(CourseError::Writing)?;
    Ok(writer.finish(catalog).map_err(CourseError::Writing)?.0)
}

impl Format {
    /// Its name on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Flamegraph => "flamegraph",
            Self::Json => "json",
            Self::Memtrace => "memtrace",
        }
    }

    /// Writes a snapshot.
    pub fn write(
        self,
        snapshot: &Snapshot,
        metric: Metric,
        keep: Keep<'_>,
        out: &mut dyn Write,
    ) -> Result<(), FlameGraphError> {
        match self {
            Self::Pprof => pprof::write(snapshot, metric, keep, out)?,
            Self::Folded => folded::write(snapshot, metric, keep, out)?,
            Self::Flamegraph => flamegraph::write(snapshot, metric, keep, out)?,
            Self::Json => json::write_full("export", snapshot, keep, out)?,
            Self::Memtrace => {
                let why = "a memtrace tells a course, which a snapshot has not";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
            }
        }
        Ok(())
    }
}

/// What is said when a file could not be written.
pub fn failure(target: &str, error: FlameGraphError) -> Failure {
    match error {
        FlameGraphError::Io(error) => Failure::writing(target, &error),
        long @ FlameGraphError::TooLong { .. } => Failure::fault(format_args!(
            "{long}; choose some with --filter, write --to folded, or look at the flame graph of 'highwater view'"
        )),
        empty @ FlameGraphError::Empty { .. } => {
            Failure::fault(format_args!("{empty}; '--at peak' or another --metric may have"))
        }
    }
}
