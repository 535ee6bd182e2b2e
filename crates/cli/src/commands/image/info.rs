//! `highwater image info`: what is hosted, and its last snapshot.

use super::socket::HostSocketArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::print::age::age;
use crate::print::bytes::{bytes, count, counted};
use crate::print::heading::Heading;
use clap::Args;
use highwater_formats::json;
use highwater_host::protocol::SnapshotInfo;
use serde_json::json;

/// The arguments of `highwater image info`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image info
  highwater image info --json | jq .last.id")]
pub struct InfoArgs {
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

impl InfoArgs {
    /// Prints the host's answer.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let info = self.socket.connect()?.info().map_err(Failure::fault)?;
        if self.json {
            let mut document = info.to_json();
            document["schema"] = json::SCHEMA.into();
            document["command"] = "image info".into();
            return output.json(document);
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
