//! Recording a program and its children: one [`Course`] for each.

use crate::course::{About, Course, Finished};
use crate::listen::{Listener, Visitor};
use highwater_clock::Counter;
use highwater_shm::hello_v1::{FLAG_CHILDREN, FLAG_COUNTER, FLAG_LOSSY, FLAG_NO_MMAP, VARIABLE};
use highwater_symbols::Symbolizer;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How long a sleep lasts at the most: new processes and ended ones are noticed after it.
const NAP: Duration = Duration::from_millis(5);
/// How much is lost at the most if the recorder is killed.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// What is recorded, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The main program's recording; those of other processes lie beside it.
    pub output: PathBuf,
    /// Mean bytes per sample; everything is recorded without one.
    pub sample_rate: Option<u64>,
    /// Children are recorded too.
    pub follow_children: bool,
    /// Events are dropped, and counted, when the recorder falls behind; otherwise the program waits.
    pub lossy: bool,
    /// Mappings are recorded too.
    pub mappings: bool,
}

/// A process being recorded.
struct Running {
    course: Course,
    /// Tells when the process ends; `None` if it had ended before we could ask.
    process: Option<OwnedFd>,
}

/// Records everyone who knocks.
pub struct Recorder {
    options: Options,
    listener: Listener,
    counter: Option<Counter>,
    main: Option<u32>,
    running: Vec<Running>,
    /// Files by name that were given out, so that none is given out twice.
    to_finisher: Option<Sender<Course>>,
    finished: Receiver<Finished>,
    ending: usize,
    /// Why a process could not be recorded.
    pub problems: Vec<String>,
    /// Children that did nothing but begin another program.
    pub preludes: u64,
}

/// Where things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events of all processes so far.
    pub events: u64,
    /// Bytes live in the main program.
    pub live_bytes: u64,
    /// The most that were.
    pub peak_bytes: u64,
    /// Processes being recorded.
    pub processes: usize,
}

impl Recorder {
    /// Begins to listen.
    pub fn new(options: Options) -> io::Result<Self> {
        let (to_finisher, courses) = channel::<Course>();
        let (done, finished) = channel();
        // Finding names takes a while: others go on meanwhile.
        std::thread::Builder::new().name("names".into()).spawn(move || {
            let mut symbolizer = Symbolizer::new();
            for course in courses {
                if done.send(course.finish(&mut symbolizer)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            options,
            listener: Listener::new()?,
            counter: Counter::trusted(),
            main: None,
            running: Vec::new(),
            to_finisher: Some(to_finisher),
            finished,
            ending: 0,
            problems: Vec::new(),
            preludes: 0,
        })
    }

    /// The variable that a program's environment needs, and its value.
    pub fn variable(&self) -> (&'static str, String) {
        let flags = [
            (FLAG_COUNTER, self.counter.is_some()),
            (FLAG_CHILDREN, self.options.follow_children),
            (FLAG_LOSSY, self.options.lossy),
            (FLAG_NO_MMAP, !self.options.mappings),
        ];
        let flags: String = flags.iter().filter(|(_, set)| *set).map(|(flag, _)| char::from(*flag)).collect();
        let sample = self.options.sample_rate.unwrap_or(0);
        (VARIABLE, format!("v1;{flags};{sample};{}", self.listener.path().display()))
    }

    /// Says which process is the main program.
    pub fn set_main(&mut self, pid: u32) {
        self.main = Some(pid);
    }

    /// Whether anyone is being recorded.
    pub fn is_recording(&self) -> bool {
        !self.running.is_empty()
    }

    /// Whether those being recorded are others than the main program.
    pub fn is_waiting_for_others(&self) -> bool {
        self.running.iter().any(|running| Some(running.course.about().pid) != self.main)
    }

    /// Where things stand.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress { processes: self.running.len(), ..Progress::default() };
        for running in &self.running {
            let (totals, events) = running.course.figures();
            progress.events += events;
            if Some(running.course.about().pid) == self.main {
                progress.live_bytes = totals.figures.live_bytes();
                progress.peak_bytes = totals.figures.peak_bytes;
            }
        }
        progress
    }

    /// Takes in what was recorded, welcomes new processes, lets ended ones go; sleeps if there was little to do.
    pub fn step(&mut self) {
        let mut bytes = 0;
        // Who has ended is asked first: then nothing it wrote can be missed.
        let ended: Vec<bool> = self.running.iter().map(|running| has_ended(running.process.as_ref())).collect();
        for running in &mut self.running {
            bytes += running.course.round(false);
        }
        for index in (0..ended.len()).rev().filter(|&index| ended[index]) {
            let Running { course, .. } = self.running.remove(index);
            self.let_go(course);
        }
        while let Some(visitor) = self.listener.next() {
            self.welcome(visitor);
        }
        const MUCH: u64 = 32 << 10;
        if bytes < MUCH {
            self.sleep();
        }
    }

    fn let_go(&mut self, course: Course) {
        if let Some(finisher) = &self.to_finisher
            && finisher.send(course).is_ok()
        {
            self.ending += 1;
        }
    }

    fn welcome(&mut self, visitor: Visitor) {
        let Visitor { hello, pid, executable, command, shared } = visitor;
        let shared = match shared {
            Ok(shared) => shared,
            Err(refused) => return self.problems.push(format!("process {pid} is not recorded: {refused}")),
        };
        let process = pid_of(pid).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        self.replaced(pid);
        let about = About {
            executable,
            command,
            pid,
            parent: if hello.forked_from != 0 { hello.forked_from } else { parent_of(pid) },
            forked: hello.forked_from != 0,
            usable_sizes: true,
            sample_rate: self.options.sample_rate,
            flush_every: FLUSH_EVERY,
        };
        let path = if Some(pid) == self.main { self.options.output.clone() } else { self.path_for(&about) };
        match Course::begin(shared, about, &path, self.counter) {
            Ok(course) => self.running.push(Running { course, process }),
            Err(error) => self.problems.push(format!("{}: cannot be written: {error}", path.display())),
        }
    }

    /// A process began another program: what it did before is complete.
    fn replaced(&mut self, pid: u32) {
        let Some(index) = self.running.iter().position(|running| running.course.about().pid == pid) else { return };
        let Running { mut course, .. } = self.running.remove(index);
        if course.about().forked {
            // What lies between a fork and an exec is of no interest.
            self.preludes += 1;
            let _ = std::fs::remove_file(course.path());
            return;
        }
        if Some(pid) == self.main {
            let path = self.path_for(course.about());
            if let Err(error) = course.rename(&path) {
                self.problems.push(format!("{}: cannot be renamed: {error}", path.display()));
            }
        }
        self.let_go(course);
    }

    /// A name beside the main recording for another process: `app.hw`, `app.1234-child.hw`.
    fn path_for(&self, about: &About) -> PathBuf {
        let name = Path::new(&about.executable).file_name().map_or("unknown".into(), |name| name.to_string_lossy());
        let output = &self.options.output;
        let stem = output.file_stem().unwrap_or_default().to_string_lossy();
        let ending = output.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
        let fork = if about.forked { "-fork" } else { "" };
        (0..)
            .map(|again| if again == 0 { String::new() } else { format!("-{again}") })
            .map(|again| output.with_file_name(format!("{stem}.{}-{name}{fork}{again}{ending}", about.pid)))
            .find(|path| !path.exists())
            .unwrap_or_else(|| output.clone())
    }

    /// Sleeps until a ring fills or some milliseconds have passed.
    fn sleep(&self) {
        let Some(first) = self.running.first() else {
            let mut knocking = [PollFd::new(&self.listener, PollFlags::IN)];
            let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
            let _ = rustix::event::poll(&mut knocking, Some(&nap));
            return;
        };
        if self.running.len() > 1 {
            // Whoever is busy shall not wait for others' bells.
            return std::thread::sleep(NAP / 5);
        }
        let doorbell = first.course.doorbell();
        doorbell.store(1, Ordering::SeqCst);
        if !first.course.has_more() {
            let nap = rustix::thread::futex::Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
            let _ = rustix::thread::futex::wait(doorbell, rustix::thread::futex::Flags::empty(), 1, Some(&nap));
        } else {
            // Something is there, but not much: let it become more.
            std::thread::sleep(Duration::from_micros(200));
        }
        doorbell.store(0, Ordering::Relaxed);
    }

    /// Ends all recordings, of processes that still run too, which go on unrecorded.
    pub fn stop(&mut self) {
        for Running { course, .. } in std::mem::take(&mut self.running) {
            self.let_go(course);
        }
    }

    /// Waits for the recordings that are being completed; calls `tick` while it waits.
    pub fn finish(mut self, mut tick: impl FnMut()) -> (Vec<Finished>, Vec<String>, u64) {
        self.stop();
        self.to_finisher = None;
        let mut all = Vec::new();
        while all.len() < self.ending {
            match self.finished.recv_timeout(Duration::from_millis(100)) {
                Ok(finished) => all.push(finished),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => tick(),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        (all, self.problems, self.preludes)
    }
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn has_ended(process: Option<&OwnedFd>) -> bool {
    let Some(process) = process else { return true };
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    rustix::event::poll(&mut ended, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// The parent of a process, 0 if it cannot be told.
fn parent_of(pid: u32) -> u32 {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return 0 };
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap_or(0)
}
