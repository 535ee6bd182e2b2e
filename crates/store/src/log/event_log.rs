//! The log itself: shards, cuts, spilling, saving.

use super::identity::store_identity;
use super::merge::Merge;
use super::quiet::{LogAccess, Shards, is_quiet, quietly, with_shards};
use super::shard::{Position, Shard, ShardReader, ShardState};
use super::shared_catalog::SharedCatalog;
use crate::file::{FileSink, OpenError, Recording, RecordingError, Writer, Written};
use crate::new_file::open_or_replace;
use crate::unnamed::unnamed_file;
use highwater_model::{
    Accounts, AddressLedger, Anomaly, Catalog, Event, EventKind, Nanos, NumberLedger, Op, Placement, Source, Step,
    StoreId, When,
};
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events merged at a time on the way into a file.
const BATCH: usize = 4096;

/// Why a log could not be saved, opened or queried.
#[derive(Debug)]
pub enum LogError {
    /// Reading or writing this file failed.
    File(PathBuf, io::Error),
    /// This file could not be opened as a recording.
    Open(PathBuf, OpenError),
    /// This file is a snapshot, which has no events to continue from.
    Snapshot(PathBuf),
    /// The log's temporary file failed.
    Spill(io::Error),
    /// The query has no answer.
    Question(RecordingError),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Open(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Snapshot(path) => write!(f, "{}: a snapshot has no events to go on from", path.display()),
            Self::Spill(error) => write!(f, "the event log's temporary file: {error}"),
            Self::Question(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for LogError {}

impl From<RecordingError> for LogError {
    fn from(error: RecordingError) -> Self {
        Self::Question(error)
    }
}

/// The position of a reader in a log.
#[derive(Clone, Debug)]
pub struct Cursor {
    positions: Vec<Position>,
    /// How often the log had been cleared or spilled.
    generation: u64,
    store: Option<StoreId>,
}

impl Default for Cursor {
    /// No position: no log can be [updated](EventLog::update) from here.
    fn default() -> Self {
        Self { positions: Vec::new(), generation: u64::MAX, store: None }
    }
}

impl Cursor {
    /// The store whose events were read; `None` if there is none.
    pub fn store(&self) -> Option<StoreId> {
        self.store
    }
}

/// An in-memory log of events that any number of threads write and read. Each thread appends to its own shard; over its limit, the log moves events
/// into a temporary file.
#[derive(Debug)]
pub struct EventLog {
    id: u64,
    shards: Mutex<Vec<Arc<Shard>>>,
    catalog: SharedCatalog,
    limit: u64,
    bytes: AtomicU64,
    /// The start of each shard: everything before was spilled or cleared. Locked before any shard.
    base: Mutex<Base>,
    /// Events that could not be kept.
    dropped: AtomicU64,
    full: AtomicBool,
    /// The clock's value at the log's time 0.
    epoch: u64,
    /// True if there are promotions or counted samples, which not every reader of files knows.
    has_samples: AtomicBool,
}

#[derive(Debug, Default)]
struct Base {
    positions: Vec<Position>,
    generation: u64,
    /// How often the log had been cleared.
    clears: u64,
    spill: Option<Spill>,
    /// The error after which nothing more can be spilled.
    failure: Option<String>,
}

/// The part of the log that is in a file.
struct Spill {
    writer: Writer<File>,
}

impl fmt::Debug for Spill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spill").field("events", &self.writer.ledger().accounts().events()).finish()
    }
}

impl Default for EventLog {
    fn default() -> Self {
        Self::with_limit(u64::MAX)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventLog {
    /// A log that moves its events into a temporary file whenever they exceed `bytes`.
    pub fn with_limit(bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            shards: Mutex::default(),
            catalog: SharedCatalog::default(),
            limit: bytes,
            bytes: AtomicU64::new(0),
            base: Mutex::default(),
            dropped: AtomicU64::new(0),
            full: AtomicBool::new(false),
            epoch: highwater_clock::now_ns(),
            has_samples: AtomicBool::new(false),
        }
    }

    /// A log that begins with the events of a recording, which must not be a snapshot. The file itself is never changed.
    pub fn open(path: &Path) -> Result<(Self, Source), LogError> {
        let in_file = |error| LogError::File(path.to_owned(), error);
        let recording = Recording::open(path).map_err(|error| LogError::Open(path.to_owned(), error))?;
        if recording.source().snapshot {
            return Err(LogError::Snapshot(path.to_owned()));
        }
        let mut copy = unnamed_file().map_err(LogError::Spill)?;
        io::copy(&mut File::open(path).map_err(in_file)?, &mut copy).map_err(LogError::Spill)?;
        let mut log = Self::default();
        // Time continues where the recording ends.
        log.epoch = log.epoch.wrapping_sub(recording.source().duration.0);
        let source = recording.source().clone();
        let end = recording.snapshot(&When::End)?;
        let catalog = recording.catalog_to_go_on().map_err(in_file)?;
        let writer = Writer::resume(copy, &recording, end.accounts).map_err(LogError::Spill)?;
        log.change_catalog(|changed| *changed = catalog);
        lock(&log.base).spill = Some(Spill { writer });
        Ok((log, source))
    }

    /// A number that is unique among the logs of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Records an event with the time it carries.
    pub fn record(&self, event: Event) {
        if is_of_samples(&event) {
            self.has_samples.store(true, Ordering::Relaxed);
        }
        self.with_shard(|shard| self.push(&mut shard.lock(), &event));
    }

    /// Records an event with the present time, in nanoseconds since the log was made.
    pub fn record_now(&self, event: Event) {
        // The clock is read before the lock is taken, since the two then overlap. A cut in between makes sure that the stamp is not older than the
        // cut.
        self.record_then(event, self.now());
    }

    /// The same for events that no other thread can have caused, such as the birth of a block, or its death on the thread that allocated it. The clock
    /// is read without waiting for the effects of other threads, which takes half the time.
    pub fn record_now_unfenced(&self, event: Event) {
        self.record_then(event, Nanos(highwater_clock::now_ns_unfenced().wrapping_sub(self.epoch)));
    }

    #[inline(always)]
    fn record_then(&self, mut event: Event, now: Nanos) {
        self.with_shard(|shard| {
            let mut state = shard.lock();
            event.time = state.stamp(now);
            self.push(&mut state, &event)
        });
    }

    #[inline(always)]
    fn now(&self) -> Nanos {
        Nanos(highwater_clock::now_ns().wrapping_sub(self.epoch))
    }

    /// Appends to a locked shard. True if it grew. The growth is counted before the lock is released, so that no thread can take the memory out
    /// uncounted.
    #[inline(always)]
    fn push(&self, shard: &mut ShardState, event: &Event) -> bool {
        let grown = shard.push(event);
        if grown > 0 {
            self.bytes.fetch_add(grown, Ordering::Relaxed);
        }
        grown > 0
    }

    #[inline(always)]
    fn with_shard(&self, push: impl FnOnce(&Shard) -> bool) {
        if self.full.load(Ordering::Relaxed) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut push = Some(push);
        let grown = with_shards(|shards| {
            let shard = match shards.first() {
                Some((id, shard)) if *id == self.id => shard,
                _ => self.enter(shards),
            };
            push.take().is_some_and(|push| push(shard))
        });
        match grown {
            LogAccess::Done(false) => {}
            LogAccess::Done(true) => self.spill_over_limit(),
            LogAccess::Quiet => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
            // The thread's own shard is gone; any free one can be used.
            LogAccess::Ending => {
                if quietly(|| push.take().is_some_and(|push| push(&self.free_shard()))) {
                    self.spill_over_limit();
                }
            }
        }
    }

    /// Makes this log's shard the first of the thread's shards.
    #[cold]
    fn enter<'a>(&self, shards: &'a mut Shards) -> &'a Arc<Shard> {
        match shards.iter().position(|(id, _)| *id == self.id) {
            Some(at) => shards.swap(0, at),
            None => {
                // Logs that no longer exist hold no second reference.
                shards.retain(|(_, shard)| Arc::strong_count(shard) > 1);
                shards.insert(0, (self.id, self.free_shard()));
            }
        }
        &shards[0].1
    }

    /// A shard that no living thread writes to, or a new one. Shards are reused because a program may start hundreds of thousands of threads.
    fn free_shard(&self) -> Arc<Shard> {
        let mut shards = lock(&self.shards);
        if let Some(free) = shards.iter().find(|shard| Arc::strong_count(shard) == 1) {
            free.lock().take_over();
            return Arc::clone(free);
        }
        let shard = Arc::new(Shard::default());
        // Its first event may have been stamped before a cut that did not include this shard.
        shard.lock().advance_to(self.now());
        shards.push(Arc::clone(&shard));
        shard
    }

    #[cold]
    fn spill_over_limit(&self) {
        if self.memory_bytes() > self.limit {
            quietly(|| {
                if let Err(error) = self.spill() {
                    lock(&self.base).failure = Some(error.to_string());
                    self.full.store(true, Ordering::Relaxed);
                }
            });
        }
    }

    /// True while this thread is working on a log: events that it records now are dropped and counted.
    pub fn is_quiet() -> bool {
        is_quiet()
    }

    /// Reads the catalog. Events that the allocator records on this thread meanwhile are dropped, since recording may need the catalog.
    pub fn read_catalog<T>(&self, read: impl FnOnce(&Catalog) -> T) -> T {
        self.catalog.read(read)
    }

    /// Changes the catalog; see [`read_catalog`](Self::read_catalog).
    pub fn change_catalog<T>(&self, change: impl FnOnce(&mut Catalog) -> T) -> T {
        self.catalog.change(change)
    }

    /// The catalog itself, which outlives the log if others hold it.
    pub fn shared_catalog(&self) -> &SharedCatalog {
        &self.catalog
    }

    /// The identity of this log until it is cleared.
    pub fn store(&self) -> StoreId {
        quietly(|| self.store_of(&lock(&self.base)))
    }

    fn store_of(&self, base: &Base) -> StoreId {
        store_identity(self.id, base.clears)
    }

    /// Counts an event that was not recorded because its thread [is quiet](Self::is_quiet).
    pub fn drop_event(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Events recorded and kept, since the last [`clear`](Self::clear).
    pub fn len(&self) -> u64 {
        quietly(|| {
            let base = lock(&self.base);
            let spilled = base.spill.as_ref().map_or(0, |spill| spill.writer.ledger().accounts().events());
            let shards = lock(&self.shards);
            let recorded = |at: usize| base.positions.get(at).map_or(0, Position::events);
            let held = shards.iter().enumerate().map(|(at, shard)| shard.lock().events() - recorded(at));
            spilled + held.sum::<u64>()
        })
    }

    /// True if no event is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that the log holds for events.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The error after which the log, over its limit, cannot keep more events: writing its temporary file failed. Later events are counted as dropped;
    /// [`ledger`](Self::ledger) still has the events recorded before.
    pub fn failure(&self) -> Option<String> {
        quietly(|| lock(&self.base).failure.clone())
    }

    /// Everything recorded after `from`, at one instant for all threads, and the cursor of that instant.
    fn cut(&self, base: &Base, from: &[Position]) -> (Vec<ShardReader>, Cursor) {
        let shards = lock(&self.shards);
        let mut states: Vec<_> = shards.iter().map(|shard| shard.lock()).collect();
        let now = self.now();
        states.iter_mut().for_each(|state| state.advance_to(now));
        let position = |at: usize| from.get(at).or(base.positions.get(at)).copied().unwrap_or_default();
        let readers = states.iter().enumerate().map(|(at, state)| state.since(position(at))).collect();
        let positions = states.iter().map(|state| state.end()).collect();
        (readers, Cursor { positions, generation: base.generation, store: Some(self.store_of(base)) })
    }

    /// A ledger of everything recorded so far.
    pub fn ledger(&self) -> (AddressLedger, Cursor) {
        let (mut ledger, readers, cursor) = quietly(|| {
            let base = lock(&self.base);
            let spilled = base.spill.as_ref().map(|spill| spill.writer.ledger().clone());
            let (readers, cursor) = self.cut(&base, &[]);
            (spilled.unwrap_or_default(), readers, cursor)
        });
        self.apply(Merge::new(readers), &mut ledger, |_| true);
        (ledger, cursor)
    }

    /// Updates a ledger with the events recorded since its cursor. Returns false, and changes nothing, if that cannot be done by adding events: the
    /// cursor is one of another log, events were cleared or spilled, or some new ones are earlier than those in the ledger.
    pub fn update(&self, ledger: &mut AddressLedger, cursor: &mut Cursor, mut changed: impl FnMut(&Event)) -> bool {
        let cut = quietly(|| {
            let base = lock(&self.base);
            let is_current = base.generation == cursor.generation && cursor.store == Some(self.store_of(&base));
            is_current.then(|| self.cut(&base, &cursor.positions))
        });
        let Some((readers, now)) = cut else { return false };
        let merge = Merge::new(readers);
        if merge.first_time().is_some_and(|time| time < ledger.accounts().last_time()) {
            return false;
        }
        self.apply(merge, ledger, |event| {
            changed(event);
            true
        });
        *cursor = now;
        true
    }

    /// Applies merged events until `wanted` rejects one.
    fn apply(&self, merge: Merge, ledger: &mut AddressLedger, mut wanted: impl FnMut(&Event) -> bool) {
        let late = merge.late();
        for event in merge.take_while(|event| wanted(event)) {
            ledger.record(&event, &mut ());
        }
        if late > 0 {
            ledger.note(Anomaly::OutOfOrder, late, &mut ());
        }
        let known = ledger.accounts().anomalies().get(Anomaly::DroppedEvent);
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > known {
            ledger.note(Anomaly::DroppedEvent, dropped - known, &mut ());
        }
    }

    /// The state after everything that happened up to and including `time`.
    pub fn ledger_at(&self, time: Nanos) -> Result<(AddressLedger, StoreId), LogError> {
        let is_spilled = |spilled: &AddressLedger| spilled.accounts().last_time() > time;
        self.past_ledger(
            is_spilled,
            |recording| Ok(recording.snapshot(&When::At(time))?.accounts),
            |event| event.time <= time,
        )
    }

    /// The state after the first `count` events.
    pub fn ledger_after(&self, count: u64) -> Result<(AddressLedger, StoreId), LogError> {
        let spilled_events = Cell::new(0);
        let is_spilled = |spilled: &AddressLedger| {
            spilled_events.set(spilled.accounts().events());
            spilled_events.get() > count
        };
        let from_file = |recording: &Recording| recording.accounts_at_event(count).map_err(LogError::Spill);
        let mut seen = 0;
        self.past_ledger(is_spilled, from_file, |event| {
            let wanted = spilled_events.get() + seen < count;
            seen += u64::from(event.kind.is_event());
            wanted
        })
    }

    /// A state of the past. If `is_spilled` returns true for the state at the end of the file, it comes from the file; otherwise from the file's end
    /// and the later events that are `wanted`.
    fn past_ledger(
        &self,
        is_spilled: impl FnOnce(&AddressLedger) -> bool,
        from_file: impl FnOnce(&Recording) -> Result<Accounts, LogError>,
        wanted: impl FnMut(&Event) -> bool,
    ) -> Result<(AddressLedger, StoreId), LogError> {
        let (spilled, recording, readers, store) = quietly(|| {
            let mut base = lock(&self.base);
            let spilled = base.spill.as_ref().map(|spill| spill.writer.ledger().clone()).unwrap_or_default();
            let recording = match &mut base.spill {
                Some(spill) if is_spilled(&spilled) => Some(self.spilled_recording(spill)?),
                _ => None,
            };
            Ok::<_, LogError>((spilled, recording, self.cut(&base, &[]).0, self.store_of(&base)))
        })?;
        if let Some(recording) = recording {
            return Ok((AddressLedger::from_accounts(from_file(&recording)?), store));
        }
        let mut ledger = spilled;
        self.apply(Merge::new(readers), &mut ledger, wanted);
        Ok((ledger, store))
    }

    fn spilled_recording(&self, spill: &mut Spill) -> Result<Recording, LogError> {
        self.read_catalog(|catalog| spill.writer.recording(catalog)).map_err(LogError::Spill)
    }

    /// Visits every event in order. Spilled events are visited as the ledger interpreted them.
    pub fn for_each(&self, mut visit: impl FnMut(&Event)) -> Result<(), LogError> {
        let (recording, readers) = quietly(|| {
            let mut base = lock(&self.base);
            let recording = base.spill.as_mut().map(|spill| self.spilled_recording(spill)).transpose()?;
            Ok::<_, LogError>((recording, self.cut(&base, &[]).0))
        })?;
        if let Some(recording) = recording {
            let shown = recording.for_each_step(|ledger, step| {
                if let Some(event) = event_of(ledger, step) {
                    visit(&event);
                }
            });
            shown.map_err(LogError::Spill)?;
        }
        Merge::new(readers).for_each(|event| visit(&event));
        Ok(())
    }

    /// Removes everything recorded so far, and returns the number of removed events. Each event that other threads record meanwhile is either removed
    /// or kept, never lost in between.
    pub fn clear(&self) -> u64 {
        quietly(|| {
            let mut base = lock(&self.base);
            let recorded = |base: &Base| base.positions.iter().map(Position::events).sum::<u64>();
            let before = recorded(&base);
            let _ = self.take_all(&mut base);
            let taken = recorded(&base) - before;
            let spilled = base.spill.take().map_or(0, |spill| spill.writer.ledger().accounts().events());
            base.failure = None;
            base.clears += 1;
            self.dropped.store(0, Ordering::Relaxed);
            self.full.store(false, Ordering::Relaxed);
            taken + spilled
        })
    }

    /// Removes everything from the shards, at one instant.
    fn take_all(&self, base: &mut Base) -> Vec<ShardReader> {
        let shards = lock(&self.shards);
        let mut states: Vec<_> = shards.iter().map(|shard| shard.lock()).collect();
        let now = self.now();
        let from = std::mem::take(&mut base.positions);
        base.generation += 1;
        let mut readers = Vec::new();
        for (at, state) in states.iter_mut().enumerate() {
            let (reader, bytes) = state.take(from.get(at).copied().unwrap_or_default());
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            readers.push(reader);
            state.advance_to(now);
            base.positions.push(state.end());
        }
        readers
    }

    /// Moves everything recorded so far into the temporary file.
    fn spill(&self) -> io::Result<()> {
        let mut base = lock(&self.base);
        if self.bytes.load(Ordering::Relaxed) <= self.limit {
            return Ok(());
        }
        if base.spill.is_none() {
            let file = unnamed_file()?;
            base.spill = Some(Spill { writer: Writer::with_samples(file, &Source::default())? });
        }
        let mut merge = Merge::new(self.take_all(&mut base));
        let Some(spill) = &mut base.spill else { return Ok(()) };
        let written = self.write(&mut merge, &mut spill.writer);
        // Events that could not be written are no longer in any shard.
        self.dropped.fetch_add(merge.count() as u64, Ordering::Relaxed);
        written
    }

    fn write<S: FileSink>(&self, merge: &mut Merge, writer: &mut Writer<S>) -> io::Result<()> {
        let late = merge.late();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            batch.extend(merge.by_ref().take(BATCH));
            if batch.is_empty() {
                break;
            }
            self.read_catalog(|catalog| writer.append(&batch, catalog))?;
        }
        if late > 0 {
            self.read_catalog(|catalog| writer.note(Anomaly::OutOfOrder, late, catalog))?;
        }
        Ok(())
    }

    /// Writes everything recorded so far as a recording, for its owner only, and replaces an existing file. The log is not changed. A source with a
    /// store gets the identity of this log.
    pub fn save(&self, path: &Path, source: &Source) -> Result<Written, LogError> {
        let in_file = |error| LogError::File(path.to_owned(), error);
        let file = open_or_replace(path).map_err(in_file)?;
        self.save_into(file, source).map_err(in_file)
    }

    /// The same into an open file.
    pub fn save_into(&self, file: File, source: &Source) -> io::Result<Written> {
        self.save_to(file, source).map(|(written, _)| written)
    }

    /// Everything recorded so far as a recording, in an unnamed file.
    pub fn to_recording(&self, source: &Source) -> Result<Recording, LogError> {
        let file = unnamed_file().map_err(LogError::Spill)?;
        let (_, file) = self.save_to(file, source).map_err(LogError::Spill)?;
        Recording::from_file(file).map_err(|error| match error {
            OpenError::Io(error) => LogError::Spill(error),
            other => LogError::Spill(io::Error::other(other.to_string())),
        })
    }

    fn save_to(&self, file: File, source: &Source) -> io::Result<(Written, File)> {
        let mut source = source.clone();
        let (mut writer, readers) = quietly(|| {
            let mut base = lock(&self.base);
            source.store = source.store.map(|_| self.store_of(&base));
            let source = &source;
            let writer = match &mut base.spill {
                Some(spill) => self.read_catalog(|catalog| spill.writer.fork(file, catalog))?,
                None if self.has_samples.load(Ordering::Relaxed) => Writer::with_samples(file, source)?,
                None => Writer::new(file, source)?,
            };
            Ok::<_, io::Error>((writer, self.cut(&base, &[]).0))
        })?;
        self.write(&mut Merge::new(readers), &mut writer)?;
        let dropped = self.dropped.load(Ordering::Relaxed);
        self.read_catalog(|catalog| {
            if dropped > 0 {
                writer.note(Anomaly::DroppedEvent, dropped, catalog)?;
            }
            writer.finish(catalog, &source)
        })
    }
}

/// True for events that only files of a later version may have.
fn is_of_samples(event: &Event) -> bool {
    match event.kind {
        EventKind::Promote { .. } => true,
        EventKind::Allocate(place) | EventKind::Reallocate { new: place, .. } => !place.weight.is_one(),
        _ => false,
    }
}

/// The raw event of a recorded step; `None` for notes.
fn event_of(ledger: &NumberLedger, step: &Step) -> Option<Event> {
    let kind = match step.op {
        Op::Allocate(place) => EventKind::Allocate(place),
        Op::Free { id, stack } => {
            let block = ledger.find(id)?;
            EventKind::Deallocate { address: block.address, claimed_size: Some(block.size), stack }
        }
        Op::Reallocate { id, moved_to, size, stack, tag, surplus, weight } => {
            let block = ledger.find(id)?;
            let address = moved_to.unwrap_or(block.address);
            EventKind::Reallocate {
                old_address: block.address,
                claimed_old_size: Some(block.size),
                new: Placement { address, size, stack, tag, surplus, weight },
            }
        }
        Op::Promote { id, tag } => EventKind::Promote { address: ledger.find(id)?.address, tag },
        Op::UnmatchedFree { address } => EventKind::free(address, None),
        Op::Mark { name } => EventKind::Mark { name },
        Op::Gauge { name, value } => EventKind::Gauge { name, value },
        Op::Evict { .. } | Op::Note { .. } => return None,
    };
    Some(Event { time: step.time, thread: step.thread, kind })
}
