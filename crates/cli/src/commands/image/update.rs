//! `highwater image update`: takes a new snapshot that replaces the last one.

use super::create::StopArgs;
use super::info::{print_network_snapshot, print_snapshot};
use super::socket::HostSocketArgs;
use crate::canister::CanisterArgs;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;

/// The arguments of `highwater image update`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image update
  highwater image update --canister ledger --network ic --stop

The new snapshot has a number of its own: a client that pulls the old one gets an error.")]
pub struct UpdateArgs {
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

impl UpdateArgs {
    /// Takes the snapshot, and prints its number.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        self.socket.excludes(self.canister.canister.as_deref())?;
        if let Some(canister) = self.canister.find()? {
            let last = canister.snapshots()?.pop();
            let snapshot = canister.create(last.as_ref().map(|last| last.id.as_str()), self.stop.stop)?;
            return print_network_snapshot(output, &canister, &snapshot, "image update", self.json);
        }
        let info = self.socket.connect()?.update().map_err(Failure::fault)?;
        print_snapshot(output, &info, "image update", self.json)
    }
}
