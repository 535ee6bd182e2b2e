//! A process that is recorded from outside, and the children that it starts meanwhile: each gets a recording of its own.

use super::super::Record;
use super::{End, LOOK_AT_CHILDREN_EVERY, detach, recording_layouts};
use crate::attaching::{self, AttachedProcess, Keeper};
use crate::descendants::StartTime;
use crate::failure::{Failure, reason};
use crate::new_children::{ChildFollower, FollowedChild};
use crate::output::{say, warn};
use crate::print::bytes::{bytes, count, counted};
use crate::print::status::StatusLine;
use crate::running::Signals;
use highwater_attach::{NotWalkable, OlderBlocks, walk_heap};
use highwater_recorder::Recorder;
use highwater_session::AttachedCounts;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Refusals of children that are printed one by one.
const TOLD: u64 = 8;

/// All processes that are recorded.
pub(super) struct AttachedFamily<'a> {
    /// What the user asked for.
    pub order: &'a Record,
    /// Whether every block is recorded.
    pub is_exact: bool,
    pub recorder: Recorder,
    pub main: TrackedProcess,
    pub children: Vec<TrackedProcess>,
    pub follower: Option<ChildFollower>,
    /// Children that had ended before they could be attached to.
    pub ended_before: u64,
    /// Children that cannot be attached to.
    pub refused: u64,
}

/// One of them.
pub(super) struct TrackedProcess {
    pub attached: AttachedProcess,
    keeper: Keeper,
    older: Option<JoinHandle<Result<OlderBlocks, NotWalkable>>>,
    /// What its recording says of its beginning.
    beginning: String,
    counts: AttachedCounts,
    /// Whether a line is printed about it.
    pub is_told: bool,
}

impl TrackedProcess {
    pub(super) fn new(attached: AttachedProcess, look_every: Duration) -> Self {
        let keeper = attached.keeper(look_every);
        let (beginning, counts) = (String::new(), AttachedCounts::default());
        Self { attached, keeper, older: None, beginning, counts, is_told: false }
    }

    fn say(&self, line: &str) {
        if self.is_told {
            say(line);
        }
    }

    /// Begins to read the heap.
    fn read_older(&mut self, longest: Duration) {
        let pid = self.attached.pid().cast_signed();
        self.older = Some(std::thread::spawn(move || walk_heap(pid, longest)));
    }

    fn without_older(&mut self, recorder: &mut Recorder, why: impl std::fmt::Display) {
        recorder.set_older_blocks(self.attached.pid(), 0, std::iter::empty());
        self.begins(recorder, format!("Blocks from before are in no figure: {why}."));
    }

    /// Takes the heap over, if it was read meanwhile.
    fn take_older(&mut self, recorder: &mut Recorder) {
        let Some(reader) = self.older.take_if(|reader| reader.is_finished()) else { return };
        match reader.join() {
            Ok(Ok(found)) => {
                let heap = found.blocks.iter().map(|block| (block.address, block.size));
                let Some((count, size)) = recorder.set_older_blocks(self.attached.pid(), found.at, heap) else {
                    let why = "the process was too busy, or ended too soon";
                    return self.begins(recorder, format!("Blocks from before are in no figure: {why}."));
                };
                let pause = attaching::milliseconds(found.pause);
                let found = format!("{} from before ({})", counted(count, "block"), bytes(size));
                self.say(&format!("{found}, read while threads were stopped for {pause}"));
                self.begins(recorder, format!("{found}: [allocated before attach]."));
            }
            Ok(Err(error)) => {
                self.without_older(recorder, &error);
                self.say(&format!("blocks from before are not known: {error}{}", attaching::longer_pause(&error)));
            }
            Err(_) => self.without_older(recorder, "they could not be read"),
        }
    }

    fn begins(&mut self, recorder: &mut Recorder, about_older: String) {
        self.beginning = about_older;
        self.write_note(recorder);
    }

    /// Notes what the agent could not do, if that is news. Before the recorder finds that the process has ended.
    fn note_counts(&mut self, recorder: &mut Recorder) {
        let counts = self.attached.memory.counts();
        if (counts.unslotted, counts.unprovided) != (self.counts.unslotted, self.counts.unprovided) {
            self.counts = counts;
            self.write_note(recorder);
        }
    }

    fn write_note(&self, recorder: &mut Recorder) {
        let limits: String = self.counts.in_words().iter().map(|line| format!(" {line}")).collect();
        let beginning = &self.beginning;
        let note =
            format!("Recording began when Highwater attached. {beginning} Mappings (mmap) are not recorded.{limits}");
        recorder.set_note(self.attached.pid(), note);
    }
}

impl AttachedFamily<'_> {
    /// Reads the heap of a child, or of the main process.
    pub(super) fn begin_with(&mut self, child: Option<usize>) {
        let process = match child {
            Some(index) => &mut self.children[index],
            None => &mut self.main,
        };
        match self.is_exact {
            true if self.order.pause.0 > 0 => process.read_older(Duration::from_nanos(self.order.pause.0)),
            true => process.without_older(&mut self.recorder, "they were not read"),
            false => process.without_older(&mut self.recorder, "a sample does not show when they are freed"),
        }
    }

    /// Follows the children that the process has started since a moment, unless they were not wanted.
    pub(super) fn follow_children(&mut self, since: StartTime) -> Result<(), Failure> {
        if self.order.no_children {
            return Ok(());
        }
        let (pid, layouts) = (self.main.attached.pid(), recording_layouts());
        let follower = ChildFollower::start(pid, since, layouts, self.order.configure());
        self.follower = Some(follower.map_err(|error| Failure::fault(reason(&error)))?);
        Ok(())
    }

    /// Records until the process and its children have ended, the time is over, or the user presses Ctrl-C.
    pub(super) fn record(&mut self, signals: &Signals, began: Instant) -> End {
        let mut line = StatusLine::new();
        let deadline = self.order.duration.map(|duration| began + Duration::from_nanos(duration.0));
        let mut is_told = false;
        loop {
            self.main.note_counts(&mut self.recorder);
            self.children.iter_mut().for_each(|child| child.note_counts(&mut self.recorder));
            self.recorder.step();
            if self.main.older.as_ref().is_some_and(JoinHandle::is_finished) {
                line.clear();
            }
            self.main.take_older(&mut self.recorder);
            self.welcome_children();
            self.keep_children();
            let is_over = signals.stop_requested() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            // A heap is read to its end first: rings must be read meanwhile, and the stop for it would disturb that of a detach.
            let is_reading = self.main.older.is_some() || self.children.iter().any(|child| child.older.is_some());
            if self.recorder.has_main() {
                self.main.keeper.keep();
                if self.main.keeper.is_replaced() {
                    return End::Exec;
                }
                if let Some(why) = self.main.keeper.ended() {
                    return End::Agent(why);
                }
                if is_over && !is_reading {
                    return End::Ours;
                }
            } else {
                let left = self.recorder.progress().processes;
                if left == 0 || is_over && !is_reading {
                    return End::Process;
                }
                if !std::mem::replace(&mut is_told, true) {
                    line.clear();
                    let left = count(left as u64);
                    say(&format!("the process has ended; {left} of its children still recorded, Ctrl-C ends that"));
                }
            }
            line.update(|elapsed| self.order.status(&self.recorder.progress(), elapsed));
        }
    }

    /// Takes over the children that were attached to meanwhile.
    fn welcome_children(&mut self) {
        let new: Vec<FollowedChild> = self.follower.iter().flat_map(ChildFollower::take).collect();
        for child in new {
            match child {
                FollowedChild::Attached(attached, was_forked) => match attached.memory.session() {
                    Ok(session) => {
                        self.recorder.record_attached_child(attached.pid(), session, was_forked);
                        self.children.push(TrackedProcess::new(*attached, LOOK_AT_CHILDREN_EVERY));
                        self.begin_with(Some(self.children.len() - 1));
                    }
                    Err(refused) => {
                        self.refused += 1;
                        warn(&format!("process {} cannot be recorded: {refused}", attached.pid()));
                        detach_quietly(&attached);
                    }
                },
                FollowedChild::Ended => self.ended_before += 1,
                FollowedChild::Refused(error) => {
                    self.refused += 1;
                    if self.refused <= TOLD {
                        warn(&format!("a child is not recorded: {error}"));
                    }
                }
            }
        }
    }

    fn keep_children(&mut self) {
        let (recorder, follower) = (&mut self.recorder, &self.follower);
        self.children.retain_mut(|child| {
            let pid = child.attached.pid();
            child.take_older(recorder);
            if !recorder.is_recording(pid) {
                return false;
            }
            child.keeper.keep();
            if child.keeper.is_replaced() {
                recorder.note_exec(pid);
                follower.iter().for_each(|follower| follower.follow_again(pid));
                return false;
            }
            true
        });
    }

    /// Leaves all children as they were. Returns the recorder, which has to finish.
    pub(super) fn end(mut self) -> Recorder {
        for child in self.follower.take().map_or_else(Vec::new, ChildFollower::end) {
            match child {
                FollowedChild::Attached(attached, _) => {
                    detach_quietly(&attached);
                    self.ended_before += 1;
                }
                FollowedChild::Ended => self.ended_before += 1,
                FollowedChild::Refused(..) => self.refused += 1,
            }
        }
        self.children.iter().filter(|child| self.recorder.is_recording(child.attached.pid())).for_each(|child| {
            detach_quietly(&child.attached);
        });
        // Those that were not followed, or not yet, have copies of the hooks.
        let processes = std::iter::once(&self.main).chain(&self.children).map(|one| one.attached.pid());
        let cleaned = attaching::detach_descendants(&processes.collect::<Vec<_>>(), |_| {});
        cleaned.problems.iter().for_each(|problem| warn(problem));
        if self.ended_before > 0 {
            let missed = counted_children(self.ended_before);
            say(&format!("{missed} ended before recording began; what they held is in no recording"));
        }
        if self.refused > TOLD {
            say(&format!("{} in all could not be recorded", counted_children(self.refused)));
        }
        self.recorder
    }
}

fn counted_children(number: u64) -> String {
    if number == 1 { "1 child".to_owned() } else { format!("{} children", count(number)) }
}

/// Makes a child as it was. Of many children, only problems are printed.
fn detach_quietly(attached: &AttachedProcess) {
    if attached.detach().is_err() {
        detach(attached);
    }
}
