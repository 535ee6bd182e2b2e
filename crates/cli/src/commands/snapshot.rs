//! `highwater snapshot`: the memory that a live process holds now.

use crate::failure::{Failure, reason};
use crate::live::{Asking, Delivery, ProcessChoice, TakenSnapshot, all, contents_dir};
use crate::output::{Output, say};
use crate::print::cut;
use clap::Args;
use highwater_collector::PageDetail;
use highwater_collector::contents::{Contents, read_contents};
use highwater_collector::take::SnapshotRequest;
use serde_json::Map;
use std::io::BufReader;
use std::path::PathBuf;

/// The arguments of `highwater snapshot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater snapshot --pid 4711                 who holds the memory now
  highwater snapshot --name server --by thread  the same by thread
  highwater snapshot --pid 4711 -o before.hw    for 'highwater diff' later
  highwater snapshot --pid 4711 -o now.svg      a flame graph
  highwater snapshot --pid 4711 --contents 32   and what is in the largest blocks
  highwater snapshot --pid 4711 --contents-dir blocks   a file for each block
  highwater snapshot --all -o all.pb.gz         every live process, for pprof
  highwater snapshot --json | jq '.totals.live_bytes'

Without --pid and --name, the only process that is registered. It is not stopped: all its threads go on.")]
pub struct SnapshotArgs {
    #[command(flatten)]
    choice: ProcessChoice,
    #[command(flatten)]
    delivery: Delivery,
    /// Also the first BYTES of each block [default: 64]; the program must have been run with --allow-contents
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "64", require_equals = false,
          value_parser = clap::value_parser!(u64).range(1..=MOST_CONTENTS))]
    contents: Option<u64>,
    /// Write the contents of each block into a file of its own in this directory, named by the block's address; the directory must be empty, or is
    /// made. With --contents BYTES only the first of them
    #[arg(long, value_name = "DIR")]
    contents_dir: Option<PathBuf>,
    /// All live processes at once: a table, or with -o one pprof file whose samples have the labels process_name and process_id
    #[arg(long = "all", conflicts_with_all = ["pid", "name", "contents", "contents_dir"])]
    every_process: bool,
    #[command(flatten)]
    collector: Asking,
}

/// The maximum number of bytes of a block that can be requested.
const MOST_CONTENTS: u64 = 1 << 20;

impl SnapshotArgs {
    /// Takes the snapshot, and shows or writes it.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if self.every_process {
            return all::run(&self.delivery, &self.collector, output);
        }
        let with_contents = self.contents.is_some() || self.contents_dir.is_some();
        self.delivery.check(with_contents && self.contents_dir.is_none())?;
        self.contents_dir.as_deref().map(contents_dir::check).transpose()?;
        let mut client = self.collector.connect()?;
        let processes = client.processes_among(&self.choice.which()).map_err(Failure::fault)?;
        let process = self.choice.of(&processes)?;
        if with_contents && !process.allows_contents {
            let (pid, name) = (process.pid, &process.name);
            return Err(Failure::fault(format_args!(
                "process {pid} ({name}) does not let its blocks be read; start it with 'highwater run --allow-contents'"
            )));
        }
        let detail = self.delivery.detail(with_contents)?;
        let wanted = self.contents.or(self.contents_dir.is_some().then_some(u64::MAX));
        let pages = self.delivery.wants_pages()?.then_some(PageDetail::Rows);
        let wanted = SnapshotRequest { detail, contents: wanted, pages };
        let taken = client.snapshot_with(process.pid, wanted).map_err(Failure::fault)?;
        let (into_files, shown) = match self.contents_dir {
            Some(_) => (taken.contents, None),
            None => (None, taken.contents),
        };
        let contents: Option<Contents> =
            shown.map(|file| read_contents(BufReader::new(file))).transpose().map_err(|error| {
                Failure::fault(format_args!("the contents that the collector sent cannot be read: {}", reason(&error)))
            })?;
        let cut = taken.cut;
        let opened = TakenSnapshot::open(taken.file, &self.delivery.filters(), &mut self.delivery.symbolizer())?;
        let more = Map::from_iter([("cut".to_owned(), cut.to_json())]);
        self.delivery.deliver("snapshot", &opened, contents.as_ref(), more, output)?;
        if let (Some(directory), Some(file)) = (&self.contents_dir, into_files) {
            let line = contents_dir::write(directory, BufReader::new(file), &opened.snapshot)?;
            say(&line);
        }
        output.flush()?;
        cut::tell(&opened.snapshot, &process.name, process.pid, &cut);
        Ok(())
    }
}
