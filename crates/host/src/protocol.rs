//! The messages between clients and a host, in [frames](crate::frame): a request, then its response.
//!
//! | request | answer |
//! |---|---|
//! | `info` | the module, the latest snapshot, the number of snapshots |
//! | `create`, `update` | the new snapshot |
//! | `call` | the reply, printed lines, errors besides that of the call |
//! | `describe` | a snapshot, its hash and its sidecar: by its number, or the latest |
//! | `chunk` | a part of a snapshot, of its main or its stable memory, in a frame of bytes |
//!
//! Every request is a JSON object with the version. Responses are `{"done": …}` or `{"failed": "one line", "printed": […]}`. A part consists of the
//! snapshot's number, the offset, the number of zeros that come first (8 bytes each, little-endian), then bytes.

use crate::frame::HostFrame;
use crate::image::ImagePart;
use crate::program::{CallReply, Failed};
use highwater_image::Sidecar;
use serde_json::{Value, json};

/// The version of these messages.
pub const VERSION: u64 = 1;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// The state of the host.
    Info,
    /// Take a new snapshot.
    Create,
    /// Take a new snapshot that replaces the latest.
    Update,
    /// Make a call: see [`ProgramCall`](crate::call::ProgramCall).
    Call(String),
    /// Describe a snapshot: by its number, or the latest.
    Describe(Option<u64>),
    /// A part of a snapshot.
    Chunk {
        /// The snapshot's number.
        id: u64,
        /// The offset at which the part begins.
        offset: u64,
        /// The memory of which it is a part.
        memory: WhichMemory,
    },
}

/// A memory of a canister.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichMemory {
    /// The memory of the module.
    Main,
    /// The stable memory.
    Stable,
}

impl WhichMemory {
    fn key(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Stable => "stable",
        }
    }
}

impl HostRequest {
    /// Converts to a frame.
    pub fn to_frame(&self) -> HostFrame {
        let mut message = match self {
            Self::Info => json!({"request": "info"}),
            Self::Create => json!({"request": "create"}),
            Self::Update => json!({"request": "update"}),
            Self::Call(text) => json!({"request": "call", "call": text}),
            Self::Describe(id) => json!({"request": "describe", "id": id}),
            Self::Chunk { id, offset, memory } => {
                json!({"request": "chunk", "id": id, "offset": offset, "memory": memory.key()})
            }
        };
        message["version"] = VERSION.into();
        HostFrame::Json(message.to_string().into_bytes())
    }

    /// Reads a frame; the error says why it is not a request.
    pub fn from_frame(frame: &HostFrame) -> Result<Self, String> {
        let message = document(frame)?;
        match message["version"].as_u64() {
            Some(VERSION) => {}
            Some(version) => {
                let side = if version > VERSION { "the host" } else { "this command" };
                return Err(format!("the host speaks version {VERSION}, you speak version {version}: update {side}"));
            }
            None => return Err("a message without a version".into()),
        }
        let number = |name: &str| message[name].as_u64().ok_or_else(|| format!("a message without {name}"));
        Ok(match message["request"].as_str().unwrap_or_default() {
            "info" => Self::Info,
            "create" => Self::Create,
            "update" => Self::Update,
            "call" => Self::Call(message["call"].as_str().ok_or("a message without call")?.to_owned()),
            "describe" => Self::Describe(message["id"].as_u64()),
            "chunk" => Self::Chunk {
                id: number("id")?,
                offset: number("offset")?,
                memory: if message["memory"] == "stable" { WhichMemory::Stable } else { WhichMemory::Main },
            },
            other => return Err(format!("does not know the request {other:?}")),
        })
    }
}

/// The JSON document in a frame.
fn document(frame: &HostFrame) -> Result<Value, String> {
    let HostFrame::Json(content) = frame else { return Err("bytes where a message should come".into()) };
    serde_json::from_slice(content).map_err(|error| format!("a message that is no JSON: {error}"))
}

/// Number, time and sizes of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its number, which is never reused.
    pub id: u64,
    /// When it was taken, in nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The bytes of its non-zero pages.
    pub occupied_bytes: u64,
}

impl SnapshotInfo {
    /// Converts to JSON.
    pub fn to_json(self) -> Value {
        json!({"id": self.id, "time_unix_ns": self.time_unix_ns, "bytes": self.bytes, "occupied_bytes": self.occupied_bytes})
    }

    /// Reads JSON; `None` if a field is missing.
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        Some(Self {
            id: number("id")?,
            time_unix_ns: number("time_unix_ns")?,
            bytes: number("bytes")?,
            occupied_bytes: number("occupied_bytes")?,
        })
    }
}

/// The state of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInfo {
    /// The module's name.
    pub module: String,
    /// The SHA-256 of the module's file.
    pub module_sha256: String,
    /// The host's process ID.
    pub pid: u32,
    /// The present size of the memory in bytes.
    pub memory_bytes: u64,
    /// The number of calls so far.
    pub calls: u64,
    /// The number of snapshots that are kept.
    pub snapshots: u64,
    /// The latest of them.
    pub last: Option<SnapshotInfo>,
}

impl HostInfo {
    /// Converts to JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "module": self.module,
            "module_sha256": self.module_sha256,
            "pid": self.pid,
            "memory_bytes": self.memory_bytes,
            "calls": self.calls,
            "snapshots": self.snapshots,
            "last": self.last.map(SnapshotInfo::to_json),
        })
    }

    /// Reads JSON; `None` if a field is missing.
    pub fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let number = |name: &str| value[name].as_u64();
        Some(Self {
            module: text("module")?,
            module_sha256: text("module_sha256")?,
            pid: u32::try_from(number("pid")?).ok()?,
            memory_bytes: number("memory_bytes")?,
            calls: number("calls")?,
            snapshots: number("snapshots")?,
            last: SnapshotInfo::from_json(&value["last"]),
        })
    }
}

/// A snapshot that a client can pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number, time and sizes.
    pub info: SnapshotInfo,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// Its stable memory; none if the host is too old to say.
    pub stable: Option<StableInfo>,
    /// Its sidecar.
    pub sidecar: Sidecar,
}

/// The stable memory of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StableInfo {
    /// Its length in bytes.
    pub bytes: u64,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

/// A response of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostResponse {
    /// Response to `info`.
    Info(HostInfo),
    /// Response to `create` and `update`.
    Snapshot(SnapshotInfo),
    /// Response to `call`.
    Called(CallReply),
    /// Response to `describe`.
    Described(Box<Description>),
    /// Response to `chunk`: the snapshot's number, the offset, the part.
    Chunk(u64, u64, ImagePart),
    /// The request failed.
    Failed(Failed),
}

impl HostResponse {
    /// Converts to a frame.
    pub fn to_frame(&self) -> HostFrame {
        let done = match self {
            Self::Info(info) => json!({"info": info.to_json()}),
            Self::Snapshot(info) => json!({"snapshot": info.to_json()}),
            Self::Called(answer) => {
                json!({"reply": answer.reply, "printed": answer.printed, "troubles": answer.troubles})
            }
            Self::Described(about) => json!({
                "described": about.info.to_json(), "sha256": about.sha256, "sidecar": about.sidecar.to_json(),
                "stable": about.stable.as_ref().map(|stable| json!({"bytes": stable.bytes, "sha256": stable.sha256})),
            }),
            Self::Chunk(id, offset, chunk) => {
                let numbers = [*id, *offset, chunk.zeros].map(u64::to_le_bytes);
                return HostFrame::Bytes([numbers.as_flattened(), &chunk.bytes].concat());
            }
            Self::Failed(failed) => {
                let message = json!({"failed": failed.line, "printed": failed.printed});
                return HostFrame::Json(message.to_string().into_bytes());
            }
        };
        HostFrame::Json(json!({"done": done}).to_string().into_bytes())
    }

    /// Reads a frame; the error says why it is not a response.
    pub fn from_frame(frame: HostFrame) -> Result<Self, String> {
        if let HostFrame::Bytes(content) = frame {
            let (numbers, bytes) = content.split_at_checked(24).ok_or("a part that is cut off")?;
            let number = |index: usize| {
                let bytes = numbers[index * 8..][..8].try_into().unwrap_or_default();
                u64::from_le_bytes(bytes)
            };
            return Ok(Self::Chunk(number(0), number(1), ImagePart { zeros: number(2), bytes: bytes.to_vec() }));
        }
        let message = document(&frame)?;
        let texts = |value: &Value| {
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        if let Some(line) = message["failed"].as_str() {
            return Ok(Self::Failed(Failed { line: line.to_owned(), printed: texts(&message["printed"]) }));
        }
        let done = message["done"].as_object().ok_or("an answer that says nothing")?;
        let incomplete = || "an answer that lacks something".to_owned();
        if let Some(info) = done.get("info") {
            return HostInfo::from_json(info).map(Self::Info).ok_or_else(incomplete);
        }
        if let Some(info) = done.get("snapshot") {
            return SnapshotInfo::from_json(info).map(Self::Snapshot).ok_or_else(incomplete);
        }
        if let Some(info) = done.get("described") {
            return Ok(Self::Described(Box::new(Description {
                info: SnapshotInfo::from_json(info).ok_or_else(incomplete)?,
                sha256: done.get("sha256").and_then(Value::as_str).ok_or_else(incomplete)?.to_owned(),
                stable: done.get("stable").and_then(|stable| {
                    Some(StableInfo { bytes: stable["bytes"].as_u64()?, sha256: stable["sha256"].as_str()?.to_owned() })
                }),
                sidecar: Sidecar::from_json(done.get("sidecar").unwrap_or(&Value::Null))
                    .map_err(|fault| fault.to_string())?,
            })));
        }
        if done.contains_key("reply") {
            return Ok(Self::Called(CallReply {
                reply: message["done"]["reply"].as_str().map(str::to_owned),
                printed: texts(&message["done"]["printed"]),
                troubles: texts(&message["done"]["troubles"]),
            }));
        }
        Err("an answer to nothing that was asked".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes_through(frame: &HostFrame) -> HostFrame {
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        HostFrame::read(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        for request in [
            HostRequest::Info,
            HostRequest::Create,
            HostRequest::Update,
            HostRequest::Call("open(100)".into()),
            HostRequest::Describe(None),
            HostRequest::Describe(Some(7)),
            HostRequest::Chunk { id: 1, offset: u64::MAX, memory: WhichMemory::Main },
            HostRequest::Chunk { id: 2, offset: 3, memory: WhichMemory::Stable },
        ] {
            assert_eq!(HostRequest::from_frame(&passes_through(&request.to_frame())), Ok(request));
        }
        let info = SnapshotInfo { id: 1, time_unix_ns: 2, bytes: 3, occupied_bytes: 4 };
        let sidecar = Sidecar {
            module_name: Some("m".into()),
            module_sha256: Some(String::new()),
            snapshot_id: Some(0),
            time_unix_ns: Some(0),
            memory_kind: Some("memory32".into()),
            memory_bytes: Some(0),
            ..Sidecar::default()
        };
        for response in [
            HostResponse::Snapshot(info),
            HostResponse::Called(CallReply { reply: None, printed: vec!["a".into()], troubles: vec!["b".into()] }),
            HostResponse::Chunk(1, 2, ImagePart { zeros: 3, bytes: vec![4, 5] }),
            HostResponse::Failed(Failed { line: "no".into(), printed: vec!["p".into()] }),
            HostResponse::Described(Box::new(Description {
                info,
                sha256: "00".into(),
                stable: Some(StableInfo { bytes: 5, sha256: "11".into() }),
                sidecar,
            })),
            HostResponse::Info(HostInfo {
                module: "m".into(),
                module_sha256: "s".into(),
                pid: 1,
                memory_bytes: 2,
                calls: 3,
                snapshots: 4,
                last: Some(info),
            }),
        ] {
            assert_eq!(HostResponse::from_frame(passes_through(&response.to_frame())), Ok(response));
        }
    }

    #[test]
    fn another_version_is_told_which_side_to_update() {
        let newer = HostFrame::Json(br#"{"version":2,"request":"info"}"#.to_vec());
        assert!(HostRequest::from_frame(&newer).unwrap_err().ends_with("update the host"));
    }
}
