//! The recording of one process: turns the records that its agent shares into a recording, round by round.

mod older_blocks;
mod recorded_process;
mod records;
mod resident_memory;
mod streams;

pub use recorded_process::RecordedProcess;

use crate::breakdowns::{BreakdownWorker, Breakdowns};
use crate::mappings::{Beside, Mappings};
use crate::resident::Resident;
use crate::rings::RingReader;
use crate::stream::{ClosingStream, Sent, Stream, Streaming};
use highwater_clock::Counter;
use highwater_model::{
    AddressLedger, AddressSpace, Anomaly, Applied, Catalog, ENDED_EARLY, Event, EventKind, FrameId, Heap, Nanos,
    PlainEvent, Snapshot, Source, StackId, Tag, TagId, ThreadId, Totals, grouped,
};
use highwater_session::PerfMapFile;
use highwater_session::SessionMemory;
use highwater_session::SessionNames;
use highwater_session::Stamps;
use highwater_session::{Reason, UnrecordedPrograms};
use highwater_store::{StepWriter, Written, is_special, rename_without_replacing};
use highwater_symbols::{Symbolized, Symbolizer, add_type_facts, foreign_root, resolve_frames};
use older_blocks::HeldRecords;
use resident_memory::GaugeNames;
use rustc_hash::FxHashMap;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use streams::RecordingWriters;

/// The number of plain events that are handed over at once: small enough that they stay in the nearest cache.
const MOST_PLAIN: usize = 256;
/// How often thread names are read.
const LOOK_AROUND: Duration = Duration::from_millis(100);
/// Value of `awake_since` while there is no client: no event is of interest.
const NO_CLIENT: Nanos = Nanos(u64::MAX);

/// Outputs of the recording of a process.
#[derive(Default)]
pub struct Outputs {
    /// The file to write, and its path.
    pub file: Option<(PathBuf, File)>,
    /// Streams over a network.
    pub streaming: Option<Streaming>,
    /// The thread that reads pages; without one there are no breakdowns of resident memory.
    pub breakdown_worker: Option<BreakdownWorker>,
}

/// A thread of the program, as a ring knows it.
#[derive(Clone, Copy, Debug)]
struct RingThread {
    thread: ThreadId,
    kernel_id: u32,
    /// Its number in the ledger, once it has one.
    number: Option<u32>,
}

/// A process being recorded.
pub struct ProcessRecording {
    about: RecordedProcess,
    path: Option<PathBuf>,
    shared: Arc<SessionMemory>,
    stamps: Stamps,
    rings: RingReader,
    names: SessionNames,
    /// Where the program's runtime writes the names of code that it makes.
    perf_map: Option<PerfMapFile>,
    mappings: Mappings,
    catalog: Catalog,
    source: Source,
    ledger: AddressLedger,
    file: Option<StepWriter<File>>,
    /// Why the file could not be written, and its writer.
    failure: Option<(io::Error, Option<StepWriter<File>>)>,
    streams: Vec<Stream>,
    /// Streams that have ended, and whose clients are still receiving the rest.
    closing: Vec<ClosingStream>,
    streaming: Option<Streaming>,
    /// Events before this time are ignored, because there was no client. [`NO_CLIENT`] while there is none.
    awake_since: Nanos,
    /// PlainEvent events that are not handed to the ledger yet. Collected only while `takes_plain`: not if streams need the events too, or if some are ignored.
    plain: Vec<PlainEvent>,
    takes_plain: bool,
    owners: Vec<RingThread>,
    /// How many threads have had a kernel thread id: the kernel reuses ids.
    uses: FxHashMap<u32, u64>,
    /// The names of gauges.
    gauges: GaugeNames,
    /// The number of the event at which memory was at its peak, and the reservations and mapped files at that time: see
    /// [`ProcessRecording::keep_space_at_peak`].
    space_at_peak: (u64, Beside),
    /// Events that could not be recorded, as far as the agent counted them.
    missed: u32,
    resident: Resident,
    /// RSS and mapped bytes when they were written last.
    last_resident: [u64; 2],
    breakdowns: Breakdowns,
    /// Slack and free resident bytes when they were written last.
    last_curves: [u64; 2],
    last_time: Nanos,
    /// The last instant at which the process certainly ran this program.
    alive_at: Nanos,
    last_look: Instant,
    last_flush: Instant,
    unflushed: bool,
    /// Records that wait for the blocks from before an attach.
    held: Option<HeldRecords>,
    /// The stack of these blocks.
    older_stack: Option<StackId>,
    /// A note about the recording.
    note: Option<String>,
    inherited_frees: u64,
    lives_on: bool,
    /// The root of its container, and the namespace that keeps it mounted until names are found, also if the process has ended.
    root: Option<(File, File)>,
    /// Programs that it started, and that reported that they are not recorded.
    unrecorded: UnrecordedPrograms,
    /// Children whose recordings were not kept.
    left_out: LeftOutChildren,
    /// The tag of mappings.
    tag: TagId,
}

/// The result of recording a process.
#[derive(Debug)]
pub struct Finished {
    /// The process.
    pub about: RecordedProcess,
    /// Path of the recording, if it was written into a file.
    pub path: Option<PathBuf>,
    /// Peak of live bytes.
    pub peak_bytes: u64,
    /// Its figures, if they were requested.
    pub figures: Option<Box<LastFigures>>,
    /// What was written; an error if the file is incomplete.
    pub written: io::Result<Written>,
    /// What was sent to streams.
    pub sent: Sent,
    /// How many frames got names.
    pub symbols: Symbolized,
    /// Blocks of the parent that a forked child freed: they are in the parent's recording.
    pub inherited_frees: u64,
    /// Invalid records.
    pub nonsense: u64,
    /// Why the agent stopped before the program ended, and when.
    pub ended: Option<(Reason, Nanos)>,
    /// Whether the process lives on, unrecorded.
    pub lives_on: bool,
    /// Programs that it started and that are not recorded.
    pub unrecorded: UnrecordedPrograms,
}

/// The figures of a recording that has ended, as they would be found in its file.
#[derive(Debug)]
pub struct LastFigures {
    /// The state at its end, without the single blocks.
    pub end: Snapshot,
    /// Address space at the peak, beside the blocks.
    pub space_at_peak: AddressSpace,
    /// The same at the end.
    pub space_at_end: AddressSpace,
}

/// Children of a program, and their children, whose recordings were not kept.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOutChildren {
    count: u64,
    /// Their peaks added up: what they held together was never more.
    peak_bytes: u64,
    /// The peak from which on recordings are kept.
    limit: u64,
}

impl LeftOutChildren {
    fn sentence(&self, is_estimate: bool) -> Option<String> {
        let about = if is_estimate { "about " } else { "" };
        let kib = |bytes: u64| grouped(bytes.div_ceil(1024));
        let (one, their) =
            if self.count == 1 { ("child", "its peak was") } else { ("children", "their peaks add up to") };
        (self.count > 0).then(|| {
            format!(
                "{} {one} without a recording, with less than {} KiB at the peak: {their} {about}{} KiB",
                grouped(self.count),
                kib(self.limit),
                kib(self.peak_bytes)
            )
        })
    }
}

impl ProcessRecording {
    /// Begins the recording of the process that shares `shared`. If that fails, the agent is asked to stop: it would wait for the recorder.
    pub fn begin(
        shared: SessionMemory,
        about: RecordedProcess,
        to: Outputs,
        counter: Option<Counter>,
    ) -> io::Result<Self> {
        let shared = Arc::new(shared);
        Self::begin_on(&shared, about, to, counter).inspect_err(|_| shared.header().stop.store(1, Ordering::Release))
    }

    fn begin_on(
        shared: &Arc<SessionMemory>,
        about: RecordedProcess,
        to: Outputs,
        counter: Option<Counter>,
    ) -> io::Result<Self> {
        let stamps = Stamps::of(shared.header(), counter)
            .ok_or_else(|| io::Error::other("the program counts processor ticks, which this machine cannot"))?;
        let mut catalog = Catalog::default();
        let tag = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
        let gauges = GaugeNames::of(&mut catalog);
        let source = about.source(&stamps);
        let ledger = AddressLedger::default();
        let (path, file) = match to.file {
            Some((path, file)) => (Some(path), Some(StepWriter::begin(file, &source, ledger.accounts(), &catalog)?)),
            None => (None, None),
        };
        let asleep = to.streaming.as_ref().is_some_and(Streaming::is_on_demand);
        let now = Instant::now();
        let resident = Resident::of(about.pid, about.rss_every);
        let breakdowns = Breakdowns::of(about.pid, about.rss_every, to.breakdown_worker);
        let (names, perf_map) = (SessionNames::of_process(about.pid), PerfMapFile::of(about.pid));
        let namespace = || File::open(format!("/proc/{}/ns/mnt", about.pid)).ok();
        let root = foreign_root(about.pid).and_then(|root| File::open(root).ok().zip(namespace()));
        let mut recording = Self {
            about,
            path,
            shared: Arc::clone(shared),
            stamps,
            rings: RingReader::default(),
            names,
            perf_map,
            mappings: Mappings::default(),
            catalog,
            source,
            ledger,
            file,
            failure: None,
            streams: Vec::new(),
            closing: Vec::new(),
            streaming: to.streaming,
            awake_since: if asleep { NO_CLIENT } else { Nanos(0) },
            plain: Vec::with_capacity(MOST_PLAIN),
            takes_plain: false,
            owners: Vec::new(),
            uses: FxHashMap::default(),
            gauges,
            space_at_peak: (0, Beside::default()),
            missed: 0,
            resident,
            last_resident: [0; 2],
            breakdowns,
            last_curves: [0; 2],
            last_time: Nanos(0),
            alive_at: Nanos(0),
            last_look: now,
            last_flush: now,
            unflushed: false,
            held: None,
            older_stack: None,
            note: None,
            inherited_frees: 0,
            lives_on: false,
            root,
            unrecorded: UnrecordedPrograms::default(),
            left_out: LeftOutChildren::default(),
            tag,
        };
        // A client that is connected already gets everything from the start.
        recording.tend_streams(now);
        Ok(recording)
    }

    /// The process.
    pub fn about(&self) -> &RecordedProcess {
        &self.about
    }

    /// Path of the recording file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Moves the recording to another path. Fails if a file is there already: it is not replaced.
    pub(crate) fn rename(&mut self, path: &Path) -> io::Result<()> {
        // A device or a pipe stays where it is.
        if let Some(old) = self.path.as_ref().filter(|old| !is_special(old)) {
            rename_without_replacing(old, path)?;
            self.path = Some(path.to_owned());
        }
        Ok(())
    }

    /// Deletes the file written so far, and writes no more into one. Returns whether the recording is still streamed.
    pub(crate) fn discard_file(&mut self) -> bool {
        self.file = None;
        // A device or a pipe that was named as the output is not ours to remove.
        let _ = self.path.take().filter(|path| !is_special(path)).map(std::fs::remove_file);
        self.streaming.is_some()
    }

    /// The figures so far, and the number of events that they cover.
    pub fn figures(&self) -> (Totals, u64) {
        let accounts = self.ledger.accounts();
        (*accounts.totals(), accounts.events())
    }

    /// The number of connected clients.
    pub fn clients(&self) -> usize {
        self.streams.len()
    }

    /// Whether events are of interest now.
    pub fn is_awake(&self) -> bool {
        self.awake_since != NO_CLIENT
    }

    /// Asks the agent to stop recording.
    pub fn stop(&self) {
        self.shared.header().stop.store(1, Ordering::Release);
    }

    /// The recording ends before the process does.
    pub(crate) fn leave(&mut self) {
        self.lives_on = true;
        self.stop();
    }

    /// Sets a note that the recording gets at its end.
    pub(crate) fn set_note(&mut self, note: String) {
        self.note = Some(note);
    }

    /// A program that this one started is not recorded.
    pub(crate) fn add_unrecorded(&mut self, reason: Reason, name: &str) {
        self.unrecorded.add(reason, name);
    }

    /// The recording of a child was not kept, because its peak was below a limit.
    pub(crate) fn add_left_out(&mut self, peak_bytes: u64, limit: u64) {
        self.left_out.count += 1;
        self.left_out.peak_bytes = self.left_out.peak_bytes.saturating_add(peak_bytes);
        self.left_out.limit = limit;
    }

    /// Programs that it started and that are not recorded, so far.
    pub(crate) fn unrecorded(&self) -> UnrecordedPrograms {
        let mut all = UnrecordedPrograms::of(&self.shared);
        all.extend(&self.unrecorded);
        all
    }

    /// Why the agent stopped by itself, and when.
    pub fn ended(&self) -> Option<(Reason, Nanos)> {
        let header = self.shared.header();
        let reason = Reason::from_number(header.ended.load(Ordering::Acquire))?;
        Some((reason, self.stamps.time(header.ended_at.load(Ordering::Relaxed))))
    }

    /// Reads the records written since the last round; returns their size in bytes. `ended` says that the process will not write any more.
    pub fn round(&mut self, ended: bool) -> u64 {
        self.shared.keep_ahead();
        let now = (!ended).then(|| self.stamps.settled());
        if self.held.is_some() {
            return self.round_of_held(now);
        }
        let resident = if ended { None } else { self.resident.due() };
        self.takes_plain = self.file.is_some()
            && self.streams.is_empty()
            && !self.about.inherits()
            && self.source.sample_rate.is_none()
            && self.awake_since == Nanos(0);
        let (mut rings, shared) = (std::mem::take(&mut self.rings), Arc::clone(&self.shared));
        let round = rings.round(&shared, now, self);
        self.rings = rings;
        self.hand_over();
        self.take_breakdown();
        if let Some(bytes) = resident {
            self.note_resident(round.watermark, bytes);
            self.make_due_breakdown(round.watermark);
        }
        self.missed_and_dropped(round.dropped);
        self.look_around();
        round.bytes
    }

    fn missed_and_dropped(&mut self, dropped: u64) {
        let missed = self.shared.header().missed.load(Ordering::Relaxed);
        let count = dropped + u64::from(missed.wrapping_sub(self.missed));
        self.missed = missed;
        if count > 0 {
            self.push(self.last_time, ThreadId(self.about.pid.into()), EventKind::Dropped { count });
        }
    }

    fn ask_for_name(&mut self, owner: RingThread) {
        let path = format!("/proc/{}/task/{}/comm", self.about.pid, owner.kernel_id);
        if let Ok(name) = std::fs::read_to_string(path) {
            self.catalog.name_thread(owner.thread, name.trim_end());
        }
    }

    /// Hands an event to the ledger, and the resulting ops to the file and all streams.
    fn push(&mut self, time: Nanos, thread: ThreadId, kind: EventKind) {
        if time >= self.awake_since {
            self.unflushed = true;
            let written = self.hand_to_all(Event { time, thread, kind });
            self.or_fail(written);
        }
    }

    /// Hands the plain events to the ledger and to the file. An event that turns out not to be plain is handed over by itself.
    fn hand_over(&mut self) {
        let mut plain = std::mem::take(&mut self.plain);
        let mut rest = &mut plain[..];
        while !rest.is_empty() {
            let room = self.file.as_ref().map_or(0, StepWriter::room_for_plain).min(rest.len());
            let Applied { count, highest_bytes } = self.ledger.record_plain(&mut rest[..room]);
            let (applied, others) = rest.split_at_mut(count);
            if let Some(file) = &mut self.file {
                self.unflushed = true;
                let written = file.plain_done(applied, highest_bytes, self.ledger.accounts(), &self.catalog);
                self.or_fail(written);
            }
            rest = others;
            if (count < room || room == 0)
                && let Some((unusual, others)) = std::mem::take(&mut rest).split_first_mut()
            {
                let thread = self.ledger.numbered_thread(unusual.thread);
                self.push(unusual.time, thread, unusual.kind());
                rest = others;
            }
        }
        plain.clear();
        self.plain = plain;
    }

    /// If the file cannot be written and there is no stream, the agent is asked to stop.
    #[inline(always)]
    fn or_fail(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.fail(error);
        }
    }

    fn hand_to_all(&mut self, mut event: Event) -> io::Result<()> {
        if self.about.inherits() {
            self.take_back_older(&event)?;
            if !self.is_own(&mut event) {
                return Ok(());
            }
        }
        let mut all = RecordingWriters { file: &mut self.file, streams: &mut self.streams };
        self.ledger.record(&event, &mut all);
        let accounts = self.ledger.accounts();
        for at in 0..self.streams.len() {
            if self.streams[at].event_done(accounts, &self.catalog) {
                // Only of a trace, which writes names before anything else.
                if let Some(streaming) = &mut self.streaming {
                    streaming.naming.go_on_until_idle(&mut self.catalog);
                }
                self.streams[at].send(accounts, &mut self.catalog);
            }
        }
        match &mut self.file {
            Some(file) => file.event_done(accounts, &self.catalog),
            None => Ok(()),
        }
    }

    /// Whether an event is about a block that this process allocated while it was recorded. A resized block counts as its own from then on.
    fn is_own(&mut self, event: &mut Event) -> bool {
        match event.kind {
            EventKind::Deallocate { address, .. } if self.ledger.find(address).is_none() => {
                self.inherited_frees += 1;
                false
            }
            EventKind::Reallocate { old_address, new, .. } if self.ledger.find(old_address).is_none() => {
                self.inherited_frees += 1;
                event.kind = EventKind::Allocate(new);
                true
            }
            _ => true,
        }
    }

    fn fail(&mut self, error: io::Error) {
        if self.streaming.is_none() {
            self.stop();
        }
        self.failure = Some((error, self.file.take()));
    }

    fn look_around(&mut self) {
        let now = Instant::now();
        if now - self.last_look >= LOOK_AROUND {
            self.last_look = now;
            self.owners
                .clone()
                .into_iter()
                .filter(|owner| owner.kernel_id != 0)
                .for_each(|owner| self.ask_for_name(owner));
            if self.names.read_perf_map(&mut self.perf_map, &self.shared, &mut self.catalog, false) {
                self.streams.iter_mut().for_each(Stream::has_news);
            }
        }
        if self.unflushed && now - self.last_flush >= self.about.flush_every {
            self.last_flush = now;
            self.unflushed = false;
            if let Some(file) = &mut self.file
                && let Err(error) = file.flush(self.ledger.accounts(), &self.catalog)
            {
                self.fail(error);
            }
        }
        self.tend_streams(now);
    }

    /// Called when reservations or mapped files change. If they have not changed since the latest peak, `before` is their value at that peak.
    fn keep_space_at_peak(&mut self, before: Beside) {
        let peak = self.ledger.accounts().totals().peak_event;
        if self.space_at_peak.0 != peak {
            self.space_at_peak = (peak, before);
        }
    }

    /// Now, on the recording's time axis.
    pub fn now(&self) -> Nanos {
        self.stamps.now()
    }

    /// The process ran this program at this instant: it holds its memory until then, with or without an event. An instant that is too late would count its
    /// memory together with that of a process that came after it.
    pub fn set_alive_at(&mut self, at: Nanos) {
        self.alive_at = at;
    }

    /// Ends the recording: finds names, completes the file and the streams. All records must have been read.
    pub fn finish(mut self, symbolizer: &mut Symbolizer, with_figures: bool) -> Finished {
        self.stop();
        if self.ledger.accounts().events() > 0 {
            // A client that is waiting for a stream still gets the rest.
            self.tend_streams(Instant::now());
        }
        let header = self.shared.header();
        let cut = header.cut_stacks.load(Ordering::Relaxed).saturating_add(header.lost_nodes.load(Ordering::Relaxed));
        self.names.read_perf_map(&mut self.perf_map, &self.shared, &mut self.catalog, true);
        symbolizer.set_root(self.root.as_ref().map(|(root, _)| format!("/proc/self/fd/{}", root.as_raw_fd()).into()));
        let symbols = self.find_names(symbolizer);
        symbolizer.set_root(None);
        let (ended, unrecorded) = (self.ended(), self.unrecorded());
        let held = ended.as_ref().map_or(self.alive_at, |(_, at)| self.alive_at.min(*at));
        self.source.duration = self.last_time.max(held);
        let is_estimate = self.source.sample_rate.is_some();
        self.source.notes = self.note.take().into_iter().chain(self.left_out.sentence(is_estimate)).collect();
        self.source.notes.extend(unrecorded.sentences());
        if let Some((reason, at)) = ended {
            self.source.notes.insert(0, about_end(reason, at));
        }
        for (anomaly, count) in [(Anomaly::DroppedEvent, self.rings.nonsense), (Anomaly::TruncatedStack, cut.into())] {
            if count > 0 {
                let mut all = RecordingWriters { file: &mut self.file, streams: &mut self.streams };
                self.ledger.note(anomaly, count, &mut all);
            }
        }
        let now = self.mappings.beside();
        self.keep_space_at_peak(now);
        self.write_last_breakdowns();
        let (accounts, catalog) = (self.ledger.accounts(), &mut self.catalog);
        let last = self.streams.drain(..).map(|stream| stream.finish(accounts, catalog, &self.source));
        let closing: Vec<ClosingStream> = self.closing.drain(..).chain(last).collect();
        let written = match (self.file.take(), self.failure.take()) {
            (Some(file), None) => file.finish(accounts, catalog, &self.source).map(|(written, _)| written),
            (_, Some((failure, file))) => {
                let _ = file.map(|file| file.finish_on_a_full_disk(catalog));
                Err(failure)
            }
            (None, None) => Ok(Written { events: accounts.events(), bytes: 0 }),
        };
        let sent = self.streaming.take().map_or_else(Sent::default, |mut streaming| {
            closing.into_iter().for_each(|stream| streaming.has_ended(stream.wait(streaming.patience)));
            streaming.sent
        });
        self.source.duration = self.source.duration.max(self.ledger.accounts().last_time());
        let peak_bytes = self.ledger.accounts().totals().figures.peak_bytes;
        let figures = with_figures.then(|| LastFigures {
            end: Snapshot {
                source: self.source,
                at: self.ledger.accounts().last_time(),
                accounts: self.ledger.into_accounts().into_figures_alone(),
                catalog: Arc::new(self.catalog),
            },
            space_at_peak: self.space_at_peak.1.into(),
            space_at_end: now.into(),
        });
        Finished {
            about: self.about,
            path: self.path,
            peak_bytes,
            figures: figures.map(Box::new),
            written,
            sent,
            symbols,
            inherited_frees: self.inherited_frees,
            lives_on: self.lives_on,
            nonsense: self.rings.nonsense,
            ended,
            unrecorded,
        }
    }

    /// Finds names for all frames that have none yet.
    fn find_names(&mut self, symbolizer: &mut Symbolizer) -> Symbolized {
        let stacks = &self.catalog.stacks;
        let before: HashSet<FrameId> = stacks.resolutions().iter().map(|resolution| resolution.frame).collect();
        let has_line = |&frame: &FrameId| stacks.frame_ids(frame).any(|id| stacks.frames()[id as usize].line > 0);
        let with_lines = before.iter().filter(|frame| has_line(frame)).count();
        let mut symbols = resolve_frames(&mut self.catalog, symbolizer, |id| !before.contains(&id));
        add_type_facts(&mut self.catalog, symbolizer, self.ledger.accounts());
        symbols.addresses += before.len();
        symbols.named += before.len();
        symbols.with_lines += with_lines;
        symbols
    }
}

/// The note in a recording about its early end.
fn about_end(reason: Reason, at: Nanos) -> String {
    match reason {
        Reason::Filter => format!("{ENDED_EARLY}{at}, when the program installed a seccomp filter"),
        reason => format!("{ENDED_EARLY}{at}: {}", highwater_session::reason_in_words(reason)),
    }
}
