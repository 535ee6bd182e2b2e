//! Follows a log that grows, and renews the output repeatedly.

use super::Objects;
use crate::failure::{Failure, reason};
use crate::open::cannot_read;
use crate::output::{Output, warn};
use crate::print::screen::Screen;
use highwater_formats::objlog::{LogProgress, ObjectLogReader};
use highwater_input::regular_size;
use highwater_model::When;
use highwater_query::objects::{At, Findings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::Stdin;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the output is renewed.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time of one wait for more data.
const NAP: Duration = Duration::from_millis(50);

/// Where the log comes from.
enum Growing {
    /// A regular file: more data may follow its end.
    File(File),
    /// A pipe or similar: its end is final.
    Pipe(File),
    /// Standard input.
    Standard(Stdin),
}

impl Growing {
    fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Standard(std::io::stdin()));
        }
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        Ok(if regular_size(path).is_some() { Self::File(file) } else { Self::Pipe(file) })
    }

    /// Waits briefly for data to read. Returns false if there is none.
    fn wait(&self) -> bool {
        let fd: BorrowedFd<'_> = match self {
            Self::File(_) => return true,
            Self::Pipe(file) => file.as_fd(),
            Self::Standard(stdin) => stdin.as_fd(),
        };
        let nap = Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
        // A signal ends the wait, too.
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&nap)).is_ok_and(|ready| ready > 0)
    }

    fn read(&mut self, reader: &mut ObjectLogReader) -> std::io::Result<LogProgress> {
        match self {
            Self::File(file) | Self::Pipe(file) => reader.read(file, &mut ()),
            Self::Standard(stdin) => reader.read(stdin, &mut ()),
        }
    }
}

impl Objects {
    /// Shows the findings so far, repeatedly.
    pub(super) fn follow(&self, output: &mut Output) -> Result<(), Failure> {
        if self.at != At::When(When::End) {
            return Err(Failure::Usage("--follow is about the end; --at cannot be given with it".to_owned()));
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let mut screen = Screen::new();
        let followed = self.watch_it_grow(&stop, &mut screen, output);
        let left = screen.leave(output);
        followed.and(left)
    }

    fn watch_it_grow(&self, stop: &AtomicBool, screen: &mut Screen, output: &mut Output) -> Result<(), Failure> {
        let mut growing = Growing::open(&self.path)?;
        let mut reader = ObjectLogReader::default();
        let mut shown = None;
        let mut next_look = Instant::now() + NAP;
        while !stop.load(Ordering::Relaxed) {
            let progress = match growing.wait() {
                true => growing.read(&mut reader).map_err(|error| cannot_read(&self.path, &error))?,
                false => LogProgress::More,
            };
            if progress == LogProgress::Dry {
                if !matches!(growing, Growing::File(_)) {
                    break;
                }
                if regular_size(&self.path).is_some_and(|size| size < reader.bytes()) {
                    warn(&format!("{}: the log was cut; it is read from its start", self.path.display()));
                    growing = Growing::open(&self.path)?;
                    reader = ObjectLogReader::default();
                }
                std::thread::sleep(NAP);
            }
            if Instant::now() >= next_look {
                if shown != Some(reader.bytes()) {
                    self.show(&reader, screen, output)?;
                    shown = Some(reader.bytes());
                }
                next_look = Instant::now() + INTERVAL;
            }
        }
        reader.finish(&mut ());
        self.show(&reader, screen, output)
    }

    fn show(&self, reader: &ObjectLogReader, screen: &mut Screen, output: &mut Output) -> Result<(), Failure> {
        let findings = Findings::of(reader);
        if self.reading.json {
            output.text(&format!("{}\n", self.document(&findings)))?;
            return output.flush();
        }
        let text = self.text(&findings, output);
        screen.show(text, output)
    }
}
