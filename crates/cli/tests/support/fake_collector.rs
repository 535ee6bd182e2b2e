//! A collector whose answers the test defines.

use highwater_collector::protocol::{CollectorRequest, CutInfo, LONGEST_MESSAGE, ProcessInfo, ProcessState};
use highwater_model::When;
use highwater_store::{Recording, write_snapshot};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// The reply: a message, and files.
pub struct Reply {
    pub message: String,
    pub files: Vec<Vec<u8>>,
}

impl Reply {
    pub fn done(done: Value) -> Self {
        Self { message: json!({ "done": done }).to_string(), files: Vec::new() }
    }

    pub fn failed(line: &str) -> Self {
        Self { message: json!({ "failed": line }).to_string(), files: Vec::new() }
    }

    pub fn with(mut self, file: impl Into<Vec<u8>>) -> Self {
        self.files.push(file.into());
        self
    }
}

/// Listens until the test's process ends.
pub struct FakeCollector {
    pub socket: PathBuf,
    pub requests: Arc<Mutex<Vec<CollectorRequest>>>,
}

impl FakeCollector {
    pub fn new(socket: &Path, mut answer: impl FnMut(&CollectorRequest) -> Reply + Send + 'static) -> Self {
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(socket).unwrap()).unwrap();
        rustix::net::listen(&listener, 16).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&requests);
        std::thread::spawn(move || {
            while let Ok(connection) = rustix::net::accept_with(&listener, SocketFlags::CLOEXEC) {
                let mut message = vec![0; LONGEST_MESSAGE];
                let Ok((length, _)) = rustix::net::recv(&connection, &mut message, RecvFlags::empty()) else {
                    continue;
                };
                let Ok(message) = serde_json::from_slice::<Value>(&message[..length]) else { continue };
                let request = CollectorRequest::from_json(&message).unwrap();
                heard.lock().unwrap().push(request.clone());
                send(&connection, answer(&request));
            }
        });
        Self { socket: socket.to_owned(), requests }
    }

    /// The requests received, without the lists of processes.
    pub fn asked(&self) -> Vec<CollectorRequest> {
        let all = self.requests.lock().unwrap();
        all.iter().filter(|request| !matches!(request, CollectorRequest::Processes(_))).cloned().collect()
    }
}

fn send(connection: &OwnedFd, reply: Reply) {
    let files: Vec<File> = reply.files.iter().map(|content| file_of(content)).collect();
    let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    let parts = [IoSlice::new(reply.message.as_bytes())];
    // The client may have disconnected.
    let _ = rustix::net::sendmsg(connection, &parts, &mut control, SendFlags::NOSIGNAL);
}

/// A file without a name, whose position is not at its beginning.
fn file_of(content: &[u8]) -> File {
    let object = rustix::fs::memfd_create("answer", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(object);
    file.write_all(content).unwrap();
    file
}

/// A registered process.
pub fn process(pid: u32, name: &str, state: ProcessState) -> ProcessInfo {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() * 1_000_000_000;
    ProcessInfo {
        pid,
        forked_from: 0,
        name: name.into(),
        command: vec![name.into(), "--fast".into()],
        state,
        since_unix_ns: now - 200_000_000_000 + u64::from(pid),
        exited_unix_ns: 0,
        live_bytes: 5500,
        live_blocks: 3,
        sample_bytes: 0,
        is_estimate: false,
        table_bytes: 1 << 20,
        untracked: 0,
        unknown_frees: 0,
        allows_contents: true,
        version: 1,
        problem: String::new(),
        is_attached: false,
    }
}

/// A sound snapshot.
pub fn cut() -> CutInfo {
    CutInfo {
        exact: true,
        verified: true,
        exited: false,
        attempts: 1,
        cut_ns: 400,
        settle_ns: 50,
        scan_ns: 3_000_000,
        untracked: 0,
        unknown_frees: 0,
        contents_missing: 0,
        pages_ns: 0,
        no_pages: String::new(),
    }
}

/// A list, as a collector sends it.
pub fn list<T>(entries: &[T], to_json: impl Fn(&T) -> Value) -> String {
    entries.iter().map(to_json).collect::<Value>().to_string()
}

/// A recording at an instant, as a collector sends it.
pub fn snapshot_file(recording: &Path, when: &When) -> Vec<u8> {
    let recording = Recording::open(recording).unwrap();
    let snapshot = recording.snapshot(when).unwrap();
    let state = snapshot.accounts.to_state();
    write_snapshot(Vec::new(), &snapshot.source, &snapshot.catalog, &state).unwrap().0
}
