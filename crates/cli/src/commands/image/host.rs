//! `highwater image host`: runs a module and answers requests.

use super::program::Start;
use super::socket::HostSocketArgs;
use crate::failure::{Failure, reason};
use crate::output::say;
use clap::Args;
use highwater_host::server::{HostLog, HostServer};
use highwater_store::BindError;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The arguments of `highwater image host`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image host ledger.wasm
  highwater image host ledger.wasm --socket /tmp/ledger.sock --quiet
  highwater image host ledger.wasm --load edited.img   go on from an image

Messages, replies, traps, self-calls and timers are as on the Internet Computer, but time stands still unless a call lets it pass \
('image call --after 5s'). The same calls always give the same memory.")]
pub struct HostArgs {
    #[command(flatten)]
    start: Start,
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Say nothing about what happens
    #[arg(short, long)]
    quiet: bool,
}

impl HostArgs {
    /// Hosts until a signal stops it.
    pub fn run(&self) -> Result<(), Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let program = self.start.program()?;
        let name = program.module().name.clone();
        let server = HostServer::bind(&self.socket.path()?, program).map_err(|error| match error {
            BindError::AlreadyListens { .. } => Failure::fault(format_args!("{error}; choose another --socket")),
            other => Failure::fault(other),
        })?;
        let log: HostLog = if self.quiet { Arc::new(|_| {}) } else { Arc::new(say) };
        log(&format!("{name} is hosted at {}; Ctrl-C ends it", server.socket().display()));
        server.serve(&stop, &log);
        Ok(())
    }
}
