//! `highwater export`: an instant, or the whole history, in another tool's format or as a snapshot.

use crate::args::{FileArgs, Filters, Instant, Ranking, must_be_known};
use crate::failure::{Failure, reason};
use crate::naming::NameArgs;
use crate::open::{self, OnDamage};
use crate::output::{Output, warn};
use crate::print::bytes;
use crate::target::{Overwrite, write_file};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use highwater_export::{
    EXPORTS, ExportError, ExportFormat, ExportOptions, Omission, Write, WriteHistory, WriteSnapshot, by_file_name,
    by_key,
};
use highwater_formats::flamegraph::FlameGraphError;
use highwater_model::When;
use highwater_model::groups::{Keep, Metric};
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments of `highwater export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater export app.hw --to pprof -o app.pb.gz   then: go tool pprof app.pb.gz
  highwater export app.hw --to pprof --per-block -o blocks.pb   a sample per block
  highwater export app.hw --to flamegraph --at peak -o peak.svg
  highwater export app.hw --to folded --metric allocated -o - | less
  highwater export app.hw --to speedscope -o a.speedscope.json   for speedscope.app
  highwater export app.hw --to firefox -o a.firefox.json   for profiler.firefox.com
  highwater export app.hw --to dhat -o a.dhat.json   for dh_view.html of Valgrind
  highwater export app.hw --to json -o app.json
  highwater export app.hw --to csv --at peak -o sites.csv   for a spreadsheet
  highwater export app.hw --at peak -o sites.parquet   for DuckDB, Spark, pandas
  highwater export app.hw --to memtrace -o app.ctf   for viewers of OCaml traces
  highwater export app.hw --at peak -o peak.hw   a snapshot, for 'highwater diff'
  highwater export app.hw --to events -o - | less   every event, one line each
  highwater export app.hw --to events -o app.jsonl   'import' takes it back

A file that could not be written completely is not left behind.")]
pub struct Export {
    #[command(flatten)]
    input: FileArgs,
    /// The format [default: the one that the ending of OUT names]
    #[arg(long = "to", value_name = "FORMAT", value_parser = format_parser())]
    format: Option<&'static dyn ExportFormat>,
    #[command(flatten)]
    instant: Instant,
    #[command(flatten)]
    ranking: Ranking,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    names: NameArgs,
    /// The file to write; '-' for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Which version of the memtrace format is written: 2 is read by older tools, 3 knows domains
    #[arg(long, value_name = "2|3", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    memtrace_version: u8,
    /// In pprof, one sample for each live block, with labels for its address, its time of birth and its thread
    #[arg(long)]
    per_block: bool,
    /// Stop with exit code 1 if the file is damaged, instead of using the rest of it
    #[arg(long)]
    strict: bool,
}

/// The key of the events as JSON lines.
const LINES: &str = "events-jsonl";

/// Parser for `--to`: the formats of the registry.
fn format_parser() -> impl TypedValueParser<Value = &'static dyn ExportFormat> {
    let values = EXPORTS.iter().map(|format| PossibleValue::new(format.key()).help(format.about()));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
        .try_map(|key| by_key(&key).ok_or_else(|| format!("no format is called {key}")))
}

impl Export {
    /// Writes the file.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let format = self.format()?;
        if self.per_block && format.key() != "pprof" {
            return Err(Failure::Usage(format!("--per-block is for --to pprof, not for {}", format.key())));
        }
        let to_stdout = self.output == Path::new("-");
        if to_stdout && format.is_binary() && io::stdout().is_terminal() {
            return Err(Failure::Usage(format!(
                "{} is binary and would garble the terminal; name a file with -o",
                format.key()
            )));
        }
        if !to_stdout {
            self.must_spare_input()?;
            self.overwrite.check(&self.output)?;
        }
        let on_damage = if self.strict { OnDamage::Fail } else { OnDamage::Warn };
        let write = match format.write() {
            Write::Figures(write) | Write::Blocks(write) | Write::WithHistory(write) => write,
            Write::Snapshot(write) => return self.write_snapshot(write, on_damage, output),
            Write::History(write) => return self.write_history(format, write, on_damage, output),
        };
        let with_history = matches!(format.write(), Write::WithHistory(_));
        let opened = open::open(&self.input.path, on_damage)?;
        let is_at_peak = self.ranking.metric == Metric::Peak && !opened.source().snapshot;
        let when = if is_at_peak { &When::Peak } else { &self.instant.when };
        let of_blocks = self.filters.of_blocks();
        if self.per_block && opened.source().aggregated {
            return Err(Failure::in_file(
                &self.input.path,
                "knows figures by site, not single blocks: without --per-block",
            ));
        }
        let snapshot = opened.snapshot_of(when, &of_blocks)?;
        must_be_known(self.ranking.metric, &snapshot)?;
        let keep = self.filters.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let has_history = with_history && !opened.source().snapshot && of_blocks.is_empty();
        let recording = if has_history { Some(opened.recording()?) } else { None };
        let naming = self.names.of(&opened)?;
        let options = ExportOptions { recording, naming: Some(&naming), ..self.options(keep) };
        self.write_out(output, |out| write(&snapshot, &options, out))?;
        if has_history { opened.ask(|_| Ok(())) } else { Ok(()) }
    }

    /// The format that `--to` names, or else the ending of the file. Events have two forms: the ending says which one is meant.
    fn format(&self) -> Result<&'static dyn ExportFormat, Failure> {
        let name = self.output.file_name().unwrap_or_default().to_string_lossy();
        let by_name = by_file_name(&name);
        if let Some(format) = self.format {
            let lines = by_name.filter(|named| format.key() == "events" && named.key() == LINES);
            return Ok(lines.unwrap_or(format));
        }
        by_name.ok_or_else(|| {
            let known: Vec<&str> = EXPORTS.iter().map(|format| format.ending()).collect();
            let all = known.join(", ");
            Failure::Usage(format!("{name}: no format has this ending; name one with --to, or use {all}"))
        })
    }

    /// Fails if the output would replace the input, which `--force` does not mean.
    fn must_spare_input(&self) -> Result<(), Failure> {
        let file = |path: &Path| {
            std::fs::metadata(path).ok().filter(|about| about.is_file()).map(|about| (about.dev(), about.ino()))
        };
        match (file(&self.input.path), file(&self.output)) {
            (Some(input), Some(output)) if input == output => {
                Err(Failure::Usage(format!("{} is the input; name another file with -o", self.output.display())))
            }
            _ => Ok(()),
        }
    }

    /// Writes the instant as a file of its own. A regular expression selects blocks here as well: the file has no rows.
    fn write_snapshot(&self, write: WriteSnapshot, on_damage: OnDamage, output: &mut Output) -> Result<(), Failure> {
        if self.ranking.metric != Metric::default() {
            let why = "a snapshot holds every figure: --metric does not apply; use it when you read the file";
            return Err(Failure::Usage(why.to_owned()));
        }
        let opened = open::open(&self.input.path, on_damage)?;
        let filters = self.filters.every();
        let mut snapshot = opened.snapshot_of(&self.instant.when, &filters)?;
        if !filters.is_empty() {
            // Of the blocks that a filter selects, only the live ones are known.
            let part = Arc::make_mut(&mut snapshot);
            (part.source.snapshot, part.source.has_past, part.source.duration) = (true, false, part.at);
        }
        // A breakdown of resident memory is of the whole process, not of the selected blocks.
        let may_have_one = matches!(opened.format().read(), highwater_input::Read::Recording) && filters.is_empty();
        let recording = if may_have_one { Some(opened.recording()?) } else { None };
        self.write_out(output, |out| write(&snapshot, &ExportOptions { recording, ..self.options(None) }, out))
    }

    fn options<'a>(&self, keep: Keep<'a>) -> ExportOptions<'a> {
        let metric = self.ranking.metric;
        let (per_block, uncompressed) = (self.per_block, is_uncompressed(&self.output));
        let memtrace_version = self.memtrace_version;
        ExportOptions { metric, keep, naming: None, memtrace_version, per_block, uncompressed, recording: None }
    }

    /// Writes to the named file, or to standard output.
    fn write_out<T>(
        &self,
        output: &mut Output,
        write: impl FnOnce(&mut dyn io::Write) -> Result<T, ExportError>,
    ) -> Result<T, Failure> {
        if self.output == Path::new("-") {
            return write(output.stream()).map_err(|error| failure("to standard output", error));
        }
        let target = self.output.display().to_string();
        let mut result = None;
        write_file(&self.output, self.overwrite, |out| {
            result = Some(write(out).map_err(|error| failure(&target, error))?);
            Ok(())
        })?;
        result.ok_or_else(|| Failure::fault("nothing was written"))
    }

    /// Writes all events.
    fn write_history(
        &self,
        format: &'static dyn ExportFormat,
        write: WriteHistory,
        on_damage: OnDamage,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if self.instant.when != When::End || !self.filters.is_empty() {
            let key = format.key();
            let why = format!("{key} holds the whole history of the whole memory: --at and --filter do not apply");
            return Err(Failure::Usage(why));
        }
        let opened = open::open(&self.input.path, on_damage)?;
        if opened.source().snapshot {
            let why = "a snapshot knows one instant only; it has no history to write";
            return Err(Failure::in_file(&self.input.path, why));
        }
        if opened.source().is_states() {
            let why = "knows figures at some instants, and no events between them; there is no history to write";
            return Err(Failure::in_file(&self.input.path, why));
        }
        let recording = opened.recording()?;
        let options = self.options(None);
        let left_out = self.write_out(output, |out| write(recording, &options, out))?;
        opened.ask(|_| Ok(()))?;
        for Omission { count, what } in left_out {
            warn(&format!("{}: {what}: {}", self.input.path.display(), bytes::count(count)));
        }
        Ok(())
    }
}

/// True for the name of a pprof file that is not gzipped.
pub fn is_uncompressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pb")
}

/// The failure for an export that could not be written.
pub fn failure(target: &str, error: ExportError) -> Failure {
    match error {
        ExportError::Write(error) => Failure::writing(target, &error),
        ExportError::Read(error) => Failure::fault(format_args!("cannot read: {}", reason(&error))),
        ExportError::Lacking(why) => Failure::fault(why),
        ExportError::Drawing(long @ FlameGraphError::TooLong { .. }) => Failure::fault(format_args!(
            "{long}; choose some with --filter, write --to folded, or look at the flame graph of 'highwater view'"
        )),
        ExportError::Drawing(other) => {
            Failure::fault(format_args!("{other}; '--at peak' or another --metric may have"))
        }
    }
}
