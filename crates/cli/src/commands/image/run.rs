//! `highwater image run`: runs a module, calls it and captures its memory.

use super::folder::remove_stable;
use super::latest;
use super::program::{Start, show_printed, show_troubles};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::bytes::bytes;
use crate::target::{Overwrite, create_file, write_file};
use clap::Args;
use highwater_formats::json;
use highwater_host::call::ProgramCall;
use highwater_host::snapshots::HostSnapshot;
use highwater_image::Sidecar;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The arguments of `highwater image run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image run ledger.wasm --call 'open(100)' --snapshot ledger.img
  highwater image run ledger.wasm --call 'open(100)' --call '+5s' --call 'stat()'
  highwater image run ledger.wasm --load edited.img --call 'stat()'
  highwater image run --load snapshot/ --call 'stat()'    a canister's snapshot
  highwater image run plain.wasm --call 'step(4)' --snapshot p.img

Calls are made in their order; '+5s' lets time pass, and '+5s METHOD(ARGS)' does both. A call that traps changes nothing, and ends \
the run. The image is written with its .json, and the stable memory of a canister as .stable: --load takes both.")]
pub struct RunArgs {
    #[command(flatten)]
    start: Start,
    /// Call a method: METHOD(ARGS), as often as wanted
    #[arg(long = "call", value_name = "CALL")]
    calls: Vec<ProgramCall>,
    /// Write the memory after the last call into this file
    #[arg(long, value_name = "OUT.img")]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    /// Runs the module, makes the calls, and captures the memory.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if let Some(path) = &self.snapshot {
            self.overwrite.check(path)?;
            self.overwrite.check(&Sidecar::path_of(path))?;
            self.overwrite.check(&Sidecar::stable_path_of(path))?;
        }
        let mut program = self.start.program()?;
        let mut calls = Vec::new();
        for call in &self.calls {
            let answer = program.call(call).map_err(|failed| {
                show_printed(&failed.printed);
                Failure::fault(failed.line)
            })?;
            show_printed(&answer.printed);
            show_troubles(&answer.troubles);
            if !self.json {
                let reply = answer.reply.as_deref().unwrap_or("time passed");
                output.text(&format!("{call} → {reply}\n"))?;
                output.flush()?;
            }
            calls.push(json!({
                "call": call.to_string(), "reply": answer.reply, "printed": answer.printed, "troubles": answer.troubles,
            }));
        }
        let mut document =
            json!({"schema": json::SCHEMA, "command": "image run", "calls": calls, "snapshot": Value::Null});
        if let Some(path) = &self.snapshot {
            let snapshot = HostSnapshot::take(&program, 1, None).map_err(|error| Failure::in_file(path, error))?;
            write(path, self.overwrite, &snapshot)?;
            latest::remember(path);
            let info = snapshot.info();
            if !self.json {
                let (size, used) = (bytes(info.bytes), bytes(info.occupied_bytes));
                output.line(&format!("{}: {size}, {used} in use", path.display()))?;
            }
            document["snapshot"] = info.to_json();
        }
        if self.json { output.json(document) } else { Ok(()) }
    }
}

/// Writes an image with the files beside it.
fn write(path: &Path, overwrite: Overwrite, snapshot: &HostSnapshot) -> Result<(), Failure> {
    let memories = [(path.to_owned(), &snapshot.image), (Sidecar::stable_path_of(path), &snapshot.stable)];
    remove_stable(path, overwrite)?;
    for (path, memory) in memories.iter().filter(|(_, memory)| memory.bytes() > 0) {
        create_file(path, overwrite, |file| {
            let written = memory.write(&file);
            written.map_err(|error| Failure::writing_file(path, &error))
        })?;
    }
    let beside = Sidecar::path_of(path);
    write_file(&beside, overwrite, |out| {
        let written = out.write_all(snapshot.sidecar.to_text().as_bytes());
        written.map_err(|error| Failure::writing_file(&beside, &error))
    })
}
