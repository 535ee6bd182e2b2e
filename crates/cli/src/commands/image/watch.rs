//! `highwater image watch`: snapshots of a canister at intervals.

use crate::canister::{Canister, CanisterArgs, NetworkSnapshot};
use crate::failure::{Failure, reason};
use crate::image_file::examine;
use crate::open::OnDamage;
use crate::output::{Output, say};
use crate::print::bytes::{bytes, counted, signed_bytes};
use clap::Args;
use highwater_formats::json;
use highwater_host::call::duration;
use highwater_input::image::ImageFile;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The arguments of `highwater image watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image watch --canister ledger --network ic --every 1h --stop
  highwater image watch --canister ledger --every 10m --keep 6 --stop -o ledger/
  highwater image diff ledger/*                      what grew each time
  highwater view ledger/*

Each snapshot replaces the one before on the network, which keeps few of a canister, and is downloaded into a folder of its own. \
The newest folders are kept. The canister is stopped for a moment each time, which needs --stop.")]
pub struct WatchArgs {
    #[command(flatten)]
    canister: CanisterArgs,
    /// Time between two snapshots: 10m, 1h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    every: u64,
    /// How many folders are kept; older ones that this command has written are removed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    keep: u64,
    /// How many snapshots [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    stop: super::create::StopArgs,
    /// The folder for the snapshots' folders
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    output: PathBuf,
    /// Print one JSON document ("schema": 2) a line, one for each snapshot, instead of text
    #[arg(long)]
    json: bool,
}

/// How often a signal is looked for.
const NAP: Duration = Duration::from_millis(100);

impl WatchArgs {
    /// Takes snapshots until a signal or the count ends it.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let canister = self.canister.find()?;
        let canister =
            canister.ok_or_else(|| Failure::Usage("there is no canister; name one with --canister".into()))?;
        std::fs::create_dir_all(&self.output).map_err(|error| Failure::in_file(&self.output, reason(&error)))?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let mut series = Series { canister: &canister, last: None, live: None, folders: Vec::new() };
        let mut taken = 0;
        while !stop.load(Ordering::Relaxed) && self.count.is_none_or(|count| taken < count) {
            let begun = Instant::now();
            // Once it works, a failure of the network is no reason to end.
            match self.take(&mut series, output) {
                Err(failure) if taken > 0 && !stop.load(Ordering::Relaxed) => {
                    say(&format!("warning: {}", text(&failure)))
                }
                done => done?,
            }
            taken += 1;
            while !stop.load(Ordering::Relaxed)
                && self.count.is_none_or(|count| taken < count)
                && begun.elapsed() < Duration::from_nanos(self.every)
            {
                std::thread::sleep(NAP);
            }
        }
        Ok(())
    }

    /// Takes and downloads one snapshot, and removes the oldest folder if there are too many.
    fn take(&self, series: &mut Series<'_>, output: &mut Output) -> Result<(), Failure> {
        let canister = series.canister;
        let replaced = series.last.as_ref().map(|last| last.id.as_str());
        let snapshot = canister.create(replaced, self.stop.stop)?;
        let target = free_name(&self.output.join(canister.folder_name(&snapshot)));
        series.last = Some(snapshot.clone());
        let folder = canister.pull(&snapshot, &target)?;
        series.folders.push(target.clone());
        while series.folders.len() as u64 > self.keep {
            let oldest = series.folders.remove(0);
            std::fs::remove_dir_all(&oldest).map_err(|error| Failure::in_file(&oldest, reason(&error)))?;
        }
        let file = ImageFile::open(&target, None)?;
        let live = examine(&file, 0, OnDamage::Warn).ok().map(|examined| examined.examination.live());
        let before = std::mem::replace(&mut series.live, live);
        let change = live.zip(before).map(|(now, before)| i128::from(now.1) - i128::from(before.1));
        if self.json {
            return output.json(json!({
                "schema": json::SCHEMA, "command": "image watch", "canister": canister.name, "file": target,
                "snapshot": super::info::network_snapshot(&snapshot), "memory_bytes": folder.metadata.memory_bytes,
                "stable_bytes": folder.metadata.stable_bytes, "live_objects": live.map(|live| live.0),
                "live_bytes": live.map(|live| live.1), "change_bytes": change.map(|change| change as i64),
            }));
        }
        let live = live.map_or_else(
            || "no heap that is known".to_owned(),
            |(objects, size)| format!("{} live in {}", bytes(size), counted(objects, "object")),
        );
        let change = change.map_or_else(String::new, |change| format!(" ({})", signed_bytes(change)));
        output.line(&format!("{}: {live}{change}", target.display()))?;
        output.flush()
    }
}

/// The snapshots so far.
struct Series<'a> {
    canister: &'a Canister,
    /// The last one that this command took: the next one replaces it.
    last: Option<NetworkSnapshot>,
    /// The live objects of the last one, and their bytes.
    live: Option<(u64, u64)>,
    folders: Vec<PathBuf>,
}

/// A name that nothing has: two snapshots can be of the same second.
fn free_name(path: &Path) -> PathBuf {
    let mut numbered = (2..).map(|number: u64| path.with_added_extension(number.to_string()));
    std::iter::once(path.to_owned())
        .chain(&mut numbered)
        .find(|path| path.symlink_metadata().is_err())
        .unwrap_or_default()
}

fn text(failure: &Failure) -> String {
    match failure {
        Failure::Fault(line) | Failure::Usage(line) => line.clone(),
        other => format!("{other:?}"),
    }
}
