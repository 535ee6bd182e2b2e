//! `highwater view`: everything in the browser.

use crate::failure::{Failure, reason};
use crate::live::{LiveCollector, Socket};
use crate::open::{self, Kind, OnDamage};
use crate::output::Output;
use clap::Args;
use highwater_view::{Api, FileKind, OpenedFile, Opener, Server, Sources};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The arguments of `highwater view`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater view app.hw                   the page, in your browser
  highwater view before.hw after.hw       two of them, to compare
  highwater view --live                   the processes that 'highwater run' started
  highwater view app.hw --no-open         only print the address, for another browser

The page and what it shows stay on this machine: nobody else can connect, and the address has a token without which \
nothing is answered.")]
pub struct View {
    /// Recordings and snapshots (.hw), OCaml memtraces (.ctf), files of event lines
    #[arg(value_name = "FILE", required_unless_present = "live")]
    paths: Vec<PathBuf>,
    /// The port to listen on [default: any that is free]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Do not open the browser
    #[arg(long)]
    no_open: bool,
    /// Also the live processes of the collector
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    socket: Socket,
}

impl View {
    /// Serves until it is interrupted.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let sources = Sources::new(&self.paths, Box::new(AnyFile));
        let collector = LiveCollector::new(self.socket.path()?);
        let api = Arc::new(Api::new(sources, Some(Box::new(collector))));
        let server = Server::bind(self.port.unwrap_or(0)).map_err(|error| {
            let port = self.port.unwrap_or(0);
            Failure::fault(format_args!("cannot listen on port {port}: {}; --port names another", reason(&error)))
        })?;
        let signals = Signals::new([SIGINT, SIGTERM]);
        let mut signals = signals.map_err(|error| Failure::fault(format_args!("cannot wait for signals: {error}")))?;
        output.text(&format!("{}\n", server.address()))?;
        output.flush()?;
        if !self.no_open {
            open_browser(&server.address());
        }
        server.run(api, |stop| {
            std::thread::spawn(move || {
                if signals.forever().next().is_some() {
                    stop.stop();
                }
            });
        });
        Ok(())
    }
}

/// Opens the browser, if there is one: the address was printed in any case.
fn open_browser(address: &str) {
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}

/// Opens files as every reading command does.
struct AnyFile;

impl Opener for AnyFile {
    fn open(&self, path: &Path) -> Result<OpenedFile, String> {
        let line = |failure: Failure| failure.line().unwrap_or("it cannot be read").to_owned();
        let opened = open::open(path, OnDamage::Collect).map_err(line)?;
        let kind = match opened.kind {
            Kind::Recording | Kind::EventLines => FileKind::Recording,
            Kind::Snapshot => FileKind::Snapshot,
            Kind::Memtrace => FileKind::Trace,
        };
        let (recording, damage) = opened.into_recording().map_err(line)?;
        Ok(OpenedFile { kind, recording, damage })
    }
}
