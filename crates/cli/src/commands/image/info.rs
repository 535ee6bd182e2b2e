//! `highwater image info`: the facts about an image, a hosted program or a canister, and their snapshots.

use super::heap::{regions_table, stable_line};
use super::socket::HostSocketArgs;
use crate::canister::{Canister, CanisterArgs, NetworkSnapshot};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::age::age;
use crate::print::bytes::{bytes, count, counted};
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::hex::hex;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_formats::json;
use highwater_host::protocol::SnapshotInfo;
use highwater_image::{ImageParts, Sidecar};
use highwater_input::image::ImageFile;
use highwater_model::rfc3339;
use highwater_query::images::{StableMemory, stable_memory};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The arguments of `highwater image info`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image info                                      the hosted program
  highwater image info a.img                                an image
  highwater image info snapshot/                            a canister's snapshot
  highwater image info --canister ledger --network ic       a canister
  highwater image info --json | jq .last.id")]
pub struct InfoArgs {
    /// An image, or the folder of a canister's snapshot
    #[arg(value_name = "FILE", conflicts_with = "canister")]
    path: Option<PathBuf>,
    #[command(flatten)]
    canister: CanisterArgs,
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

impl InfoArgs {
    /// Prints the facts.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        self.socket.excludes(self.canister.canister.as_deref())?;
        if let Some(path) = &self.path {
            return self.image(path, output);
        }
        match self.canister.find()? {
            Some(canister) => self.canister(&canister, output),
            None => self.host(output),
        }
    }

    fn host(&self, output: &mut Output) -> Result<(), Failure> {
        let info = self.socket.connect()?.info().map_err(Failure::fault)?;
        if self.json {
            return output.json(document(info.to_json()));
        }
        let mut head = Heading::default();
        head.line("module", format!("{} (sha256 {}…)", info.module, info.module_sha256.get(..16).unwrap_or_default()));
        head.line("host", format!("process {}", info.pid));
        head.line("memory", format!("{} after {}", bytes(info.memory_bytes), counted(info.calls, "call")));
        let last =
            info.last.map_or_else(|| "none yet; 'highwater image create' makes one".to_owned(), |last| line(&last));
        head.line("last snapshot", last);
        head.line("snapshots", count(info.snapshots));
        output.text(&head.render(output.paint, output.width))
    }

    fn canister(&self, canister: &Canister, output: &mut Output) -> Result<(), Failure> {
        let (status, snapshots) = (canister.status()?, canister.snapshots()?);
        if self.json {
            let snapshots: Vec<Value> = snapshots.iter().map(network_snapshot).collect();
            return output.json(document(json!({
                "canister": canister.name, "tool": canister.tool(), "status": status.text(), "snapshots": snapshots,
            })));
        }
        let mut head = Heading::default();
        head.line("canister", format!("{} ({}), by {}", canister.name, status.text(), canister.tool()));
        if snapshots.is_empty() {
            head.line("snapshots", "none yet; 'highwater image create' makes one".to_owned());
            return output.text(&head.render(output.paint, output.width));
        }
        head.line("snapshots", count(snapshots.len() as u64));
        output.text(&head.render(output.paint, output.width))?;
        let mut table =
            Table::default().column(Align::Left, "snapshot").column(Align::Right, "bytes").column(Align::Left, "taken");
        for snapshot in &snapshots {
            table.row(vec![
                Cell::new(Style::Bold, &snapshot.id),
                snapshot.bytes.map_or_else(String::new, bytes).into(),
                snapshot.taken_at_ns.map_or_else(String::new, |at| format!("{} ({} ago)", rfc3339(at), age(at))).into(),
            ]);
        }
        output.text(&format!("\n{}", table.render(output.paint, output.width)))
    }

    fn image(&self, path: &Path, output: &mut Output) -> Result<(), Failure> {
        let file = ImageFile::open(path, None)?;
        let (Some(parts), Some(image)) = (file.parts(), file.image()) else {
            return Err(Failure::in_file(path, "is a heap dump; 'highwater image heap' shows what is in it"));
        };
        // The owners of regions are in the heap; an image without a known heap has its other facts.
        let stable = match file.examine(0) {
            Ok(examined) => stable_memory(&file, &examined),
            Err(_) => parts.stable.as_deref().and_then(|stable| {
                let bytes = std::fs::metadata(stable).ok()?.len();
                Some(StableMemory { bytes, regions: Vec::new() })
            }),
        };
        if self.json {
            return output.json(document(image_document(path, parts, image.len(), stable.as_ref())));
        }
        let head = image_head(path, parts, image.len(), stable.as_ref());
        output.text(&head.render(output.paint, output.width))?;
        match stable.filter(|stable| !stable.regions.is_empty()) {
            Some(stable) => {
                let title = output.paint.paint(Style::Dim, "regions of stable memory");
                output.text(&format!("\n{title}\n{}", regions_table(&stable).render(output.paint, output.width)))
            }
            None => Ok(()),
        }
    }
}

fn document(mut members: Value) -> Value {
    members["schema"] = json::SCHEMA.into();
    members["command"] = "image info".into();
    members
}

fn image_head(path: &Path, parts: &ImageParts, memory: u64, stable: Option<&StableMemory>) -> Heading {
    let Sidecar { system, time_unix_ns, calls, .. } = &parts.sidecar;
    let mut head = Heading::default();
    let what = if parts.folder.is_some() { "snapshot" } else { "image" };
    head.line(what, path.display().to_string());
    if let Some(module) = &parts.module_path {
        let size = std::fs::metadata(module).map_or(0, |about| about.len());
        let name = module.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        head.line("module", format!("{name}, {}", bytes(size)));
    }
    if let Some(time) = time_unix_ns.filter(|time| *time > 0) {
        head.line("taken", format!("{} ({} ago)", rfc3339(time), age(time)));
    }
    head.line("memory", bytes(memory));
    if let Some(system) = system {
        head.line("stable", stable.map_or_else(|| "none".to_owned(), stable_line));
        head.line("version", system.version.to_string());
        let timer = match system.timer_ns {
            0 => "not set".to_owned(),
            time => format!("due at {}", rfc3339(time)),
        };
        head.line("timer", timer);
        if !system.certified_data.is_empty() {
            head.line("certified", hex(&system.certified_data));
        }
    }
    head.line("globals", count(parts.sidecar.globals.len() as u64));
    if !calls.is_empty() {
        head.line("calls", count(calls.len() as u64));
    }
    head
}

fn image_document(path: &Path, parts: &ImageParts, memory: u64, stable: Option<&StableMemory>) -> Value {
    let mut facts = parts.sidecar.to_json();
    if let Some(members) = facts.as_object_mut() {
        members.remove("version");
    }
    facts["file"] = json!(path);
    facts["is_folder"] = parts.folder.is_some().into();
    facts["memory"]["bytes"] = memory.into();
    facts["stable"] = stable.map_or(Value::Null, StableMemory::to_json);
    facts
}

/// A snapshot in a line: its number, size, age.
pub fn line(info: &SnapshotInfo) -> String {
    let (size, used, age) = (bytes(info.bytes), bytes(info.occupied_bytes), age(info.time_unix_ns));
    format!("{}: {size}, {used} in use, {age}", info.id)
}

/// The output of `create` and `update`.
pub fn print_snapshot(output: &mut Output, info: &SnapshotInfo, command: &str, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let snapshot = info.to_json();
        return output.json(json!({"schema": json::SCHEMA, "command": command, "snapshot": snapshot}));
    }
    output.text(&format!("snapshot {}: {}, {} in use\n", info.id, bytes(info.bytes), bytes(info.occupied_bytes)))
}

/// A snapshot of a canister as JSON.
pub fn network_snapshot(snapshot: &NetworkSnapshot) -> Value {
    json!({"id": snapshot.id, "bytes": snapshot.bytes, "time_unix_ns": snapshot.taken_at_ns})
}

/// The output of `create` and `update` for a canister.
pub fn print_network_snapshot(
    output: &mut Output,
    canister: &Canister,
    snapshot: &NetworkSnapshot,
    command: &str,
    as_json: bool,
) -> Result<(), Failure> {
    if as_json {
        let document = json!({
            "schema": json::SCHEMA, "command": command, "canister": canister.name, "snapshot": network_snapshot(snapshot),
        });
        return output.json(document);
    }
    let size = snapshot.bytes.map_or_else(String::new, |size| format!(", {}", bytes(size)));
    output.text(&format!("snapshot {} of {}{size}\n", snapshot.id, canister.name))
}
