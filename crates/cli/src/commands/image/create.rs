//! `highwater image create`: a new snapshot of a hosted program.

use super::info::print_snapshot;
use super::socket::HostSocketArgs;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;

/// The arguments of `highwater image create`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image create
  highwater image create --json | jq .snapshot.id

Snapshots are numbered. The last hundred are kept, and share the pages in which they are equal.")]
pub struct CreateArgs {
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

impl CreateArgs {
    /// Takes the snapshot, and prints its number.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let info = self.socket.connect()?.create().map_err(Failure::fault)?;
        print_snapshot(output, &info, "image create", self.json)
    }
}
