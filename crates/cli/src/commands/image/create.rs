//! `highwater image create`: a new snapshot of a hosted program, or of a canister.

use super::info::{print_network_snapshot, print_snapshot};
use super::socket::HostSocketArgs;
use crate::canister::CanisterArgs;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;

/// The arguments of `highwater image create`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image create
  highwater image create --json | jq .snapshot.id
  highwater image create --canister ledger --network ic --stop

A host's snapshots are numbered. The last hundred are kept, and share the pages in which they are equal. A canister must be stopped \
for a snapshot; with --stop it is, and is started again, also after a failure or Ctrl-C.")]
pub struct CreateArgs {
    #[command(flatten)]
    canister: CanisterArgs,
    #[command(flatten)]
    stop: StopArgs,
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

/// Whether a canister may be stopped.
#[derive(Clone, Copy, Debug, Args)]
pub struct StopArgs {
    /// Stop the canister for the snapshot if it runs, and start it again
    #[arg(long, requires = "canister")]
    pub stop: bool,
}

impl CreateArgs {
    /// Takes the snapshot, and prints its number.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        self.socket.excludes(self.canister.canister.as_deref())?;
        if let Some(canister) = self.canister.find()? {
            let snapshot = canister.create(None, self.stop.stop)?;
            return print_network_snapshot(output, &canister, &snapshot, "image create", self.json);
        }
        let info = self.socket.connect()?.create().map_err(Failure::fault)?;
        print_snapshot(output, &info, "image create", self.json)
    }
}
