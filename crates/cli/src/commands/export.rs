//! `highwater export`: an instant in another tool's format.

use crate::args::{Filter, Input, Instant, RankBy};
use crate::failure::Failure;
use crate::open::{self, OnDamage};
use crate::output::Output;
use crate::target::write_file;
use clap::{Args, ValueEnum};
use highwater_formats::flamegraph::FlameGraphError;
use highwater_formats::{flamegraph, folded, json, pprof};
use highwater_model::Snapshot;
use highwater_model::groups::{Keep, Metric};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The arguments of `highwater export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater export app.hw --to pprof -o app.pb.gz   then: go tool pprof app.pb.gz
  highwater export app.hw --to flamegraph --at peak -o peak.svg
  highwater export app.hw --to folded --metric allocated -o - | less
  highwater export app.hw --to json -o app.json

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
}

impl Format {
    fn is_binary(self) -> bool {
        self == Self::Pprof
    }
}

impl Export {
    /// Writes the file.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let to_stdout = self.output == Path::new("-");
        if to_stdout && self.format.is_binary() && io::stdout().is_terminal() {
            return Err(Failure::Usage(
                "pprof is binary and would garble the terminal; name a file with -o".to_owned(),
            ));
        }
        let on_damage = if self.strict { OnDamage::Fail } else { OnDamage::Warn };
        let heap = Filter::heap(self.filter.as_ref());
        let snapshot = open::open(&self.input.path, on_damage)?.snapshot_of(&self.instant.when, heap)?;
        self.metric.must_be_known(&snapshot.source)?;
        let keep = Filter::keep(self.filter.as_ref());
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let write = |out: &mut dyn Write| self.format.write(&snapshot, self.metric.metric(), keep, out);
        if to_stdout {
            return write(output.stream()).map_err(|error| failure("to standard output", error));
        }
        let target = self.output.display().to_string();
        write_file(&self.output, write).map_err(|error| failure(&target, error))
    }
}

impl Format {
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
        }
        Ok(())
    }
}

/// What is said when a file could not be written.
pub fn failure(target: &str, error: FlameGraphError) -> Failure {
    match error {
        FlameGraphError::Io(error) => Failure::writing(target, &error),
        empty => Failure::fault(format_args!("{empty}; '--at peak' or another --metric may have")),
    }
}
