//! `highwater collector`: the daemon that live processes register with.

use crate::failure::{Failure, reason};
use crate::live::CollectorSocket;
use crate::output::say;
use crate::size::parse_bytes;
use clap::Args;
use highwater_collector::{CollectorOptions, CollectorServer, default_snapshot_folder};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The arguments of `highwater collector`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater collector                   until Ctrl-C
  highwater collector --store kept      another directory for kept snapshots
  highwater collector --keep 100 --keep-bytes 1GiB

'highwater run' starts one by itself. A collector that is killed harms no program: all go on, and register with the next one.")]
pub struct CollectorArgs {
    /// The most snapshots that are kept; the oldest go first [default: 100]
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// The most bytes of them that are kept [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    keep_bytes: Option<u64>,
    /// The most processes that are kept after their end [default: 32]
    #[arg(long, value_name = "N")]
    keep_exited: Option<u64>,
    /// The most bytes of their tables that are kept [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    keep_exited_bytes: Option<u64>,
    /// The directory of kept snapshots [default: highwater/snapshots in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// End when no process was live for so long
    #[arg(long, value_name = "SECONDS")]
    exit_when_idle: Option<u64>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// Leave the terminal's session: nothing that happens there shall end us
    #[arg(long, hide = true)]
    new_session: bool,
    #[command(flatten)]
    socket: CollectorSocket,
}

impl CollectorArgs {
    /// Collects until a signal stops it.
    pub fn run(&self) -> Result<(), Failure> {
        if self.new_session {
            highwater_collector::detach();
        }
        // The collector starts no programs. If memory runs out, the kernel should kill it before the programs that it serves.
        highwater_session::be_ended_first();
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let server = CollectorServer::bind(self.options()?).map_err(Failure::fault)?;
        if self.quiet {
            server.serve(&stop, &|_| {});
        } else {
            say(&format!("collector listens at {}; Ctrl-C ends it", server.socket().display()));
            server.serve(&stop, &say);
        }
        Ok(())
    }

    fn options(&self) -> Result<CollectorOptions, Failure> {
        let socket = self.socket.path()?;
        let snapshot_folder = self.store.clone().map_or_else(default_snapshot_folder, Ok);
        // System services have no home directory; the directory of the socket is theirs too.
        let snapshot_folder = snapshot_folder.unwrap_or_else(|_| socket.with_added_extension("snapshots"));
        let mut options = CollectorOptions::new(socket, snapshot_folder);
        let replace = |place: &mut u64, wanted: Option<u64>| *place = wanted.unwrap_or(*place);
        replace(&mut options.kept_snapshots.count, self.keep);
        replace(&mut options.kept_snapshots.bytes, self.keep_bytes);
        replace(&mut options.kept_tables.count, self.keep_exited);
        replace(&mut options.kept_tables.bytes, self.keep_exited_bytes);
        options.exit_when_idle = self.exit_when_idle.map(Duration::from_secs);
        Ok(options)
    }
}
