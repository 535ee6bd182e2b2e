//! A host: runs a program and answers clients, one request at a time.

use crate::call::ProgramCall;
use crate::frame::{FrameError, HostFrame};
use crate::hosted::{HostState, HostedCanister, SharedState};
use crate::program::{Failed, HostedProgram, ProgramOptions};
use crate::protocol::{HostInfo, HostRequest, HostResponse};
use highwater_store::{BindError, ListeningSocket, ServerKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The socket at which a host listens.
const HOST: ServerKind = ServerKind { what: "a host", has_messages: false, waiting: 128 };
/// The most clients at once.
const MOST_CLIENTS: usize = 64;
/// The longest silence of a client, after which it is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes in one part of a snapshot.
pub const CHUNK: usize = 1 << 20;
/// How often the stop flag is checked.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A host: runs a program and answers clients at a Unix socket, one request at a time.
pub struct HostServer {
    socket: ListeningSocket,
    listener: UnixListener,
    state: SharedState,
}

/// Writes one line to the log.
pub type HostLog = Arc<dyn Fn(&str) + Send + Sync>;

impl HostServer {
    /// Begins to listen. Clients that connect already wait until [`HostServer::serve`] runs.
    pub fn bind(path: &Path, program: HostedProgram) -> Result<Self, BindError> {
        Self::share(path, HostState::new(Some(program), ProgramOptions::default()).shared())
    }

    /// The same, for a state that another server answers from as well.
    pub fn share(path: &Path, state: SharedState) -> Result<Self, BindError> {
        let socket = ListeningSocket::new(path, HOST)?;
        let listener = socket.as_fd().try_clone_to_owned().map_err(BindError::about(path))?.into();
        Ok(Self { socket, listener, state })
    }

    /// The path of its socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// Answers clients until `stop` is set.
    pub fn serve(&self, stop: &AtomicBool, log: &HostLog) {
        let clients = Arc::new(AtomicUsize::new(0));
        while !stop.load(Ordering::Relaxed) {
            let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
            if !matches!(rustix::event::poll(&mut ready, Some(&NAP)), Ok(1..)) {
                continue;
            }
            let Ok((connection, _)) = self.listener.accept() else { continue };
            if clients.load(Ordering::Relaxed) >= MOST_CLIENTS {
                log(&format!("a client was turned away: {MOST_CLIENTS} are here, which is the limit"));
                continue;
            }
            clients.fetch_add(1, Ordering::Relaxed);
            let (state, clients, log) = (Arc::clone(&self.state), Arc::clone(&clients), Arc::clone(log));
            std::thread::spawn(move || {
                attend(&connection, &state, &log);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

/// Answers one client until it disconnects.
fn attend(mut connection: &UnixStream, state: &Mutex<HostState>, log: &HostLog) {
    let prepared = connection
        .set_nonblocking(false)
        .and_then(|()| connection.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| connection.set_write_timeout(Some(PATIENCE)));
    if prepared.is_err() {
        return;
    }
    loop {
        let response = match HostFrame::read(&mut connection).map(|frame| HostRequest::from_frame(&frame)) {
            Ok(Ok(request)) => answer(&request, state, log),
            Ok(Err(problem)) => {
                log(&format!("a client sent {problem}"));
                failed(problem)
            }
            Err(FrameError::Ended | FrameError::Broken(_)) => return,
            Err(garbage) => {
                // The beginning of the next frame is unknown, so the connection ends.
                log(&format!("a client was sent away: {garbage}"));
                let _ = failed(garbage.to_string()).to_frame().write(&mut connection);
                return;
            }
        };
        if let Err(error) = response.to_frame().write(&mut connection) {
            let _ = failed(error.to_string()).to_frame().write(&mut connection);
            return;
        }
    }
}

fn failed(line: String) -> HostResponse {
    HostResponse::Failed(Failed { line, printed: Vec::new() })
}

fn answer(request: &HostRequest, state: &Mutex<HostState>, log: &HostLog) -> HostResponse {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(HostedCanister { program: Some(program), snapshots, is_stopped, .. }) = state.first() else {
        return failed("no module is installed yet; 'icp canister install' installs one".into());
    };
    match request {
        HostRequest::Info => {
            let module = program.module();
            HostResponse::Info(HostInfo {
                module: module.name.clone(),
                module_sha256: module.sha256.clone(),
                pid: std::process::id(),
                memory_bytes: program.memory_bytes(),
                calls: program.calls().len() as u64,
                snapshots: snapshots.count() as u64,
                last: snapshots.last().map(|last| last.info()),
            })
        }
        HostRequest::Create | HostRequest::Update => match snapshots.add(program, *request == HostRequest::Update) {
            Ok(info) => {
                log(&format!("snapshot {}: {} bytes, {} of them in use", info.id, info.bytes, info.occupied_bytes));
                HostResponse::Snapshot(info)
            }
            Err(error) => failed(format!("the snapshot cannot be taken: {error}")),
        },
        HostRequest::Call(_) if *is_stopped => failed("the canister is stopped; 'icp canister start' starts it".into()),
        HostRequest::Call(text) => match text.parse::<ProgramCall>() {
            Err(problem) => failed(problem),
            Ok(call) => match program.call(&call) {
                Ok(answer) => {
                    answer.printed.iter().for_each(|line| log(line));
                    log(&format!("{call} → {}", answer.reply.as_deref().unwrap_or("time passed")));
                    HostResponse::Called(answer)
                }
                Err(problem) => {
                    problem.printed.iter().for_each(|line| log(line));
                    log(&problem.line);
                    HostResponse::Failed(problem)
                }
            },
        },
        HostRequest::Describe(id) => match snapshots.find(*id) {
            Ok(snapshot) => {
                // Hashing takes a while: other clients need not wait for it.
                drop(state);
                HostResponse::Described(Box::new(snapshot.describe()))
            }
            Err(problem) => failed(problem),
        },
        &HostRequest::Chunk { id, offset, memory } => match snapshots.find(Some(id)) {
            Ok(snapshot) if offset < snapshot.memory(memory).bytes() => {
                drop(state);
                HostResponse::Chunk(id, offset, snapshot.memory(memory).chunk(offset, CHUNK))
            }
            Ok(_) => failed(format!("snapshot {id} ends before byte {offset}")),
            Err(problem) => failed(problem),
        },
    }
}
