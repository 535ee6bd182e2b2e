//! Spark: the same requests on a cluster, by a Python program that this crate carries.
//!
//! # Design
//!
//! Nothing is installed: the program is one file, and Python gets it as an argument. It needs a Python with pyspark, which is half a gigabyte, so the user
//! chooses it: `$HIGHWATER_PYTHON`, or `python3`. Spark's own output stays away from the answer: it is kept, and its end is shown if Spark ends without one.

use std::ffi::OsString;
use std::io::{Read, Write as _};
use std::process::{Child, Command, Stdio};

/// The program: also the package in the folder `spark`.
const PROGRAM: &str = include_str!("../../../spark/highwater_spark/__main__.py");

/// The Python to use, if it is not `python3`.
pub const PYTHON: &str = "HIGHWATER_PYTHON";

/// How much of Spark's own output is kept: its end.
const LOG_BYTES: usize = 64 << 10;

/// A Spark: where its master is, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparkMaster {
    /// `spark://HOST:PORT`, `local[*]`, `yarn`, …
    pub master: String,
    /// Settings as `key=value`, such as `spark.executor.memory=2g`.
    pub settings: Vec<String>,
}

/// Why Spark gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum SparkError {
    /// There is no Python.
    #[error("cannot run {python}: {source}; Spark needs a Python with pyspark: pip install pyspark==4.3.0, then set HIGHWATER_PYTHON to that Python")]
    NoPython {
        /// What was to be run.
        python: String,
        /// Why it could not be run.
        source: std::io::Error,
    },
    /// The pipes to the program failed.
    #[error("Spark's program cannot be read: {0}")]
    Pipe(#[from] std::io::Error),
    /// It ended without an answer.
    #[error("Spark ended without an answer ({status}): {last_line}")]
    NoAnswer {
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last line of its own output.
        last_line: String,
    },
}

/// Ends the program with its owner, whatever happens.
struct RunningProgram(Child);

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Both fail only if it has ended. The Java machine ends with its Python: it waits for the end of its input.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl SparkMaster {
    /// The answer to a request, both as JSON.
    pub(crate) fn run(&self, request: &[u8]) -> Result<Vec<u8>, SparkError> {
        let python = std::env::var_os(PYTHON).filter(|name| !name.is_empty()).unwrap_or_else(|| OsString::from("python3"));
        let mut command = Command::new(&python);
        command.args(["-c", PROGRAM, "--master", &self.master]);
        for setting in &self.settings {
            command.args(["--conf", setting]);
        }
        // Files in the current folder are no modules.
        command.env("PYTHONSAFEPATH", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let no_python = |source| SparkError::NoPython { python: python.to_string_lossy().into_owned(), source };
        let mut program = RunningProgram(command.spawn().map_err(no_python)?);
        let (stdin, stdout, stderr) = (program.0.stdin.take(), program.0.stdout.take(), program.0.stderr.take());
        let (answer, log) = std::thread::scope(|scope| {
            // A program that ends early does not read its request: its answer says why.
            let writer = scope.spawn(move || stdin.map(|mut pipe| pipe.write_all(request)));
            let reader = scope.spawn(move || stderr.map(last_bytes).unwrap_or_default());
            let mut answer = Vec::new();
            let read = stdout.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut answer));
            let _ = writer.join();
            let log = reader.join().unwrap_or_default();
            read.map(|_| (answer, log))
        })?;
        let status = program.0.wait()?;
        if answer.trim_ascii().is_empty() {
            let text = String::from_utf8_lossy(&log);
            let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("at "));
            return Err(SparkError::NoAnswer { status, last_line: last.unwrap_or("no output").to_owned() });
        }
        Ok(answer)
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
