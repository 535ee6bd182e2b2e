//! The client of a collector: one connection per request, one message each way, and a time limit for each answer.

use crate::gauges::ProcessGauges;
use crate::protocol::{
    ChildOrders, CollectorRequest, CutInfo, Detail, KeptInfo, LONGEST_MESSAGE, ProcessInfo, Retention, Which,
};
use crate::results::new_result;
use crate::take::SnapshotRequest;
use crate::timeline::TimelineInfo;
use highwater_shm::attach_v1::AttachLayout;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IoSlice, IoSliceMut, Read, Seek, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pairs of words, in a file that the collector reads.
fn write_list(blocks: impl Iterator<Item = (u64, u64)>) -> io::Result<File> {
    let mut list = BufWriter::new(new_result()?);
    for (address, size) in blocks {
        list.write_all(&address.to_le_bytes())?;
        list.write_all(&size.to_le_bytes())?;
    }
    list.into_inner().map_err(io::IntoInnerError::into_error)
}

/// The time limit for an answer from memory, and for a collector that is stopped.
const LIMIT: Duration = Duration::from_secs(10);
/// The time limit for a snapshot: the largest table is read in seconds.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(60);

/// A client of a collector.
#[derive(Debug)]
pub struct CollectorClient {
    socket: PathBuf,
    /// The connection that showed that a collector listens. The first request uses it.
    connection: Option<Peer>,
    /// The time limit for each answer, if the user set one.
    limit: Option<Duration>,
}

/// A connection, and the pid of the listening process.
#[derive(Debug)]
struct Peer {
    connection: OwnedFd,
    pid: u32,
}

/// A snapshot that was taken.
#[derive(Debug)]
pub struct Taken {
    /// The snapshot: a `.hw` file, without names of functions.
    pub file: File,
    /// The first bytes of each block, if they were asked for: see [`read_contents`](crate::contents::read_contents).
    pub contents: Option<File>,
    /// How the cut was made.
    pub cut: CutInfo,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum CollectorError {
    /// No collector listens at this path.
    Nobody(PathBuf),
    /// This process may not connect.
    Forbidden(PathBuf),
    /// The listening process belongs neither to this user nor to the superuser.
    Stranger {
        /// The socket's path.
        socket: PathBuf,
        /// The user of the listening process.
        user: u32,
    },
    /// The path cannot be that of a socket.
    NoPath(PathBuf),
    /// A system call failed.
    System(PathBuf, io::Error),
    /// The collector closed the connection without an answer.
    Closed(PathBuf),
    /// The collector did not answer in time.
    TooLate {
        /// The socket's path.
        socket: PathBuf,
        /// How long the client waited.
        waited: Duration,
        /// The collector's pid, if that process is stopped.
        stopped: Option<u32>,
    },
    /// The collector could not do it: its message for the user, one line.
    Failed(String),
    /// The answer is malformed.
    Nonsense(&'static str),
}

impl fmt::Display for CollectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody(path) => write!(
                f,
                "no collector listens at {}; start one with 'highwater collector', or a program with 'highwater run'",
                path.display()
            ),
            Self::Closed(path) => write!(
                f,
                "the collector at {} closed the connection without an answer: it was ended, or it is another user's, who alone is answered",
                path.display()
            ),
            Self::Forbidden(path) => write!(
                f,
                "{}: permission denied; a collector answers its own user and the superuser only",
                path.display()
            ),
            Self::Stranger { socket, user } => write!(
                f,
                "{}: another user (number {user}) listens there, and is not believed; name another place with --socket",
                socket.display()
            ),
            Self::NoPath(path) => {
                write!(f, "{}: no socket can have this path; it may be at most 107 bytes long", path.display())
            }
            Self::System(path, error) => {
                let text = error.to_string();
                write!(f, "{}: {}", path.display(), text.split(" (os error").next().unwrap_or(&text))
            }
            Self::TooLate { socket, waited, stopped: Some(pid) } => write!(
                f,
                "the collector at {} has not answered for {waited:?}: its process {pid} is stopped; 'kill -CONT {pid}' lets it go on",
                socket.display()
            ),
            Self::TooLate { socket, waited, stopped: None } => write!(
                f,
                "the collector at {} has not answered for {waited:?}; it may be busy: --timeout waits longer",
                socket.display()
            ),
            Self::Failed(line) => f.write_str(line),
            Self::Nonsense(what) => write!(f, "the collector's answer makes no sense: {what}"),
        }
    }
}

impl std::error::Error for CollectorError {}

/// A received answer: its `done` value, and the attached files.
struct ReceivedAnswer {
    done: Value,
    attached: std::vec::IntoIter<OwnedFd>,
}

impl ReceivedAnswer {
    /// The next attached file, from its beginning.
    fn file(&mut self) -> Result<File, CollectorError> {
        let mut file = File::from(self.attached.next().ok_or(CollectorError::Nonsense("nothing is attached"))?);
        file.rewind().map_err(|_| CollectorError::Nonsense("what is attached is no file"))?;
        Ok(file)
    }

    /// The attached list.
    fn list<T>(&mut self, entry: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, CollectorError> {
        let mut text = Vec::new();
        self.file()?.read_to_end(&mut text).map_err(|_| CollectorError::Nonsense("the list cannot be read"))?;
        let list: Value = serde_json::from_slice(&text).map_err(|_| CollectorError::Nonsense("the list is no JSON"))?;
        let entries = list.as_array().and_then(|list| list.iter().map(entry).collect());
        entries.ok_or(CollectorError::Nonsense("something is missing in the list"))
    }
}

impl CollectorClient {
    /// Connects, to make sure that a collector listens.
    pub fn connect(socket: &Path) -> Result<Self, CollectorError> {
        Self::with_limit(socket, None)
    }

    /// As [`connect`](Self::connect), with a time limit for each answer.
    pub fn with_limit(socket: &Path, limit: Option<Duration>) -> Result<Self, CollectorError> {
        let connection = Some(connection_to(socket, limit.unwrap_or(LIMIT))?);
        Ok(Self { socket: socket.to_owned(), connection, limit })
    }

    /// All processes.
    pub fn processes(&mut self) -> Result<Vec<ProcessInfo>, CollectorError> {
        self.processes_among(&Which::All)
    }

    /// The selected processes. Others cost the collector nothing. A collector of an older version returns all.
    pub fn processes_among(&mut self, which: &Which) -> Result<Vec<ProcessInfo>, CollectorError> {
        self.ask(&CollectorRequest::Processes(which.clone()))?.list(ProcessInfo::from_json)
    }

    /// The timelines of the selected processes: at most `bins` bins each, of the last `last_ns` nanoseconds or of all that is known. A collector of an older
    /// version fails.
    pub fn timelines(
        &mut self,
        which: &Which,
        bins: u64,
        last_ns: Option<u64>,
    ) -> Result<Vec<TimelineInfo>, CollectorError> {
        let request = CollectorRequest::Timelines { which: which.clone(), bins, last_ns };
        self.ask(&request)?.list(TimelineInfo::from_json)
    }

    /// The present figures of all running processes, and with an age how much of their memory is at least that old. A collector of an older version fails.
    pub fn gauges(&mut self, survivor_age: Option<Duration>) -> Result<Vec<ProcessGauges>, CollectorError> {
        let survivor_age_ns = survivor_age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        self.ask(&CollectorRequest::Gauges { survivor_age_ns })?.list(ProcessGauges::from_json)
    }

    /// A snapshot of a process, now. With `contents`, also the first `contents` bytes of each block.
    pub fn snapshot(&mut self, pid: u32, detail: Detail, contents: Option<u64>) -> Result<Taken, CollectorError> {
        self.snapshot_with(pid, SnapshotRequest { detail, contents, pages: None })
    }

    /// A snapshot of a process, now, with everything that is wanted. Without a breakdown, [`CutInfo::no_pages`] says why; a collector of an older version does
    /// not say anything.
    pub fn snapshot_with(&mut self, pid: u32, wanted: SnapshotRequest) -> Result<Taken, CollectorError> {
        let SnapshotRequest { detail, contents, pages } = wanted;
        let mut answer = self.ask(&CollectorRequest::Snapshot { pid, detail, contents, pages })?;
        let cut =
            CutInfo::from_json(&answer.done).ok_or(CollectorError::Nonsense("how the cut was made is missing"))?;
        let file = answer.file()?;
        let contents = contents.map(|_| answer.file()).transpose()?;
        Ok(Taken { file, contents, cut })
    }

    /// Changes the sampling rate of a process. Returns the previous rate, and whether the new one is already in force.
    pub fn set_sample(&mut self, pid: u32, sample_bytes: u64) -> Result<(u64, bool), CollectorError> {
        let done = self.ask(&CollectorRequest::Set { pid, sample_bytes })?.done;
        let known = done["before"].as_u64().zip(done["applied"].as_bool());
        known.ok_or(CollectorError::Nonsense("what was in force before is missing"))
    }

    /// Hands the memory object of an agent over that was injected into a running process: the collector is its reader from now on.
    /// Children are attached to as well, if there are orders for them.
    pub fn attach(
        &mut self,
        pid: u32,
        layout: AttachLayout,
        children: Option<ChildOrders>,
        object: BorrowedFd<'_>,
    ) -> Result<(), CollectorError> {
        self.ask_with(&CollectorRequest::Attach { pid, layout, children }, &[object]).map(drop)
    }

    /// Hands over what was found in the heap of a process that was attached to: addresses and sizes in the order of addresses, as of the instant at which the agent had
    /// logged `position` frees. Returns the number of blocks that are older than the attach, and their bytes.
    pub fn set_older(
        &mut self,
        pid: u32,
        position: u64,
        blocks: impl Iterator<Item = (u64, u64)>,
    ) -> Result<(u64, u64), CollectorError> {
        let list = write_list(blocks).map_err(|error| CollectorError::Failed(format!("no list was made: {error}")))?;
        let done = self.ask_with(&CollectorRequest::Older { pid, position }, &[list.as_fd()])?.done;
        let found = done["blocks"].as_u64().zip(done["bytes"].as_u64());
        found.ok_or(CollectorError::Nonsense("the number of older blocks is missing"))
    }

    /// Has the collector forget a process that was attached to. Returns whether it knew it.
    pub fn detach(&mut self, pid: u32) -> Result<bool, CollectorError> {
        let done = self.ask(&CollectorRequest::Detach { pid })?.done;
        done["was_attached"].as_bool().ok_or(CollectorError::Nonsense("whether it was attached is missing"))
    }

    /// All kept snapshots, oldest first, and the limits of what is kept.
    pub fn kept(&mut self) -> Result<(Vec<KeptInfo>, Retention), CollectorError> {
        let mut answer = self.ask(&CollectorRequest::Snapshots)?;
        let most = Retention::from_json(&answer.done).ok_or(CollectorError::Nonsense("what is kept is missing"))?;
        let mut kept = answer.list(KeptInfo::from_json)?;
        kept.sort_by_key(|kept| kept.id);
        Ok((kept, most))
    }

    /// A kept snapshot.
    pub fn get(&mut self, id: u64) -> Result<(KeptInfo, File), CollectorError> {
        let mut answer = self.ask(&CollectorRequest::Get { id })?;
        let kept =
            KeptInfo::from_json(&answer.done).ok_or(CollectorError::Nonsense("the snapshot's entry is missing"))?;
        Ok((kept, answer.file()?))
    }

    /// Removes kept snapshots, all of them if `ids` is empty. Returns how many were removed.
    pub fn remove(&mut self, ids: &[u64]) -> Result<u64, CollectorError> {
        let done = self.ask(&CollectorRequest::Remove { ids: ids.to_vec() })?.done;
        done["removed"].as_u64().ok_or(CollectorError::Nonsense("how many were removed is missing"))
    }

    fn ask(&mut self, request: &CollectorRequest) -> Result<ReceivedAnswer, CollectorError> {
        self.ask_with(request, &[])
    }

    fn ask_with(
        &mut self,
        request: &CollectorRequest,
        files: &[BorrowedFd<'_>],
    ) -> Result<ReceivedAnswer, CollectorError> {
        let reads_tables = matches!(request, CollectorRequest::Snapshot { .. } | CollectorRequest::Gauges { .. });
        let limit = self.limit.unwrap_or(if reads_tables { SNAPSHOT_LIMIT } else { LIMIT });
        let peer = match self.connection.take() {
            Some(peer) => peer,
            None => connection_to(&self.socket, self.limit.unwrap_or(LIMIT))?,
        };
        let connection = &peer.connection;
        let message = request.to_json().to_string();
        if message.len() > LONGEST_MESSAGE {
            return Err(CollectorError::Failed("too much for one request; ask for less at a time".into()));
        }
        send(connection, message.as_bytes(), files).map_err(|error| self.went(error))?;
        self.wait_for_answer(&peer, limit)?;
        let (text, attached) = self.receive(connection)?;
        let mut answer: Value = serde_json::from_slice(&text).map_err(|_| CollectorError::Nonsense("it is no JSON"))?;
        if let Some(line) = answer["failed"].as_str() {
            return Err(CollectorError::Failed(line.to_owned()));
        }
        match answer.get_mut("done") {
            Some(done) => Ok(ReceivedAnswer { done: done.take(), attached: attached.into_iter() }),
            None => Err(CollectorError::Nonsense("it is neither done nor failed")),
        }
    }

    /// Waits for the answer, until it arrives or the time limit is over. A signal does not restart the time.
    fn wait_for_answer(&self, peer: &Peer, limit: Duration) -> Result<(), CollectorError> {
        const LOOK: Duration = Duration::from_millis(250);
        let began = Instant::now();
        loop {
            let waited = began.elapsed();
            let left = limit.saturating_sub(waited);
            // A slow collector may need the whole limit; for a stopped one, waiting longer is useless.
            let stopped = (waited >= limit.min(LIMIT)).then_some(peer.pid).filter(|&pid| is_stopped(pid));
            if left.is_zero() || stopped.is_some() {
                let waited = Duration::from_secs_f64((waited.as_secs_f64() * 10.0).round() / 10.0);
                return Err(CollectorError::TooLate { socket: self.socket.clone(), waited, stopped });
            }
            let step = left.min(LOOK);
            let step = rustix::time::Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
            let mut waits = [PollFd::new(&peer.connection, PollFlags::IN)];
            match rustix::event::poll(&mut waits, Some(&step)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(self.went(error)),
            }
        }
    }

    fn receive(&self, connection: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), CollectorError> {
        let mut text = vec![0; LONGEST_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut text)];
        let received = retry_on_intr(|| rustix::net::recvmsg(connection, parts, &mut control, RecvFlags::CMSG_CLOEXEC))
            .map_err(|error| self.went(error))?;
        let attached = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let attached = attached.collect();
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(CollectorError::Nonsense("it is too long"));
        }
        if received.bytes == 0 {
            return Err(CollectorError::Closed(self.socket.clone()));
        }
        text.truncate(received.bytes);
        Ok((text, attached))
    }

    /// Converts an error of the system.
    fn went(&self, error: Errno) -> CollectorError {
        meaning_of(&self.socket, error, self.limit.unwrap_or(LIMIT))
    }
}

fn send(connection: &OwnedFd, message: &[u8], files: &[BorrowedFd<'_>]) -> rustix::io::Result<usize> {
    retry_on_intr(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(Errno::INVAL);
        }
        rustix::net::sendmsg(connection, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)
    })
}

fn connection_to(path: &Path, limit: Duration) -> Result<Peer, CollectorError> {
    let went = |error| meaning_of(path, error, limit);
    let address =
        SocketAddrUnix::new(path.as_os_str().as_bytes()).map_err(|_| CollectorError::NoPath(path.to_owned()))?;
    let connection = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(went)?;
    for direction in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&connection, direction, Some(limit)).map_err(went)?;
    }
    retry_on_intr(|| rustix::net::connect(&connection, &address)).map_err(went)?;
    let peer = socket_peercred(&connection).map_err(went)?;
    if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
        return Err(CollectorError::Stranger { socket: path.to_owned(), user: peer.uid.as_raw() });
    }
    Ok(Peer { connection, pid: peer.pid.as_raw_pid().cast_unsigned() })
}

/// Whether a process is stopped, by SIGSTOP or by a debugger.
fn is_stopped(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
    matches!(state.trim().chars().next(), Some('T' | 't'))
}

fn meaning_of(path: &Path, error: Errno, limit: Duration) -> CollectorError {
    let path = path.to_owned();
    match error {
        Errno::PIPE | Errno::CONNRESET => CollectorError::Closed(path),
        // A plain file in place of the socket also refuses connections.
        Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR => CollectorError::Nobody(path),
        Errno::ACCESS | Errno::PERM => CollectorError::Forbidden(path),
        Errno::AGAIN => CollectorError::TooLate { socket: path, waited: limit, stopped: None },
        error => CollectorError::System(path, error.into()),
    }
}
