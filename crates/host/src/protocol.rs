//! What clients and a host say to each other, in [frames](crate::frame): a request, then its answer.
//!
//! | request | answer |
//! |---|---|
//! | `info` | the module, the last snapshot, how many there are |
//! | `create`, `update` | the new snapshot |
//! | `call` | the reply, what was printed, what went wrong beside it |
//! | `describe` | a snapshot, its hash and its sidecar: by its number, or the last |
//! | `chunk` | a part of a snapshot, in a frame of bytes |
//!
//! Every request is a JSON object with the version. Answers are `{"done": …}` or `{"failed": "one line", "printed": […]}`. A part is: the
//! snapshot's number, the offset, how many zeros come first (8 bytes each, little-endian), then bytes.

use crate::frame::Frame;
use crate::image::Chunk;
use crate::program::{Answer, Failed};
use crate::sidecar::Sidecar;
use serde_json::{Value, json};

/// The version of these messages.
pub const VERSION: u64 = 1;

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How the host is.
    Info,
    /// A new snapshot.
    Create,
    /// A new snapshot in place of the last.
    Update,
    /// A call: see [`Call`](crate::call::Call).
    Call(String),
    /// A snapshot by its number, or the last.
    Describe(Option<u64>),
    /// A part of a snapshot.
    Chunk {
        /// The snapshot's number.
        id: u64,
        /// From where.
        offset: u64,
    },
}

impl Request {
    /// As a frame.
    pub fn to_frame(&self) -> Frame {
        let mut message = match self {
            Self::Info => json!({"request": "info"}),
            Self::Create => json!({"request": "create"}),
            Self::Update => json!({"request": "update"}),
            Self::Call(text) => json!({"request": "call", "call": text}),
            Self::Describe(id) => json!({"request": "describe", "id": id}),
            Self::Chunk { id, offset } => json!({"request": "chunk", "id": id, "offset": offset}),
        };
        message["version"] = VERSION.into();
        Frame::Json(message.to_string().into_bytes())
    }

    /// From a frame; what is wrong with it if it is none.
    pub fn from_frame(frame: &Frame) -> Result<Self, String> {
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
            "chunk" => Self::Chunk { id: number("id")?, offset: number("offset")? },
            other => return Err(format!("does not know the request {other:?}")),
        })
    }
}

/// The document in a frame.
fn document(frame: &Frame) -> Result<Value, String> {
    let Frame::Json(content) = frame else { return Err("bytes where a message should come".into()) };
    serde_json::from_slice(content).map_err(|error| format!("a message that is no JSON: {error}"))
}

/// A snapshot, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its number: never given twice.
    pub id: u64,
    /// When it was taken.
    pub time_unix_ns: u64,
    /// How long it is.
    pub bytes: u64,
    /// How much of it is not zero.
    pub occupied_bytes: u64,
}

impl SnapshotInfo {
    /// As JSON.
    pub fn to_json(self) -> Value {
        json!({"id": self.id, "time_unix_ns": self.time_unix_ns, "bytes": self.bytes, "occupied_bytes": self.occupied_bytes})
    }

    /// From JSON; `None` if something is missing.
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

/// How a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInfo {
    /// The module's name.
    pub module: String,
    /// The hash of its file.
    pub module_sha256: String,
    /// The host's process.
    pub pid: u32,
    /// Bytes of memory right now.
    pub memory_bytes: u64,
    /// Calls so far.
    pub calls: u64,
    /// Snapshots that are kept.
    pub snapshots: u64,
    /// The last of them.
    pub last: Option<SnapshotInfo>,
}

impl HostInfo {
    /// As JSON.
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

    /// From JSON; `None` if something is missing.
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

/// A snapshot that is to be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// In short.
    pub info: SnapshotInfo,
    /// The hash of its bytes.
    pub sha256: String,
    /// What lies beside it.
    pub sidecar: Sidecar,
}

/// What a host answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To `info`.
    Info(HostInfo),
    /// To `create` and `update`.
    Snapshot(SnapshotInfo),
    /// To `call`.
    Called(Answer),
    /// To `describe`.
    Described(Box<Description>),
    /// To `chunk`: the snapshot's number, the offset, the part.
    Chunk(u64, u64, Chunk),
    /// It could not be done.
    Failed(Failed),
}

impl Response {
    /// As a frame.
    pub fn to_frame(&self) -> Frame {
        let done = match self {
            Self::Info(info) => json!({"info": info.to_json()}),
            Self::Snapshot(info) => json!({"snapshot": info.to_json()}),
            Self::Called(answer) => {
                json!({"reply": answer.reply, "printed": answer.printed, "troubles": answer.troubles})
            }
            Self::Described(about) => json!({
                "described": about.info.to_json(), "sha256": about.sha256, "sidecar": about.sidecar.to_json(),
            }),
            Self::Chunk(id, offset, chunk) => {
                let numbers = [*id, *offset, chunk.zeros].map(u64::to_le_bytes);
                return Frame::Bytes([numbers.as_flattened(), &chunk.bytes].concat());
            }
            Self::Failed(failed) => {
                let message = json!({"failed": failed.line, "printed": failed.printed});
                return Frame::Json(message.to_string().into_bytes());
            }
        };
        Frame::Json(json!({"done": done}).to_string().into_bytes())
    }

    /// From a frame; what is wrong with it if it is none.
    pub fn from_frame(frame: Frame) -> Result<Self, String> {
        if let Frame::Bytes(content) = frame {
            let (numbers, bytes) = content.split_at_checked(24).ok_or("a part that is cut off")?;
            let number = |index: usize| {
                let bytes = numbers[index * 8..][..8].try_into().unwrap_or_default();
                u64::from_le_bytes(bytes)
            };
            return Ok(Self::Chunk(number(0), number(1), Chunk { zeros: number(2), bytes: bytes.to_vec() }));
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
                sidecar: Sidecar::from_json(done.get("sidecar").unwrap_or(&Value::Null))?,
            })));
        }
        if done.contains_key("reply") {
            return Ok(Self::Called(Answer {
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

    fn passes_through(frame: &Frame) -> Frame {
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        Frame::read(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        for request in [
            Request::Info,
            Request::Create,
            Request::Update,
            Request::Call("open(100)".into()),
            Request::Describe(None),
            Request::Describe(Some(7)),
            Request::Chunk { id: 1, offset: u64::MAX },
        ] {
            assert_eq!(Request::from_frame(&passes_through(&request.to_frame())), Ok(request));
        }
        let info = SnapshotInfo { id: 1, time_unix_ns: 2, bytes: 3, occupied_bytes: 4 };
        let sidecar = Sidecar { module_name: "m".into(), memory_kind: "memory32".into(), ..Sidecar::default() };
        for response in [
            Response::Snapshot(info),
            Response::Called(Answer { reply: None, printed: vec!["a".into()], troubles: vec!["b".into()] }),
            Response::Chunk(1, 2, Chunk { zeros: 3, bytes: vec![4, 5] }),
            Response::Failed(Failed { line: "no".into(), printed: vec!["p".into()] }),
            Response::Described(Box::new(Description { info, sha256: "00".into(), sidecar })),
            Response::Info(HostInfo {
                module: "m".into(),
                module_sha256: "s".into(),
                pid: 1,
                memory_bytes: 2,
                calls: 3,
                snapshots: 4,
                last: Some(info),
            }),
        ] {
            assert_eq!(Response::from_frame(passes_through(&response.to_frame())), Ok(response));
        }
    }

    #[test]
    fn another_version_is_told_which_side_to_update() {
        let newer = Frame::Json(br#"{"version":2,"request":"info"}"#.to_vec());
        assert!(Request::from_frame(&newer).unwrap_err().ends_with("update the host"));
    }
}
