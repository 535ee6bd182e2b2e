//! `highwater image export`: an image of our own as the folder of a canister snapshot.

use super::folder::{copy_content, copy_stable, write_snapshot_folder};
use super::heap::ImageInput;
use crate::failure::{Failure, reason};
use crate::output::Output;
use crate::print::bytes::bytes;
use clap::Args;
use highwater_image::canister::{GlobalValue, SnapshotMetadata, WASM_PAGE};
use highwater_image::wasm::{GlobalType, WasmModule};
use highwater_image::{ImageParts, Sidecar};
use std::path::PathBuf;

/// The arguments of `highwater image export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image export ledger.img -o snapshot/
  highwater image export ledger.img --module ledger.wasm.gz -o snapshot/
  icp canister snapshot upload ledger -i snapshot/        then: snapshot restore

The folder is one that 'icp canister snapshot upload' and 'dfx canister snapshot upload' take. The module is installed as its \
file is: gzipped or not.")]
pub struct ExportArgs {
    #[command(flatten)]
    input: ImageInput,
    /// The folder, which must not exist or be empty
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

impl ExportArgs {
    /// Writes the folder.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let path = &self.input.path;
        let parts = ImageParts::find(path, self.input.module.as_deref()).map_err(Failure::fault)?;
        if parts.folder.is_some() {
            return Err(Failure::in_file(path, "is the folder of a snapshot already"));
        }
        let sidecar = Sidecar::read(path).map_err(Failure::fault)?;
        let (Some(module_path), Some(module)) = (&parts.module_path, &parts.module) else {
            return Err(Failure::in_file(path, "its module does not lie beside it; name it with --module"));
        };
        let installed = std::fs::read(module_path).map_err(|error| Failure::in_file(module_path, reason(&error)))?;
        let metadata = metadata(&sidecar, module, installed.len() as u64).map_err(|why| Failure::in_file(path, why))?;
        write_snapshot_folder(&self.output, |folder| {
            folder.module(&installed)?;
            copy_content(&parts.memory, &folder.memory()?)?;
            copy_stable(parts.stable.as_deref(), folder)?;
            Ok(metadata.to_json())
        })?;
        let (memory, stable) = (bytes(metadata.memory_bytes), bytes(metadata.stable_bytes));
        output.line(&format!("{}: memory {memory}, stable memory {stable}", self.output.display()))
    }
}

/// The metadata of an image of a canister; the error says why it cannot be a snapshot.
fn metadata(sidecar: &Sidecar, module: &WasmModule, module_bytes: u64) -> Result<SnapshotMetadata, String> {
    let system = sidecar.system.as_ref().ok_or("is no image of a canister: its .json has no state of the system")?;
    let names = module.unique_global_names();
    let global = |index: u32| {
        let (about, name) = (module.globals.get(index as usize)?, names.get(index as usize)?);
        // An immutable global has its initial value.
        let bits = sidecar.globals.get(name).copied().or_else(|| about.bits().filter(|_| !about.is_mutable))?;
        let is_number = match about.ty {
            GlobalType::F32 => f32::from_bits(bits as u32).is_finite(),
            GlobalType::F64 => f64::from_bits(bits).is_finite(),
            GlobalType::I32 | GlobalType::I64 => true,
            GlobalType::Other => false,
        };
        is_number.then_some(GlobalValue::Number(about.ty, bits))
    };
    let globals = module
        .kept_globals()
        .into_iter()
        .map(|index| global(index).ok_or_else(|| format!("global {index} has no value that a snapshot can hold")));
    Ok(SnapshotMetadata {
        taken_at_ns: sidecar.time_unix_ns.unwrap_or(0),
        is_uploaded: false,
        module_bytes,
        memory_bytes: sidecar.memory_bytes.unwrap_or(0),
        stable_bytes: system.stable_pages * WASM_PAGE,
        globals: globals.collect::<Result<_, String>>()?,
        chunks: Vec::new(),
        version: system.version,
        certified_data: system.certified_data.clone(),
        timer_ns: Some(system.timer_ns).filter(|timer| *timer > 0),
        is_timer_known: true,
        low_memory_hook: Some("condition_not_satisfied".to_owned()),
    })
}
