//! The facts about an image that its bytes do not contain, written by the program that took it: the file `x.img.json` beside `x.img`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A sidecar. Every field may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sidecar {
    /// The module's name.
    pub module: Option<String>,
    /// The SHA-256 of the module, in hexadecimal digits.
    pub module_sha256: Option<String>,
    /// When the image was taken, in nanoseconds since the Unix epoch.
    pub time_unix_ns: Option<u64>,
    /// The address at which the heap begins.
    pub heap_start: Option<u64>,
    /// Values of the module's globals when the image was taken.
    pub globals: BTreeMap<String, u64>,
    /// The calls that led to this state.
    pub calls: Vec<String>,
}

impl Sidecar {
    /// The path of an image's sidecar.
    pub fn path_of(image: &Path) -> PathBuf {
        let mut path = image.as_os_str().to_owned();
        path.push(".json");
        PathBuf::from(path)
    }

    /// Reads the sidecar of an image; all fields are empty if there is none, or it is not valid.
    pub fn beside(image: &Path) -> Self {
        let text = std::fs::read(Self::path_of(image)).unwrap_or_default();
        serde_json::from_slice(&text).map(|document| Self::from_json(&document)).unwrap_or_default()
    }

    /// Reads a document. A field of the wrong type is left out.
    pub fn from_json(document: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let globals = document["globals"].as_object();
        let calls = document["calls"].as_array();
        Self {
            module: text(&document["module"]["name"]),
            module_sha256: text(&document["module"]["sha256"]),
            time_unix_ns: document["snapshot"]["time_unix_ns"].as_u64(),
            heap_start: document["heap_start"].as_u64(),
            globals: globals
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| {
                    let number = value.as_u64().or_else(|| value.as_i64().map(|number| number as u64))?;
                    Some((name.clone(), number))
                })
                .collect(),
            calls: calls.into_iter().flatten().filter_map(text).collect(),
        }
    }

    /// The value of a global, by its number, under any of the names in which sidecars write it.
    pub fn global(&self, index: u64) -> Option<u64> {
        let names = [index.to_string(), format!("global{index}"), format!("global {index}"), format!("global_{index}")];
        names.iter().find_map(|name| self.globals.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_odd_is_not_known() {
        let document = serde_json::json!({
            "version": 1, "module": {"name": "ledger.wasm", "sha256": 7}, "snapshot": {"id": 2, "time_unix_ns": 5},
            "heap_start": null, "globals": {"HP": 9, "x": "y", "27": -1}, "calls": ["open(100)", 3], "new": {}
        });
        let sidecar = Sidecar::from_json(&document);
        assert_eq!(
            (sidecar.module.as_deref(), sidecar.module_sha256.as_deref(), sidecar.heap_start),
            (Some("ledger.wasm"), None, None)
        );
        assert_eq!((sidecar.globals["HP"], sidecar.global(27), sidecar.global(3)), (9, Some(u64::MAX), None));
        assert_eq!((sidecar.calls, sidecar.time_unix_ns), (vec!["open(100)".to_owned()], Some(5)));
        assert_eq!(Sidecar::from_json(&Value::Null), Sidecar::default());
        assert_eq!(Sidecar::path_of(Path::new("a/x.img")), Path::new("a/x.img.json"));
    }
}
