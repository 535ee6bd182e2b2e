//! The sidecar of an image: the file `x.img.json` beside `x.img`, with the facts that the image's bytes do not contain. The program that takes an image writes
//! it; lenses and the host read it.

use crate::beside;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The version of the file format.
const VERSION: u64 = 1;

/// The facts about an image that its bytes do not contain: module, time, calls, globals and the state of the system. Every fact may be missing; a host writes
/// all of them, and needs them to continue from an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sidecar {
    /// The module's name.
    pub module_name: Option<String>,
    /// The SHA-256 of the module's file, in hexadecimal digits.
    pub module_sha256: Option<String>,
    /// The snapshot's number.
    pub snapshot_id: Option<u64>,
    /// When the image was taken, in nanoseconds since the Unix epoch.
    pub time_unix_ns: Option<u64>,
    /// The width of the memory's addresses: `memory32` or `memory64`.
    pub memory_kind: Option<String>,
    /// The length of the image in bytes.
    pub memory_bytes: Option<u64>,
    /// The address at which the heap begins.
    pub heap_start: Option<u64>,
    /// The bits of the module's globals when the image was taken.
    pub globals: BTreeMap<String, u64>,
    /// The calls that led to this state.
    pub calls: Vec<String>,
    /// The state of the system around a canister; none for plain modules.
    pub system: Option<SystemState>,
}

/// The state of the system around a canister.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemState {
    /// Its time.
    pub time_ns: u64,
    /// When its timer is due; 0 for never.
    pub timer_ns: u64,
    /// How often it read the performance counter.
    pub performance: u64,
    /// The size of its stable memory, which lies in a file of its own.
    pub stable_pages: u64,
    /// Its certified data.
    pub certified_data: Vec<u8>,
    /// How often its state may have changed.
    pub version: u64,
}

/// Why a document is not a complete sidecar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SidecarFault {
    /// It has no version.
    #[error("is not about an image")]
    NotASidecar,
    /// It is of another version.
    #[error("is of version {0}; this program reads version {VERSION}")]
    Version(u64),
    /// It lacks a member.
    #[error("lacks {0}")]
    Missing(String),
    /// The value of a global is not a number.
    #[error("global '{0}' is no number")]
    BadGlobal(String),
}

/// Why the sidecar of an image could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// There is none.
    #[error("{} is missing: it holds what is not in the image", .0.display())]
    NotThere(PathBuf),
    /// The file cannot be read.
    #[error("{}: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    /// It is not JSON.
    #[error("{}: {}", .0.display(), .1)]
    NotJson(PathBuf, serde_json::Error),
    /// It is not complete.
    #[error("{} {}", .0.display(), .1)]
    Incomplete(PathBuf, SidecarFault),
}

impl Sidecar {
    /// The path of an image's sidecar.
    pub fn path_of(image: &Path) -> PathBuf {
        image.with_added_extension("json")
    }

    /// The path of the file with the stable memory of an image of a canister, which is there if there is any stable memory.
    pub fn stable_path_of(image: &Path) -> PathBuf {
        image.with_added_extension("stable")
    }

    /// Reads the sidecar of an image. All members must be there.
    pub fn read(image: &Path) -> Result<Self, SidecarError> {
        let path = Self::path_of(image);
        let text = match beside::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SidecarError::NotThere(path)),
            Err(error) => return Err(SidecarError::Unreadable(path, error)),
        };
        match serde_json::from_slice(&text) {
            Ok(document) => Self::from_json(&document).map_err(|fault| SidecarError::Incomplete(path, fault)),
            Err(error) => Err(SidecarError::NotJson(path, error)),
        }
    }

    /// Reads what there is of an image's sidecar; nothing if there is none, or it is not JSON.
    pub fn read_lossy(image: &Path) -> Self {
        let text = beside::read(&Self::path_of(image)).unwrap_or_default();
        serde_json::from_slice(&text).map(|document| Self::from_json_lossy(&document)).unwrap_or_default()
    }

    /// Reads a document, in which all members must be there.
    pub fn from_json(document: &Value) -> Result<Self, SidecarFault> {
        match document["version"].as_u64() {
            Some(VERSION) => {}
            Some(other) => return Err(SidecarFault::Version(other)),
            None => return Err(SidecarFault::NotASidecar),
        }
        let missing = |name: &str| SidecarFault::Missing(name.to_owned());
        let globals = document["globals"].as_object().ok_or_else(|| missing("globals"))?;
        document["calls"].as_array().ok_or_else(|| missing("calls"))?;
        let sidecar = Self::from_json_lossy(document);
        for (is_there, name) in [
            (sidecar.module_name.is_some(), "module.name"),
            (sidecar.module_sha256.is_some(), "module.sha256"),
            (sidecar.snapshot_id.is_some(), "snapshot.id"),
            (sidecar.time_unix_ns.is_some(), "snapshot.time_unix_ns"),
            (sidecar.memory_kind.is_some(), "memory.kind"),
            (sidecar.memory_bytes.is_some(), "memory.bytes"),
        ] {
            if !is_there {
                return Err(missing(name));
            }
        }
        match globals.iter().find(|(_, value)| value.as_u64().is_none()) {
            Some((name, _)) => Err(SidecarFault::BadGlobal(name.clone())),
            None => Ok(sidecar),
        }
    }

    /// Reads what there is in a document. A member of the wrong type is left out.
    pub fn from_json_lossy(document: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let global = |(name, value): (&String, &Value)| {
            let bits = value.as_u64().or_else(|| value.as_i64().map(|number| number as u64))?;
            Some((name.clone(), bits))
        };
        let number = |name: &str| document["system"][name].as_u64().unwrap_or(0);
        Self {
            module_name: text(&document["module"]["name"]),
            module_sha256: text(&document["module"]["sha256"]),
            snapshot_id: document["snapshot"]["id"].as_u64(),
            time_unix_ns: document["snapshot"]["time_unix_ns"].as_u64(),
            memory_kind: text(&document["memory"]["kind"]),
            memory_bytes: document["memory"]["bytes"].as_u64(),
            heap_start: document["heap_start"].as_u64(),
            globals: document["globals"].as_object().into_iter().flatten().filter_map(global).collect(),
            calls: document["calls"].as_array().into_iter().flatten().filter_map(text).collect(),
            system: document["system"].is_object().then(|| SystemState {
                time_ns: number("time_ns"),
                timer_ns: number("timer_ns"),
                performance: number("performance"),
                stable_pages: number("stable_pages"),
                certified_data: text(&document["system"]["certified_data"])
                    .and_then(|digits| bytes_of(&digits))
                    .unwrap_or_default(),
                version: number("version"),
            }),
        }
    }

    /// The document.
    pub fn to_json(&self) -> Value {
        let globals: Map<String, Value> = self.globals.iter().map(|(name, bits)| (name.clone(), json!(bits))).collect();
        let mut document = json!({
            "version": VERSION,
            "module": {"name": self.module_name, "sha256": self.module_sha256},
            "snapshot": {"id": self.snapshot_id, "time_unix_ns": self.time_unix_ns},
            "memory": {"kind": self.memory_kind, "bytes": self.memory_bytes},
            "heap_start": self.heap_start,
            "globals": globals,
            "calls": self.calls,
        });
        if let Some(system) = &self.system {
            document["system"] = json!({
                "time_ns": system.time_ns,
                "timer_ns": system.timer_ns,
                "performance": system.performance,
                "stable_pages": system.stable_pages,
                "certified_data": hexadecimal(&system.certified_data),
                "version": system.version,
            });
        }
        document
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.to_json()).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The value of a global, by its number, under any of the names in which sidecars write it.
    pub fn global(&self, index: u32) -> Option<u64> {
        names_of_global(index).iter().find_map(|name| self.globals.get(name).copied())
    }
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hexadecimal digits state.
pub(crate) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok())
        .collect()
}

/// The names under which sidecars may write a global.
pub(crate) fn names_of_global(index: u32) -> [String; 4] {
    [index.to_string(), format!("global{index}"), format!("global {index}"), format!("global_{index}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_odd_is_not_known() {
        let document = json!({
            "version": 1, "module": {"name": "ledger.wasm", "sha256": 7}, "snapshot": {"id": 2, "time_unix_ns": 5},
            "heap_start": null, "globals": {"HP": 9, "x": "y", "27": -1}, "calls": ["open(100)", 3], "new": {}
        });
        let sidecar = Sidecar::from_json_lossy(&document);
        assert_eq!(
            (sidecar.module_name.as_deref(), sidecar.module_sha256.as_deref(), sidecar.heap_start),
            (Some("ledger.wasm"), None, None)
        );
        assert_eq!((sidecar.globals["HP"], sidecar.global(27), sidecar.global(3)), (9, Some(u64::MAX), None));
        assert_eq!((sidecar.calls, sidecar.time_unix_ns), (vec!["open(100)".to_owned()], Some(5)));
        assert_eq!(Sidecar::from_json_lossy(&Value::Null), Sidecar::default());
        assert_eq!(Sidecar::path_of(Path::new("a/x.img")), Path::new("a/x.img.json"));
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let sidecar = Sidecar {
            module_name: Some("ledger".into()),
            module_sha256: Some("ab".into()),
            snapshot_id: Some(3),
            time_unix_ns: Some(u64::MAX),
            memory_kind: Some("memory64".into()),
            memory_bytes: Some(65536),
            heap_start: Some(5 << 20),
            globals: [("a".to_owned(), u64::MAX), ("b".to_owned(), 0)].into(),
            calls: vec!["open(100)".into()],
            system: Some(SystemState {
                time_ns: 1,
                timer_ns: 2,
                performance: 3,
                stable_pages: 4,
                certified_data: vec![1, 255],
                version: 5,
            }),
        };
        let text = sidecar.to_text();
        assert_eq!(Sidecar::from_json(&serde_json::from_str(&text).unwrap()), Ok(sidecar));
    }

    #[test]
    fn what_is_missing_is_named() {
        let problem = |document| Sidecar::from_json(&document).unwrap_err().to_string();
        assert!(problem(json!([])).contains("not about an image"));
        assert!(problem(json!({"version": 9})).contains("version 9"));
        assert!(problem(json!({"version": 1})).contains("globals"));
        let mut document = json!({"version": 1, "globals": {"x": "y"}, "calls": [], "module": {"name": "n", "sha256": "s"},
            "snapshot": {"id": 1, "time_unix_ns": 1}, "memory": {"kind": "memory32", "bytes": 1}});
        assert!(problem(document.clone()).contains("'x'"));
        document["snapshot"]["id"] = Value::Null;
        assert_eq!(problem(document), "lacks snapshot.id");
    }
}
