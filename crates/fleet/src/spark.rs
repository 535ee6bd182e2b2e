//! Spark: the same requests on a cluster, by a Python program that this crate carries.
//!
//! # Design
//!
//! Nothing is installed: the program is one file, and Python gets it as an argument. It needs a Python with pyspark, which is half a gigabyte, so the user
//! chooses it: `$HIGHWATER_PYTHON`, or `python3`. A session takes ten seconds to start, so it is kept for the next question. Spark's own output stays away from
//! the answers: its end is kept, and its last line is shown if Spark ends without an answer.

use crate::engine::FleetEngine;
use crate::error::FleetError;
use crate::protocol::{EngineAnswer, EngineRequest};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The program: also the package in the folder `spark`.
const PROGRAM: &str = include_str!("../../../spark/highwater_spark/__main__.py");

/// The environment variable that names the Python to use, if it is not `python3`.
pub const PYTHON_VARIABLE: &str = "HIGHWATER_PYTHON";

/// How much of Spark's own output is kept: its end.
const LOG_BYTES: usize = 64 << 10;
/// How often the client is asked whether it still waits.
const PAUSE: Duration = Duration::from_millis(50);
/// How long Spark may take to leave its cluster.
const GOODBYE: Duration = Duration::from_secs(20);

/// A Spark: where its master is, and its settings.
#[derive(Debug)]
pub struct SparkEngine {
    master: String,
    settings: Vec<String>,
    python: OsString,
    session: Mutex<Option<SparkSession>>,
}

impl SparkEngine {
    /// The Spark of a master: `spark://HOST:PORT`, `local[*]`, `yarn`, … Settings are `key=value`, such as `spark.executor.memory=2g`.
    pub fn new(master: String, settings: Vec<String>) -> Self {
        let python = std::env::var_os(PYTHON_VARIABLE).filter(|name| !name.is_empty());
        let python = python.unwrap_or_else(|| OsString::from("python3"));
        Self { master, settings, python, session: Mutex::default() }
    }

    /// The same with another Python.
    pub fn with_python(mut self, python: OsString) -> Self {
        self.python = python;
        self
    }

    fn start(&self) -> Result<SparkSession, FleetError> {
        let mut command = Command::new(&self.python);
        command.args(["-c", PROGRAM, "--lines", "--master", &self.master]);
        for setting in &self.settings {
            command.args(["--conf", setting]);
        }
        // Files in the current folder are no modules.
        command.env("PYTHONSAFEPATH", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let no_python = |error| {
            let python = self.python.to_string_lossy();
            FleetError::Engine(format!(
                "cannot run {python}: {error}; Spark needs a Python with pyspark: pip install pyspark==4.3.0, and set {PYTHON_VARIABLE} to that Python"
            ))
        };
        let mut child = command.spawn().map_err(no_python)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|pipe| BufReader::new(pipe).split(b'\n'));
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line).ok())
        });
        let log = std::thread::spawn(move || stderr.map(last_bytes).unwrap_or_default());
        Ok(SparkSession { requests: child.stdin.take(), child, answers, log: Some(log) })
    }
}

impl FleetEngine for SparkEngine {
    fn ask(&self, request: &EngineRequest, go_on: &dyn Fn() -> bool) -> Result<EngineAnswer, FleetError> {
        let mut kept = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out: a session that gave no answer is not used again. A kept one may have ended since: then another is started.
        let old = kept.take().and_then(|mut session| match session.answer(request, go_on) {
            Err(FleetError::Silent(_)) => None,
            answered => Some((session, answered)),
        });
        let (session, answered) = match old {
            Some(found) => found,
            None => {
                let mut session = self.start()?;
                let answered = session.answer(request, go_on);
                (session, answered)
            }
        };
        let line = answered?;
        let answer: EngineAnswer = serde_json::from_slice(&line).map_err(|_| FleetError::BadAnswer)?;
        *kept = Some(session);
        match answer.error {
            Some(error) => Err(FleetError::Engine(error)),
            None => Ok(answer),
        }
    }

    fn reads_objects(&self) -> bool {
        true
    }
}

/// A running program. It leaves the cluster when this is dropped.
#[derive(Debug)]
struct SparkSession {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<Vec<u8>>,
    log: Option<JoinHandle<Vec<u8>>>,
}

impl SparkSession {
    /// The line that answers a request.
    fn answer(&mut self, request: &EngineRequest, go_on: &dyn Fn() -> bool) -> Result<Vec<u8>, FleetError> {
        let mut line = serde_json::to_vec(request).map_err(|_| FleetError::BadAnswer)?;
        line.push(b'\n');
        // If it has ended, what it said is more than that the pipe is broken.
        let _ = self.requests.as_mut().map(|pipe| pipe.write_all(&line).and_then(|()| pipe.flush()));
        loop {
            match self.answers.recv_timeout(PAUSE) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if go_on() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    return Err(FleetError::Cancelled);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(FleetError::Silent(self.last_words())),
            }
        }
    }

    /// The last line of Spark's own output that is no part of a stack trace. Ends the program.
    fn last_words(&mut self) -> String {
        self.end();
        let log = self.log.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("at "));
        last.map_or_else(String::new, |line| format!(": {line}"))
    }

    fn end(&mut self) {
        // The end of its input is the request to leave.
        self.requests = None;
        let deadline = Instant::now() + GOODBYE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Both fail only if it has ended. The Java machine ends with its Python: it waits for the end of its input too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for SparkSession {
    fn drop(&mut self) {
        self.end();
    }
}

/// The end of a stream that may have any length.
fn last_bytes(mut stream: impl Read) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        if kept.len() > 2 * LOG_BYTES {
            kept.drain(..kept.len() - LOG_BYTES);
        }
    }
    kept
}
