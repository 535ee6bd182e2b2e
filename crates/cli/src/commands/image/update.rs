//! `highwater image update`: takes a new snapshot that replaces the last one.

use super::info::print_snapshot;
use super::socket::HostSocketArgs;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;

/// The arguments of `highwater image update`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image update

The new snapshot has a number of its own: a client that pulls the old one gets an error.")]
pub struct UpdateArgs {
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

impl UpdateArgs {
    /// Takes the snapshot, and prints its number.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let info = self.socket.connect()?.update().map_err(Failure::fault)?;
        print_snapshot(output, &info, "image update", self.json)
    }
}
