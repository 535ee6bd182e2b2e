//! The course of one process: what its agent shares becomes a recording, round by round.

use crate::drain::{Drain, Haul};
use crate::mappings::Mappings;
use crate::merge::{Merge, Reader};
use crate::names::Names;
use crate::record::{Place, Record};
use crate::shared::Shared;
use crate::stamps::Stamps;
use crate::stream::{Closing, Sent, Stream, Streaming, Wire};
use crate::symbolize::{self, Symbolized};
use crate::words::Pool;
use highwater_clock::Counter;
use highwater_model::{
    Accounts, AccountsState, AddressLedger, Anomaly, Catalog, Event, EventKind, FrameId, Heap, Nanos, Placement,
    Scribe, Source, Step, StringId, Tag, TagId, ThreadId, Totals, Weight, mapped_address,
};
use highwater_store::{Pen, Written};
use highwater_symbols::Symbolizer;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Events handed to the writer at once.
const BATCH: usize = 32;
/// How often the resident set is noted, and names of threads are looked at.
const LOOK_AROUND: Duration = Duration::from_millis(100);
/// A client that wants no more waits so long for names.
const WAIT_FOR_NAMES: Duration = Duration::from_secs(3);
/// Blocks being reallocated are found at addresses that no block can have.
const ASIDE: u64 = 1 << 63;
/// Since when events are of interest, where nobody is.
const NOBODY_THERE: Nanos = Nanos(u64::MAX);

/// What is recorded, beside what the agent shares.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The executable.
    pub executable: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The process, as we see it.
    pub pid: u32,
    /// Its parent, 0 if not known.
    pub parent: u32,
    /// It was forked from a process that was recorded, and did not begin with an empty heap.
    pub forked: bool,
    /// It allocated before it was recorded.
    pub late: bool,
    /// The agent tells how much a block can really hold.
    pub usable_sizes: bool,
    /// Mean bytes per sample, if not everything is recorded.
    pub sample_rate: Option<u64>,
    /// How much may be lost if this process is killed.
    pub flush_every: Duration,
}

impl About {
    /// Whether it may give back blocks that nobody saw it allocate.
    fn inherits(&self) -> bool {
        self.forked || self.late
    }
}

/// Where the recording of a process goes.
#[derive(Default)]
pub struct Outputs<'a> {
    /// Into this file.
    pub file: Option<&'a Path>,
    /// Over a network.
    pub streaming: Option<Streaming>,
}

/// A thread of the program, as a ring knows it.
#[derive(Clone, Copy, Debug)]
struct Owner {
    thread: ThreadId,
    kernel_id: u32,
}

/// A process being recorded.
pub struct Course {
    about: About,
    path: Option<PathBuf>,
    shared: Arc<Shared>,
    stamps: Stamps,
    drain: Drain,
    pool: Pool,
    merge: Merge,
    names: Names,
    mappings: Mappings,
    catalog: Catalog,
    source: Source,
    ledger: AddressLedger,
    file: Option<Pen<File>>,
    failure: Option<io::Error>,
    streams: Vec<Stream>,
    /// Streams that have ended, and whose clients are still taking the rest.
    closing: Vec<Closing>,
    streaming: Option<Streaming>,
    /// Events before this are of no interest: nobody was there. The end of time while nobody is.
    awake_since: Nanos,
    events: Vec<Event>,
    owners: Vec<Owner>,
    /// How many threads had a kernel's number: numbers are reused.
    uses: FxHashMap<u32, u64>,
    rss: StringId,
    /// Events that happened where none could be recorded, as far as they were noted.
    missed: u32,
    last_rss: u64,
    last_time: Nanos,
    last_look: Instant,
    last_flush: Instant,
    unflushed: bool,
    inherited_frees: u64,
    tag: TagId,
}

/// What became of a process.
#[derive(Debug)]
pub struct Finished {
    /// Whose recording.
    pub about: About,
    /// Where it is, if it was written into a file.
    pub path: Option<PathBuf>,
    /// What was written; an error if it could not all be.
    pub written: io::Result<Written>,
    /// What was sent.
    pub sent: Sent,
    /// How names were found.
    pub symbols: Symbolized,
    /// Blocks of the parent that a forked child gave back: they are in the parent's recording.
    pub inherited_frees: u64,
    /// Records that made no sense.
    pub nonsense: u64,
}

impl Course {
    /// Begins the recording of whoever shares `shared`. Where that fails, the program is told to stop: it would wait for us.
    pub fn begin(shared: Shared, about: About, to: Outputs<'_>, counter: Option<Counter>) -> io::Result<Self> {
        let shared = Arc::new(shared);
        Self::begin_on(&shared, about, to, counter).inspect_err(|_| shared.header().stop.store(1, Ordering::Release))
    }

    fn begin_on(shared: &Arc<Shared>, about: About, to: Outputs<'_>, counter: Option<Counter>) -> io::Result<Self> {
        let stamps = Stamps::of(shared.header(), counter)
            .ok_or_else(|| io::Error::other("the program counts processor ticks, which this machine cannot"))?;
        let mut catalog = Catalog::default();
        let tag = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
        let rss = catalog.strings.intern("rss");
        let source = source(&about, &stamps);
        let ledger = AddressLedger::default();
        let file = match to.file {
            Some(path) => Some(Pen::begin(File::create(path)?, &source, ledger.accounts(), &catalog)?),
            None => None,
        };
        let asleep = to.streaming.as_ref().is_some_and(Streaming::is_on_demand);
        let now = Instant::now();
        let mut course = Self {
            about,
            path: to.file.map(Path::to_owned),
            shared: Arc::clone(shared),
            stamps,
            drain: Drain::default(),
            pool: Pool::default(),
            merge: Merge::default(),
            names: Names::default(),
            mappings: Mappings::with_tag(tag),
            catalog,
            source,
            ledger,
            file,
            failure: None,
            streams: Vec::new(),
            closing: Vec::new(),
            streaming: to.streaming,
            awake_since: if asleep { NOBODY_THERE } else { Nanos(0) },
            events: Vec::with_capacity(BATCH),
            owners: Vec::new(),
            uses: FxHashMap::default(),
            rss,
            missed: 0,
            last_rss: 0,
            last_time: Nanos(0),
            last_look: now,
            last_flush: now,
            unflushed: false,
            inherited_frees: 0,
            tag,
        };
        // Whoever is there gets everything from the start.
        course.tend_streams(now);
        Ok(course)
    }

    /// Whose recording.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Where the recording is.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Moves the recording to another path.
    pub(crate) fn rename(&mut self, path: &Path) -> io::Result<()> {
        if let Some(old) = &self.path {
            std::fs::rename(old, path)?;
            self.path = Some(path.to_owned());
        }
        Ok(())
    }

    /// The figures so far, and how many events they are of.
    pub fn figures(&self) -> (Totals, u64) {
        let accounts = self.ledger.accounts();
        (*accounts.totals(), accounts.events())
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.streams.len()
    }

    /// Whether events are of interest now.
    pub fn is_awake(&self) -> bool {
        self.awake_since != NOBODY_THERE
    }

    /// What the process shares, and its clock: for whoever empties its rings.
    pub(crate) fn sharing(&self) -> (Arc<Shared>, Stamps) {
        (Arc::clone(&self.shared), self.stamps)
    }

    /// Tells the agent to stop recording.
    pub fn stop(&self) {
        self.shared.header().stop.store(1, Ordering::Release);
    }

    /// Takes in what was recorded since the last round; how many bytes of the rings that was. `ended` says that the process will not
    /// write any more. Not for a process that has a drainer.
    pub fn round(&mut self, ended: bool) -> u64 {
        let now = (!ended).then(|| self.stamps.settled());
        let haul = self.drain.round(&self.shared, now, &mut self.pool);
        let bytes = haul.bytes();
        self.work_through(haul);
        bytes
    }

    /// Makes events of what was brought in.
    pub(crate) fn work_through(&mut self, haul: Haul) {
        let dropped = haul.dropped;
        let mut merge = std::mem::take(&mut self.merge);
        merge.take(haul, self);
        self.merge = merge;
        self.missed_and_dropped(dropped);
        self.hand_over();
        self.look_around();
    }

    fn missed_and_dropped(&mut self, dropped: u64) {
        let missed = self.shared.header().missed.load(Ordering::Relaxed);
        let count = dropped + u64::from(missed.wrapping_sub(self.missed));
        self.missed = missed;
        if count > 0 {
            self.push(self.last_time, ThreadId(self.about.pid.into()), EventKind::Dropped { count });
        }
    }

    /// The time of a stamp, and the thread that a ring is of.
    #[inline]
    fn place_in_time(&mut self, stamp: u64, ring: u32) -> (Nanos, ThreadId) {
        let time = self.stamps.time(stamp).max(self.last_time);
        self.last_time = time;
        (time, self.owners.get(ring as usize).map_or(ThreadId(0), |owner| owner.thread))
    }

    fn take_rare(&mut self, time: Nanos, ring: usize, thread: ThreadId, record: Record) {
        match record {
            Record::Padding => {}
            Record::Reallocate { old, new } => self.reallocate(time, thread, old, new),
            Record::ReallocBegin { old } => {
                self.give_up(time, thread, ASIDE | ring as u64);
                self.ledger.set_aside(old, ASIDE | ring as u64);
            }
            Record::ReallocEnd { old, new } => {
                self.hand_over();
                let aside = ASIDE | ring as u64;
                let stays = new.address == 0 || new.address == old;
                let from = if stays {
                    // Where it was, if it stays there: then nobody else can have been given that place.
                    self.ledger.set_aside(aside, old);
                    old
                } else if self.ledger.find(aside).is_some() {
                    aside
                } else {
                    old
                };
                if new.address != 0 {
                    self.reallocate(time, thread, from, new);
                }
            }
            Record::Map(place) => {
                let stack = self.stack(place.node);
                self.with_mappings(time, thread, |mappings, tell| mappings.map(place.address, place.size, stack, tell));
            }
            Record::Unmap { address, length } => {
                self.with_mappings(time, thread, |mappings, tell| mappings.unmap(address, length, tell));
            }
            Record::RemapBegin { old, old_length } => {
                self.give_up(time, thread, mapped_address(ASIDE | (ring as u64) << 1));
                if self.mappings.set_aside(old, old_length, ring) {
                    self.ledger.set_aside(mapped_address(old), mapped_address(ASIDE | (ring as u64) << 1));
                }
            }
            Record::Remap { old, new, .. } if self.mappings.is_aside(ring) => {
                self.hand_over();
                let aside = mapped_address(ASIDE | (ring as u64) << 1);
                let stays = new.address == 0 || new.address == old;
                let from = if stays {
                    self.ledger.set_aside(aside, mapped_address(old));
                    mapped_address(old)
                } else {
                    aside
                };
                let stack = self.stack(new.node);
                self.with_mappings(time, thread, |mappings, tell| {
                    mappings.bring_back(ring, new.address, new.size, stack, from, tell);
                });
            }
            Record::Remap { new, .. } if new.address == 0 => {}
            Record::Remap { old, old_length, new } => {
                let stack = self.stack(new.node);
                self.with_mappings(time, thread, |mappings, tell| {
                    mappings.remap(old, old_length, new.address, new.size, stack, tell);
                });
            }
            Record::Thread { id } => self.new_owner(ring, id),
            Record::Mark(name) => {
                let name = self.catalog.strings.intern(&name);
                self.push(time, thread, EventKind::Mark { name });
            }
            Record::Name { id, name } => {
                let named = id.and_then(|id| self.owners.iter().find(|owner| owner.kernel_id == id));
                let named = named.map_or(thread, |owner| owner.thread);
                self.catalog.name_thread(named, &name);
            }
        }
    }

    #[inline]
    fn placement(&mut self, place: &Place) -> Placement {
        let weight = self.source.sample_rate.map_or(Weight::ONE, |rate| Weight::of_sample(place.size, rate));
        Placement {
            address: place.address,
            size: place.size,
            stack: self.stack(place.node),
            surplus: place.surplus,
            weight,
            ..Placement::default()
        }
    }

    #[inline]
    fn stack(&mut self, node: u32) -> highwater_model::StackId {
        if !self.names.knows(node) {
            let stamps = self.stamps;
            self.names
                .read_modules(&self.shared, &self.about.executable, &mut self.catalog, |stamp| stamps.time(stamp));
        }
        self.names.stack(node, &self.shared, &mut self.catalog)
    }

    fn reallocate(&mut self, time: Nanos, thread: ThreadId, old_address: u64, new: Place) {
        let new = self.placement(&new);
        self.push(time, thread, EventKind::Reallocate { old_address, claimed_old_size: None, new });
    }

    /// A block that a thread had set aside when it begins to move another: where it went was dropped, so it counts as given back.
    fn give_up(&mut self, time: Nanos, thread: ThreadId, aside: u64) {
        self.hand_over();
        if self.ledger.find(aside).is_some() {
            self.push(time, thread, EventKind::Deallocate { address: aside, claimed_size: None });
            self.hand_over();
        }
    }

    fn with_mappings(
        &mut self,
        time: Nanos,
        thread: ThreadId,
        change: impl FnOnce(&mut Mappings, &mut dyn FnMut(EventKind)),
    ) {
        let mut mappings = std::mem::take(&mut self.mappings);
        change(&mut mappings, &mut |kind| self.push(time, thread, kind));
        self.mappings = mappings;
    }

    fn new_owner(&mut self, ring: usize, kernel_id: u32) {
        let uses = self.uses.entry(kernel_id).or_default();
        let thread = ThreadId(u64::from(kernel_id) | *uses << 32);
        *uses += 1;
        let owner = Owner { thread, kernel_id };
        if ring >= self.owners.len() {
            self.owners.resize(ring + 1, Owner { thread: ThreadId(0), kernel_id: 0 });
        }
        self.owners[ring] = owner;
    }

    fn ask_for_name(&mut self, owner: Owner) {
        let path = format!("/proc/{}/task/{}/comm", self.about.pid, owner.kernel_id);
        if let Ok(name) = std::fs::read_to_string(path) {
            self.catalog.name_thread(owner.thread, name.trim_end());
        }
    }

    #[inline]
    fn push(&mut self, time: Nanos, thread: ThreadId, kind: EventKind) {
        if time < self.awake_since {
            return;
        }
        self.events.push(Event { time, thread, kind });
        if self.events.len() >= BATCH {
            self.hand_over();
        }
    }

    /// Hands the events to the ledger, and what they mean to all who write it down. When the file cannot be written, and is all there
    /// is, the program is told to stop recording.
    fn hand_over(&mut self) {
        if self.events.is_empty() {
            return;
        }
        self.unflushed = true;
        let mut events = std::mem::take(&mut self.events);
        let written = match &mut self.file {
            Some(file) if self.streams.is_empty() && !self.about.inherits() => events.iter().try_for_each(|event| {
                self.ledger.record(event, file.scribe());
                file.event_done(self.ledger.accounts(), &self.catalog)
            }),
            _ => events.iter().try_for_each(|event| self.hand_to_all(*event)),
        };
        if let Err(error) = written {
            self.fail(error);
        }
        events.clear();
        self.events = events;
    }

    fn hand_to_all(&mut self, mut event: Event) -> io::Result<()> {
        if self.about.inherits() && !self.is_own(&mut event) {
            return Ok(());
        }
        let mut all = All { file: &mut self.file, streams: &mut self.streams };
        self.ledger.record(&event, &mut all);
        let accounts = self.ledger.accounts();
        for at in 0..self.streams.len() {
            if self.streams[at].event_done(accounts, &self.catalog) {
                // Only of a trace, which tells names before anything else.
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

    /// Whether an event is about a block that this process allocated while it was recorded. One that was resized is so from then on.
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
        self.file = None;
        self.failure = Some(error);
    }

    /// Sends what is due, lets clients go that have left, and welcomes new ones.
    fn tend_streams(&mut self, now: Instant) {
        self.hand_over();
        let Some(mut streaming) = self.streaming.take() else { return };
        if self.streams.iter().any(Stream::needs_names) {
            streaming.naming.go_on_until_idle(&mut self.catalog);
        }
        if !self.streams.is_empty() && streaming.naming.go_on(&mut self.catalog) {
            self.streams.iter_mut().for_each(Stream::has_news);
        }
        let source = Source { duration: self.stamps.now(), ..self.source.clone() };
        let (accounts, catalog) = (self.ledger.accounts(), &mut self.catalog);
        for mut stream in std::mem::take(&mut self.streams) {
            if !stream.tend(now, accounts, catalog, &source) {
                streaming.has_ended(stream.drop_it());
                continue;
            }
            match stream.asked_to_end(now) {
                Some(since) if since > WAIT_FOR_NAMES || streaming.naming.is_idle(catalog) => {
                    self.closing.push(stream.finish(accounts, catalog, &source));
                }
                _ => self.streams.push(stream),
            }
        }
        for done in self.closing.extract_if(.., |closing| closing.is_done()) {
            streaming.has_ended(done.wait(streaming.patience));
        }
        while let Some((outbox, place)) = streaming.next(self.streams.len() + self.closing.len()) {
            if !self.is_awake() {
                self.wake();
            }
            if streaming.wire == Wire::Memtrace {
                streaming.naming.go_on_until_idle(&mut self.catalog);
            }
            let (source, accounts) = (&self.source, self.ledger.accounts());
            match Stream::begin(streaming.wire, outbox, place, source, accounts, &self.catalog) {
                Ok(stream) => self.streams.push(stream),
                Err(_) => break,
            }
        }
        if streaming.is_on_demand() && self.streams.is_empty() && self.is_awake() {
            self.sleep();
        }
        self.streaming = Some(streaming);
    }

    /// Somebody is there: what is allocated from now on is of interest. Of what was before nothing is known.
    fn wake(&mut self) {
        let now = self.stamps.now().max(self.last_time);
        self.last_time = now;
        self.awake_since = now;
        self.last_rss = 0;
        let beginning = AccountsState { last_time: now, ..AccountsState::default() };
        self.ledger = AddressLedger::from_accounts(Accounts::from_state(beginning));
        self.mappings = Mappings::with_tag(self.tag);
        self.shared.header().go.store(1, Ordering::Release);
    }

    /// Nobody is there any more.
    fn sleep(&mut self) {
        self.shared.header().go.store(0, Ordering::Release);
        self.awake_since = NOBODY_THERE;
    }

    /// Ends the streams as they are: nobody shall get them.
    pub(crate) fn drop_streams(&mut self) {
        self.streams.drain(..).for_each(|stream| drop(stream.drop_it()));
        self.streaming = None;
    }

    fn look_around(&mut self) {
        let now = Instant::now();
        if now - self.last_look >= LOOK_AROUND {
            self.last_look = now;
            self.note_rss();
            self.owners
                .clone()
                .into_iter()
                .filter(|owner| owner.kernel_id != 0)
                .for_each(|owner| self.ask_for_name(owner));
        }
        if self.unflushed && now - self.last_flush >= self.about.flush_every {
            self.hand_over();
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

    fn note_rss(&mut self) {
        const PAGE: u64 = 4096;
        let Ok(text) = std::fs::read_to_string(format!("/proc/{}/statm", self.about.pid)) else { return };
        let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
        if pages > 0 && pages != self.last_rss && self.is_awake() {
            self.last_rss = pages;
            let kind = EventKind::Gauge { name: self.rss, value: pages * PAGE };
            self.push(self.last_time, ThreadId(self.about.pid.into()), kind);
        }
    }

    /// Ends the recording: finds names, completes the file and the streams. Everything must have been taken in.
    pub fn finish(mut self, symbolizer: &mut Symbolizer) -> Finished {
        self.stop();
        self.hand_over();
        if self.ledger.accounts().events() > 0 {
            // Whoever was to get a stream, and got none yet, gets what is left.
            self.tend_streams(Instant::now());
        }
        let header = self.shared.header();
        let cut = header.cut_stacks.load(Ordering::Relaxed).saturating_add(header.lost_nodes.load(Ordering::Relaxed));
        let symbols = self.find_names(symbolizer);
        self.source.duration = self.last_time;
        for (anomaly, count) in [(Anomaly::DroppedEvent, self.merge.nonsense), (Anomaly::TruncatedStack, cut.into())] {
            if count > 0 {
                let mut all = All { file: &mut self.file, streams: &mut self.streams };
                self.ledger.note(anomaly, count, &mut all);
            }
        }
        let (accounts, catalog) = (self.ledger.accounts(), &mut self.catalog);
        let last = self.streams.drain(..).map(|stream| stream.finish(accounts, catalog, &self.source));
        let closing: Vec<Closing> = self.closing.drain(..).chain(last).collect();
        let written = match (self.file.take(), self.failure.take()) {
            (Some(file), None) => file.finish(accounts, catalog, &self.source).map(|(written, _)| written),
            (_, Some(failure)) => Err(failure),
            (None, None) => Ok(Written { events: accounts.events(), bytes: 0 }),
        };
        let sent = self.streaming.take().map_or_else(Sent::default, |mut streaming| {
            closing.into_iter().for_each(|stream| streaming.has_ended(stream.wait(streaming.patience)));
            streaming.sent
        });
        Finished {
            about: self.about,
            path: self.path,
            written,
            sent,
            symbols,
            inherited_frees: self.inherited_frees,
            nonsense: self.merge.nonsense,
        }
    }

    /// Names for all frames that have none yet.
    fn find_names(&mut self, symbolizer: &mut Symbolizer) -> Symbolized {
        let known: Vec<bool> = (0..self.catalog.stacks.frames().len() as u32)
            .map(|id| self.catalog.stacks.is_resolved(FrameId(id)))
            .collect();
        let is_new = |id: FrameId| !known.get(id.0 as usize).is_some_and(|&known| known);
        let mut symbols = symbolize::resolve_frames(&mut self.catalog, symbolizer, is_new);
        let before = known.iter().filter(|&&known| known).count();
        symbols.addresses += before;
        symbols.named += before;
        symbols.with_lines += before;
        symbols
    }
}

/// All who write down what events mean.
struct All<'a> {
    file: &'a mut Option<Pen<File>>,
    streams: &'a mut [Stream],
}

impl Scribe for All<'_> {
    #[inline]
    fn write(&mut self, step: Step) {
        if let Some(file) = self.file {
            file.write(step);
        }
        self.streams.iter_mut().for_each(|stream| stream.write(step));
    }
}

impl Reader for Course {
    #[inline]
    fn allocate(&mut self, stamp: u64, ring: u32, place: &Place) {
        let (time, thread) = self.place_in_time(stamp, ring);
        let placement = self.placement(place);
        self.push(time, thread, EventKind::Allocate(placement));
    }

    #[inline]
    fn free(&mut self, stamp: u64, ring: u32, address: u64) {
        let (time, thread) = self.place_in_time(stamp, ring);
        self.push(time, thread, EventKind::Deallocate { address, claimed_size: None });
    }

    #[cold]
    fn other(&mut self, stamp: u64, ring: u32, record: Record) {
        let (time, thread) = self.place_in_time(stamp, ring);
        self.take_rare(time, ring as usize, thread, record);
    }
}

fn source(about: &About, stamps: &Stamps) -> Source {
    let name = Path::new(&about.executable).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    Source {
        kind: highwater_model::SourceKind::Native,
        program: name,
        pid: about.pid.into(),
        parent_pid: about.parent.into(),
        command: about.command.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        start_unix_ns: stamps.start_unix_ns(),
        duration: Nanos(0),
        sample_rate: about.sample_rate,
        usable_sizes: about.usable_sizes,
        ..Source::default()
    }
}
