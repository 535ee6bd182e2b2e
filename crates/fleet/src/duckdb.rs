//! DuckDB, in the program `highwater-fleet`: a child per question, so that its crashes, its memory and its 70 MB of library stay outside.

use crate::engine::FleetEngine;
use crate::error::FleetError;
use crate::protocol::{EngineAnswer, EngineRequest};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The program's name.
pub const DUCKDB_PROGRAM: &str = "highwater-fleet";

/// How often the client is asked whether it still waits.
const PAUSE: Duration = Duration::from_millis(10);
/// The child stops itself at its time limit. It is killed if it has not done so this much later.
const PATIENCE: Duration = Duration::from_secs(15);
/// More than the rows that any question asks for.
const MOST_ANSWER: u64 = 4 << 30;
const MOST_ERRORS: u64 = 64 << 10;

/// The program that loads DuckDB's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuckDbProgram {
    program: PathBuf,
    library: Option<PathBuf>,
}

impl DuckDbProgram {
    /// The program at a path.
    pub fn new(program: PathBuf) -> Self {
        Self { program, library: None }
    }

    /// The same with a given library, wherever others are.
    pub fn with_library(mut self, library: PathBuf) -> Self {
        self.library = Some(library);
        self
    }
}

/// A child that is killed, and whose temporary files are removed, if it is dropped before its end.
struct EngineChild {
    child: Child,
    has_ended: bool,
}

impl EngineChild {
    fn try_end(&mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().ok().flatten();
        self.has_ended |= ended.is_some();
        ended
    }
}

impl Drop for EngineChild {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // The folder that the program gives to DuckDB. It is there only if the program could not remove it.
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(format!("{DUCKDB_PROGRAM}-{}", self.child.id())));
    }
}

impl FleetEngine for DuckDbProgram {
    fn ask(&self, request: &EngineRequest, go_on: &dyn Fn() -> bool) -> Result<EngineAnswer, FleetError> {
        let mut command = Command::new(&self.program);
        command.arg("--watch").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(self.library.iter().map(|library| ("HIGHWATER_DUCKDB", library)));
        let start = |error| FleetError::Start { program: self.program.display().to_string(), error };
        let mut engine = EngineChild { child: command.spawn().map_err(start)?, has_ended: false };
        let output = reader(engine.child.stdout.take(), MOST_ANSWER);
        let errors = reader(engine.child.stderr.take(), MOST_ERRORS);
        let mut line = serde_json::to_vec(request).map_err(|_| FleetError::BadAnswer)?;
        line.push(b'\n');
        // Kept open: the child ends when it is closed. A child that ended early says why on its standard output.
        let mut input = engine.child.stdin.take();
        let writer = std::thread::spawn(move || {
            let _ = input.as_mut().map(|input| input.write_all(&line).and_then(|()| input.flush()));
            input
        });
        let deadline = (request.seconds > 0).then(|| Instant::now() + Duration::from_secs(request.seconds) + PATIENCE);
        let ended = loop {
            if let Some(ended) = engine.try_end() {
                break ended;
            }
            if !go_on() {
                return Err(FleetError::Cancelled);
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(FleetError::Engine(format!("the question took longer than {} s", request.seconds)));
            }
            std::thread::sleep(PAUSE);
        };
        drop(writer.join());
        let (said, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
        let first = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if first.is_empty() {
            return Err(no_answer(ended, &errors));
        }
        let answer: EngineAnswer = serde_json::from_slice(first).map_err(|_| FleetError::BadAnswer)?;
        match answer.error {
            Some(line) => Err(FleetError::Engine(line)),
            None => Ok(answer),
        }
    }
}

fn reader(stream: Option<impl Read + Send + 'static>, most: u64) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let _ = stream.take(most).read_to_end(&mut bytes);
        }
        bytes
    })
}

fn no_answer(ended: ExitStatus, errors: &[u8]) -> FleetError {
    if let Some(signal) = ended.signal() {
        return FleetError::Killed(signal);
    }
    let errors = String::from_utf8_lossy(errors);
    let last = errors.lines().rev().map(str::trim).find(|line| !line.is_empty());
    FleetError::Silent(last.map_or_else(String::new, |line| format!(": {line}")))
}
