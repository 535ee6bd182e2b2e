//! A running program of an object store: requests in, answers out, within a time limit.

use super::StoreError;
use super::program_file::other_version;
use super::protocol::{StoreAnswer, StoreRequest};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The longest line that is taken from the program. A page of a listing is some hundred kilobytes.
const LONGEST_LINE: u64 = 16 << 20;
/// How long the program has to end itself: it gives up an upload that it has begun.
const FAREWELL: Duration = Duration::from_secs(6);

/// Why a program cannot be used any longer.
pub enum Broken {
    /// It ended.
    Ended,
    /// It said nothing for the time limit.
    Silent,
    /// It said something else than an answer.
    Unclear,
}

/// The program, waiting for a request.
#[derive(Debug)]
pub struct RunningProgram {
    child: Child,
    /// `None` only while the program is being ended.
    requests: Option<ChildStdin>,
    answers: Receiver<Vec<u8>>,
    patience: Duration,
    /// The store with its server.
    pub identity: String,
}

impl RunningProgram {
    /// Starts the program, which refuses here if it lacks credentials.
    pub fn start(program: &Path, uri: &str, patience: Duration) -> Result<Self, StoreError> {
        let mut command = Command::new(program);
        // In a group of its own, Ctrl-C does not end the program but this command, and then the program gives up its upload.
        command.arg(uri).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|error| super::system(program, error))?;
        let requests = child.stdin.take();
        let (sender, answers) = sync_channel(16);
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || read_lines(output, &sender));
        }
        let mut started = Self { child, requests, answers, patience, identity: String::new() };
        match started.next() {
            Ok(StoreAnswer::Ready { version, identity }) if version == env!("CARGO_PKG_VERSION") => {
                started.identity = identity;
                Ok(started)
            }
            Ok(StoreAnswer::Ready { version, .. }) => Err(other_version(&version)),
            Ok(StoreAnswer::Failed(failure)) => Err(failure.into()),
            _ => Err(StoreError::Refused(format!("{}: does not start as highwater-s3 does", program.display()))),
        }
    }

    /// Sends a request.
    pub fn send(&mut self, request: &StoreRequest) -> Result<(), Broken> {
        let mut line = serde_json::to_vec(request).map_err(|_| Broken::Unclear)?;
        line.push(b'\n');
        // The program reads requests in a thread of its own, so this does not wait for the network.
        let input = self.requests.as_mut().ok_or(Broken::Ended)?;
        input.write_all(&line).and_then(|()| input.flush()).map_err(|_| Broken::Ended)
    }

    /// The next answer.
    pub fn next(&mut self) -> Result<StoreAnswer, Broken> {
        match self.answers.recv_timeout(self.patience) {
            Ok(line) => serde_json::from_slice(&line).map_err(|_| Broken::Unclear),
            Err(RecvTimeoutError::Timeout) => Err(Broken::Silent),
            Err(RecvTimeoutError::Disconnected) => Err(Broken::Ended),
        }
    }

    /// The program's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the program at once, because it does not answer.
    pub fn kill(mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // The end of its input ends the program.
        self.requests = None;
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > FAREWELL {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn read_lines(output: ChildStdout, lines: &SyncSender<Vec<u8>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        // A line without an end was cut off with the program.
        if read.is_err() || line.pop() != Some(b'\n') || lines.send(line).is_err() {
            return;
        }
    }
}
