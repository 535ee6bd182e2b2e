//! The sidecar of an image, in a file of the same name plus `.json`: its module, the calls that led to it, and state that is not in the image.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the file format.
pub const VERSION: u64 = 1;

/// The facts about an image that its bytes do not contain: module, time, calls, globals and the state of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sidecar {
    /// The module's name.
    pub module_name: String,
    /// The SHA-256 of the module's file.
    pub module_sha256: String,
    /// The snapshot's number.
    pub snapshot_id: u64,
    /// When it was taken, in nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// The width of the memory's addresses: `memory32` or `memory64`.
    pub memory_kind: String,
    /// The length of the image in bytes.
    pub memory_bytes: u64,
    /// The address at which the heap begins.
    pub heap_start: Option<u64>,
    /// The bits of each global.
    pub globals: BTreeMap<String, u64>,
    /// The calls since the module was started.
    pub calls: Vec<String>,
    /// The state of the system around a canister; none for plain modules.
    pub system: Option<SystemState>,
}

/// The state of the system around a canister.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemState {
    /// Its time.
    pub time_ns: u64,
    /// When its timer is due; 0 for never.
    pub timer_ns: u64,
    /// How often it read the performance counter.
    pub performance: u64,
    /// The size of its stable memory, which is not in an image.
    pub stable_pages: u64,
}

impl Sidecar {
    /// The path of an image's sidecar.
    pub fn path(image: &Path) -> PathBuf {
        let mut name = image.as_os_str().to_owned();
        name.push(".json");
        PathBuf::from(name)
    }

    /// Converts to JSON.
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
        if let Some(system) = self.system {
            document["system"] = json!({
                "time_ns": system.time_ns,
                "timer_ns": system.timer_ns,
                "performance": system.performance,
                "stable_pages": system.stable_pages,
            });
        }
        document
    }

    /// Reads JSON; the error says which field is missing or wrong.
    pub fn from_json(document: &Value) -> Result<Self, String> {
        match document["version"].as_u64() {
            Some(VERSION) => {}
            Some(other) => return Err(format!("is of version {other}; this program reads version {VERSION}")),
            None => return Err("is not about an image".into()),
        }
        let text = |part: &str, name: &str| {
            document[part][name].as_str().map(str::to_owned).ok_or_else(|| format!("lacks {part}.{name}"))
        };
        let number =
            |part: &str, name: &str| document[part][name].as_u64().ok_or_else(|| format!("lacks {part}.{name}"));
        let globals = document["globals"].as_object().ok_or("lacks globals")?;
        let bits = |(name, value): (&String, &Value)| {
            value.as_u64().map(|bits| (name.clone(), bits)).ok_or_else(|| format!("global '{name}' is no number"))
        };
        let calls = document["calls"].as_array().ok_or("lacks calls")?;
        let system = document["system"].is_object().then(|| SystemState {
            time_ns: document["system"]["time_ns"].as_u64().unwrap_or(0),
            timer_ns: document["system"]["timer_ns"].as_u64().unwrap_or(0),
            performance: document["system"]["performance"].as_u64().unwrap_or(0),
            stable_pages: document["system"]["stable_pages"].as_u64().unwrap_or(0),
        });
        Ok(Self {
            module_name: text("module", "name")?,
            module_sha256: text("module", "sha256")?,
            snapshot_id: number("snapshot", "id")?,
            time_unix_ns: number("snapshot", "time_unix_ns")?,
            memory_kind: text("memory", "kind")?,
            memory_bytes: number("memory", "bytes")?,
            heap_start: document["heap_start"].as_u64(),
            globals: globals.iter().map(bits).collect::<Result<_, _>>()?,
            calls: calls.iter().filter_map(|call| call.as_str().map(str::to_owned)).collect(),
            system,
        })
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.to_json()).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads the sidecar of an image; the error is one line if there is none, or a bad one.
    pub fn read(image: &Path) -> Result<Self, String> {
        let path = Self::path(image);
        let shown = path.display();
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("{shown} is missing: it holds what is not in the image"),
            _ => format!("{shown}: {error}"),
        })?;
        let document: Value = serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        Self::from_json(&document).map_err(|problem| format!("{shown} {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        let sidecar = Sidecar {
            module_name: "ledger".into(),
            module_sha256: "ab".into(),
            snapshot_id: 3,
            time_unix_ns: u64::MAX,
            memory_kind: "memory64".into(),
            memory_bytes: 65536,
            heap_start: Some(5 << 20),
            globals: [("a".to_owned(), u64::MAX), ("b".to_owned(), 0)].into(),
            calls: vec!["open(100)".into()],
            system: Some(SystemState { time_ns: 1, timer_ns: 2, performance: 3, stable_pages: 4 }),
        };
        let text = sidecar.to_text();
        assert_eq!(Sidecar::from_json(&serde_json::from_str(&text).unwrap()), Ok(sidecar));
    }

    #[test]
    fn what_is_missing_is_named() {
        let problem = |document| Sidecar::from_json(&document).unwrap_err();
        assert!(problem(json!([])).contains("not about an image"));
        assert!(problem(json!({"version": 9})).contains("version 9"));
        assert!(problem(json!({"version": 1})).contains("globals"));
        let document = json!({"version": 1, "globals": {"x": "y"}, "calls": [], "module": {"name": "n", "sha256": "s"},
            "snapshot": {"id": 1, "time_unix_ns": 1}, "memory": {"kind": "memory32", "bytes": 1}});
        assert!(problem(document).contains("'x'"));
    }
}
