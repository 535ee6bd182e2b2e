//! Runs one of our own commands as a process, with bounded output and a time limit.

use crate::{inherited, permitted};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at the process.
const NAP: Duration = Duration::from_millis(10);
/// The wait for the rest of the output once the process has ended. Only a descendant that has left its process group can still hold the pipe.
const REST: Duration = Duration::from_secs(2);

/// The signals that end a process, with the time since the first one. Killing is for its whole group.
type Ending = &'static [(Duration, Signal)];

/// A command that reads is killed.
pub const KILLED: Ending = &[(Duration::ZERO, Signal::KILL)];
/// `highwater record` passes the first signal on to the program; the second one ends the wait for the program's children.
pub const ASKED_TO_END: Ending =
    &[(Duration::ZERO, Signal::TERM), (Duration::from_secs(10), Signal::INT), (Duration::from_secs(20), Signal::KILL)];

/// A command to run.
pub struct Question<'a> {
    /// Its words, without `highwater`.
    pub words: &'a [OsString],
    /// The folder in which it runs.
    pub folder: &'a Path,
    /// The folders outside of which it may not look for files, as [`permitted::ONLY_BELOW`] has them.
    pub only_below: &'a OsStr,
    /// Whether it runs a program, which gets the environment that we have.
    pub runs_program: bool,
    /// The longest that it may run.
    pub limit: Duration,
    /// How it is ended.
    pub ending: Ending,
    /// The number of bytes of standard output that are kept, from its start.
    pub kept: usize,
}

/// The result of a command.
#[derive(Debug)]
pub struct Answered {
    /// The start of standard output.
    pub stdout: Kept,
    /// The end of standard error.
    pub stderr: Kept,
    /// The exit status.
    pub status: ExitStatus,
    /// True if it was ended because of its limit.
    pub is_late: bool,
}

/// A part of a text.
#[derive(Debug, Default)]
pub struct Kept {
    bytes: VecDeque<u8>,
    total: u64,
}

/// The number of bytes of standard error that are kept, from its end.
pub const KEPT_OF_STDERR: usize = 4096;

/// Which part is kept.
#[derive(Clone, Copy)]
enum Keep {
    First(usize),
    Last(usize),
}

impl Kept {
    fn add(&mut self, bytes: &[u8], keep: Keep) {
        self.total += bytes.len() as u64;
        match keep {
            Keep::First(most) => self.bytes.extend(&bytes[..bytes.len().min(most - self.bytes.len())]),
            Keep::Last(most) => {
                self.bytes.extend(bytes);
                self.bytes.drain(..self.bytes.len().saturating_sub(most));
            }
        }
    }

    /// The kept part.
    pub fn text(&self) -> String {
        let (one, other) = self.bytes.as_slices();
        String::from_utf8_lossy(&[one, other].concat()).into_owned()
    }

    /// True if a part is missing.
    pub fn is_cut(&self) -> bool {
        self.total > self.bytes.len() as u64
    }

    /// The size of the whole.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// Runs the command. `None` if it was cancelled.
pub fn ask(question: &Question<'_>, cancelled: &AtomicBool) -> io::Result<Option<Answered>> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("highwater").args(question.words).current_dir(question.folder).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env(permitted::ONLY_BELOW, question.only_below);
    if !question.runs_program {
        // No server is asked for names. A command that runs a program has an option for that.
        command.env_remove("DEBUGINFOD_URLS");
    }
    inherited::end_with_us(&mut command);
    let mut child = command.spawn()?;
    let stdout = gather(child.stdout.take(), Keep::First(question.kept));
    let stderr = gather(child.stderr.take(), Keep::Last(KEPT_OF_STDERR));
    let is_late = wait(&child, question, cancelled)?;
    if let Some(pid) = pid_of(&child) {
        // The process is not reaped yet, so the group is still its own. What it left running would hold its output open.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait()?;
    if cancelled.load(Ordering::Relaxed) {
        return Ok(None);
    }
    Ok(Some(Answered { stdout: stdout.take(), stderr: stderr.take(), status, is_late }))
}

/// Waits until the process has ended, and ends it when it is cancelled or late. Says whether it was late.
fn wait(child: &Child, question: &Question<'_>, cancelled: &AtomicBool) -> io::Result<bool> {
    let began = Instant::now();
    let mut ended_since: Option<Instant> = None;
    let mut signals = question.ending.iter().peekable();
    let mut is_late = false;
    while let Some(pid) = pid_of(child) {
        let looked = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)?;
        if looked.is_some() {
            break;
        }
        if ended_since.is_none() {
            is_late = began.elapsed() >= question.limit;
            ended_since = (is_late || cancelled.load(Ordering::Relaxed)).then(Instant::now);
        }
        if let Some(since) = ended_since
            && let Some((_, signal)) = signals.next_if(|(after, _)| since.elapsed() >= *after)
        {
            let _ = match *signal == Signal::KILL {
                true => kill_process_group(pid, *signal),
                false => kill_process(pid, *signal),
            };
        }
        std::thread::sleep(NAP);
    }
    Ok(is_late)
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Output that a thread reads.
struct Gathered {
    kept: Arc<Mutex<Kept>>,
    done: Receiver<()>,
}

/// Reads a pipe to its end, so that its writer never waits.
fn gather(pipe: Option<impl Read + Send + 'static>, keep: Keep) -> Gathered {
    let kept = Arc::new(Mutex::new(Kept::default()));
    let (at_end, done) = mpsc::channel();
    let shared = Arc::clone(&kept);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        if let Some(mut pipe) = pipe {
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..length], keep);
            }
        }
        let _ = at_end.send(());
    });
    Gathered { kept, done }
}

impl Gathered {
    fn take(self) -> Kept {
        let _ = self.done.recv_timeout(REST);
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_or_the_end_is_kept_and_all_is_counted() {
        let (mut first, mut last) = (Kept::default(), Kept::default());
        for part in ["abc", "def", "g"] {
            first.add(part.as_bytes(), Keep::First(4));
            last.add(part.as_bytes(), Keep::Last(4));
        }
        assert_eq!((first.text().as_str(), first.total()), ("abcd", 7));
        assert_eq!((last.text().as_str(), last.total()), ("defg", 7));
    }
}
