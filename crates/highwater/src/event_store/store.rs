//! The store of events.

use super::event::{MemoryEvent, MemoryEventType};
use super::tags;
use crate::event_name::Name;
use highwater_model::{
    Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, SourceKind, StackId, StringId, TagId, ThreadId,
};
use highwater_store::{EventLog, LogError, Written};
use std::panic::Location;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A store that several threads share.
pub type SharedEventStore = Arc<EventStore>;

/// Stores events. Any number of threads record while others read; each thread writes to its own buffer.
#[derive(Debug)]
pub struct EventStore {
    pub(crate) log: EventLog,
    pub(crate) source: Arc<Source>,
}

impl Default for EventStore {
    fn default() -> Self {
        Self::new()
    }
}

impl EventStore {
    /// A store that keeps everything in memory.
    pub fn new() -> Self {
        Self::with_limit(u64::MAX)
    }

    /// A store that keeps at most about `bytes` of events in memory, and the rest in an unnamed temporary file.
    ///
    /// Reading, saving and time travel see both. If the file cannot be written, later events are dropped and counted, and
    /// [`failure`](Self::failure) says why.
    pub fn with_limit(bytes: u64) -> Self {
        Self::of(EventLog::with_limit(bytes), this_program())
    }

    /// A store that starts with the events of a `.hw` recording. The file is never changed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let (log, source) = EventLog::open(path.as_ref())?;
        Ok(Self::of(log, source))
    }

    /// The log's own identity replaces that of an opened recording: two stores that go on from one recording number their allocations independently.
    fn of(log: EventLog, source: Source) -> Self {
        let store = Some(log.store());
        Self { log, source: Arc::new(Source { store, ..source }) }
    }

    /// Writes everything recorded until now as a `.hw` recording. The store is not changed.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Written, LogError> {
        self.log.save(path.as_ref(), &self.source)
    }

    /// Records an event.
    // If an event is built and recorded in one place, as is usual, the compiler removes the code for names it does not have.
    #[inline(always)]
    pub fn record(&self, event: MemoryEvent) {
        let is_named = event.var_name.is_some() || event.type_name.is_some();
        if is_named && EventLog::is_quiet() {
            // Its names cannot be looked up now; see `EventLog::is_quiet`.
            return self.log.drop_event();
        }
        let raw = Event {
            time: Nanos(event.timestamp.unwrap_or(0)),
            thread: ThreadId(event.thread_id),
            kind: self.kind_of(&event),
        };
        match event.timestamp {
            None => self.log.record_now(raw),
            Some(_) => self.log.record(raw),
        }
    }

    #[inline(always)]
    pub(crate) fn kind_of(&self, event: &MemoryEvent) -> EventKind {
        let (address, size) = (event.ptr as u64, event.size as u64);
        match event.event_type {
            MemoryEventType::Allocate => EventKind::Allocate(self.placement(event)),
            MemoryEventType::Deallocate => EventKind::free(address, Some(size)),
            MemoryEventType::Reallocate => EventKind::Reallocate {
                old_address: event.old_ptr.map_or(address, |old| old as u64),
                claimed_old_size: event.old_size.map(|size| size as u64),
                new: self.placement(event),
            },
            MemoryEventType::Mark => EventKind::Mark { name: self.intern_name(event) },
            MemoryEventType::Gauge => EventKind::Gauge { name: self.intern_name(event), value: size },
        }
    }

    #[inline(always)]
    fn placement(&self, event: &MemoryEvent) -> Placement {
        let mut tag = TagId::NONE;
        if event.var_name.is_some() || event.type_name.is_some() {
            let (variable, type_name) = (event.var_name.as_ref(), event.type_name.as_ref());
            tag = tags::intern(&self.log, variable, type_name);
        }
        let stack = event.stack.unwrap_or(StackId::UNKNOWN);
        Placement { address: event.ptr as u64, size: event.size as u64, stack, tag, ..Placement::default() }
    }

    fn intern_name(&self, event: &MemoryEvent) -> StringId {
        let name = event.var_name.as_deref().unwrap_or_default();
        self.log.change_catalog(|catalog| catalog.strings.intern(name))
    }

    /// A handle for a call stack, innermost frame first, for [`MemoryEvent::with_stack`].
    pub fn intern_stack(&self, innermost_first: &[FrameText<'_>]) -> StackId {
        self.log.change_catalog(|catalog| catalog.intern_stack(innermost_first))
    }

    /// A handle for the caller's source location.
    #[track_caller]
    pub fn caller_stack(&self) -> StackId {
        let location = Location::caller();
        self.intern_stack(&[FrameText { file: location.file(), line: location.line(), ..FrameText::default() }])
    }

    /// Names a thread.
    pub fn name_thread(&self, thread_id: u64, name: &str) {
        self.log.change_catalog(|catalog| catalog.name_thread(ThreadId(thread_id), name));
    }

    /// Everything recorded until now, ordered by time.
    pub fn snapshot(&self) -> Result<Vec<MemoryEvent>, LogError> {
        let mut raw = Vec::new();
        self.log.for_each(|event| raw.push(*event))?;
        Ok(self.log.read_catalog(|catalog| raw.iter().map(|event| event_of(catalog, event)).collect()))
    }

    /// The number of recorded events.
    pub fn len(&self) -> usize {
        self.log.len() as usize
    }

    /// True when nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that hold events.
    pub fn memory_bytes(&self) -> u64 {
        self.log.memory_bytes()
    }

    /// Why a store with a limit can keep no more events, if so.
    pub fn failure(&self) -> Option<String> {
        self.log.failure()
    }

    /// Removes every event recorded until now. Returns how many there were. An event that another thread records meanwhile is either removed or
    /// kept: none is lost in between.
    pub fn clear(&self) -> usize {
        self.log.clear() as usize
    }
}

/// A name of the catalog, `None` for the empty one.
pub(crate) fn name_of(catalog: &Catalog, id: StringId) -> Option<Name> {
    catalog.strings.shared(id).filter(|text| !text.is_empty()).map(Name::Shared)
}

fn event_of(catalog: &Catalog, event: &Event) -> MemoryEvent {
    let thread = event.thread.0;
    let named = |placement: Placement, event: MemoryEvent| {
        let tag = catalog.tag(placement.tag);
        MemoryEvent {
            var_name: name_of(catalog, tag.variable),
            type_name: name_of(catalog, tag.type_name),
            stack: (placement.stack != StackId::UNKNOWN).then_some(placement.stack),
            ..event
        }
    };
    let name = |id| name_of(catalog, id).unwrap_or(Name::Static(""));
    let result = match event.kind {
        EventKind::Allocate(placement) => {
            named(placement, MemoryEvent::allocate(placement.address as usize, placement.size as usize, thread))
        }
        EventKind::Reallocate { old_address, claimed_old_size, new } => {
            let old_size = claimed_old_size.unwrap_or(0) as usize;
            let event = MemoryEvent::reallocate(new.address as usize, old_size, new.size as usize, thread);
            named(new, MemoryEvent { old_ptr: Some(old_address as usize), ..event })
        }
        EventKind::Deallocate { address, claimed_size, .. } => {
            MemoryEvent::deallocate(address as usize, claimed_size.unwrap_or(0) as usize, thread)
        }
        // Programs that use this crate record none; an opened recording may have some.
        EventKind::Promote { .. } => MemoryEvent::mark("promotion", thread),
        EventKind::Mark { name: id } => MemoryEvent::mark(name(id), thread),
        EventKind::Gauge { name: id, value } => MemoryEvent::gauge(name(id), value as usize, thread),
        EventKind::Dropped { count } => MemoryEvent::gauge("dropped events", count as usize, thread),
    };
    result.at(event.time.0)
}

/// This process, as the source of a recording.
fn this_program() -> Source {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Source {
        kind: SourceKind::EVENTS,
        program,
        pid: std::process::id().into(),
        host: host.trim().to_owned(),
        start_unix_ns: u64::try_from(start.as_nanos()).unwrap_or(0),
        ..Source::default()
    }
}
