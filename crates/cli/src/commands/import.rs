//! `highwater import`: makes a recording from another tool's file.

use crate::failure::Failure;
use crate::open::{OnDamage, judge_lines, warn_of_damage, with_progress};
use crate::output::Output;
use crate::print::bytes::{bytes, counted};
use crate::target::{Overwrite, create_file};
use clap::Args;
use highwater_input::{Imported, ImportedContent, InputError};
use std::path::PathBuf;

/// The arguments of `highwater import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater import events.jsonl -o app.hw
  my-tracer | highwater import - -o app.hw
  highwater import events.jsonl -o app.hw --strict   stop at a bad line
  highwater import trace.ctf -o app.hw               an OCaml program's memtrace
  highwater import console.log -o app.hw             objects of a WASM module
  highwater import heaptrack.app.4711.zst -o app.hw   a heaptrack file
  highwater import massif.out.4711 -o app.hw          a profile of massif

Files that are read: recordings of heaptrack (raw ones, too) and memray; memtraces of OCaml; profiles of massif, DHAT, pprof \
(Go, jemalloc, gperftools) and V8's sampling; heap snapshots of V8; heap dumps of Java (HPROF); event lines; object logs; \
memory images. docs/files.md says what each of them can answer.

A line is one event, such as
  {\"event\":\"allocate\",\"address\":\"0x7f00\",\"size\":64,\"time_ns\":120}
docs/events.md has all of them, docs/objlog.md the lines about objects. A bad line is reported by its number and skipped.")]
pub struct Import {
    /// The file of another tool; '-' reads standard input
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
        let on_damage = if self.strict { OnDamage::Fail } else { OnDamage::Warn };
        let Imported { written, problems, holds } = create_file(&self.output, self.overwrite, |file| {
            let imported = with_progress(|progress| highwater_input::import(&self.input, file, progress));
            let imported = imported.map_err(|error| match error {
                InputError::Write(error) => Failure::writing_file(&self.output, &error),
                other => other.into(),
            })?;
            judge_lines(&self.input, &imported.problems, on_damage)?;
            match imported.problems.damage.first() {
                Some(first)
                    if self.strict || (imported.written.events == 0 && imported.holds != ImportedContent::Figures) =>
                {
                    Err(Failure::in_file(&self.input, format_args!("damaged: {first}; nothing was written")))
                }
                _ => Ok(imported),
            }
        })?;
        warn_of_damage(&self.input, &problems.damage, 0);
        let counts = [(problems.bad_lines, "bad line", " skipped"), (problems.damage.len() as u64, "damaged part", "")];
        let skipped: String = counts
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, what, how)| format!(", {}{how}", counted(*count, what)))
            .collect();
        let size = bytes(written.bytes);
        let what = match holds {
            ImportedContent::Blocks => Some(format!("a snapshot of {}", counted(written.events, "block"))),
            ImportedContent::Figures => Some("a profile of one instant".to_owned()),
            ImportedContent::States => Some(format!("a profile of {}", counted(written.events, "instant"))),
            ImportedContent::Events => None,
        };
        if let Some(what) = what {
            return output.line(&format!("{target}: {what}, {size}{skipped}"));
        }
        let per_event = written.bytes as f64 / written.events.max(1) as f64;
        output.line(&format!(
            "{target}: {}, {size}, {per_event:.2} bytes per event{skipped}",
            counted(written.events, "event"),
        ))
    }
}
