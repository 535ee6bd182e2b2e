//! Spark: the same requests on a cluster, by a Python program that this crate carries.
//!
//! # Design
//!
//! Nothing is installed: the program is one file, and Python gets it as an argument. It needs a Python with pyspark, which is half a gigabyte, so the user
//! chooses it: `$HIGHWATER_PYTHON`, or `python3`. A session takes ten seconds to start, so it answers any number of requests. Spark's own output stays away from the
//! answers: its end is kept, and its last line is shown if Spark ends without an answer.

use crate::protocol::{EngineAnswer, EngineRequest};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The program: also the package in the folder `spark`.
const PROGRAM: &str = include_str!("../../../spark/highwater_spark/__main__.py");

/// The environment variable that names the Python to use, if it is not `python3`.
pub const PYTHON: &str = "HIGHWATER_PYTHON";

/// How much of Spark's own output is kept: its end.
const LOG_BYTES: usize = 64 << 10;

/// How long Spark may take to leave its cluster.
const GOODBYE: Duration = Duration::from_secs(20);

/// A Spark: where its master is, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparkMaster {
    /// `spark://HOST:PORT`, `local[*]`, `yarn`, …
    pub master: String,
    /// Settings as `key=value`, such as `spark.executor.memory=2g`.
    pub settings: Vec<String>,
    /// The Python; without it that of the environment variable [`PYTHON`], or `python3`.
    pub python: Option<OsString>,
}

/// Why Spark gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum SparkError {
    /// There is no Python.
    #[error(
        "cannot run {python}: {source}; Spark needs a Python with pyspark: pip install pyspark==4.3.0, and set {PYTHON} to that Python"
    )]
    NoPython {
        /// What was to be run.
        python: String,
        /// Why it could not be run.
        source: std::io::Error,
    },
    /// The program ended without an answer.
    #[error("Spark ended without an answer: {last_line}")]
    NoAnswer {
        /// The last line of its own output.
        last_line: String,
    },
    /// Spark said why it has no answer.
    #[error("Spark: {0}")]
    Failed(String),
    /// The program said something else.
    #[error("Spark's answer cannot be read: {0}")]
    BadAnswer(#[from] serde_json::Error),
}

impl SparkMaster {
    /// Starts a session: the program waits for requests. The cluster is not asked before the first one.
    pub fn start(&self) -> Result<SparkSession, SparkError> {
        let given = self.python.clone().or_else(|| std::env::var_os(PYTHON)).filter(|name| !name.is_empty());
        let python = given.unwrap_or_else(|| OsString::from("python3"));
        let mut command = Command::new(&python);
        command.args(["-c", PROGRAM, "--lines", "--master", &self.master]);
        for setting in &self.settings {
            command.args(["--conf", setting]);
        }
        // Files in the current folder are no modules.
        command.env("PYTHONSAFEPATH", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let no_python = |source| SparkError::NoPython { python: python.to_string_lossy().into_owned(), source };
        let mut child = command.spawn().map_err(no_python)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (requests, answers) = (stdin, stdout.map(BufReader::new));
        let log = std::thread::spawn(move || stderr.map(last_bytes).unwrap_or_default());
        Ok(SparkSession { child, requests, answers, log: Some(log) })
    }

    /// The answer to one request, in a session of its own.
    pub fn answer(&self, request: &EngineRequest) -> Result<EngineAnswer, SparkError> {
        self.start()?.answer(request)
    }
}

/// A running program. It leaves the cluster when this is dropped.
pub struct SparkSession {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Option<BufReader<ChildStdout>>,
    log: Option<JoinHandle<Vec<u8>>>,
}

impl SparkSession {
    /// The answer to a request.
    pub fn answer(&mut self, request: &EngineRequest) -> Result<EngineAnswer, SparkError> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // If it has ended, what it said is more than that the pipe is broken.
        let _ = self.requests.as_mut().map(|pipe| pipe.write_all(&line).and_then(|()| pipe.flush()));
        let mut text = Vec::new();
        let read = self.answers.as_mut().map(|pipe| pipe.read_until(b'\n', &mut text));
        if !matches!(read, Some(Ok(1..))) {
            return Err(SparkError::NoAnswer { last_line: self.last_words() });
        }
        let answer: EngineAnswer = serde_json::from_slice(&text)?;
        match answer.error {
            Some(error) => Err(SparkError::Failed(error)),
            None => Ok(answer),
        }
    }

    /// The last line of Spark's own output that is no part of a stack trace. Ends the program.
    fn last_words(&mut self) -> String {
        self.end();
        let log = self.log.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("at "));
        last.unwrap_or("it printed nothing").to_owned()
    }

    fn end(&mut self) {
        // The end of its input is the request to leave.
        (self.requests, self.answers) = (None, None);
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
