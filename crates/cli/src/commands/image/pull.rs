//! `highwater image pull`: writes a snapshot to a file.

use super::latest;
use super::socket::HostSocketArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::print::bytes::bytes;
use crate::print::progress::Progress;
use crate::target::Overwrite;
use clap::Args;
use highwater_formats::json;
use highwater_host::pull::{default_name, pull};
use highwater_image::Sidecar;
use serde_json::json;
use std::path::PathBuf;

/// The arguments of `highwater image pull`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image pull                   the last snapshot, with a name
  highwater image pull -f ledger.img
  highwater image pull --id 3 -f third.img

A pull that was broken off goes on where it was: the same command again. What has arrived lies in FILE.part, and is only ever \
completed with the snapshot it is a part of. At the end its hash is checked.")]
pub struct PullArgs {
    /// The file [default: {module}_{time}.img]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The snapshot's number [default: the last]
    #[arg(long, value_name = "N")]
    id: Option<u64>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

impl PullArgs {
    /// Pulls the snapshot, and prints a description of it.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut client = self.socket.connect()?;
        let description = client.describe(self.id).map_err(Failure::fault)?;
        let file = self.file.clone().unwrap_or_else(|| default_name(&description).into());
        let shown = file.display();
        self.overwrite.check(&file)?;
        self.overwrite.check(&Sidecar::path_of(&file))?;
        let mut progress = Progress::new("pulling");
        let pulled = pull(&mut client, &description, &file, self.overwrite.force, |done, all| {
            progress.update(done as f64 / all as f64)
        });
        drop(progress);
        let pulled = pulled.map_err(Failure::fault)?;
        latest::remember(&file);
        let info = description.info;
        if self.json {
            return output.json(json!({
                "schema": json::SCHEMA, "command": "image pull", "file": file, "snapshot": info.to_json(),
                "sha256": description.sha256, "received_bytes": pulled.received, "resumed_at": pulled.resumed_at,
            }));
        }
        let resumed = match pulled.resumed_at {
            0 => String::new(),
            at => format!(", gone on from {}", bytes(at)),
        };
        let (id, size, received) = (info.id, bytes(info.bytes), bytes(pulled.received));
        let hash = description.sha256.get(..16).unwrap_or_default();
        output.line(&format!("{shown}: snapshot {id}, {size} ({received} received{resumed}), sha256 {hash}…"))
    }
}
