//! Snapshots: taken, listed, restored, read and sent. They are those that `image create` and `image pull` know.

use super::arguments::{Argument, ArgumentError};
use super::types::{done, reply};
use super::uploads::{UploadedSnapshot, global_value};
use super::{Management, MethodResult};
use crate::candid::{CandidValue, principal_text};
use crate::hosted::HostedCanister;
use crate::ic::reject::{Reject, code};
use crate::image::CapturedImage;
use crate::module::HostModule;
use crate::program::{HostedProgram, ProgramState};
use crate::snapshots::HostSnapshot;
use highwater_image::WasmModule;
use highwater_image::canister::{GlobalValue, SnapshotMetadata};
use std::sync::Arc;

/// The most bytes of a snapshot in one message, as on the network.
const LONGEST_PART: u64 = 2_000_000;
/// The most snapshots of a canister that are being sent.
const MOST_UPLOADS: usize = 10;

/// The id of a snapshot, as clients know it: its number, and the canister.
fn snapshot_id(number: u64, canister: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes(), canister].concat()
}

/// The number in an id.
fn snapshot_number(id: &[u8], canister: &[u8]) -> Option<u64> {
    let (number, owner) = id.split_first_chunk::<8>()?;
    (owner == canister).then(|| u64::from_be_bytes(*number))
}

fn not_found(id: &[u8], canister: &[u8]) -> Reject {
    let (id, canister) = (highwater_image::hexadecimal(id), principal_text(canister));
    Reject::new(code::SNAPSHOT_NOT_FOUND, format!("Could not find the snapshot {id} of canister {canister}"))
}

/// A snapshot, whole or not.
enum Stored<'a> {
    Whole(&'a HostSnapshot),
    Sent(&'a UploadedSnapshot),
}

impl Stored<'_> {
    fn module(&self) -> &[u8] {
        match self {
            Self::Whole(snapshot) => &snapshot.module,
            Self::Sent(upload) => &upload.module,
        }
    }

    fn memory(&self) -> &CapturedImage {
        match self {
            Self::Whole(snapshot) => &snapshot.image,
            Self::Sent(upload) => &upload.memory,
        }
    }

    fn stable(&self) -> &CapturedImage {
        match self {
            Self::Whole(snapshot) => &snapshot.stable,
            Self::Sent(upload) => &upload.stable,
        }
    }

    fn chunks(&self) -> &super::chunks::ChunkStore {
        match self {
            Self::Whole(snapshot) => &snapshot.chunks,
            Self::Sent(upload) => &upload.chunks,
        }
    }

    fn bytes(&self) -> u64 {
        let chunks: u64 = self.chunks().values().map(|chunk| chunk.len() as u64).sum();
        self.module().len() as u64 + self.memory().bytes() + self.stable().bytes() + chunks
    }

    fn metadata(&self) -> Result<SnapshotMetadata, Reject> {
        match self {
            Self::Sent(upload) => Ok(upload.metadata.clone()),
            Self::Whole(snapshot) => metadata_of(snapshot),
        }
    }

    /// As lists show it.
    fn value(&self, number: u64, canister: &[u8]) -> CandidValue {
        let time = match self {
            Self::Whole(snapshot) => snapshot.info().time_unix_ns,
            Self::Sent(upload) => upload.metadata.taken_at_ns,
        };
        CandidValue::record([
            ("id", CandidValue::Blob(snapshot_id(number, canister))),
            ("taken_at_timestamp", CandidValue::number(time)),
            ("total_size", CandidValue::number(self.bytes())),
        ])
    }
}

/// The facts about a snapshot of this host in the network's form.
fn metadata_of(snapshot: &HostSnapshot) -> Result<SnapshotMetadata, Reject> {
    let module = WasmModule::parse(&snapshot.module)
        .map_err(|problem| Reject::new(code::INVALID_WASM, format!("The snapshot's module is not valid: {problem}")))?;
    let names = module.unique_global_names();
    let global = |index: u32| {
        let bits = snapshot.sidecar.globals.get(names.get(index as usize)?)?;
        Some(GlobalValue::Number(module.globals.get(index as usize)?.ty, *bits))
    };
    let system = snapshot.sidecar.system.clone().unwrap_or_default();
    Ok(SnapshotMetadata {
        taken_at_ns: snapshot.info().time_unix_ns,
        is_uploaded: false,
        module_bytes: snapshot.module.len() as u64,
        memory_bytes: snapshot.image.bytes(),
        stable_bytes: snapshot.stable.bytes(),
        globals: module.kept_globals().into_iter().map(|index| global(index).unwrap_or(GlobalValue::Other)).collect(),
        chunks: snapshot.chunks.keys().cloned().collect(),
        version: system.version,
        certified_data: system.certified_data,
        timer_ns: Some(system.timer_ns).filter(|&time| time > 0),
        is_timer_known: true,
        low_memory_hook: Some("condition_not_satisfied".into()),
    })
}

fn metadata_value(metadata: &SnapshotMetadata) -> CandidValue {
    let source = if metadata.is_uploaded { "metadata_upload" } else { "taken_from_canister" };
    let timer = match metadata.timer_ns {
        Some(time) => Some(CandidValue::variant("active", CandidValue::number(time))),
        None if metadata.is_timer_known => Some(CandidValue::variant("inactive", CandidValue::Null)),
        None => None,
    };
    let hash = |hash: &Vec<u8>| CandidValue::record([("hash", CandidValue::Blob(hash.clone()))]);
    let hook = metadata.low_memory_hook.as_ref().map(|name| CandidValue::variant(name, CandidValue::Null));
    CandidValue::record([
        ("source", CandidValue::variant(source, CandidValue::Null)),
        ("taken_at_timestamp", CandidValue::number(metadata.taken_at_ns)),
        ("wasm_module_size", CandidValue::number(metadata.module_bytes)),
        ("globals", CandidValue::Vec(metadata.globals.iter().map(|global| global_value(*global)).collect())),
        ("wasm_memory_size", CandidValue::number(metadata.memory_bytes)),
        ("stable_memory_size", CandidValue::number(metadata.stable_bytes)),
        ("wasm_chunk_store", CandidValue::Vec(metadata.chunks.iter().map(hash).collect())),
        ("canister_version", CandidValue::number(metadata.version)),
        ("certified_data", CandidValue::Blob(metadata.certified_data.clone())),
        ("global_timer", CandidValue::opt(timer)),
        ("on_low_wasm_memory_hook_status", CandidValue::opt(hook)),
    ])
}

/// The bytes of all snapshots of a canister.
pub fn total_bytes(canister: &HostedCanister) -> u64 {
    all(canister).map(|(_, snapshot)| snapshot.bytes()).sum()
}

/// All snapshots by their numbers.
fn all(canister: &HostedCanister) -> impl Iterator<Item = (u64, Stored<'_>)> {
    let whole = canister.snapshots.all().map(|snapshot| (snapshot.id(), Stored::Whole(snapshot)));
    whole.chain(canister.uploads.iter().map(|(number, upload)| (*number, Stored::Sent(upload))))
}

fn find<'a>(canister: &'a HostedCanister, id: &[u8], owner: &[u8]) -> Result<(u64, Stored<'a>), Reject> {
    let number = snapshot_number(id, owner);
    all(canister).find(|(other, _)| Some(*other) == number).ok_or_else(|| not_found(id, owner))
}

fn must_be_stopped(canister: &HostedCanister, id: &[u8], what: &str) -> Result<(), Reject> {
    if canister.is_stopped {
        return Ok(());
    }
    let line = format!("Canister {} must be stopped before {what}", principal_text(id));
    Err(Reject::new(code::NOT_STOPPED, line))
}

/// The snapshot that a new one replaces.
fn replaced(canister: &HostedCanister, argument: &CandidValue, owner: &[u8]) -> Result<Option<u64>, Reject> {
    let Some(id) = argument.field("replace_snapshot") else { return Ok(None) };
    let id = id.as_blob().ok_or(ArgumentError("replace_snapshot"))?;
    Ok(Some(find(canister, id, owner)?.0))
}

fn remove(canister: &mut HostedCanister, number: u64) {
    canister.snapshots.remove(number);
    canister.uploads.remove(&number);
}

impl Management<'_> {
    pub(super) fn take_snapshot(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let canister = self.canister(&id)?;
        let Some(program) = &canister.program else {
            let line =
                format!("Canister {} has no code, so there is nothing to take a snapshot of", principal_text(&id));
            return Err(Reject::new(code::NO_MODULE, line));
        };
        must_be_stopped(canister, &id, "a snapshot of it is taken")?;
        let replaced = replaced(canister, argument, &id)?;
        let info = canister
            .snapshots
            .add(program, false)
            .map_err(|error| Reject::new(code::REJECTED, format!("The snapshot cannot be taken: {error}")))?;
        canister.snapshots.attach(canister.chunks.clone());
        if let Some(number) = replaced {
            remove(canister, number);
        }
        if argument.field("uninstall_code") == Some(&CandidValue::Bool(true)) {
            canister.replace(None);
        }
        let value = find(canister, &snapshot_id(info.id, &id), &id)?.1.value(info.id, &id);
        (self.log)(&format!("snapshot {}: {} bytes, {} of them in use", info.id, info.bytes, info.occupied_bytes));
        reply("snapshot", value)
    }

    pub(super) fn list_snapshots(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let values = all(self.canister(&id)?).map(|(number, snapshot)| snapshot.value(number, &id)).collect();
        reply("snapshots", CandidValue::Vec(values))
    }

    pub(super) fn delete_snapshot(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let canister = self.canister(&id)?;
        let (number, _) = find(canister, argument.blob_of("snapshot_id")?, &id)?;
        remove(canister, number);
        done()
    }

    pub(super) fn load_snapshot(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let options = self.state.options.clone();
        let canister = self.canister(&id)?;
        must_be_stopped(canister, &id, "a snapshot is restored")?;
        let (number, stored) = find(canister, argument.blob_of("snapshot_id")?, &id)?;
        let present = canister.program.as_ref();
        let snapshot = match stored {
            Stored::Whole(_) => {
                canister.snapshots.find(Some(number)).map_err(|line| Reject::new(code::REJECTED, line))?
            }
            Stored::Sent(upload) => {
                let now = present.and_then(|program| Some(program.canister()?.machine().system_ref().time_ns));
                Arc::new(upload.complete(number, now.unwrap_or(options.world.time_ns))?)
            }
        };
        let name = principal_text(&id);
        // A module that is installed already keeps its name.
        let same = present.filter(|program| program.module().installed == snapshot.module);
        let file = same.map_or_else(|| format!("{name}.wasm"), |program| program.module().name.clone());
        let module = HostModule::new(&file, &snapshot.module).map_err(|problem| {
            Reject::new(code::INVALID_WASM, format!("The snapshot's module is not valid: {problem}"))
        })?;
        let state =
            ProgramState { sidecar: snapshot.sidecar.clone(), memory: &snapshot.image, stable: Some(&snapshot.stable) };
        let mut program =
            HostedProgram::resume(module, &options, state).map_err(|problem| Reject::of_run(&name, &problem))?;
        if let Some(canister) = program.canister_mut() {
            canister.machine_mut().system().id.clone_from(&id);
        }
        canister.replace(Some(program));
        canister.chunks = snapshot.chunks.clone();
        if canister.uploads.remove(&number).is_some() {
            canister.snapshots.insert(snapshot);
        }
        (self.log)(&format!("{name}: snapshot {number} was restored"));
        done()
    }

    pub(super) fn read_metadata(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let canister = self.canister(&id)?;
        let (_, snapshot) = find(canister, argument.blob_of("snapshot_id")?, &id)?;
        reply("metadata", metadata_value(&snapshot.metadata()?))
    }

    pub(super) fn read_data(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let canister = self.canister(&id)?;
        let (_, snapshot) = find(canister, argument.blob_of("snapshot_id")?, &id)?;
        let part = read_part(&snapshot, argument.need("kind")?)?;
        reply("chunk", CandidValue::record([("chunk", CandidValue::Blob(part))]))
    }

    pub(super) fn upload_metadata(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let (now_ns, largest) = (self.now_ns, self.state.options.limits.memory_bytes);
        let canister = self.canister(&id)?;
        let replaced = replaced(canister, argument, &id)?;
        let upload = UploadedSnapshot::begin(argument, now_ns, largest)?;
        if let Some(number) = replaced {
            remove(canister, number);
        }
        if canister.uploads.len() >= MOST_UPLOADS {
            let line = format!("{MOST_UPLOADS} snapshots are being sent already, which is the limit; delete one");
            return Err(Reject::new(code::REJECTED, line));
        }
        let number = canister.snapshots.next_id();
        canister.uploads.insert(number, upload);
        reply("uploaded", CandidValue::record([("snapshot_id", CandidValue::Blob(snapshot_id(number, &id)))]))
    }

    pub(super) fn upload_data(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let canister = self.canister(&id)?;
        let given = argument.blob_of("snapshot_id")?;
        let (number, _) = find(canister, given, &id)?;
        let Some(upload) = canister.uploads.get_mut(&number) else {
            let line = "The snapshot was taken of a canister, or was restored, so nothing can be added to it";
            return Err(Reject::new(code::SNAPSHOT_IMMUTABLE, line));
        };
        let chunk = argument.blob_of("chunk")?;
        if chunk.len() as u64 > LONGEST_PART {
            return Err(too_long(chunk.len() as u64));
        }
        upload.take(argument.need("kind")?, chunk)?;
        done()
    }
}

fn too_long(bytes: u64) -> Reject {
    Reject::new(
        code::INVALID_ARGUMENT,
        format!("{bytes} bytes at once are more than {LONGEST_PART}, which is the limit"),
    )
}

fn read_part(snapshot: &Stored<'_>, kind: &CandidValue) -> Result<Vec<u8>, Reject> {
    let beyond = || Reject::new(code::INVALID_ARGUMENT, "The part lies beyond the end of what the snapshot has");
    let range = |part: &CandidValue| {
        let (offset, size) = (part.number_of("offset")?, part.number_of("size")?);
        if size > LONGEST_PART { Err(too_long(size)) } else { Ok((offset, size)) }
    };
    if let Some(part) = kind.case("wasm_module") {
        let (offset, size) = range(part)?;
        let begin = usize::try_from(offset).map_err(|_| beyond())?;
        let end = begin.checked_add(size as usize).ok_or_else(beyond)?;
        return snapshot.module().get(begin..end).map(<[u8]>::to_vec).ok_or_else(beyond);
    }
    if let Some(part) = kind.case("wasm_memory") {
        let (offset, size) = range(part)?;
        return snapshot.memory().read(offset, size).ok_or_else(beyond);
    }
    if let Some(part) = kind.case("stable_memory") {
        let (offset, size) = range(part)?;
        return snapshot.stable().read(offset, size).ok_or_else(beyond);
    }
    let part = kind.case("wasm_chunk").ok_or(ArgumentError("kind"))?;
    let chunk = snapshot.chunks().get(part.blob_of("hash")?);
    chunk.map(|chunk| chunk.to_vec()).ok_or_else(beyond)
}
