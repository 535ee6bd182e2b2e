//! `highwater recorder`: the recorder of a program that records itself with the C library, which starts it (crates/preload/src/recorder_process.rs).

use crate::failure::{Failure, reason};
use crate::output::warn;
use crate::recording_file::RecordingFile;
use clap::Args;
use highwater_recorder::{Recorder, RecorderOptions};
use highwater_session::be_ended_first;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use signal_hook::consts::SIGTERM;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The arguments of `highwater recorder`.
#[derive(Debug, Args)]
pub struct RecorderArgs {
    /// The process to record; it connects by itself
    #[arg(long, value_name = "N")]
    pid: u32,
    /// The recording; replaced if it exists
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

impl RecorderArgs {
    /// Records until the process ends or asks for the end (SIGTERM).
    pub fn run(&self) -> Result<(), Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        let (mut recorder, file, process) = match self.begin() {
            Ok(begun) => begun,
            Err(error) => {
                // The program gets the number, and decides whether that is worth a word.
                answer(&format!("error {}", error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())));
                return Ok(());
            }
        };
        be_ended_first();
        answer(&format!("ok {}", recorder.variable().1));
        // Asked before each step: a program that has ended writes no more.
        let mut is_over = false;
        while !is_over {
            is_over = stop.load(Ordering::Relaxed) || has_ended(&process);
            recorder.step();
        }
        let outcome = recorder.finish(|| {});
        outcome.problems.iter().for_each(|problem| warn(problem));
        for finished in &outcome.finished {
            if let Err(error) = &finished.written {
                warn(&format!(
                    "{}: recording stopped: {}; what was written until then can be read",
                    self.output.display(),
                    reason(error)
                ));
            }
        }
        file.remove_if_empty();
        Ok(())
    }

    fn begin(&self) -> std::io::Result<(Recorder, RecordingFile, OwnedFd)> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let mut file = RecordingFile::replacing(&self.output)?;
        let options = RecorderOptions {
            output: Some(file.path.clone()),
            output_file: file.file.take(),
            mappings: true,
            free_stacks: false,
            no_args: std::env::var_os("HIGHWATER_NO_ARGS").is_some_and(|value| !value.is_empty()),
            late: true,
            ..RecorderOptions::default()
        };
        let mut recorder = Recorder::new(options).inspect_err(|_| file.remove_if_empty())?;
        recorder.set_main(self.pid);
        Ok((recorder, file, process))
    }
}

/// Sends one line to the program, which waits for it.
fn answer(line: &str) {
    let mut pipe = std::io::stdout();
    let _ = writeln!(pipe, "{line}").and_then(|()| pipe.flush());
}

fn has_ended(process: &OwnedFd) -> bool {
    const AT_ONCE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&AT_ONCE)) == Ok(1)
}
