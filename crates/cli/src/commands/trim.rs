//! `highwater trim`: a part of a recording, for sharing.

use crate::args::FileArgs;
use crate::commands::export;
use crate::failure::{Failure, reason};
use crate::open::{self, OnDamage, Opened};
use crate::output::{Output, warn};
use crate::print::bytes::{bytes, count, counted};
use crate::target::{Overwrite, create_file};
use clap::{Args, ValueEnum};
use highwater_export::trim::{LeftOut, NameKey, Names, Share, TrimError, TrimOptions, Trimmed, trim};
use highwater_export::{ExportOptions, Omission, Write, by_key};
use highwater_input::{cannot_write_temporary, temporary_file};
use highwater_model::When;
use highwater_store::{Moment, Recording, RecordingError};
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The arguments of `highwater trim`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater trim app.hw --from 10s --to 20s -o part.hw   ten seconds
  highwater trim app.hw --keep 10% -o small.hw   a sample; sums stay right on average
  highwater trim app.hw --private -o share.hw   no command line, host, paths, ids
  highwater trim app.hw --private --names hash -o share.hw   nor any name
  highwater trim trace.ctf --keep 5% -o small.ctf   an OCaml trace stays one

A window begins with everything that is live then: a report of an instant inside shows the figures of the original.
The input is never changed. docs/trim.md says what each option leaves out.")]
pub struct Trim {
    #[command(flatten)]
    input: FileArgs,
    /// The file to write: .hw, or .ctf for a trace of OCaml's memtrace format; with another name, what the input is
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Where the window begins: start, peak, rss-peak, a time (12.5s, 300ms), a part (80%) or mark:NAME
    #[arg(long, value_name = "WHEN", default_value = "start")]
    from: When,
    /// Where the window ends
    #[arg(long, value_name = "WHEN", default_value = "end")]
    to: When,
    /// Keep about this part of the allocations, chosen by chance, each with its whole life; their weights are adjusted
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    keep: Option<Share>,
    /// What becomes of the names of functions, files, modules, types, variables, threads and marks
    #[arg(long, value_name = "HOW", default_value = "keep")]
    names: NamesArg,
    /// Hash names with this key, instead of a random one: equal names are then equal in all files with this key
    #[arg(long, value_name = "TEXT", conflicts_with = "key_file")]
    key: Option<String>,
    /// Read the key from a file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// All of the following options
    #[arg(long)]
    private: bool,
    /// Leave out the command line and the path of the executable
    #[arg(long)]
    no_command: bool,
    /// Leave out the host's name
    #[arg(long)]
    no_host: bool,
    /// Leave out process ids
    #[arg(long)]
    no_pid: bool,
    /// Leave out when the program began
    #[arg(long)]
    no_start: bool,
    /// Leave out texts about the run: context, parameters of the runtime, remarks of the recorder
    #[arg(long)]
    no_context: bool,
    /// Leave out the directories of source files and modules
    #[arg(long)]
    no_paths: bool,
    /// Stop with exit code 1 if the file is damaged, instead of using the rest of it
    #[arg(long)]
    strict: bool,
}

/// What becomes of names.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NamesArg {
    /// They stay
    Keep,
    /// Each becomes a hash, which cannot be guessed without the key
    Hash,
    /// Each becomes a number; lines of source files are left out
    Strip,
}

/// Parser for `--keep`.
fn share(text: &str) -> Result<Share, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let share = percent.and_then(|percent| Share::new(percent / 100.0));
    share.ok_or_else(|| {
        format!("'{text}' is no part of the allocations: use a percentage above 0 and below 100, such as 10%")
    })
}

impl Trim {
    /// Writes the part.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if is_same_file(&self.input.path, &self.output) {
            let why = "is the input, which is never changed; name another file with -o";
            return Err(Failure::in_file(&self.output, why));
        }
        self.overwrite.check(&self.output)?;
        let key = self.key()?;
        let opened = open::open(&self.input.path, if self.strict { OnDamage::Fail } else { OnDamage::Warn })?;
        opened.must_know(&self.from)?;
        opened.must_know(&self.to)?;
        let options = TrimOptions {
            from: self.moment(&opened, &self.from)?,
            to: self.moment(&opened, &self.to)?,
            keep: self.keep,
            names: match self.names {
                NamesArg::Keep => Names::Keep,
                NamesArg::Hash => Names::Hash,
                NamesArg::Strip => Names::Strip,
            },
            key,
            without: self.without(),
        };
        self.must_be_a_window(&opened, &options)?;
        let recording = opened.recording()?;
        let is_trace = match self.output.extension().and_then(|extension| extension.to_str()) {
            Some("ctf") => true,
            Some("hw") => false,
            _ => opened.format().key() == "memtrace",
        };
        let (trimmed, size) = create_file(&self.output, self.overwrite, |file| match is_trace {
            true => self.write_trace(&opened, recording, &options, file),
            false => {
                let trimmed = trim(recording, &options, file).map_err(|error| self.failure(error, &self.output))?;
                let size = trimmed.written.bytes;
                Ok((trimmed, size))
            }
        })?;
        opened.ask(|_| Ok(()))?;
        self.say(output, &trimmed, size, &options)
    }

    fn say(&self, output: &mut Output, trimmed: &Trimmed, size: u64, options: &TrimOptions) -> Result<(), Failure> {
        let what = if options.keep.is_some() { "a sample of " } else { "" };
        let events = counted(trimmed.events, "event");
        output.line(&format!("{}: {what}{events}, {}", self.output.display(), bytes(size)))?;
        if let Some(sampling) = &trimmed.sampling {
            output.line(&format!("sampled: {sampling}; all figures are estimates"))?;
        }
        if trimmed.renamed > 0 {
            let how = match options.names {
                Names::Keep => "without their directories",
                Names::Hash => "replaced by hashes",
                Names::Strip => "replaced by numbers",
            };
            output.line(&format!("names: {} {how}", count(trimmed.renamed)))?;
        }
        let LeftOut { command, host, pids, start, context, directories } = options.without;
        let is_renamed = options.names != Names::Keep;
        let all = [
            (command || is_renamed, "the command line"),
            (host, "the host"),
            (pids, "process ids"),
            (start, "the start time"),
            (context, "texts about the run"),
            (directories || is_renamed, "directories"),
            (is_renamed, "addresses of code and build ids"),
        ];
        let named: Vec<&str> = all.into_iter().filter(|(is_out, _)| *is_out).map(|(_, what)| what).collect();
        if !named.is_empty() {
            output.line(&format!("left out: {}", named.join(", ")))?;
        }
        if trimmed.born_late {
            warn("blocks that were live when the recording begins count as allocated then");
        }
        Ok(())
    }

    /// Writes a trace: what was trimmed, converted.
    fn write_trace(
        &self,
        opened: &Opened,
        recording: &Recording,
        options: &TrimOptions,
        file: File,
    ) -> Result<(Trimmed, u64), Failure> {
        if opened.source().snapshot {
            return Err(Failure::in_file(
                &self.input.path,
                "a snapshot has no history; write it into a file named .hw",
            ));
        }
        let mut trimmed = trim(recording, options, temporary_file()?).map_err(|error| match error {
            TrimError::Write(error) => cannot_write_temporary(error).into(),
            other => self.failure(other, &self.output),
        })?;
        let cannot_read = |error: std::io::Error| open::cannot_read(&self.input.path, &error);
        let copy = trimmed.file.try_clone().map_err(cannot_read)?;
        let recording = Recording::from_file(copy).map_err(|error| Failure::in_file(&self.input.path, error))?;
        let Some(Write::History(write)) = by_key("memtrace").map(|format| format.write()) else {
            return Err(Failure::fault("traces cannot be written"));
        };
        let is_old = opened.format().key() == "memtrace" && opened.stats().version < 3;
        let memtrace_version = if is_old { 2 } else { 3 };
        let export = ExportOptions { memtrace_version, ..ExportOptions::default() };
        let mut out = BufWriter::new(&file);
        let target = self.output.display().to_string();
        let left_out = write(&recording, &export, &mut out).map_err(|error| export::failure(&target, error))?;
        out.flush().map_err(|error| Failure::writing_file(&self.output, &error))?;
        drop(out);
        for Omission { count: number, what } in left_out {
            warn(&format!("{}: {what}: {}", self.input.path.display(), count(number)));
        }
        let size = file.metadata().map_or(0, |about| about.len());
        trimmed.file = file;
        Ok((trimmed, size))
    }

    fn moment(&self, opened: &Opened, when: &When) -> Result<Moment, Failure> {
        opened.recording()?.moment(when).map_err(|error| match error {
            RecordingError::Io(error) => open::cannot_read(&self.input.path, &error),
            other => Failure::in_file(&self.input.path, other),
        })
    }

    /// A window must not end before it begins.
    fn must_be_a_window(&self, opened: &Opened, options: &TrimOptions) -> Result<(), Failure> {
        let at = |when: &When| opened.ask(|recording| recording.snapshot(when).map(|snapshot| snapshot.at));
        if options.from == Moment::Start || options.to == Moment::End || opened.source().snapshot {
            return Ok(());
        }
        if options.to == Moment::Start || at(&self.to)? < at(&self.from)? {
            return Err(Failure::Usage(format!("--to {} is before --from {}", self.to, self.from)));
        }
        Ok(())
    }

    fn without(&self) -> LeftOut {
        LeftOut {
            command: self.private || self.no_command,
            host: self.private || self.no_host,
            pids: self.private || self.no_pid,
            start: self.private || self.no_start,
            context: self.private || self.no_context,
            directories: self.private || self.no_paths,
        }
    }

    fn key(&self) -> Result<NameKey, Failure> {
        /// A longer key is a mistake: another file was named.
        const LONGEST: u64 = 64 << 10;
        let cannot_read = |path: &Path, error: std::io::Error| open::cannot_read(path, &error);
        let bytes = match (&self.key, &self.key_file) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(path)) => {
                let mut bytes = Vec::new();
                let file = File::open(path).map_err(|error| cannot_read(path, error))?;
                file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| cannot_read(path, error))?;
                if bytes.len() as u64 > LONGEST {
                    return Err(Failure::in_file(path, "is too long for a key: more than 64 KiB"));
                }
                bytes.trim_ascii().to_vec()
            }
            (None, None) => {
                let source = Path::new("/dev/urandom");
                let mut bytes = vec![0; 32];
                let file = File::open(source).map_err(|error| cannot_read(source, error))?;
                file.take(32).read_exact(&mut bytes).map_err(|error| cannot_read(source, error))?;
                return Ok(NameKey::of_text(&bytes));
            }
        };
        if bytes.is_empty() {
            return Err(Failure::Usage("the key is empty: names could be guessed".to_owned()));
        }
        Ok(NameKey::of_text(&bytes))
    }

    fn failure(&self, error: TrimError, target: &Path) -> Failure {
        match error {
            TrimError::Write(error) => Failure::writing_file(target, &error),
            TrimError::Read(error) => {
                Failure::in_file(&self.input.path, format_args!("cannot read: {}", reason(&error)))
            }
            TrimError::Unfit(why) => Failure::in_file(&self.input.path, why),
        }
    }
}

/// True if both names lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    identity(one).is_some_and(|identified| identity(other) == Some(identified))
}
