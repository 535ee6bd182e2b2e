//! `highwater image pull`: writes a snapshot to a file.

use super::info::network_snapshot;
use super::latest;
use super::socket::HostSocketArgs;
use crate::canister::{Canister, CanisterArgs};
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
  highwater image pull --canister ledger --network ic     into ledger_TIME/

A pull that was broken off goes on where it was: the same command again. What has arrived lies in FILE.part, and is only ever \
completed with the snapshot it is a part of. At the end its hash is checked. A canister's snapshot is a folder, and lies in FOLDER.ID.part \
meanwhile.")]
pub struct PullArgs {
    /// The file [default: {module}_{time}.img], or the folder for a canister's snapshot [default: {canister}_{time}]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The snapshot's number, or the id of a canister's [default: the last]
    #[arg(long, value_name = "N")]
    id: Option<String>,
    #[command(flatten)]
    canister: CanisterArgs,
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
        self.socket.excludes(self.canister.canister.as_deref())?;
        if let Some(canister) = self.canister.find()? {
            return self.pull_canister(&canister, output);
        }
        let id = self.id.as_deref().map(str::parse::<u64>).transpose();
        let id = id.map_err(|_| Failure::Usage("--id of a host's snapshot is a number".into()))?;
        let mut client = self.socket.connect()?;
        let description = client.describe(id).map_err(Failure::fault)?;
        let file = self.file.clone().unwrap_or_else(|| default_name(&description).into());
        let shown = file.display();
        self.overwrite.check(&file)?;
        self.overwrite.check(&Sidecar::path_of(&file))?;
        self.overwrite.check(&Sidecar::stable_path_of(&file))?;
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

    fn pull_canister(&self, canister: &Canister, output: &mut Output) -> Result<(), Failure> {
        let snapshot = canister.snapshot(self.id.as_deref())?;
        let target = self.file.clone().unwrap_or_else(|| canister.folder_name(&snapshot));
        let folder = canister.pull(&snapshot, &target)?;
        latest::remember(&target);
        let metadata = &folder.metadata;
        if self.json {
            return output.json(json!({
                "schema": json::SCHEMA, "command": "image pull", "file": target, "canister": canister.name,
                "snapshot": network_snapshot(&snapshot), "memory_bytes": metadata.memory_bytes,
                "stable_bytes": metadata.stable_bytes,
            }));
        }
        let (memory, stable) = (bytes(metadata.memory_bytes), bytes(metadata.stable_bytes));
        let (shown, id) = (target.display(), &snapshot.id);
        output.line(&format!("{shown}: snapshot {id}, memory {memory}, stable memory {stable}"))
    }
}
