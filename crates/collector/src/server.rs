//! The server: one thread receives the messages of processes and clients; worker threads do the jobs that take long.

use crate::connection::{Connection, ConnectionInput, Done, LONGEST, ReceivedMessage};
use crate::job_queue::{Job, JobOutcome, JobQueue, JobTask};
use crate::protocol::{ChildOrders, CollectorRequest, Retention, Which};
use crate::registry::{KEPT_TABLES, KnownProcess, Registry};
use crate::service::{CollectorService, name_in};
use crate::snapshot_store::{KEPT_SNAPSHOTS, SnapshotStore};
use highwater_shm::live_hello_v1::{LiveHello, Purpose, VERSION};
use highwater_store::{BindError, ListeningSocket, ServerKind, prepare_directory};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use serde_json::json;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The socket at which a collector listens.
const COLLECTOR: ServerKind = ServerKind { what: "a collector", has_messages: true, waiting: 1024 };
/// The number of snapshots that are taken at once.
const WORKERS: usize = 4;
/// The maximum number of connections.
const MOST_CONNECTIONS: usize = 256;
/// How long a connection may stay silent before it is closed.
const SILENCE: Duration = Duration::from_secs(5);
/// The longest sleep. A request to stop is noticed after it.
const NAP: Duration = Duration::from_millis(250);
/// How often the figures of all processes are added to their timelines.
const TICK: Duration = Duration::from_secs(1);

/// The default socket path of this user's collector. Its directory is created if needed, and no other user can write to it.
pub fn default_socket() -> io::Result<PathBuf> {
    let path = highwater_session::default_socket();
    prepare_directory(&path).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(path)
}

/// Settings of a collector.
#[derive(Clone, Debug)]
pub struct CollectorOptions {
    /// The path of its socket.
    pub socket: PathBuf,
    /// The directory of the snapshots that programs take of themselves.
    pub snapshot_folder: PathBuf,
    /// The limits for those snapshots.
    pub kept_snapshots: Retention,
    /// The limits for the tables of processes that are gone: their number, and the bytes of their records.
    pub kept_tables: Retention,
    /// Look for processes that have not registered.
    pub searches: bool,
    /// Exit when no process has been live for this long.
    pub exit_when_idle: Option<Duration>,
}

impl CollectorOptions {
    /// The default settings.
    pub fn new(socket: PathBuf, snapshot_folder: PathBuf) -> Self {
        Self {
            socket,
            snapshot_folder,
            kept_snapshots: KEPT_SNAPSHOTS,
            kept_tables: KEPT_TABLES,
            searches: true,
            exit_when_idle: None,
        }
    }
}

/// A collector. Its socket is removed when it is dropped.
#[derive(Debug)]
pub struct CollectorServer {
    socket: ListeningSocket,
    service: CollectorService,
    queue: JobQueue,
    exit_when_idle: Option<Duration>,
}

impl CollectorServer {
    /// Begins to listen. From now on connections are accepted by the system, but no message is read before [`serve`](Self::serve).
    pub fn bind(options: CollectorOptions) -> Result<Self, BindError> {
        prepare_directory(&options.socket)?;
        let socket = ListeningSocket::new(&options.socket, COLLECTOR)?;
        let store = SnapshotStore::open(options.snapshot_folder.clone(), options.kept_snapshots)
            .map_err(BindError::about(&options.snapshot_folder))?;
        let service =
            CollectorService::new(Registry::new(options.kept_tables), store, options.searches, options.socket.clone());
        let queue = JobQueue::new().map_err(BindError::about(&options.socket))?;
        allow_many_descriptors();
        Ok(Self { socket, service, queue, exit_when_idle: options.exit_when_idle })
    }

    /// The path of its socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The running processes that were attached to, each with how to attach to its children, if that is wanted.
    pub fn attached(&self) -> Vec<(u32, Option<ChildOrders>)> {
        let running = self.service.registry().running();
        running.iter().filter(|one| one.is_attached()).map(|one| (one.about().pid, one.child_orders())).collect()
    }

    /// Whether a process that was attached to has ended, or executes another program. `None` if it was detached from.
    pub fn has_left(&self, pid: u32) -> Option<bool> {
        let mut registry = self.service.registry();
        registry.look_after(&Which::Pid(pid));
        match registry.find(pid) {
            KnownProcess::Process(process) => Some(process.is_gone()),
            KnownProcess::Refused(_) | KnownProcess::Nothing => None,
        }
    }

    /// Notes that a child of an attached process is in no figure. Its snapshots say so.
    pub fn note_lost_child(&self, parent: u32) {
        let running = self.service.registry().running();
        running.iter().filter(|one| one.about().pid == parent).for_each(|one| one.note_lost_child());
    }

    /// Runs until `stop` is set, or the collector has been idle for too long. `log` receives each event as a line for the user.
    pub fn serve(&self, stop: &AtomicBool, log: &dyn Fn(&str)) {
        self.queue.open();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                let worker = thread::Builder::new().name("snapshots".into());
                if let Err(error) = worker.spawn_scoped(scope, || self.queue.help(|job| self.do_job(job))) {
                    log(&format!("no thread for snapshots: {error}"));
                }
            }
            let keeper = thread::Builder::new().name("attached".into());
            // Not by the thread that receives messages: an answer may take longer than agents wait.
            if let Err(error) = keeper.spawn_scoped(scope, || self.keep_attached_alive(&is_over)) {
                log(&format!("no thread for attached processes: {error}"));
            }
            // Without this, the scope would wait for the workers for ever.
            let _close = CloseOnDrop(&self.queue, &is_over);
            self.receive_messages(stop, log);
        });
    }

    fn keep_attached_alive(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            let has_any = self.service.keep_attached_alive();
            thread::park_timeout(if has_any { self.service.beat() } else { NAP });
        }
    }

    fn receive_messages(&self, stop: &AtomicBool, log: &dyn Fn(&str)) {
        self.service.search(&Which::All).iter().for_each(|line| log(line));
        let mut connections: Vec<Connection> = Vec::new();
        let (mut buffer, mut last_active) = (vec![0; LONGEST], Instant::now());
        let mut next_tick = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.service.add_to_timelines();
            }
            let watches = self.service.registry().watches();
            let ready = self.wait(&watches, &connections);
            // Connections and messages come before ended processes: so a process that asks is known, and a process that ended is still heard before
            // it is noted as gone.
            if ready.visitors {
                self.accept(&mut connections);
            }
            for outcome in self.queue.outcomes() {
                outcome.line.iter().for_each(|line| log(line));
                connections.extend(outcome.connection);
            }
            let receive = |connection| self.receive(connection, &mut buffer, log);
            connections = connections.into_iter().filter_map(receive).collect();
            for index in ready.ended {
                let (pid, watch) = &watches[index];
                self.service.registry().note_ended(*pid, watch);
                log(&format!("process {pid} is gone"));
            }
            let is_active =
                !self.service.registry().is_idle() || self.queue.unfinished() > 0 || !connections.is_empty();
            if is_active {
                last_active = Instant::now();
            } else if self.exit_when_idle.is_some_and(|patience| last_active.elapsed() >= patience) {
                return log("no process is live; ending");
            }
        }
    }

    /// Sleeps until a descriptor is ready, or `NAP` is over.
    fn wait(&self, watches: &[(u32, Arc<OwnedFd>)], connections: &[Connection]) -> Ready {
        let mut all = vec![PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.queue, PollFlags::IN)];
        all.extend(watches.iter().map(|(_, watch)| PollFd::new(watch, PollFlags::IN)));
        all.extend(connections.iter().map(|connection| PollFd::new(connection, PollFlags::IN)));
        let nap = self.exit_when_idle.map_or(NAP, |patience| patience.clamp(Duration::from_millis(1), NAP));
        let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: nap.as_nanos() as i64 };
        match rustix::event::poll(&mut all, Some(&nap)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ready::default(),
            // Not enough memory, or too many descriptors: it may work later.
            Err(_) => thread::sleep(NAP),
        }
        let has_news = |index: usize| !all[index].revents().is_empty();
        let ended = (0..watches.len()).filter(|index| has_news(2 + index)).collect();
        Ready { visitors: has_news(0), ended }
    }

    fn accept(&self, connections: &mut Vec<Connection>) {
        for _ in 0..MOST_CONNECTIONS {
            match Connection::accept(&self.socket) {
                Ok(Some(connection)) if connections.len() + self.queue.unfinished() < MOST_CONNECTIONS => {
                    connections.push(connection);
                }
                // Too many connections, or a process of another user.
                Ok(_) => {}
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // The connection still waits when the loop comes back.
                    return thread::sleep(Duration::from_millis(20));
                }
                Err(_) => return,
            }
        }
    }

    /// Reads a message of a connection. Returns the connection, unless it has ended or a worker has taken it.
    fn receive(&self, mut connection: Connection, buffer: &mut [u8], log: &dyn Fn(&str)) -> Option<Connection> {
        match connection.receive(buffer) {
            ConnectionInput::Message(message) => self.take(connection, message, log),
            ConnectionInput::Nothing => (connection.last_message.elapsed() < SILENCE).then_some(connection),
            ConnectionInput::End => None,
        }
    }

    fn take(&self, connection: Connection, message: ReceivedMessage, log: &dyn Fn(&str)) -> Option<Connection> {
        if let Some(hello) = LiveHello::from_bytes(&message.bytes) {
            return self.take_hello(connection, &hello, message, log);
        }
        let request = serde_json::from_slice(&message.bytes).map_err(|_| "is sent no JSON".to_owned());
        match request.and_then(|request| CollectorRequest::from_json(&request)) {
            Ok(CollectorRequest::Attach { pid, layout, children }) => {
                let attach = AssertUnwindSafe(|| self.service.attach(pid, layout, children, message.attached));
                let done = catch_unwind(attach).unwrap_or_else(|_| Err(OUR_FAULT.to_owned()));
                log(done.as_ref().unwrap_or_else(|line| line));
                let answer = done.map(|_| Done { what: json!({}), attached: Vec::new() });
                connection.answer(answer).then_some(connection)
            }
            Ok(CollectorRequest::Older { pid, position }) => {
                let set = AssertUnwindSafe(|| self.service.set_older(pid, position, message.attached));
                let done = catch_unwind(set).unwrap_or_else(|_| Err(OUR_FAULT.to_owned()));
                let answer = done.map(|known| Done { what: known, attached: Vec::new() });
                connection.answer(answer).then_some(connection)
            }
            Ok(
                request @ (CollectorRequest::Snapshot { .. }
                | CollectorRequest::Set { .. }
                | CollectorRequest::Timelines { .. }
                | CollectorRequest::Gauges { .. }),
            ) => {
                self.queue.add(Job { connection, task: JobTask::Request(request) });
                None
            }
            Ok(request) => {
                let answer = catch_unwind(AssertUnwindSafe(|| self.service.answer(&request)));
                connection.answer(answer.unwrap_or_else(|_| Err(OUR_FAULT.to_owned()))).then_some(connection)
            }
            Err(problem) => connection.answer(Err(format!("the collector {problem}"))).then_some(connection),
        }
    }

    fn take_hello(
        &self,
        connection: Connection,
        hello: &LiveHello,
        message: ReceivedMessage,
        log: &dyn Fn(&str),
    ) -> Option<Connection> {
        if hello.purpose == Purpose::NamedSnapshot as u32 && hello.version == VERSION {
            let task = JobTask::Named(name_in(&message));
            self.queue.add(Job { connection, task });
            return None;
        }
        if hello.purpose == Purpose::Register as u32 || hello.version != VERSION {
            log(&self.service.register(connection.pid, hello, message));
        }
        None
    }

    fn do_job(&self, job: Job) -> JobOutcome {
        let Job { connection, task } = job;
        match task {
            JobTask::Request(request) => {
                let answer = catch_unwind(AssertUnwindSafe(|| self.service.answer(&request)));
                let line = answer.is_err().then(|| format!("{OUR_FAULT}: {request:?}"));
                let answered = connection.answer(answer.unwrap_or_else(|_| Err(OUR_FAULT.to_owned())));
                JobOutcome { connection: answered.then_some(connection), line }
            }
            JobTask::Named(name) => {
                let line = catch_unwind(AssertUnwindSafe(|| self.service.keep_snapshot(&connection, &name)));
                JobOutcome { connection: None, line: Some(line.unwrap_or_else(|_| OUR_FAULT.to_owned())) }
            }
        }
    }
}

const OUR_FAULT: &str = "the collector failed at this; that is a fault of ours";

impl Drop for CollectorServer {
    fn drop(&mut self) {
        self.service.registry().release();
    }
}

/// The ready descriptors.
#[derive(Debug, Default)]
struct Ready {
    /// A connection waits to be accepted.
    visitors: bool,
    /// Indices of the watched processes that ended.
    ended: Vec<usize>,
}

/// Closes the work queue when dropped, and lets the keeper of attached processes end.
struct CloseOnDrop<'a>(&'a JobQueue, &'a AtomicBool);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.1.store(true, Ordering::Relaxed);
    }
}

/// Raises the limit of open descriptors as far as the system allows: each process needs one or two.
fn allow_many_descriptors() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
