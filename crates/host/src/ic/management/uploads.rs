//! A snapshot that a client sends in parts.

use super::arguments::{Argument, ArgumentError};
use super::chunks::{ChunkStore, store};
use crate::candid::CandidValue;
use crate::ic::reject::{Reject, code};
use crate::image::CapturedImage;
use crate::snapshots::HostSnapshot;
use highwater_image::WasmModule;
use highwater_image::canister::{GlobalValue, SnapshotMetadata, WASM_PAGE};
use highwater_image::wasm::GlobalType;

/// The largest module.
const LARGEST_MODULE: u64 = 100 << 20;
/// The largest stable memory.
const LARGEST_STABLE: u64 = 500 << 30;
/// The longest certified data.
const LONGEST_CERTIFIED: usize = 32;
/// The most globals.
const MOST_GLOBALS: usize = 10_000;

/// A snapshot of which a client has not sent everything.
#[derive(Debug)]
pub struct UploadedSnapshot {
    /// The facts, which come first.
    pub metadata: SnapshotMetadata,
    /// The module.
    pub module: Vec<u8>,
    /// The main memory.
    pub memory: CapturedImage,
    /// The stable memory.
    pub stable: CapturedImage,
    /// Parts of modules.
    pub chunks: ChunkStore,
}

/// A global as Candid has it.
fn global(value: &CandidValue) -> Option<GlobalValue> {
    let number = |name: &str| value.case(name).and_then(CandidValue::as_number);
    let float = |name: &str| match value.case(name) {
        Some(CandidValue::Float(number)) => Some(*number),
        _ => None,
    };
    if let Some(number) = number("i32") {
        return Some(GlobalValue::Number(GlobalType::I32, u64::from(i32::try_from(number).ok()? as u32)));
    }
    if let Some(number) = number("i64") {
        return Some(GlobalValue::Number(GlobalType::I64, i64::try_from(number).ok()? as u64));
    }
    if let Some(number) = float("f32") {
        return Some(GlobalValue::Number(GlobalType::F32, u64::from((number as f32).to_bits())));
    }
    if let Some(number) = float("f64") {
        return Some(GlobalValue::Number(GlobalType::F64, number.to_bits()));
    }
    value.case("v128").map(|_| GlobalValue::Other)
}

/// The same in the other direction.
pub fn global_value(global: GlobalValue) -> CandidValue {
    match global {
        GlobalValue::Number(GlobalType::I32, bits) => {
            CandidValue::variant("i32", CandidValue::number(bits as u32 as i32))
        }
        GlobalValue::Number(GlobalType::I64, bits) => CandidValue::variant("i64", CandidValue::number(bits as i64)),
        GlobalValue::Number(GlobalType::F32, bits) => {
            CandidValue::variant("f32", CandidValue::Float(f32::from_bits(bits as u32).into()))
        }
        GlobalValue::Number(GlobalType::F64, bits) => {
            CandidValue::variant("f64", CandidValue::Float(f64::from_bits(bits)))
        }
        GlobalValue::Number(GlobalType::Other, _) | GlobalValue::Other => {
            CandidValue::variant("v128", CandidValue::number(0))
        }
    }
}

fn refused<T>(line: String) -> Result<T, Reject> {
    Err(Reject::new(code::INVALID_ARGUMENT, line))
}

impl UploadedSnapshot {
    /// Begins with the facts that a client sends.
    pub fn begin(argument: &CandidValue, now_ns: u64, largest_memory: u64) -> Result<Self, Reject> {
        let size = |name, most: u64, unit: u64| {
            let bytes = argument.number_of(name)?;
            if bytes > most || bytes % unit != 0 {
                return refused(format!("{name}: {bytes} bytes are more than {most}, or are not whole pages"));
            }
            Ok(bytes)
        };
        let globals = argument.need("globals")?.items("globals")?;
        if globals.len() > MOST_GLOBALS {
            return refused(format!("more than {MOST_GLOBALS} globals"));
        }
        let globals =
            globals.iter().map(|value| global(value).ok_or(ArgumentError("globals"))).collect::<Result<_, _>>()?;
        let certified_data = argument.blob_of("certified_data")?.to_vec();
        if certified_data.len() > LONGEST_CERTIFIED {
            return refused(format!("certified_data are longer than {LONGEST_CERTIFIED} bytes"));
        }
        let timer = argument.field("global_timer");
        let hook = argument.field("on_low_wasm_memory_hook_status");
        let hooks = ["condition_not_satisfied", "ready", "executed"];
        let metadata = SnapshotMetadata {
            taken_at_ns: now_ns,
            is_uploaded: true,
            module_bytes: size("wasm_module_size", LARGEST_MODULE, 1)?,
            memory_bytes: size("wasm_memory_size", largest_memory, WASM_PAGE)?,
            stable_bytes: size("stable_memory_size", LARGEST_STABLE, WASM_PAGE)?,
            globals,
            chunks: Vec::new(),
            version: 0,
            certified_data,
            timer_ns: timer
                .and_then(|timer| timer.case("active")?.as_number())
                .and_then(|time| u64::try_from(time).ok()),
            is_timer_known: timer.is_some(),
            low_memory_hook: hook
                .and_then(|hook| hooks.into_iter().find(|name| hook.case(name).is_some()).map(str::to_owned)),
        };
        Ok(Self {
            module: vec![0; metadata.module_bytes as usize],
            memory: CapturedImage::zeros(metadata.memory_bytes),
            stable: CapturedImage::zeros(metadata.stable_bytes),
            chunks: ChunkStore::new(),
            metadata,
        })
    }

    /// Takes a part.
    pub fn take(&mut self, kind: &CandidValue, chunk: &[u8]) -> Result<(), Reject> {
        let offset = |part: &CandidValue| part.number_of("offset");
        let beyond = || Reject::new(code::INVALID_ARGUMENT, "The chunk lies beyond the end that the metadata state");
        if let Some(part) = kind.case("wasm_module") {
            let begin = usize::try_from(offset(part)?).map_err(|_| beyond())?;
            let end = begin.checked_add(chunk.len()).ok_or_else(beyond)?;
            self.module.get_mut(begin..end).ok_or_else(beyond)?.copy_from_slice(chunk);
        } else if let Some(part) = kind.case("wasm_memory") {
            self.memory.put(offset(part)?, chunk).ok_or_else(beyond)?;
        } else if let Some(part) = kind.case("stable_memory") {
            self.stable.put(offset(part)?, chunk).ok_or_else(beyond)?;
        } else if kind.case("wasm_chunk").is_some() {
            store(&mut self.chunks, chunk)?;
        } else {
            return Err(ArgumentError("kind").into());
        }
        Ok(())
    }

    /// The snapshot that the parts make up, with its number; the canister's time goes on from `time_ns`.
    pub fn complete(&self, id: u64, time_ns: u64) -> Result<HostSnapshot, Reject> {
        let module = WasmModule::parse(&self.module).map_err(|problem| {
            Reject::new(code::INVALID_WASM, format!("The snapshot's module is not valid: {problem}"))
        })?;
        let Some(mut sidecar) = self.metadata.sidecar(&module) else {
            return refused("The globals of the snapshot are not those of its module".into());
        };
        sidecar.snapshot_id = Some(id);
        sidecar.module_sha256 = Some(highwater_image::hexadecimal(&sha2::Digest::finalize(
            <sha2::Sha256 as sha2::Digest>::new_with_prefix(&self.module),
        )));
        if let Some(system) = &mut sidecar.system {
            system.time_ns = time_ns;
        }
        let (memory, stable) = (self.memory.clone(), self.stable.clone());
        Ok(HostSnapshot::sent(memory, stable, sidecar, self.module.as_slice().into(), self.chunks.clone(), id))
    }
}
