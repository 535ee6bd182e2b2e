//! `highwater record --pid`: records a process that runs already.

use super::{Record, remove_if_empty};
use crate::attaching::{self, AttachedProcess};
use crate::failure::{Failure, reason};
use crate::output::{Output, say, warn};
use crate::print::bytes::{bytes, counted};
use crate::print::status::StatusLine;
use crate::recording_file::RecordingFile;
use crate::running::Signals;
use highwater_attach::{NotWalkable, OlderBlocks, walk_heap};
use highwater_model::Nanos;
use highwater_recorder::{Recorder, RecordingOutcome};
use highwater_session::be_ended_first;
use highwater_shm::attach_v1::{AttachLayout, FLAG_FREE_STACKS};
use highwater_shm::session_v1::Capacity;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the process is examined for libraries that it has unloaded, and for another program that it has executed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why a recording of a running process ends.
enum End {
    /// The duration has passed, or the user asked for it.
    Ours,
    /// The process has ended.
    Process,
    /// The process runs another program.
    Exec,
    /// The agent has ended by itself.
    Agent(&'static str),
}

impl Record {
    /// Records a process that runs already; leaves it as it was.
    pub(super) fn run_attached(&self, output: &mut Output) -> Result<(), Failure> {
        self.names.allocators()?;
        let limits = self.limits()?;
        let pid = self.process.outside()?;
        // A process that cannot be attached to is refused before a file is made.
        let plan = attaching::plan(pid)?;
        let is_attached = plan.is_attached();
        if is_attached && plan.has_reader(attaching::SIGN_PATIENCE) {
            return Err(attaching::already_attached(pid));
        }
        drop(plan);
        let to = self.stream_to()?;
        let is_sent = to.is_some();
        let mut file = self.file(&program_of(pid))?;
        let options = self.options(&mut file, true);
        let exact = options.sample_rate.is_none();
        let begun = self.recorder(options, to).and_then(|recorder| {
            let signals = Signals::catch().map_err(|error| Failure::fault(reason(&error)))?;
            Ok((recorder, signals, self.attach(pid, is_attached)?))
        });
        let (mut recorder, signals, attached) = begun.inspect_err(|_| remove_if_empty(file.as_ref()))?;
        let began = Instant::now();
        be_ended_first();
        let session = attached.memory.session();
        let begun =
            session.map_err(|refused| Failure::fault(format_args!("process {pid} cannot be recorded: {refused}")));
        let session = begun.inspect_err(|_| {
            detach(&attached);
            remove_if_empty(file.as_ref());
        })?;
        recorder.record_attached(pid, session, attached.counter);
        say(&attached.in_words());
        let mut older = None;
        match exact {
            true if self.pause.0 > 0 => older = Some(self.read_older(pid)),
            true => without_older(&mut recorder, "they were not read"),
            false => without_older(&mut recorder, "a sample does not show when they are freed"),
        }
        let end = self.watch_attached(&mut recorder, &attached, &signals, began, &mut older);
        let lasted = began.elapsed();
        match &end {
            End::Ours => detach(&attached),
            End::Process => say("the process has ended"),
            End::Exec => say("the process executes another program now, which is not recorded"),
            End::Agent(why) => {
                warn(why);
                detach(&attached);
            }
        }
        let mut line = StatusLine::new();
        let outcome = recorder.finish(|| line.show("finding the names of functions …"));
        line.clear();
        self.conclude_attached(file.as_ref(), &outcome, is_sent, lasted, output)?;
        let is_kept = self.is_budget_kept(limits.as_ref(), file.as_ref(), &outcome, output);
        if is_sent && !self.is_stream_kept(&outcome.finished) {
            return Err(Failure::StreamNotKept);
        }
        if is_kept { Ok(()) } else { Err(Failure::Found) }
    }

    fn attach(&self, pid: u32, replace: bool) -> Result<AttachedProcess, Failure> {
        let sample_bytes = self.sample_rate();
        let layouts = Capacity::CHOICES.map(AttachLayout::for_recording);
        attaching::attach(pid, &layouts, replace, |header| {
            header.sample_bytes = sample_bytes.unwrap_or(0);
            header.flags |= if self.free_stacks { FLAG_FREE_STACKS } else { 0 };
        })
    }

    /// Begins to read the heap.
    fn read_older(&self, pid: u32) -> JoinHandle<Result<OlderBlocks, NotWalkable>> {
        let longest = Duration::from_nanos(self.pause.0);
        std::thread::spawn(move || walk_heap(pid as i32, longest))
    }

    /// Records until the process ends, the time is over, or the user presses Ctrl-C.
    fn watch_attached(
        &self,
        recorder: &mut Recorder,
        attached: &AttachedProcess,
        signals: &Signals,
        began: Instant,
        older: &mut Option<JoinHandle<Result<OlderBlocks, NotWalkable>>>,
    ) -> End {
        let mut line = StatusLine::new();
        let deadline = self.duration.map(|duration| began + Duration::from_nanos(duration.0));
        let mut keeper = attached.keeper(LOOK_EVERY);
        loop {
            recorder.step();
            keeper.keep();
            if older.as_ref().is_some_and(JoinHandle::is_finished)
                && let Some(read) = older.take()
            {
                line.clear();
                match read.join() {
                    Ok(read) => take_older(recorder, read),
                    Err(_) => without_older(recorder, "they could not be read"),
                }
            }
            if recorder.progress().processes == 0 {
                return End::Process;
            }
            if keeper.is_replaced() {
                return End::Exec;
            }
            if let Some(why) = keeper.ended() {
                return End::Agent(why);
            }
            // The heap is read to its end first: rings must be read meanwhile, and the stop for it would disturb that of a detach.
            let is_over = signals.stop_requested() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_over && older.is_none() {
                return End::Ours;
            }
            line.update(|elapsed| self.status(&recorder.progress(), elapsed));
        }
    }

    fn conclude_attached(
        &self,
        file: Option<&RecordingFile>,
        outcome: &RecordingOutcome,
        is_sent: bool,
        lasted: Duration,
        output: &mut Output,
    ) -> Result<(), Failure> {
        outcome.problems.iter().for_each(|problem| warn(problem));
        let unknown: u64 = outcome.finished.iter().map(|one| one.inherited_frees).sum();
        if unknown > 0 {
            say(&format!(
                "{} of blocks from before that were not known; they are in no figure",
                counted(unknown, "free")
            ));
        }
        self.conclude(file, outcome, is_sent, lasted, output)
    }
}

fn take_older(recorder: &mut Recorder, read: Result<OlderBlocks, NotWalkable>) {
    match read {
        Ok(found) => {
            let pause = found.pause;
            let heap = found.blocks.iter().map(|block| (block.address, block.size));
            let Some((count, size)) = recorder.set_older_blocks(found.at, heap) else {
                recorder.set_note(about_unknown("the process was too busy, or ended too soon"));
                return;
            };
            let found = format!("{} from before ({})", counted(count, "block"), bytes(size));
            say(&format!("{found}, read while threads were stopped for {}", attaching::milliseconds(pause)));
            recorder.set_note(format!("Recording began when Highwater attached. {found}: [allocated before attach]."));
        }
        Err(error) => {
            without_older(recorder, &error);
            let more = attaching::longer_pause(&error);
            say(&format!("blocks from before are not known: {error}{more}"));
        }
    }
}

fn without_older(recorder: &mut Recorder, why: impl std::fmt::Display) {
    recorder.set_older_blocks(0, std::iter::empty());
    recorder.set_note(about_unknown(why));
}

fn about_unknown(why: impl std::fmt::Display) -> String {
    format!("Recording began when Highwater attached. Blocks from before are in no figure: {why}.")
}

/// Makes the process as it was.
fn detach(attached: &AttachedProcess) {
    match attached.detach() {
        Ok(Some(detached)) => say(&detached),
        Ok(None) => {}
        Err(failure) => {
            if let Some(line) = failure.line() {
                warn(line);
            }
            say("its calls are only passed on now; 'highwater detach' removes the hooks");
        }
    }
}

/// The program that a process runs.
fn program_of(pid: u32) -> PathBuf {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let text = path.to_string_lossy();
    // The file may have been replaced since, as by an upgrade.
    Path::new(text.strip_suffix(" (deleted)").unwrap_or(&text)).to_owned()
}

/// How long threads may be stopped while older blocks are read; 0 leaves them unknown.
pub(crate) fn parse_pause(text: &str) -> Result<Nanos, String> {
    match text {
        "0" | "off" => Ok(Nanos(0)),
        _ => super::parse_time(text),
    }
}
