//! The service of the collector: what it knows, and how it answers. [`server`](crate::server) receives the messages.

use crate::connection::{Connection, Done, ReceivedMessage, RequestResult};
use crate::discover::{Finding, discover, refusal, wrong_version};
use crate::older::OlderList;
use crate::pages::PageDetail;
use crate::process::{Process, shares_readably, unix_ns};
use crate::process_identity::{ProcessIdentity, exists};
use crate::protocol::{ChildOrders, CollectorRequest, Detail, KeptInfo, Which};
use crate::registry::{KnownProcess, Registry};
use crate::results::{new_result, sealed};
use crate::snapshot_store::SnapshotStore;
use crate::table::LiveTable;
use crate::take::{LiveSnapshot, SnapshotRequest};
use crate::timeline::TimelineInfo;
use highwater_clock::Counter;
use highwater_model::BreakdownReason;
use highwater_session::{AttachedMemory, Refused};
use highwater_shm::attach_v1::AttachLayout;
use highwater_shm::live_hello_v1::{DONE, LIVE_HELLO_BYTES, LONGEST_NAME, LiveHello, VERSION};
use highwater_shm::table_v1::FLAG_NO_ARGS;
use highwater_store::write_snapshot_with_breakdown;
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The answer to a program whose snapshot could not be taken.
const NOT_DONE: u8 = b'-';

/// The state of the collector: all known processes and all kept snapshots.
#[derive(Debug)]
pub struct CollectorService {
    registry: Mutex<Registry>,
    store: SnapshotStore,
    counter: Option<Counter>,
    /// Held while looking for processes, so that each process is taken over only once.
    search: Mutex<()>,
    searches: bool,
    /// The path of the collector's own socket.
    socket: PathBuf,
}

impl CollectorService {
    /// Starts with the given registry. With `searches`, it also looks for processes that have not registered.
    pub fn new(registry: Registry, store: SnapshotStore, searches: bool, socket: PathBuf) -> Self {
        let counter = Counter::trusted();
        Self { registry: Mutex::new(registry), store, counter, search: Mutex::default(), searches, socket }
    }

    /// All processes.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a process. Returns a line for the log.
    pub fn register(&self, pid: u32, hello: &LiveHello, message: ReceivedMessage) -> String {
        let about = ProcessIdentity::from_hello(pid, hello.forked_from, &message.bytes[LIVE_HELLO_BYTES..]);
        if hello.version != VERSION {
            return self.refuse(about, hello.version, wrong_version(pid, hello.version));
        }
        let table = match <[OwnedFd; 2]>::try_from(message.attached) {
            Ok([memory, control]) => LiveTable::open(memory, &control, self.counter),
            // Every registering program sends its descriptors: without them, the message did not arrive as it was sent.
            Err(_) => Err(Refused::NoDescriptors),
        };
        match table {
            Ok(table) => self.add(Process::new(about, table, VERSION), "registered"),
            Err(refused) => self.refuse(about, hello.version, refusal(pid, &refused)),
        }
    }

    fn add(&self, process: Process, how: &str) -> String {
        let process = self.registry().add(process);
        let about = process.about();
        format!("process {} ({}) {how}", about.pid, about.name())
    }

    fn refuse(&self, about: ProcessIdentity, version: u32, line: String) -> String {
        self.registry().refuse(about, version, line.clone());
        line
    }

    /// Becomes the reader of an agent that a client has injected into a running process. Returns a line for the log too.
    pub fn attach(
        &self,
        pid: u32,
        layout: AttachLayout,
        children: Option<ChildOrders>,
        attached: Vec<OwnedFd>,
    ) -> Result<String, String> {
        let refusal = |refused: Refused| refusal(pid, &refused);
        let [object] = <[OwnedFd; 1]>::try_from(attached).map_err(|_| refusal(Refused::NoDescriptors))?;
        let memory = AttachedMemory::open(&object, layout).map_err(refusal)?;
        let table = LiveTable::open_attached(object, &layout, self.counter).map_err(refusal)?;
        // A request may name any process. It must have this object mapped, and this process must be allowed to examine it.
        match shares_readably(pid, &table) {
            Ok(true) => {}
            Ok(false) => return Err(format!("process {pid} does not have this agent; nothing was done")),
            Err(error) => return Err(format!("process {pid} cannot be examined by the collector: {error}")),
        }
        let about = ProcessIdentity::found(pid);
        let about = if table.has_flag(FLAG_NO_ARGS) { about.without_arguments() } else { about };
        // An agent that was replaced has not exited.
        self.registry().forget_attached(pid);
        Ok(self.add(Process::attached(about, table, memory, children), "was attached to"))
    }

    /// Gives each injected agent a sign of life, and memory. Returns whether there is any.
    pub fn keep_attached_alive(&self) -> bool {
        // The registry is free meanwhile.
        let mut running = self.registry().running();
        running.retain(|process| process.is_attached());
        running.iter().for_each(|process| process.keep_alive());
        !running.is_empty()
    }

    /// How often [`keep_attached_alive`](Self::keep_attached_alive) is to be called.
    pub fn beat(&self) -> Duration {
        /// Signs of life, and memory.
        const BEAT: Duration = Duration::from_millis(50);
        /// A log of frees must not become full.
        const SHORT_BEAT: Duration = Duration::from_millis(10);
        let follows = self.registry().running().iter().any(|process| process.follows_older());
        if follows { SHORT_BEAT } else { BEAT }
    }

    /// Takes the list of blocks that a process had before it was attached to.
    pub fn set_older(&self, pid: u32, position: u64, attached: Vec<OwnedFd>) -> Result<Value, String> {
        let [file] = <[OwnedFd; 1]>::try_from(attached).map_err(|_| "no list is attached".to_owned())?;
        let list = OlderList::read(&File::from(file), position).ok_or("the list makes no sense")?;
        let found = self.process(pid)?.set_older(list)?;
        Ok(json!({"blocks": found.blocks, "bytes": found.bytes}))
    }

    /// Adds the present figures of each running process to its timeline.
    pub fn add_to_timelines(&self) {
        // The registry is free while the figures are read.
        let (running, known) = {
            let registry = self.registry();
            (registry.running(), registry.count())
        };
        running.iter().for_each(|process| process.add_to_timeline(known));
    }

    /// Looks for processes that have not registered, among the selected ones. Returns lines for the log.
    pub fn search(&self, which: &Which) -> Vec<String> {
        if !self.searches {
            return Vec::new();
        }
        let _alone = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |pid, identity| self.registry().knows(pid, identity);
        let findings = discover(which, self.counter, &self.socket, is_known);
        let mut lines = Vec::new();
        for finding in findings {
            match finding {
                Finding::Table(about, table) => lines.push(self.add(Process::new(about, table, VERSION), "was found")),
                Finding::Refused(about, version, line) => {
                    let is_known =
                        matches!(self.registry().find(about.pid), KnownProcess::Refused(known) if known == line);
                    if !is_known {
                        lines.push(self.refuse(about, version, line));
                    }
                }
            }
        }
        lines
    }

    /// A process by its pid, after its state has been checked.
    fn process(&self, pid: u32) -> Result<Arc<Process>, String> {
        let which = Which::Pid(pid);
        self.registry().look_after(&which);
        let is_running = |known: &KnownProcess| matches!(known, KnownProcess::Process(process) if !process.is_gone());
        let mut known = self.registry().find(pid);
        if !is_running(&known) {
            self.search(&which);
            known = self.registry().find(pid);
        }
        match known {
            KnownProcess::Process(process) => Ok(process),
            KnownProcess::Refused(line) => Err(line),
            KnownProcess::Nothing if exists(pid) => Err(format!(
                "no process {pid} is registered; 'highwater attach --pid {pid}' attaches to it, 'highwater run' starts one that is"
            )),
            KnownProcess::Nothing => Err(format!("there is no process {pid}")),
        }
    }

    /// Answers a client's request.
    pub fn answer(&self, request: &CollectorRequest) -> RequestResult {
        match request {
            CollectorRequest::Processes(which) => {
                self.registry().look_after(which);
                self.search(which);
                let infos: Vec<Value> = self.registry().infos(which).iter().map(|info| info.to_json()).collect();
                with_list(json!({}), &Value::from(infos))
            }
            CollectorRequest::Timelines { which, bins, last_ns } => {
                let since_unix_ns = last_ns.map_or(0, |last| unix_ns().saturating_sub(last));
                let processes = self.registry().processes(which);
                let bins = TimelineInfo::bins_of_each(*bins, processes.len());
                let all = processes.iter().map(|process| process.timeline(since_unix_ns, bins).to_json());
                with_list(json!({}), &all.collect())
            }
            CollectorRequest::Gauges { survivor_age_ns } => {
                let age = survivor_age_ns.map(Duration::from_nanos);
                // The registry is free while tables are read.
                let running = self.registry().running();
                let all = running.iter().filter_map(|process| Some(process.gauges(age)?.to_json()));
                with_list(json!({}), &all.collect())
            }
            &CollectorRequest::Snapshot { pid, detail, contents, pages } => {
                self.snapshot(pid, SnapshotRequest { detail, contents, pages })
            }
            &CollectorRequest::Set { pid, sample_bytes } => {
                let process = self.process(pid)?;
                if process.is_gone() {
                    return Err(format!("process {pid} is gone"));
                }
                let (before, applied) = process.set_sample_bytes(sample_bytes);
                Ok(done(json!({"before": before, "applied": applied})))
            }
            CollectorRequest::Attach { pid, .. } | CollectorRequest::Older { pid, .. } => {
                Err(format!("the memory of process {pid} is not attached"))
            }
            &CollectorRequest::Detach { pid } => {
                Ok(done(json!({"was_attached": self.registry().forget_attached(pid)})))
            }
            CollectorRequest::Snapshots => {
                let all: Vec<Value> = self.store.list().iter().map(KeptInfo::to_json).collect();
                with_list(self.store.retention().to_json(), &Value::from(all))
            }
            &CollectorRequest::Get { id } => {
                let (kept, file) = self.store.get(id).ok_or_else(|| format!("there is no kept snapshot {id}"))?;
                Ok(Done { what: kept.to_json(), attached: vec![file.into()] })
            }
            CollectorRequest::Remove { ids } => Ok(done(json!({"removed": self.store.remove(ids)}))),
        }
    }

    fn snapshot(&self, pid: u32, wanted: SnapshotRequest) -> RequestResult {
        let process = self.process(pid)?;
        if wanted.contents.is_some() && !process.allows_contents() {
            return Err(format!(
                "process {pid} does not allow its contents to be read; start it with 'highwater run --allow-contents'"
            ));
        }
        if wanted.contents.is_some() && process.is_gone() {
            return Err(format!("process {pid} is gone, and what was in its blocks with it"));
        }
        let snapshot = process.snapshot(wanted, || ()).map_err(|problem| format!("process {pid}: {problem}"))?;
        let cannot = |error: io::Error| format!("the snapshot of process {pid} cannot be written: {error}");
        let file = new_result().and_then(|file| write(file, &snapshot)).and_then(sealed).map_err(cannot)?;
        let contents = snapshot.contents.map(sealed).transpose().map_err(cannot)?;
        Ok(Done { what: snapshot.cut.to_json(), attached: [file].into_iter().chain(contents).collect() })
    }

    /// Takes the snapshot that a program requests of itself, and keeps it. Returns a line for the log. The program waits only until the cut is
    /// made.
    pub fn keep_snapshot(&self, connection: &Connection, name: &str) -> String {
        let is_answered = Cell::new(false);
        let answer = |byte| {
            is_answered.set(true);
            connection.send(&[byte], &[]);
        };
        let kept = self.try_to_keep(connection.pid, name, |is_done| answer(if is_done { DONE } else { NOT_DONE }));
        if !is_answered.get() {
            answer(NOT_DONE);
        }
        match kept {
            Ok(kept) => format!("process {} took snapshot {} ({name:?})", kept.pid, kept.id),
            Err(line) => format!("no snapshot {name:?}: {line}"),
        }
    }

    /// Calls `answer` right after the cut, with whether there will be a snapshot.
    fn try_to_keep(&self, pid: u32, name: &str, answer: impl FnOnce(bool)) -> Result<KeptInfo, String> {
        let process = self.process(pid)?;
        let (mut taken_unix_ns, mut reserved) = (0, Err(io::ErrorKind::NotFound.into()));
        let wanted = SnapshotRequest { detail: Detail::Blocks, contents: None, pages: Some(PageDetail::Rows) };
        let snapshot = process.snapshot(wanted, || {
            taken_unix_ns = unix_ns();
            // Reserved before the program continues: a later snapshot of it gets a larger number.
            reserved = self.store.reserve();
            answer(reserved.is_ok());
        });
        let cannot = |error: io::Error| format!("it cannot be kept: {error}");
        let mut snapshot = snapshot.map_err(|problem| format!("process {pid}: {problem}"))?;
        if let Some(breakdown) = &mut snapshot.breakdown {
            breakdown.reason = BreakdownReason::Mark;
        }
        let reserved = reserved.map_err(cannot)?;
        let figures = &snapshot.accounts.totals.figures;
        let about = KeptInfo {
            id: 0,
            name: name.to_owned(),
            pid,
            program: process.about().name(),
            taken_unix_ns,
            live_bytes: figures.live_bytes(),
            live_blocks: figures.live_blocks(),
            is_estimate: snapshot.source.sample_rate.is_some() || figures.is_estimate(),
            file_bytes: 0,
        };
        self.store.keep(reserved, about, |file| write(file, &snapshot)).map_err(cannot)
    }
}

/// The name that a program gave its snapshot.
pub fn name_in(message: &ReceivedMessage) -> String {
    let name = &message.bytes[LIVE_HELLO_BYTES..];
    String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]).into_owned()
}

fn write(file: File, snapshot: &LiveSnapshot) -> io::Result<File> {
    let LiveSnapshot { source, catalog, accounts, breakdown, .. } = snapshot;
    write_snapshot_with_breakdown(file, source, catalog, accounts, breakdown.as_ref()).map(|(file, _)| file)
}

fn done(what: Value) -> Done {
    Done { what, attached: Vec::new() }
}

fn with_list(what: Value, list: &Value) -> RequestResult {
    let list = list.to_string();
    let file = new_result().and_then(|mut file| {
        file.write_all(list.as_bytes())?;
        sealed(file)
    });
    let file = file.map_err(|error| format!("the list cannot be written: {error}"))?;
    Ok(Done { what, attached: vec![file] })
}
