//! `highwater symbolize`: names and source lines for a recording, from debug files found later.

use crate::failure::Failure;
use crate::name_sources::NameSources;
use crate::open;
use crate::output::{Output, warn};
use crate::print::bytes::{count, counted};
use crate::target::{Overwrite, cannot_be_written, create_file};
use clap::Args;
use highwater_recorder::resolve_jit_frames;
use highwater_store::{OpenError, Recording, RecordingError, Writer};
use highwater_symbols::perf_map::PerfMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The arguments of `highwater symbolize`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater symbolize app.hw                         again, where the program's files are now
  highwater symbolize app.hw --debug-dir ./debug     with debug files or unstripped copies from there
  highwater symbolize app.hw --debuginfod https://debuginfod.debian.net   with debug files from a server
  highwater symbolize app.hw -o named.hw             into another file
  highwater symbolize app.hw --perf-map perf-42.map  JIT code, from the map that its runtime wrote to /tmp

Files are found by build id: a recording of a stripped program gets the names of exactly that build, or none.")]
pub struct Symbolize {
    /// A recording (.hw) of a native program
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Look here for debug files (.build-id/…) and unstripped copies; may be given several times
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    #[command(flatten)]
    sources: NameSources,
    /// Name JIT code that has no name yet by this map, as node, Java and Python write it
    #[arg(long, value_name = "FILE")]
    perf_map: Option<PathBuf>,
    /// Write here instead of changing the file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Symbolize {
    /// Writes the recording with all names that can be found.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        // Without `-o`, the recording is replaced by the one with names.
        let (to, overwrite) = match &self.output {
            Some(output) => (output, self.overwrite),
            None => (&self.path, Overwrite::YES),
        };
        overwrite.check(to)?;
        let recording = Recording::open(&self.path).map_err(|error| match error {
            OpenError::Io(error) => open::cannot_read(&self.path, &error),
            other => Failure::in_file(&self.path, other),
        })?;
        let mut symbolizer = self.sources.symbolizer();
        for directory in &self.debug_dir {
            if !directory.is_dir() {
                return Err(Failure::in_file(directory, "is not a directory; --debug-dir needs one"));
            }
            symbolizer.add_debug_dir(directory.clone());
        }
        let mut catalog = recording.catalog_to_go_on().map_err(|error| open::cannot_read(&self.path, &error))?;
        let mut done = highwater_recorder::resolve_frames(&mut catalog, &mut symbolizer, |_| true);
        if let Some(path) = &self.perf_map {
            let (addresses, named) = resolve_jit_frames(&mut catalog, &read_perf_map(path)?, |_| true);
            (done.addresses, done.named) = (done.addresses + addresses, done.named + named);
        }
        if done.addresses == 0 {
            return Err(Failure::in_file(&self.path, "has no addresses to find names for; only native recordings do"));
        }
        done.problems.iter().for_each(|problem| warn(problem));
        let accounts = match recording.snapshot(&highwater_model::When::End) {
            Ok(end) => end.accounts,
            Err(RecordingError::Io(error)) => return Err(open::cannot_read(&self.path, &error)),
            Err(other) => return Err(Failure::in_file(&self.path, other)),
        };
        highwater_recorder::add_type_facts(&mut catalog, &mut symbolizer, &accounts);
        create_file(to, overwrite, |mut file| {
            let mut source = recording.source().clone();
            source.duration = source.duration.max(accounts.last_time());
            let written = File::open(&self.path)
                .and_then(|mut old| io::copy(&mut old, &mut file))
                .and_then(|_| Writer::resume(file, &recording, accounts)?.finish(&catalog, &source).map(drop));
            written.map_err(|error| cannot_be_written(to, &error))
        })?;
        output.line(&format!(
            "{}: {} of {} have a name, {} a source line",
            to.display(),
            count(done.named as u64),
            counted(done.addresses as u64, "address").replace("addresss", "addresses"),
            count(done.with_lines as u64)
        ))
    }
}

/// Reads a map that a runtime wrote.
fn read_perf_map(path: &Path) -> Result<PerfMap, Failure> {
    const PIECE: usize = 1 << 16;
    let cannot = |error| open::cannot_read(path, &error);
    let mut file = File::open(path).map_err(cannot)?.take(PerfMap::MOST_BYTES);
    let (mut map, mut piece) = (PerfMap::default(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece).map_err(cannot)? {
            0 => break,
            length => map.add(&piece[..length]),
        }
    }
    map.finish();
    if map.used() == 0 {
        return Err(Failure::in_file(path, "has no line of the form 'START SIZE NAME', as a map for perf does"));
    }
    Ok(map)
}
