//! Recording a program and its children: one [`ProcessRecording`] for each.

use crate::breakdowns::BreakdownWorker;
use crate::children::ChildFiles;
use crate::listen::{Listener, Visitor};
use crate::process_recording::{Finished, Outputs, ProcessRecording, RecordedProcess};
use crate::resident::RssEvery;
use crate::stream::{Namer, StreamTo, Streaming, Wire, spawn};
use highwater_clock::{Counter, Measurement};
use highwater_model::{Nanos, program_name};
use highwater_session::{AGENT_VARIABLE, AgentConfig};
use highwater_session::{Reason, UnrecordedPrograms};
use highwater_session::{SessionMemory, allocator_of};
use highwater_store::is_special;
use highwater_symbols::{DebuginfodServers, Symbolizer};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Sleep between rounds: a thread that does nothing but allocate takes longer to fill its ring.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// Sleep between rounds after [`QUIET_ROUNDS`] rounds that read little: waking up costs some 50 µs of processor time. A program that suddenly does
/// nothing but allocate then waits once until the sleep ends.
const LONG_NAP: Duration = Duration::from_millis(10);
/// A round that reads fewer bytes than this reads little.
const LITTLE: u64 = 4 << 10;
/// The number of rounds that read little before sleeps become long.
const QUIET_ROUNDS: u32 = 16;
/// After a round that reads at least this number of bytes there is no sleep.
const MUCH: u64 = 32 << 10;
/// How often the file is flushed. A recorder that is killed loses the events since the last flush, and the records in the rings.
const FLUSH_EVERY: Duration = Duration::from_millis(250);

/// What to record, and the outputs.
#[derive(Debug, Default)]
pub struct RecorderOptions {
    /// The main program's recording; those of other processes lie in a folder beside it ([`children_folder`](crate::children_folder)).
    pub output: Option<PathBuf>,
    /// The file at that path, still empty.
    pub output_file: Option<File>,
    /// Recordings of other processes are kept if at least this many bytes were live at their peak.
    pub keep_children: u64,
    /// Mean bytes per sample; everything is recorded without one.
    pub sample_rate: Option<u64>,
    /// Children are recorded too.
    pub follow_children: bool,
    /// Events are dropped, and counted, when the recorder cannot keep up; otherwise the program waits.
    pub lossy: bool,
    /// Mappings are recorded too.
    pub mappings: bool,
    /// Recordings name programs without their arguments.
    pub no_args: bool,
    /// Stacks of frees are recorded too.
    pub free_stacks: bool,
    /// The program began before its recording: it has blocks that the recording does not know.
    pub late: bool,
    /// A text about the run that every recording keeps.
    pub context: String,
    /// How often the resident memory of processes is read.
    pub rss_every: RssEvery,
    /// The servers that are asked for debug files.
    pub debuginfod: DebuginfodServers,
}

/// The streams of recordings: their destination, their format, and the thread that finds names.
struct StreamSettings {
    to: StreamTo,
    wire: Wire,
    namer: Namer,
}

/// A process being recorded.
struct RunningRecording {
    recording: ProcessRecording,
    /// A pidfd, readable when the process has ended; `None` if it had ended before the recorder could open one.
    process: Option<OwnedFd>,
    /// Its recording is complete: no more records are wanted.
    is_complete: bool,
    /// The process has executed another program meanwhile.
    was_replaced: bool,
}

/// Records every process whose agent connects.
pub struct Recorder {
    options: RecorderOptions,
    streams: Option<StreamSettings>,
    /// `None` if no pages are read.
    breakdown_worker: Option<BreakdownWorker>,
    /// `None` once no new process is accepted.
    listener: Option<Listener>,
    agent_variable: String,
    /// The processor's counter, measured at its first use.
    counter: OnceCell<Option<Counter>>,
    measurement: Option<Measurement>,
    main: Option<u32>,
    main_has_begun: bool,
    running: Vec<RunningRecording>,
    /// Sleep before the next round.
    nap: Duration,
    /// Consecutive rounds that read little.
    quiet_rounds: u32,
    /// Whether the main program ran already when its recording began.
    is_attached: bool,
    to_finisher: Option<Sender<(ProcessRecording, bool)>>,
    finished: Receiver<Finished>,
    ending: usize,
    children: Option<ChildFiles>,
    problems: Vec<String>,
    preludes: u64,
    small: u64,
    /// Unrecorded programs that are in no recording's notes.
    unrecorded: UnrecordedPrograms,
    main_unrecorded: Option<Reason>,
}

/// The results of all processes that connected.
#[derive(Debug, Default)]
pub struct RecordingOutcome {
    /// The recordings.
    pub finished: Vec<Finished>,
    /// Why a process could not be recorded.
    pub problems: Vec<String>,
    /// Forked children that only executed another program.
    pub preludes: u64,
    /// Children whose recordings were not kept, because their peak was too small.
    pub small: u64,
    /// Programs that were started and are not recorded.
    pub unrecorded: UnrecordedPrograms,
    /// Why the main program itself is not recorded.
    pub main_unrecorded: Option<Reason>,
}

/// The current state, for a status line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingProgress {
    /// Events of all processes so far.
    pub events: u64,
    /// Bytes live in the main program.
    pub live_bytes: u64,
    /// Peak of that.
    pub peak_bytes: u64,
    /// Processes being recorded.
    pub processes: usize,
    /// Clients that receive the recording while it is made.
    pub clients: usize,
}

impl Recorder {
    /// Begins to listen for agents.
    pub fn new(options: RecorderOptions) -> io::Result<Self> {
        Self::begin(options, None)
    }

    /// The same, for recordings that are streamed too. Clients that connect to the recorder get the main program's recording.
    pub fn with_streams(options: RecorderOptions, to: StreamTo, wire: Wire) -> io::Result<Self> {
        let namer = Namer::start(options.debuginfod.clone())?;
        Self::begin(options, Some(StreamSettings { to, wire, namer }))
    }

    fn begin(options: RecorderOptions, streams: Option<StreamSettings>) -> io::Result<Self> {
        let (to_finisher, recordings) = channel::<(ProcessRecording, bool)>();
        let (done, finished) = channel();
        // Finding names takes a while: the recording of other processes continues meanwhile.
        let servers = options.debuginfod.clone();
        spawn(c"names", move || {
            let mut symbolizer = Symbolizer::for_user(&servers);
            for (recording, is_main) in recordings {
                let finished = recording.finish(&mut symbolizer, is_main);
                symbolizer.keep();
                if done.send(finished).is_err() {
                    return;
                }
            }
        })?;
        let breakdown_worker = options.rss_every.get().map(|_| BreakdownWorker::start()).transpose()?;
        let (listener, measurement) = (Listener::new()?, Counter::begin_measuring());
        Ok(Self {
            agent_variable: agent_variable(&options, &listener, is_on_demand(streams.as_ref())),
            children: options.output.as_deref().map(ChildFiles::of),
            options,
            streams,
            breakdown_worker,
            listener: Some(listener),
            counter: OnceCell::new(),
            measurement,
            main: None,
            main_has_begun: false,
            running: Vec::new(),
            nap: Duration::ZERO,
            quiet_rounds: 0,
            is_attached: false,
            to_finisher: Some(to_finisher),
            finished,
            ending: 0,
            problems: Vec::new(),
            preludes: 0,
            small: 0,
            unrecorded: UnrecordedPrograms::default(),
            main_unrecorded: None,
        })
    }

    /// The variable that a program's environment needs, and its value.
    pub fn variable(&self) -> (&'static str, &str) {
        (AGENT_VARIABLE, &self.agent_variable)
    }

    /// Says which process is the main program.
    pub fn set_main(&mut self, pid: u32) {
        self.main = Some(pid);
    }

    /// Whether any process other than the main program is being recorded.
    pub fn is_waiting_for_others(&self) -> bool {
        self.running.iter().any(|running| Some(running.recording.about().pid) != self.main)
    }

    /// The current state.
    pub fn progress(&self) -> RecordingProgress {
        let mut progress = RecordingProgress { processes: self.running.len(), ..RecordingProgress::default() };
        for running in &self.running {
            let (totals, events) = running.recording.figures();
            progress.events += events;
            progress.clients += running.recording.clients();
            if Some(running.recording.about().pid) == self.main {
                progress.live_bytes = totals.figures.live_bytes();
                progress.peak_bytes = totals.figures.peak_bytes;
            }
        }
        progress
    }

    /// One round: reads new records, accepts new processes, and completes ended ones. Sleeps first if the last round read little.
    pub fn step(&mut self) {
        // Check which processes have ended before reading their rings: then no record that they wrote can be missed.
        let is_knocking = self.wait();
        let mut bytes = 0;
        let mut ended = Vec::new();
        for (index, running) in self.running.iter_mut().enumerate() {
            bytes += running.recording.round(running.is_complete);
            if running.is_complete {
                ended.push(index);
            }
        }
        self.quiet_rounds = if bytes < LITTLE { self.quiet_rounds.saturating_add(1) } else { 0 };
        self.nap = match bytes {
            MUCH.. => Duration::ZERO,
            // A program that was attached to does not wait: what its rings cannot hold is lost.
            _ if self.quiet_rounds <= QUIET_ROUNDS || self.is_attached => SHORT_NAP,
            _ => LONG_NAP,
        };
        if is_knocking {
            // Before ended processes are removed: a process that executed another program has connected again before it could end.
            while let Some(visitor) =
                self.listener.as_ref().and_then(|listener| listener.next(|pid| self.descends(pid)))
            {
                self.welcome(visitor);
                self.nap = Duration::ZERO;
                self.quiet_rounds = 0;
            }
        }
        for index in ended.into_iter().rev() {
            let running = self.running.remove(index);
            self.has_ended(running);
        }
    }

    /// Waits until a process ends or a new one connects, but only for a short time: programs fill their rings meanwhile. Returns whether one connects.
    fn wait(&mut self) -> bool {
        let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: self.nap.as_nanos() as i64 };
        let knocking = self.listener.iter().map(|listener| PollFd::new(listener, PollFlags::IN));
        let processes = self.running.iter().filter_map(|running| running.process.as_ref());
        // Before the check: a process that has not ended then was alive at this time.
        let before: Vec<Nanos> = self.running.iter().map(|running| running.recording.now()).collect();
        let mut watched: Vec<PollFd<'_>> =
            knocking.chain(processes.map(|process| PollFd::new(process, PollFlags::IN))).collect();
        let _ = rustix::event::poll(&mut watched, Some(&nap));
        let mut ready = watched.iter().map(|fd| !fd.revents().is_empty());
        let is_knocking = self.listener.is_some() && ready.next() == Some(true);
        let ready: Vec<bool> = ready.collect();
        let mut ready = ready.into_iter();
        for (running, before) in self.running.iter_mut().zip(before) {
            running.is_complete |= running.process.is_none() || ready.next() == Some(true);
            if !running.is_complete {
                running.recording.set_alive_at(before);
            }
        }
        is_knocking
    }

    fn has_ended(&mut self, running: RunningRecording) {
        let RunningRecording { mut recording, was_replaced, .. } = running;
        if was_replaced && recording.about().forked {
            // Events between a fork and an exec are of no interest.
            self.preludes += 1;
            self.unrecorded.extend(&recording.unrecorded());
            recording.drop_streams();
            recording.discard_file();
            return;
        }
        let is_main = !was_replaced && Some(recording.about().pid) == self.main;
        if let (Some(output), Some(path)) = (&self.options.output, recording.path())
            && is_main
            && path != output
            && !is_special(output)
        {
            // The program that the user meant is the last one that its process ran.
            let got = path.display().to_string();
            if let Err(error) = recording.rename(output) {
                let why = match error.kind() {
                    io::ErrorKind::AlreadyExists => "another program made this file meanwhile".to_owned(),
                    _ => format!("cannot be renamed: {error}"),
                };
                self.problems.push(format!("{}: {why}; the recording is {got}", output.display()));
            }
        }
        let (totals, _) = recording.figures();
        if !is_main && totals.figures.peak_bytes < self.options.keep_children {
            self.small += 1;
            let keep = self.options.keep_children;
            if let Some(main) = self.main.and_then(|pid| self.recording_of(pid)) {
                main.add_left_out(totals.figures.peak_bytes, keep);
            }
            if !recording.discard_file() {
                self.unrecorded.extend(&recording.unrecorded());
                return;
            }
        }
        self.let_go(recording, is_main);
    }

    fn let_go(&mut self, recording: ProcessRecording, is_main: bool) {
        if let Some(finisher) = &self.to_finisher
            && finisher.send((recording, is_main)).is_ok()
        {
            self.ending += 1;
        }
    }

    /// Whether a process is the program, or was started by it or by a process that is recorded.
    fn descends(&self, pid: u32) -> bool {
        const MOST_GENERATIONS: usize = 256;
        let is_known = |&pid: &u32| {
            Some(pid) == self.main || self.running.iter().any(|running| running.recording.about().pid == pid)
        };
        std::iter::successors(Some(pid), |&pid| Some(parent_of(pid)).filter(|&parent| parent > 1))
            .take(MOST_GENERATIONS)
            .any(|pid| is_known(&pid))
    }

    fn welcome(&mut self, visitor: Visitor) {
        let Visitor { hello, pid, executable, command, shared } = visitor;
        if let Some(reason) = hello.unrecorded {
            return self.note_unrecorded(reason, pid, program_name(command.first().map(String::as_str), &executable));
        }
        let shared = match shared {
            Ok(shared) => shared,
            Err(refused) => return self.problems.push(format!("process {pid} is not recorded: {refused}")),
        };
        if allocator_of(pid).is_some() {
            // The few blocks that it has from the C library would be taken for all its blocks.
            shared.header().stop.store(1, Ordering::Release);
            let name = program_name(command.first().map(String::as_str), &executable);
            return self.note_unrecorded(Reason::OwnAllocator, pid, name);
        }
        if is_on_demand(self.streams.as_ref()) && Some(pid) != self.main {
            // Clients get the program itself, and programs that it executes in its place, not its children.
            return shared.header().stop.store(1, Ordering::Release);
        }
        let parent = match (hello.forked_from, parent_of(pid)) {
            // It is gone already. What it says of its parent counts if it has the same process ids as the recorder.
            (0, 0) if hello.pid == pid => hello.parent,
            (0, parent) => parent,
            (forked_from, _) => forked_from,
        };
        let late = self.options.late || is_on_demand(self.streams.as_ref());
        let about =
            RecordedProcess { forked: hello.forked_from != 0, ..self.about(executable, command, pid, parent, late) };
        self.begin_recording(shared, about);
    }

    /// Records a process that runs already, into which an agent was injected. It becomes the main program. `counter` is what its agent stamps with. Its events wait for
    /// [`Recorder::set_older_blocks`].
    pub fn record_attached(&mut self, pid: u32, shared: SessionMemory, counter: Option<Counter>) {
        let _ = self.counter.set(counter);
        (self.main, self.is_attached) = (Some(pid), true);
        self.begin_attached(pid, shared, false);
    }

    /// The same for a process that the main program, or one of its children, has started since. `forked` says that it runs the program of its parent.
    pub fn record_attached_child(&mut self, pid: u32, shared: SessionMemory, forked: bool) {
        self.begin_attached(pid, shared, forked);
    }

    /// An attached process executes another program: the recording of the one before is complete.
    pub fn note_exec(&mut self, pid: u32) {
        self.replaced(pid);
    }

    /// Whether the main program is still recorded.
    pub fn has_main(&self) -> bool {
        self.running.iter().any(|running| Some(running.recording.about().pid) == self.main)
    }

    /// Whether a process is recorded now.
    pub fn is_recording(&self, pid: u32) -> bool {
        self.running.iter().any(|running| running.recording.about().pid == pid && !running.was_replaced)
    }

    fn begin_attached(&mut self, pid: u32, shared: SessionMemory, forked: bool) {
        let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = arguments.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        let shown = if self.options.no_args { 1 } else { usize::MAX };
        let mut command: Vec<String> = arguments.take(shown).collect();
        if command.last().is_some_and(String::is_empty) {
            command.pop();
        }
        let about = self.about(executable.to_string_lossy().into_owned(), command, pid, parent_of(pid), true);
        self.begin_recording(shared, RecordedProcess { forked, ..about });
        if let Some(recording) = self.recording_of(pid) {
            recording.await_older();
        }
    }

    fn recording_of(&mut self, pid: u32) -> Option<&mut ProcessRecording> {
        let mut current = self.running.iter_mut().filter(|running| !running.was_replaced);
        current.find(|running| running.recording.about().pid == pid).map(|running| &mut running.recording)
    }

    /// The blocks that the heap of an attached process had at an instant since it is recorded, by the monotonic clock in nanoseconds: addresses and usable sizes. Returns
    /// how many of them are older than the recording, and their bytes; `None` if the recording has gone on without them, because the program was too busy or has ended.
    pub fn set_older_blocks(
        &mut self,
        pid: u32,
        at: u64,
        heap: impl Iterator<Item = (u64, u64)>,
    ) -> Option<(u64, u64)> {
        self.recording_of(pid)?.take_older(at, heap)
    }

    /// Sets a note that the recording of a process gets.
    pub fn set_note(&mut self, pid: u32, note: String) {
        if let Some(recording) = self.recording_of(pid) {
            recording.set_note(note);
        }
    }

    fn about(&self, executable: String, command: Vec<String>, pid: u32, parent: u32, late: bool) -> RecordedProcess {
        RecordedProcess {
            executable,
            command,
            pid,
            parent,
            forked: false,
            late,
            usable_sizes: true,
            sample_rate: self.options.sample_rate,
            context: self.options.context.clone(),
            flush_every: FLUSH_EVERY,
            rss_every: self.options.rss_every,
        }
    }

    fn begin_recording(&mut self, shared: SessionMemory, about: RecordedProcess) {
        let pid = about.pid;
        let process = pid_of(pid).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        self.replaced(pid);
        let is_first = Some(pid) == self.main && !self.main_has_begun;
        self.main_has_begun |= is_first;
        let file = if is_first {
            Ok(self.options.output.clone().zip(self.options.output_file.take()))
        } else {
            self.children.as_mut().map(|children| children.create(&about)).transpose()
        };
        let path = file.as_ref().ok().and_then(|file| Some(file.as_ref()?.0.clone()));
        let streaming = self.streaming_for(&about);
        let counter = *self.counter.get_or_init(|| self.measurement?.finish());
        let begun = match file {
            Ok(file) => {
                let breakdown_worker = self.breakdown_worker.clone();
                ProcessRecording::begin(shared, about, Outputs { file, streaming, breakdown_worker }, counter)
            }
            Err(error) => {
                // Otherwise the program would wait for the recorder.
                shared.header().stop.store(1, Ordering::Release);
                Err(error)
            }
        };
        match begun {
            Ok(recording) => {
                self.running.push(RunningRecording { recording, process, is_complete: false, was_replaced: false });
            }
            Err(error) => {
                let what = path.map_or_else(|| format!("process {pid}"), |path| path.display().to_string());
                self.problems.push(format!("{what}: cannot be written: {error}"));
            }
        }
    }

    /// A program reported that it is not recorded: noted in its parent's recording.
    fn note_unrecorded(&mut self, reason: Reason, pid: u32, name: String) {
        if Some(pid) == self.main {
            self.main_unrecorded = Some(reason);
        }
        self.replaced(pid);
        let parent = parent_of(pid);
        match self.running.iter_mut().find(|running| running.recording.about().pid == parent && !running.was_replaced) {
            Some(running) => running.recording.add_unrecorded(reason, &name),
            None if Some(pid) != self.main => self.unrecorded.add(reason, &name),
            None => {}
        }
    }

    /// The streams of a process, if it is to be streamed.
    fn streaming_for(&mut self, about: &RecordedProcess) -> Option<Streaming> {
        let is_main = Some(about.pid) == self.main;
        let StreamSettings { to, wire, namer } = self.streams.as_mut()?;
        let to = match to {
            StreamTo::Connect { address, token, first } => {
                let first = if is_main { first.take() } else { None };
                StreamTo::Connect { address: address.clone(), token: token.clone(), first }
            }
            StreamTo::Serve(server) if is_main => StreamTo::Serve(Arc::clone(server)),
            StreamTo::Serve(_) => return None,
        };
        Some(Streaming::new(to, *wire, namer.clone(), about.forked))
    }

    /// A process executed another program: the recording of the previous one is complete.
    fn replaced(&mut self, pid: u32) {
        let main = self.main == Some(pid);
        for index in 0..self.running.len() {
            let running = &self.running[index];
            if running.recording.about().pid != pid || running.was_replaced {
                continue;
            }
            let running = &mut self.running[index];
            running.was_replaced = true;
            running.is_complete = true;
            // It was seen alive only as the new program, perhaps.
            running.recording.set_alive_at(Nanos(0));
            if main
                && running.recording.path() == self.options.output.as_deref()
                && let Some(children) = &mut self.children
            {
                let path = children.free_path_for(running.recording.about());
                if let Err(error) = running.recording.rename(&path) {
                    self.problems.push(format!("{}: cannot be renamed: {error}", path.display()));
                }
            }
        }
    }

    /// Ends all recordings. Processes that still run continue unrecorded.
    pub fn stop(&mut self) {
        // An agent that finds the socket closed gives up by itself.
        self.listener = None;
        for running in &mut self.running {
            if !running.is_complete {
                running.recording.leave();
            }
            running.is_complete = true;
        }
        while !self.running.is_empty() {
            self.step();
        }
    }

    /// Waits for the recordings that are being completed; calls `tick` while it waits.
    pub fn finish(mut self, mut tick: impl FnMut()) -> RecordingOutcome {
        self.stop();
        self.to_finisher = None;
        let mut all = Vec::new();
        while all.len() < self.ending {
            match self.finished.recv_timeout(Duration::from_millis(100)) {
                Ok(finished) => all.push(finished),
                Err(RecvTimeoutError::Timeout) => tick(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(children) = &self.children {
            children.remove_if_empty();
        }
        let mut unrecorded = self.unrecorded;
        all.iter().for_each(|finished: &Finished| unrecorded.extend(&finished.unrecorded));
        RecordingOutcome {
            finished: all,
            problems: self.problems,
            preludes: self.preludes,
            small: self.small,
            unrecorded,
            main_unrecorded: self.main_unrecorded,
        }
    }
}

/// Whether nothing is recorded until a client connects.
fn is_on_demand(streams: Option<&StreamSettings>) -> bool {
    streams.is_some_and(|streams| matches!(streams.to, StreamTo::Serve(_)))
}

/// The configuration of agents, as the value of their environment variable.
fn agent_variable(options: &RecorderOptions, listener: &Listener, dormant: bool) -> String {
    let config = AgentConfig {
        socket: &listener.path(),
        sample_bytes: options.sample_rate.unwrap_or(0),
        most_blocks: 0,
        follow_children: options.follow_children,
        lossy: options.lossy,
        mappings: options.mappings,
        live: false,
        contents: false,
        dormant,
        no_args: options.no_args,
        free_stacks: options.free_stacks,
    };
    config.variable().1
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// The parent of a process, 0 if it is not known.
fn parent_of(pid: u32) -> u32 {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return 0 };
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap_or(0)
}
