//! The messages between clients and the collector. They use the same socket at which processes register: one JSON object per message, each way.
//! Long results are files, whose descriptors are attached to the answer.
//!
//! | request | answer | attached |
//! |---|---|---|
//! | `processes`: all, one `pid`, or those with a `name` | – | a JSON list of processes |
//! | `timelines`: of all, of one `pid`, or of those with a `name`; at most `bins` for each, since `last_ns` ago | – | a JSON list of timelines |
//! | `snapshot`; with `pages`, also where the resident memory is | how the cut was made | the snapshot, a `.hw` file; then contents of blocks if requested |
//! | `set` | the previous setting | |
//! | `attach`: a process into which the client has injected an agent; its memory object is attached to the request | – | |
//! | `detach`: the client is about to remove that agent | – | |
//! | `snapshots` | the limits of what is kept | a JSON list of kept snapshots |
//! | `get` | the kept snapshot's entry | the snapshot, a `.hw` file |
//! | `remove` | how many were removed | |
//!
//! An answer is `{"done": …}` or `{"failed": "one line for the user"}`. Contents of blocks are, one after the other: the address, the number of
//! bytes (both 8 bytes, little-endian), the bytes.

use crate::pages::PageDetail;
use highwater_shm::attach_v1::AttachLayout;
use highwater_shm::session_v1::Capacity;
use highwater_shm::table_v1::TableCapacity;
use serde_json::{Value, json};

/// The version of these messages. Requests carry it; a collector of another version answers which side to update.
pub const VERSION: u64 = 1;
/// The length of the longest message in bytes.
pub const LONGEST_MESSAGE: usize = 64 << 10;

/// How detailed a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Figures by site and by thread only: small, however many blocks are live.
    Sites,
    /// Every block.
    Blocks,
}

/// A selection of processes. A collector that does not know the kind of selection lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// Every process.
    #[default]
    All,
    /// Processes with this pid, now or before.
    Pid(u32),
    /// Processes whose program's file name contains this text.
    Name(String),
}

impl Which {
    /// Whether a process is selected.
    pub fn is(&self, pid: u32, name: impl FnOnce() -> String) -> bool {
        match self {
            Self::All => true,
            Self::Pid(wanted) => *wanted == pid,
            Self::Name(wanted) => name().contains(wanted),
        }
    }
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectorRequest {
    /// The list of processes. The collector examines only the selected ones.
    Processes(Which),
    /// The timelines of processes. A collector of an older version does not know this request.
    Timelines {
        /// The processes.
        which: Which,
        /// The most bins of each timeline.
        bins: u64,
        /// How long ago the timelines begin; `None` for all that is known.
        last_ns: Option<u64>,
    },
    /// The present figures of all running processes. A collector of an older version does not know this request.
    Gauges {
        /// Also how much memory is at least this old, in nanoseconds: reads the table of each process.
        survivor_age_ns: Option<u64>,
    },
    /// A snapshot of a process, now.
    Snapshot {
        /// The process, by its [`ProcessInfo::pid`].
        pid: u32,
        /// How detailed the snapshot is.
        detail: Detail,
        /// How many of the first bytes of each block to read, if any.
        contents: Option<u64>,
        /// Whether to read where the resident memory is. A collector of an older version sends no breakdown.
        pages: Option<PageDetail>,
    },
    /// Changes the sampling rate of a process.
    Set {
        /// The process.
        pid: u32,
        /// The new rate: mean bytes per sample, 0 for every block.
        sample_bytes: u64,
    },
    /// Becomes the reader of an agent that the client has injected into a running process. The memory object is attached. A collector of an older version does not know
    /// this request.
    Attach {
        /// The process.
        pid: u32,
        /// Where the parts of the object are: a layout for a live table.
        layout: AttachLayout,
        /// How to attach to the children that it starts, if that is wanted. A collector of an older version does not do so.
        children: Option<ChildOrders>,
    },
    /// The blocks that a process which was attached to had before. A file with addresses and sizes is attached.
    Older {
        /// The process.
        pid: u32,
        /// The number of frees that the agent had logged at the instant of the list.
        position: u64,
    },
    /// Forgets a process that was attached to: the client is about to remove the agent.
    Detach {
        /// The process.
        pid: u32,
    },
    /// All kept snapshots.
    Snapshots,
    /// A kept snapshot.
    Get {
        /// Its number.
        id: u64,
    },
    /// Removes kept snapshots.
    Remove {
        /// Their numbers; empty for all of them.
        ids: Vec<u64>,
    },
}

impl CollectorRequest {
    /// As a message.
    pub fn to_json(&self) -> Value {
        let mut message = match self {
            Self::Processes(Which::All) => json!({"request": "processes"}),
            Self::Processes(Which::Pid(pid)) => json!({"request": "processes", "pid": pid}),
            Self::Processes(Which::Name(name)) => json!({"request": "processes", "name": name}),
            Self::Timelines { which, bins, last_ns } => {
                let mut message = json!({"request": "timelines", "bins": bins, "last_ns": last_ns});
                match which {
                    Which::All => {}
                    Which::Pid(pid) => message["pid"] = (*pid).into(),
                    Which::Name(name) => message["name"] = name.as_str().into(),
                }
                message
            }
            Self::Gauges { survivor_age_ns } => json!({"request": "gauges", "survivor_age_ns": survivor_age_ns}),
            Self::Snapshot { pid, detail, contents, pages } => {
                let (blocks, pages) = (*detail == Detail::Blocks, pages.map(PageDetail::key));
                json!({"request": "snapshot", "pid": pid, "blocks": blocks, "contents": contents, "pages": pages})
            }
            Self::Set { pid, sample_bytes } => json!({"request": "set", "pid": pid, "sample_bytes": sample_bytes}),
            Self::Attach { pid, layout, children } => {
                let (session, table) = (layout.capacity, layout.table_capacity);
                json!({
                    "children": children.map(ChildOrders::to_json),
                    "request": "attach",
                    "pid": pid,
                    "rings": session.rings,
                    "nodes": session.nodes,
                    "shard_records": table.map(|table| table.shard_records),
                    "threads": table.map(|table| table.threads),
                })
            }
            Self::Older { pid, position } => json!({"request": "older", "pid": pid, "position": position}),
            Self::Detach { pid } => json!({"request": "detach", "pid": pid}),
            Self::Snapshots => json!({"request": "snapshots"}),
            Self::Get { id } => json!({"request": "get", "id": id}),
            Self::Remove { ids } => json!({"request": "remove", "ids": ids}),
        };
        message["version"] = VERSION.into();
        message
    }

    /// From a message. The error says what is wrong with it.
    pub fn from_json(message: &Value) -> Result<Self, String> {
        match message["version"].as_u64() {
            Some(VERSION) => {}
            Some(version) => {
                let side = if version > VERSION { "the collector" } else { "this command" };
                return Err(format!("speaks version {VERSION}, you speak version {version}: update {side}"));
            }
            None => return Err("a message without a version".into()),
        }
        let pid = || message["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).ok_or("a message without a pid");
        let which = || {
            Ok::<_, String>(match (&message["pid"], message["name"].as_str()) {
                (Value::Null, None) => Which::All,
                (Value::Null, Some(name)) => Which::Name(name.to_owned()),
                _ => Which::Pid(pid()?),
            })
        };
        Ok(match message["request"].as_str().unwrap_or_default() {
            "processes" => Self::Processes(which()?),
            "timelines" => Self::Timelines {
                which: which()?,
                bins: message["bins"].as_u64().ok_or("a message without a number of bins")?,
                last_ns: message["last_ns"].as_u64(),
            },
            "gauges" => Self::Gauges { survivor_age_ns: message["survivor_age_ns"].as_u64() },
            "snapshot" => Self::Snapshot {
                pid: pid()?,
                detail: if message["blocks"] == true { Detail::Blocks } else { Detail::Sites },
                contents: message["contents"].as_u64(),
                pages: message["pages"].as_str().map(PageDetail::from_key),
            },
            "set" => {
                let sample_bytes = message["sample_bytes"].as_u64().ok_or("a message without a rate")?;
                Self::Set { pid: pid()?, sample_bytes }
            }
            "attach" => {
                let small = |name: &str| message[name].as_u64().and_then(|number| u32::try_from(number).ok());
                let session = small("rings").zip(small("nodes")).map(|(rings, nodes)| Capacity { rings, nodes });
                let table = small("shard_records").zip(small("threads"));
                let table = table.map(|(shard_records, threads)| TableCapacity { shard_records, threads });
                let sound = session.filter(Capacity::is_sound).zip(table.filter(TableCapacity::is_sound));
                let (session, table) = sound.ok_or("a message without the layout of the agent's memory")?;
                let children = ChildOrders::from_json(&message["children"]);
                Self::Attach { pid: pid()?, layout: AttachLayout::for_live(session, table), children }
            }
            "older" => {
                let position = message["position"].as_u64().ok_or("a message without a position")?;
                Self::Older { pid: pid()?, position }
            }
            "detach" => Self::Detach { pid: pid()? },
            "snapshots" => Self::Snapshots,
            "get" => Self::Get { id: message["id"].as_u64().ok_or("a message without a number")? },
            "remove" => {
                let ids = message["ids"].as_array().ok_or("a message without numbers")?;
                Self::Remove { ids: ids.iter().filter_map(Value::as_u64).collect() }
            }
            other => return Err(format!("does not know the request {other:?}")),
        })
    }
}

/// How to attach to the children that an attached process starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildOrders {
    /// The attach, as the kernel stamps the beginnings of processes. Children that began before are left alone.
    pub since: u64,
    /// Mean bytes per sample, 0 for every block.
    pub sample_bytes: u64,
    /// Their arguments are not to be read.
    pub no_args: bool,
    /// The contents of their blocks may be read.
    pub contents: bool,
    /// The longest that their threads may be stopped while blocks from before are read, in nanoseconds; 0 leaves these unknown.
    pub pause_ns: u64,
}

impl ChildOrders {
    fn to_json(self) -> Value {
        json!({
            "since": self.since,
            "sample_bytes": self.sample_bytes,
            "no_args": self.no_args,
            "contents": self.contents,
            "pause_ns": self.pause_ns,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            since: value["since"].as_u64()?,
            sample_bytes: value["sample_bytes"].as_u64()?,
            no_args: value["no_args"].as_bool()?,
            contents: value["contents"].as_bool()?,
            pause_ns: value["pause_ns"].as_u64()?,
        })
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Live,
    /// It is gone; its table is kept.
    Exited,
    /// It uses a version that this collector cannot read, or its shared memory is invalid.
    Refused,
}

impl ProcessState {
    /// Its name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Exited => "exited",
            Self::Refused => "refused",
        }
    }
}

/// A process, as `highwater ps` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its pid.
    pub pid: u32,
    /// The pid of the process it was forked from without an exec, 0 if it was not.
    pub forked_from: u32,
    /// The executable's file name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Its state.
    pub state: ProcessState,
    /// When its table started, in nanoseconds since the Unix epoch.
    pub since_unix_ns: u64,
    /// When it was found to be gone; 0 if it is not gone.
    pub exited_unix_ns: u64,
    /// Live bytes; an estimate if not every block is in the table.
    pub live_bytes: u64,
    /// Live blocks; likewise an estimate.
    pub live_blocks: u64,
    /// Mean bytes per sample, 0 for every block.
    pub sample_bytes: u64,
    /// True if the figures are estimates.
    pub is_estimate: bool,
    /// Bytes of shared memory that its records use.
    pub table_bytes: u64,
    /// Blocks missing from the table because it was full.
    pub untracked: u64,
    /// Frees of blocks that were not in the table.
    pub unknown_frees: u64,
    /// Whether it permits reading its blocks' contents.
    pub allows_contents: bool,
    /// The version of the live table that it uses.
    pub version: u32,
    /// Why it was refused, in one line; empty if it was not.
    pub problem: String,
    /// Whether its agent was injected while it ran: blocks from before are in no figure.
    pub is_attached: bool,
}

impl ProcessInfo {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "pid": self.pid,
            "forked_from": self.forked_from,
            "name": self.name,
            "command": self.command,
            "state": self.state.key(),
            "since_unix_ns": self.since_unix_ns,
            "exited_unix_ns": self.exited_unix_ns,
            "live_bytes": self.live_bytes,
            "live_blocks": self.live_blocks,
            "sample_bytes": self.sample_bytes,
            "is_estimate": self.is_estimate,
            "table_bytes": self.table_bytes,
            "untracked": self.untracked,
            "unknown_frees": self.unknown_frees,
            "allows_contents": self.allows_contents,
            "version": self.version,
            "problem": self.problem,
            "is_attached": self.is_attached,
        })
    }

    /// From JSON; `None` if something is missing.
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            pid: small("pid")?,
            forked_from: small("forked_from")?,
            name: text("name")?,
            command: value["command"].as_array()?.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect(),
            state: [ProcessState::Live, ProcessState::Exited, ProcessState::Refused]
                .into_iter()
                .find(|state| value["state"] == state.key())?,
            since_unix_ns: number("since_unix_ns")?,
            exited_unix_ns: number("exited_unix_ns")?,
            live_bytes: number("live_bytes")?,
            live_blocks: number("live_blocks")?,
            sample_bytes: number("sample_bytes")?,
            is_estimate: value["is_estimate"].as_bool()?,
            table_bytes: number("table_bytes")?,
            untracked: number("untracked")?,
            unknown_frees: number("unknown_frees")?,
            allows_contents: value["allows_contents"].as_bool()?,
            version: small("version")?,
            problem: text("problem")?,
            // Collectors of older versions do not send this.
            is_attached: value["is_attached"].as_bool().unwrap_or(false),
        })
    }
}

/// How a snapshot's cut was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutInfo {
    /// One instant of the whole process: true unless a thread held a lock of the table for too long, in which case a reallocation
    /// may be half seen.
    pub exact: bool,
    /// The number and bytes of the live blocks found equal the process's own counts at that instant.
    pub verified: bool,
    /// True if the process is gone.
    pub exited: bool,
    /// How many attempts the snapshot needed: a program that frees very much makes it start again.
    pub attempts: u64,
    /// Nanoseconds to make the cut.
    pub cut_ns: u64,
    /// Nanoseconds until the last change that began before the cut was over.
    pub settle_ns: u64,
    /// Nanoseconds to read the table.
    pub scan_ns: u64,
    /// Blocks missing from the table because it was full.
    pub untracked: u64,
    /// Frees of blocks that were not in the table.
    pub unknown_frees: u64,
    /// Blocks whose contents could not be read: they were freed since the cut.
    pub contents_missing: u64,
    /// Nanoseconds to read the pages of the process; 0 if they were not read.
    pub pages_ns: u64,
    /// Why the pages were not read though they were requested; empty otherwise.
    pub no_pages: String,
}

impl CutInfo {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "exact": self.exact,
            "verified": self.verified,
            "exited": self.exited,
            "attempts": self.attempts,
            "cut_ns": self.cut_ns,
            "settle_ns": self.settle_ns,
            "scan_ns": self.scan_ns,
            "untracked": self.untracked,
            "unknown_frees": self.unknown_frees,
            "contents_missing": self.contents_missing,
            "pages_ns": self.pages_ns,
            "no_pages": self.no_pages,
        })
    }

    /// From JSON; `None` if something is missing.
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        let truth = |name: &str| value[name].as_bool();
        Some(Self {
            exact: truth("exact")?,
            verified: truth("verified")?,
            exited: truth("exited")?,
            attempts: number("attempts")?,
            cut_ns: number("cut_ns")?,
            settle_ns: number("settle_ns")?,
            scan_ns: number("scan_ns")?,
            untracked: number("untracked")?,
            unknown_frees: number("unknown_frees")?,
            contents_missing: number("contents_missing")?,
            // Collectors of older versions do not send these.
            pages_ns: number("pages_ns").unwrap_or(0),
            no_pages: value["no_pages"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

/// A snapshot that a program took of itself and the collector keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptInfo {
    /// Its number: a later snapshot has a larger one.
    pub id: u64,
    /// The name that the program gave it.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// The executable's file name.
    pub program: String,
    /// When it was taken, in nanoseconds since the Unix epoch.
    pub taken_unix_ns: u64,
    /// Bytes that were live.
    pub live_bytes: u64,
    /// Blocks that were live.
    pub live_blocks: u64,
    /// True if live bytes and blocks are estimates.
    pub is_estimate: bool,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl KeptInfo {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "pid": self.pid,
            "program": self.program,
            "taken_unix_ns": self.taken_unix_ns,
            "live_bytes": self.live_bytes,
            "live_blocks": self.live_blocks,
            "is_estimate": self.is_estimate,
            "file_bytes": self.file_bytes,
        })
    }

    /// From JSON; `None` if something is missing.
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            id: number("id")?,
            name: text("name")?,
            pid: u32::try_from(number("pid")?).ok()?,
            program: text("program")?,
            taken_unix_ns: number("taken_unix_ns")?,
            live_bytes: number("live_bytes")?,
            live_blocks: number("live_blocks")?,
            // A collector of an older version does not say it.
            is_estimate: value["is_estimate"].as_bool().unwrap_or_default(),
            file_bytes: number("file_bytes")?,
        })
    }
}

/// Limits of what is kept: kept snapshots, or tables of processes that are gone. The oldest are removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The maximum number.
    pub count: u64,
    /// The maximum of their bytes together.
    pub bytes: u64,
}

impl Retention {
    /// As JSON.
    pub fn to_json(self) -> Value {
        json!({"count": self.count, "bytes": self.bytes})
    }

    /// From JSON; `None` if something is missing.
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(Self { count: value["count"].as_u64()?, bytes: value["bytes"].as_u64()? })
    }
}
