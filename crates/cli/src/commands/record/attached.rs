//! `highwater record --pid`: records a process that runs already.

mod family;

use super::{Record, remove_if_empty};
use crate::attaching::{self, AttachedProcess};
use crate::descendants::StartTime;
use crate::failure::{Failure, reason};
use crate::output::{Output, say, warn};
use crate::print::bytes::counted;
use crate::print::status::StatusLine;
use crate::recording_file::RecordingFile;
use crate::running::Signals;
use family::{AttachedFamily, TrackedProcess};
use highwater_model::Nanos;
use highwater_recorder::RecordingOutcome;
use highwater_session::be_ended_first;
use highwater_shm::attach_v1::{AttachHeader, AttachLayout, FLAG_FREE_STACKS};
use highwater_shm::session_v1::Capacity;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a process is examined for libraries that it has unloaded, and for another program that it has executed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same for children, which often execute another program soon.
const LOOK_AT_CHILDREN_EVERY: Duration = Duration::from_millis(100);

/// Why a recording of a running process ends.
enum End {
    /// The duration has passed, or the user asked for it.
    Ours,
    /// The process has ended, and all children that were recorded.
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
        let is_exact = options.sample_rate.is_none();
        let since = StartTime::now();
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
        let mut family = AttachedFamily {
            order: self,
            is_exact,
            main: TrackedProcess::new(attached, LOOK_EVERY),
            recorder,
            children: Vec::new(),
            follower: None,
            ended_before: 0,
            refused: 0,
        };
        family.main.is_told = true;
        family.begin_with(None);
        family.follow_children(since)?;
        let end = family.record(&signals, began);
        let lasted = began.elapsed();
        match &end {
            End::Ours => detach(&family.main.attached),
            End::Process => say("the process has ended"),
            End::Exec => say("the process executes another program now, which is not recorded"),
            End::Agent(why) => {
                warn(why);
                detach(&family.main.attached);
            }
        }
        let recorder = family.end();
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
        attaching::attach(pid, &recording_layouts(), replace, self.configure())
    }

    /// What an agent finds when it begins.
    fn configure(&self) -> impl FnMut(&mut AttachHeader) + Send + use<> {
        let (sample_bytes, free_stacks) = (self.sample_rate().unwrap_or(0), self.free_stacks);
        move |header| {
            header.sample_bytes = sample_bytes;
            header.flags |= if free_stacks { FLAG_FREE_STACKS } else { 0 };
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

fn recording_layouts() -> Vec<AttachLayout> {
    Capacity::CHOICES.map(AttachLayout::for_recording).into()
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
