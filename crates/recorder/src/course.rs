//! The course of one process: what its agent shares becomes a recording, round by round.

use crate::drain::{Drain, Haul};
use crate::mappings::Mappings;
use crate::merge::{Merge, Reader};
use crate::names::Names;
use crate::record::{Place, Record};
use crate::shared::Shared;
use crate::stamps::Stamps;
use crate::symbolize::{self, Symbolized};
use crate::words::Pool;
use highwater_clock::Counter;
use highwater_model::{
    Anomaly, Catalog, Event, EventKind, Heap, Nanos, Placement, Source, StringId, Tag, ThreadId, Totals, Weight,
    mapped_address,
};
use highwater_store::{Writer, Written};
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
/// Blocks being reallocated are found at addresses that no block can have.
const ASIDE: u64 = 1 << 63;

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
    /// The agent tells how much a block can really hold.
    pub usable_sizes: bool,
    /// Mean bytes per sample, if not everything is recorded.
    pub sample_rate: Option<u64>,
    /// How much may be lost if this process is killed.
    pub flush_every: Duration,
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
    path: PathBuf,
    shared: Arc<Shared>,
    stamps: Stamps,
    drain: Drain,
    pool: Pool,
    merge: Merge,
    names: Names,
    mappings: Mappings,
    catalog: Catalog,
    source: Source,
    writer: Option<Writer<File>>,
    failure: Option<io::Error>,
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
}

/// What became of a process.
#[derive(Debug)]
pub struct Finished {
    /// Whose recording.
    pub about: About,
    /// Where it is.
    pub path: PathBuf,
    /// What was written; an error if it could not all be.
    pub written: io::Result<Written>,
    /// How names were found.
    pub symbols: Symbolized,
    /// Blocks of the parent that a forked child gave back: they are in the parent's recording.
    pub inherited_frees: u64,
    /// Records that made no sense.
    pub nonsense: u64,
}

impl Course {
    /// Begins the recording at `path` of whoever shares `shared`. Where that fails, the program is told to stop: it would wait for us.
    pub fn begin(shared: Shared, about: About, path: &Path, counter: Option<Counter>) -> io::Result<Self> {
        let shared = Arc::new(shared);
        Self::begin_on(&shared, about, path, counter).inspect_err(|_| shared.header().stop.store(1, Ordering::Release))
    }

    fn begin_on(shared: &Arc<Shared>, about: About, path: &Path, counter: Option<Counter>) -> io::Result<Self> {
        let stamps = Stamps::of(shared.header(), counter)
            .ok_or_else(|| io::Error::other("the program counts processor ticks, which this machine cannot"))?;
        let mut catalog = Catalog::default();
        let tag = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
        let rss = catalog.strings.intern("rss");
        let source = source(&about, &stamps);
        let writer = Writer::create(path, &source)?;
        let now = Instant::now();
        Ok(Self {
            about,
            path: path.to_owned(),
            shared: Arc::clone(shared),
            stamps,
            drain: Drain::default(),
            pool: Pool::default(),
            merge: Merge::default(),
            names: Names::default(),
            mappings: Mappings::with_tag(tag),
            catalog,
            source,
            writer: Some(writer),
            failure: None,
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
        })
    }

    /// Whose recording.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Where the recording is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the recording to another path.
    pub(crate) fn rename(&mut self, path: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, path)?;
        self.path = path.to_owned();
        Ok(())
    }

    /// The figures so far, and how many events they are of.
    pub fn figures(&self) -> (Totals, u64) {
        self.writer.as_ref().map_or((Totals::default(), 0), |writer| {
            let accounts = writer.ledger().accounts();
            (*accounts.totals(), accounts.events())
        })
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
                if let Some(writer) = &mut self.writer {
                    writer.set_aside(old, ASIDE | ring as u64);
                }
            }
            Record::ReallocEnd { old, new } => {
                self.hand_over();
                let aside = ASIDE | ring as u64;
                let stays = new.address == 0 || new.address == old;
                let from = match &mut self.writer {
                    // Where it was, if it stays there: then nobody else can have been given that place.
                    Some(writer) if stays => {
                        writer.set_aside(aside, old);
                        old
                    }
                    Some(writer) if writer.ledger().find(aside).is_some() => aside,
                    _ => old,
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
                if self.mappings.set_aside(old, old_length, ring)
                    && let Some(writer) = &mut self.writer
                {
                    writer.set_aside(mapped_address(old), mapped_address(ASIDE | (ring as u64) << 1));
                }
            }
            Record::Remap { old, new, .. } if self.mappings.is_aside(ring) => {
                self.hand_over();
                let aside = mapped_address(ASIDE | (ring as u64) << 1);
                let stays = new.address == 0 || new.address == old;
                let from = match &mut self.writer {
                    Some(writer) if stays => {
                        writer.set_aside(aside, mapped_address(old));
                        mapped_address(old)
                    }
                    _ => aside,
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

    #[inline]
    fn free_at(&mut self, time: Nanos, thread: ThreadId, address: u64) {
        if self.about.forked && !self.is_own(address) {
            self.inherited_frees += 1;
            return;
        }
        self.push(time, thread, EventKind::Deallocate { address, claimed_size: None });
    }

    fn reallocate(&mut self, time: Nanos, thread: ThreadId, old_address: u64, new: Place) {
        let new = self.placement(&new);
        if self.about.forked && !self.is_own(old_address) {
            self.inherited_frees += 1;
            return self.push(time, thread, EventKind::Allocate(new));
        }
        self.push(time, thread, EventKind::Reallocate { old_address, claimed_old_size: None, new });
    }

    /// A block that a thread had set aside when it begins to move another: where it went was dropped, so it counts as given back.
    fn give_up(&mut self, time: Nanos, thread: ThreadId, aside: u64) {
        self.hand_over();
        if self.writer.as_ref().is_some_and(|writer| writer.ledger().find(aside).is_some()) {
            self.push(time, thread, EventKind::Deallocate { address: aside, claimed_size: None });
            self.hand_over();
        }
    }

    /// Whether a forked child allocated this block itself.
    fn is_own(&mut self, address: u64) -> bool {
        self.hand_over();
        self.writer.as_ref().is_some_and(|writer| writer.ledger().find(address).is_some())
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
        self.events.push(Event { time, thread, kind });
        if self.events.len() >= BATCH {
            self.hand_over();
        }
    }

    /// Hands the events to the writer. When that fails nothing more is written, and the program is told to stop recording.
    fn hand_over(&mut self) {
        if self.events.is_empty() {
            return;
        }
        self.unflushed = true;
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.append(&self.events, &self.catalog)
        {
            self.fail(error);
        }
        self.events.clear();
    }

    fn fail(&mut self, error: io::Error) {
        self.stop();
        self.writer = None;
        self.failure = Some(error);
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
            if let Some(writer) = &mut self.writer
                && let Err(error) = writer.flush(&self.catalog)
            {
                self.fail(error);
            }
        }
    }

    fn note_rss(&mut self) {
        const PAGE: u64 = 4096;
        let Ok(text) = std::fs::read_to_string(format!("/proc/{}/statm", self.about.pid)) else { return };
        let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
        if pages > 0 && pages != self.last_rss {
            self.last_rss = pages;
            let kind = EventKind::Gauge { name: self.rss, value: pages * PAGE };
            self.push(self.last_time, ThreadId(self.about.pid.into()), kind);
        }
    }

    /// Ends the recording: finds names, completes the file. Everything must have been taken in.
    pub fn finish(mut self, symbolizer: &mut Symbolizer) -> Finished {
        self.stop();
        self.hand_over();
        let header = self.shared.header();
        let cut = header.cut_stacks.load(Ordering::Relaxed).saturating_add(header.lost_nodes.load(Ordering::Relaxed));
        let symbols = symbolize::resolve_frames(&mut self.catalog, symbolizer, |_| true);
        self.source.duration = self.last_time;
        let written = match (self.writer.take(), self.failure.take()) {
            (Some(mut writer), None) => (|| {
                if self.merge.nonsense > 0 {
                    writer.note(Anomaly::DroppedEvent, self.merge.nonsense, &self.catalog)?;
                }
                if cut > 0 {
                    writer.note(Anomaly::TruncatedStack, cut.into(), &self.catalog)?;
                }
                writer.finish(&self.catalog, &self.source).map(|(written, _)| written)
            })(),
            (_, failure) => Err(failure.unwrap_or_else(|| io::Error::other("nothing was recorded"))),
        };
        Finished {
            about: self.about,
            path: self.path,
            written,
            symbols,
            inherited_frees: self.inherited_frees,
            nonsense: self.merge.nonsense,
        }
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
        self.free_at(time, thread, address);
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
