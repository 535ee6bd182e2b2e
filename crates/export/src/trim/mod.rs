//! A part of a recording as a recording of its own, for sharing: a window, a sample of the blocks, other names, and without what identifies the
//! user.
//!
//! A window begins with the whole state at its first instant (docs/format.md §15), so that every figure inside is that of the original. A sample
//! keeps whole lives of blocks and adjusts their weights, so that sums are right on average.

mod names;
mod sampling;

pub use names::{NameKey, Names};
pub use sampling::Share;

use highwater_model::{AccountsState, Nanos, NumberLedger, Op, RssBreakdown, Source, Step};
use highwater_store::{Moment, NumberedWriter, Recording, WalkItem, Written, write_snapshot_with_breakdown};
use names::Renamer;
use sampling::BlockSampler;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;

/// What is kept of a recording.
#[derive(Clone, Debug)]
pub struct TrimOptions {
    /// The first instant; everything up to it becomes the state that the file begins with.
    pub from: Moment,
    /// The last instant.
    pub to: Moment,
    /// The share of allocations to keep; `None` for all.
    pub keep: Option<Share>,
    /// What becomes of names.
    pub names: Names,
    /// The key for hashed names and for the choice of samples.
    pub key: NameKey,
    /// What is left out of the description of the source.
    pub without: LeftOut,
}

/// Parts of a source's description that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The command line and the path of the executable.
    pub command: bool,
    /// The host.
    pub host: bool,
    /// The process ids.
    pub pids: bool,
    /// The time at which the program began.
    pub start: bool,
    /// The texts about the run: context, parameters of the runtime, remarks of the recorder, which may name programs.
    pub context: bool,
    /// Directories of source files and modules.
    pub directories: bool,
}

/// The result of trimming.
#[derive(Debug)]
pub struct Trimmed {
    /// The file.
    pub file: File,
    /// Its size.
    pub written: Written,
    /// The number of events in it: not those that led to the state it begins with.
    pub events: u64,
    /// The number of names that were replaced.
    pub renamed: u64,
    /// The sampling that the file now has, in words, if blocks were left out.
    pub sampling: Option<String>,
    /// True if blocks were live when the original begins, and a sample counts them as allocated then.
    pub born_late: bool,
}

/// Why a recording cannot be trimmed.
#[derive(Debug, thiserror::Error)]
pub enum TrimError {
    /// The recording could not be read.
    #[error("{0}")]
    Read(io::Error),
    /// The file could not be written.
    #[error("{0}")]
    Write(#[from] io::Error),
    /// What was asked for does not apply.
    #[error("{0}")]
    Unfit(&'static str),
}

/// Writes a part of a recording into another file.
pub fn trim(recording: &Recording, options: &TrimOptions, target: File) -> Result<Trimmed, TrimError> {
    // Lost names keep their numbers, so that the sites of a damaged recording stay apart.
    let catalog = recording.catalog_to_go_on().map_err(TrimError::Read)?;
    let mut renamer = Renamer::new(&catalog, options);
    let source = renamer.source(recording.source(), options.without);
    if recording.source().is_states() {
        return Err(TrimError::Unfit("a profile of several instants has no events to trim"));
    }
    if recording.is_snapshot() {
        return trim_snapshot(recording, options, renamer, source, target);
    }
    let sampler = match options.keep {
        Some(share) => Some(BlockSampler::new(recording, share, &options.key).map_err(TrimError::Read)?),
        None => None,
    };
    let mut source = sampler.as_ref().map_or_else(|| source.clone(), |sampler| sampler.source(&source));
    source.notes.extend(notes(options, recording.source(), sampler.as_ref()));
    let sampling = sampler.as_ref().map(BlockSampler::in_words);
    let mut job = Trimming {
        options,
        writer: NumberedWriter::new(target, &source)?,
        before: NumberLedger::default(),
        phase: if options.from == Moment::Start { Phase::Inside } else { Phase::Before },
        sampler,
        events: 0,
        began_at: Nanos(0),
    };
    let mut written = Ok(());
    let walked = recording.walk(|seen| match job.see(seen, &mut renamer) {
        Ok(flow) => flow,
        Err(error) => {
            written = Err(error);
            ControlFlow::Break(())
        }
    });
    let end = walked.map_err(TrimError::Read)?;
    written?;
    if job.phase == Phase::Before {
        let state = if job.sampler.is_some() { job.before.accounts().to_state() } else { end.to_state() };
        job.begin(state, &renamer)?;
    }
    let duration = match options.to {
        Moment::At(time) => time.min(source.duration),
        Moment::Event(_) => job.writer.ledger().accounts().last_time(),
        Moment::Start | Moment::End => source.duration,
    };
    // A sample of the blocks would not match.
    if job.sampler.is_none() {
        let kept = breakdowns_of(recording)?.into_iter().filter(|one| one.at >= job.began_at && one.at <= duration);
        for breakdown in kept {
            let renamed = renamer.breakdown(&breakdown);
            job.writer.add_breakdown(&renamed, renamer.catalog())?;
        }
    }
    let born_late = job.sampler.as_ref().is_some_and(BlockSampler::has_late_births);
    let (written, file) = job.writer.finish(renamer.catalog(), &Source { duration, ..source })?;
    Ok(Trimmed { file, written, events: job.events, renamed: renamer.renamed(), sampling, born_late })
}

fn breakdowns_of(recording: &Recording) -> Result<Vec<RssBreakdown>, TrimError> {
    recording.breakdowns().map_err(|error| TrimError::Read(io::Error::other(error.to_string())))
}

/// A snapshot has neither a window nor events: only its names and its description can change.
fn trim_snapshot(
    recording: &Recording,
    options: &TrimOptions,
    mut renamer: Renamer<'_>,
    source: Source,
    target: File,
) -> Result<Trimmed, TrimError> {
    if options.from != Moment::Start || options.to != Moment::End || options.keep.is_some() {
        return Err(TrimError::Unfit("a snapshot is one instant: it has no window, and no events to choose from"));
    }
    let snapshot = recording.snapshot(&highwater_model::When::End);
    let snapshot = snapshot.map_err(|error| TrimError::Read(io::Error::other(error.to_string())))?;
    let state = snapshot.accounts.to_state();
    let breakdown = breakdowns_of(recording)?.first().map(|breakdown| renamer.breakdown(breakdown));
    let (file, written) =
        write_snapshot_with_breakdown(target, &source, renamer.catalog(), &state, breakdown.as_ref())?;
    let (events, renamed) = (written.events, renamer.renamed());
    Ok(Trimmed { file, written, events, renamed, sampling: None, born_late: false })
}

/// What a reader of the file must know of it.
fn notes(options: &TrimOptions, source: &Source, sampler: Option<&BlockSampler>) -> Vec<String> {
    let mut notes = Vec::new();
    if options.from != Moment::Start || options.to != Moment::End {
        let from = instant_of(options.from, source).unwrap_or_else(|| "the start".to_owned());
        let to = instant_of(options.to, source).unwrap_or_else(|| "the end".to_owned());
        notes.push(format!("A part of a longer recording: from {from} to {to}."));
    }
    notes.extend(sampler.map(|sampler| format!("A sample of a recording: {}.", sampler.in_words())));
    match options.names {
        Names::Keep => {}
        Names::Hash => notes.push("Names are hashes.".to_owned()),
        Names::Strip => notes.push("Names are numbers.".to_owned()),
    }
    notes
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the window.
    Before,
    Inside,
}

/// A recording that is being trimmed.
struct Trimming<'a> {
    options: &'a TrimOptions,
    writer: NumberedWriter<File>,
    /// The state of the sample before the window.
    before: NumberLedger,
    phase: Phase,
    sampler: Option<BlockSampler>,
    events: u64,
    /// When the window begins.
    began_at: Nanos,
}

/// True if a step comes after an instant; `ledger` is the state before it.
fn is_past(moment: Moment, ledger: &NumberLedger, step: &Step) -> bool {
    match moment {
        Moment::Start => true,
        Moment::At(time) => step.time > time,
        Moment::Event(events) => ledger.accounts().events() >= events,
        Moment::End => false,
    }
}

impl Trimming<'_> {
    fn see(&mut self, seen: WalkItem<'_>, renamer: &mut Renamer<'_>) -> io::Result<ControlFlow<()>> {
        match seen {
            WalkItem::Block(..) => {}
            WalkItem::Step(ledger, step) => {
                if self.phase == Phase::Before && is_past(self.options.from, ledger, step) {
                    let accounts = if self.sampler.is_some() { self.before.accounts() } else { ledger.accounts() };
                    let state = accounts.to_state();
                    self.begin(state, renamer)?;
                }
                if self.phase == Phase::Inside && is_past(self.options.to, ledger, step) {
                    return Ok(ControlFlow::Break(()));
                }
                let mut steps = Vec::new();
                match &mut self.sampler {
                    Some(sampler) => steps.extend(sampler.step(ledger, step)),
                    None => steps.push(*step),
                }
                self.write(&steps, renamer)?;
            }
            WalkItem::Stored(ledger) => match &mut self.sampler {
                Some(sampler) => {
                    let steps = sampler.catch_up(ledger.accounts());
                    self.write(&steps, renamer)?;
                }
                None if self.phase == Phase::Inside => {
                    self.writer.continue_from(ledger.accounts().to_state(), renamer.catalog())?;
                }
                None => {}
            },
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Begins the window with a state.
    fn begin(&mut self, mut state: AccountsState, renamer: &Renamer<'_>) -> io::Result<()> {
        if let Moment::At(time) = self.options.from {
            state.last_time = state.last_time.max(time);
        }
        self.phase = Phase::Inside;
        self.began_at = state.last_time;
        self.writer.continue_from(state, renamer.catalog())
    }

    fn write(&mut self, steps: &[Step], renamer: &mut Renamer<'_>) -> io::Result<()> {
        for step in steps {
            match (self.phase, self.sampler.is_some()) {
                (Phase::Inside, _) => {
                    self.events += u64::from(step.op.is_event());
                    self.writer.step(&renamer.step(step), renamer.catalog())?;
                }
                (Phase::Before, true) => self.before.replay(step),
                (Phase::Before, false) => {}
            }
        }
        Ok(())
    }
}

/// The names in a step.
impl Renamer<'_> {
    fn step(&mut self, step: &Step) -> Step {
        let op = match step.op {
            Op::Mark { name } => Op::Mark { name: self.mark(name) },
            Op::Gauge { name, value } => Op::Gauge { name: self.gauge(name), value },
            other => other,
        };
        Step { op, ..*step }
    }
}

/// The instant at which a window begins or ends, for messages.
pub fn instant_of(moment: Moment, source: &Source) -> Option<String> {
    match moment {
        Moment::At(Nanos(time)) => Some(source.instant(Nanos(time))),
        Moment::Event(event) => Some(format!("event {event}")),
        Moment::Start | Moment::End => None,
    }
}
