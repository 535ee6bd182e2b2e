//! `metadata.json` of a snapshot: the facts about a canister that its memories do not contain.

use super::WASM_PAGE;
use crate::sidecar::{Sidecar, SystemState};
use crate::wasm::{GlobalType, WasmModule};
use serde_json::{Value, json};

/// Why a document is not the metadata of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// A member is missing, or of another type: its name, and what it should be.
    #[error("'{0}' is missing, or is not {1}: not the metadata of a canister snapshot")]
    Member(&'static str, &'static str),
    /// A global cannot be read: its place in the list.
    #[error("global {0} is not one number with its type")]
    Global(usize),
}

/// The value of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalValue {
    /// A number: its type, and its bits.
    Number(GlobalType, u64),
    /// A vector of 128 bits, or a value that the tool left out.
    Other,
}

impl GlobalValue {
    fn from_json(value: &Value) -> Option<Self> {
        if value.is_null() {
            return Some(Self::Other);
        }
        let members = value.as_object().filter(|members| members.len() == 1)?;
        let (ty, number) = members.iter().next()?;
        Some(match ty.as_str() {
            "i32" => Self::Number(GlobalType::I32, u64::from(i32::try_from(number.as_i64()?).ok()? as u32)),
            "i64" => Self::Number(GlobalType::I64, number.as_i64()? as u64),
            "f32" => Self::Number(GlobalType::F32, u64::from((number.as_f64()? as f32).to_bits())),
            "f64" => Self::Number(GlobalType::F64, number.as_f64()?.to_bits()),
            "v128" => Self::Other,
            _ => return None,
        })
    }

    fn to_json(self) -> Value {
        match self {
            Self::Number(GlobalType::I32, bits) => json!({"i32": bits as u32 as i32}),
            Self::Number(GlobalType::I64, bits) => json!({"i64": bits as i64}),
            Self::Number(GlobalType::F32, bits) => json!({"f32": f32::from_bits(bits as u32)}),
            Self::Number(GlobalType::F64, bits) => json!({"f64": f64::from_bits(bits)}),
            Self::Number(GlobalType::Other, _) | Self::Other => Value::Null,
        }
    }
}

/// The facts about a canister that its memories do not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMetadata {
    /// When it was taken, in nanoseconds since 1970.
    pub taken_at_ns: u64,
    /// True if it was made by an upload, and not taken of a canister.
    pub is_uploaded: bool,
    /// The length of the module as it is installed.
    pub module_bytes: u64,
    /// The length of the main memory.
    pub memory_bytes: u64,
    /// The length of the stable memory.
    pub stable_bytes: u64,
    /// The values of the globals that [`WasmModule::kept_globals`] names.
    pub globals: Vec<GlobalValue>,
    /// The hashes of the chunks in the chunk store.
    pub chunks: Vec<Vec<u8>>,
    /// How often the state of the canister may have changed.
    pub version: u64,
    /// Its certified data.
    pub certified_data: Vec<u8>,
    /// When its timer is due; none if it is not set, or not known.
    pub timer_ns: Option<u64>,
    /// True if the document says that the timer is not set.
    pub is_timer_known: bool,
    /// The state of the hook that runs when memory is low, as the tools call it.
    pub low_memory_hook: Option<String>,
}

impl SnapshotMetadata {
    /// Reads the document.
    pub fn from_json(document: &Value) -> Result<Self, MetadataError> {
        let number = |name: &'static str| document[name].as_u64().ok_or(MetadataError::Member(name, "a whole number"));
        let list = |name: &'static str| document[name].as_array().ok_or(MetadataError::Member(name, "a list"));
        let bytes = |name: &'static str, value: &Value| {
            let byte = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
            let bytes = value.as_array().and_then(|all| all.iter().map(byte).collect::<Option<Vec<u8>>>());
            bytes.ok_or(MetadataError::Member(name, "a list of bytes"))
        };
        let globals = list("globals")?.iter().enumerate();
        let globals = globals
            .map(|(at, value)| GlobalValue::from_json(value).ok_or(MetadataError::Global(at)))
            .collect::<Result<_, _>>()?;
        let chunks = list("wasm_chunk_store")?.iter();
        let chunks = chunks.map(|chunk| bytes("wasm_chunk_store", &chunk["hash"])).collect::<Result<_, _>>()?;
        let timer = &document["global_timer"];
        if !(timer.is_null() || timer == "inactive" || timer["active"].is_u64()) {
            return Err(MetadataError::Member("global_timer", "\"inactive\" or {\"active\": time}"));
        }
        Ok(Self {
            taken_at_ns: number("taken_at_timestamp")?,
            is_uploaded: !document["source"]["metadata_upload"].is_null() || document["source"] == "metadata_upload",
            module_bytes: number("wasm_module_size")?,
            memory_bytes: number("wasm_memory_size")?,
            stable_bytes: number("stable_memory_size")?,
            globals,
            chunks,
            version: number("canister_version")?,
            certified_data: bytes("certified_data", &document["certified_data"])?,
            timer_ns: timer["active"].as_u64(),
            is_timer_known: !timer.is_null(),
            low_memory_hook: document["on_low_wasm_memory_hook_status"].as_str().map(str::to_owned),
        })
    }

    /// The document.
    pub fn to_json(&self) -> Value {
        let source = if self.is_uploaded { "metadata_upload" } else { "taken_from_canister" };
        let timer = match (self.timer_ns, self.is_timer_known) {
            (Some(time), _) => json!({"active": time}),
            (None, true) => json!("inactive"),
            (None, false) => Value::Null,
        };
        json!({
            "source": {source: null},
            "taken_at_timestamp": self.taken_at_ns,
            "wasm_module_size": self.module_bytes,
            "globals": self.globals.iter().map(|global| global.to_json()).collect::<Vec<_>>(),
            "wasm_memory_size": self.memory_bytes,
            "stable_memory_size": self.stable_bytes,
            "wasm_chunk_store": self.chunks.iter().map(|hash| json!({"hash": hash})).collect::<Vec<_>>(),
            "canister_version": self.version,
            "certified_data": self.certified_data,
            "global_timer": timer,
            "on_low_wasm_memory_hook_status": self.low_memory_hook,
        })
    }

    /// The facts in the form in which a host writes them beside an image; none if the globals are not those of the module.
    pub fn sidecar(&self, module: &WasmModule) -> Option<Sidecar> {
        let names = module.unique_global_names();
        let globals = self.globals_of(module)?.into_iter();
        Some(Sidecar {
            module_name: None,
            module_sha256: None,
            snapshot_id: None,
            time_unix_ns: Some(self.taken_at_ns),
            memory_kind: Some(module.memory_kind().to_owned()),
            memory_bytes: Some(self.memory_bytes),
            heap_start: None,
            globals: globals.filter_map(|(index, bits)| Some((names.get(index as usize)?.clone(), bits))).collect(),
            calls: Vec::new(),
            system: Some(SystemState {
                time_ns: self.taken_at_ns,
                timer_ns: self.timer_ns.unwrap_or(0),
                performance: 0,
                stable_pages: self.stable_bytes / WASM_PAGE,
                certified_data: self.certified_data.clone(),
                version: self.version,
            }),
        })
    }

    /// The bits of the globals by their index in a module; none if the values do not fit the module. The network adds a counter of its own at the end, which
    /// no module has.
    pub fn globals_of(&self, module: &WasmModule) -> Option<Vec<(u32, u64)>> {
        let kept = module.kept_globals();
        if kept.len() > self.globals.len() {
            return None;
        }
        let mut globals = Vec::new();
        for (index, value) in kept.into_iter().zip(&self.globals) {
            let GlobalValue::Number(ty, bits) = *value else { continue };
            if module.globals.get(index as usize)?.ty != ty {
                return None;
            }
            globals.push((index, bits));
        }
        Some(globals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> SnapshotMetadata {
        SnapshotMetadata {
            taken_at_ns: 1_790_000_000_000_000_001,
            is_uploaded: false,
            module_bytes: 8,
            memory_bytes: 65_536,
            stable_bytes: 0,
            globals: vec![
                GlobalValue::Number(GlobalType::I32, u64::from(-5i32 as u32)),
                GlobalValue::Number(GlobalType::I64, u64::MAX),
                GlobalValue::Number(GlobalType::F32, u64::from(1.5f32.to_bits())),
                GlobalValue::Number(GlobalType::F64, (-0.25f64).to_bits()),
            ],
            chunks: vec![vec![1; 32]],
            version: 3,
            certified_data: vec![0, 255],
            timer_ns: Some(7),
            is_timer_known: true,
            low_memory_hook: Some("ready".into()),
        }
    }

    #[test]
    fn metadata_are_read_as_they_are_written() {
        let metadata = whole();
        assert_eq!(SnapshotMetadata::from_json(&metadata.to_json()), Ok(metadata));
    }

    #[test]
    fn what_is_missing_is_named() {
        for name in ["taken_at_timestamp", "wasm_memory_size", "globals", "certified_data", "wasm_chunk_store"] {
            let mut document = whole().to_json();
            document.as_object_mut().expect("an object").remove(name);
            let error = SnapshotMetadata::from_json(&document).expect_err(name).to_string();
            assert!(error.contains(&format!("'{name}'")), "{error}");
        }
        let mut document = whole().to_json();
        document["globals"][1] = json!({"i64": "7"});
        assert_eq!(SnapshotMetadata::from_json(&document), Err(MetadataError::Global(1)));
        document["globals"][1] = json!({"i32": 5_000_000_000u64});
        assert_eq!(SnapshotMetadata::from_json(&document), Err(MetadataError::Global(1)));
        for foreign in [json!([]), json!("text"), json!({"version": 1}), json!(null)] {
            assert!(SnapshotMetadata::from_json(&foreign).is_err());
        }
    }

    #[test]
    fn an_inactive_timer_and_an_unknown_one_are_not_the_same() {
        for (timer, wanted) in [(json!("inactive"), (None, true)), (json!(null), (None, false))] {
            let mut document = whole().to_json();
            document["global_timer"] = timer;
            let metadata = SnapshotMetadata::from_json(&document).expect("metadata");
            assert_eq!((metadata.timer_ns, metadata.is_timer_known), wanted);
        }
    }
}
