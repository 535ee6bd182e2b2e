//! A host: runs a program and answers clients, one request at a time.

use crate::call::Call;
use crate::frame::{Frame, FrameError};
use crate::place::{BindError, Place};
use crate::program::{Failed, Program};
use crate::protocol::{HostInfo, Request, Response};
use crate::snapshots::Snapshots;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most clients at once.
const MOST_CLIENTS: usize = 64;
/// The longest silence of a client, after which it is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes in one part of a snapshot.
pub const CHUNK: usize = 1 << 20;
/// How often the stop flag is checked.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The running program and its snapshots.
struct State {
    program: Program,
    snapshots: Snapshots,
}

/// A host: runs a program and answers clients at a Unix socket, one request at a time.
pub struct Server {
    place: Place,
    state: Arc<Mutex<State>>,
}

/// Writes one line to the log.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

impl Server {
    /// Begins to listen. Clients that connect already wait until [`Server::serve`] runs.
    pub fn bind(path: &Path, program: Program) -> Result<Self, BindError> {
        let place = Place::new(path)?;
        Ok(Self { place, state: Arc::new(Mutex::new(State { program, snapshots: Snapshots::default() })) })
    }

    /// The path of its socket.
    pub fn socket(&self) -> &Path {
        self.place.path()
    }

    /// Answers clients until `stop` is set.
    pub fn serve(&self, stop: &AtomicBool, log: &Log) {
        let clients = Arc::new(AtomicUsize::new(0));
        while !stop.load(Ordering::Relaxed) {
            let mut ready = [PollFd::new(&self.place.listener, PollFlags::IN)];
            if !matches!(rustix::event::poll(&mut ready, Some(&NAP)), Ok(1..)) {
                continue;
            }
            let Ok((connection, _)) = self.place.listener.accept() else { continue };
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
fn attend(mut connection: &UnixStream, state: &Mutex<State>, log: &Log) {
    let prepared = connection
        .set_nonblocking(false)
        .and_then(|()| connection.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| connection.set_write_timeout(Some(PATIENCE)));
    if prepared.is_err() {
        return;
    }
    loop {
        let response = match Frame::read(&mut connection).map(|frame| Request::from_frame(&frame)) {
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

fn failed(line: String) -> Response {
    Response::Failed(Failed { line, printed: Vec::new() })
}

fn answer(request: &Request, state: &Mutex<State>, log: &Log) -> Response {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let State { program, snapshots } = &mut *state;
    match request {
        Request::Info => {
            let module = program.module();
            Response::Info(HostInfo {
                module: module.name.clone(),
                module_sha256: module.sha256.clone(),
                pid: std::process::id(),
                memory_bytes: program.memory_bytes(),
                calls: program.calls().len() as u64,
                snapshots: snapshots.count() as u64,
                last: snapshots.last().map(|last| last.info()),
            })
        }
        Request::Create | Request::Update => match snapshots.add(program, *request == Request::Update) {
            Ok(info) => {
                log(&format!("snapshot {}: {} bytes, {} of them in use", info.id, info.bytes, info.occupied_bytes));
                Response::Snapshot(info)
            }
            Err(error) => failed(format!("the snapshot cannot be taken: {error}")),
        },
        Request::Call(text) => match text.parse::<Call>() {
            Err(problem) => failed(problem),
            Ok(call) => match program.call(&call) {
                Ok(answer) => {
                    answer.printed.iter().for_each(|line| log(line));
                    log(&format!("{call} → {}", answer.reply.as_deref().unwrap_or("time passed")));
                    Response::Called(answer)
                }
                Err(problem) => {
                    problem.printed.iter().for_each(|line| log(line));
                    log(&problem.line);
                    Response::Failed(problem)
                }
            },
        },
        Request::Describe(id) => match snapshots.find(*id) {
            Ok(snapshot) => {
                // Hashing takes a while: other clients need not wait for it.
                drop(state);
                Response::Described(Box::new(snapshot.describe()))
            }
            Err(problem) => failed(problem),
        },
        &Request::Chunk { id, offset } => match snapshots.find(Some(id)) {
            Ok(snapshot) if offset < snapshot.image.bytes() => {
                drop(state);
                Response::Chunk(id, offset, snapshot.image.chunk(offset, CHUNK))
            }
            Ok(_) => failed(format!("snapshot {id} ends before byte {offset}")),
            Err(problem) => failed(problem),
        },
    }
}
