//! The event store as a sink: objects are recorded as blocks, without formatting text.

use crate::event_store::EventStore;
use highwater_model::{Event, EventKind, FrameText, Nanos, Placement, StackId, Tag, TagId, ThreadId};
use highwater_store::EventLog;
use highwater_tracked::{ObjectEvent, Sink};
use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records objects in a store from now on: types, source locations, sizes and threads, at some 40 ns per event.
///
/// The address of an object is its id times 16. The program has to save the recording itself ([`EventStore::save`]); `highwater objects` and all
/// other commands read that file.
///
/// ```
/// use highwater::event_store::EventStore;
/// use highwater::{Tracked, objects};
/// use std::sync::Arc;
///
/// let store = Arc::new(EventStore::new());
/// objects::to_store(Arc::clone(&store));
/// let kept = Tracked::new(vec![1u8; 100]);
/// drop(Tracked::new(vec![2u8; 100]));
/// objects::off();
/// assert_eq!(store.len(), 3);
/// # drop(kept);
/// ```
pub fn to_store(store: Arc<EventStore>) {
    highwater_tracked::to_sink(Arc::new(StoreSink(store)));
}

struct StoreSink(Arc<EventStore>);

/// The stack and the tag of a source location and a type, in the catalog of a log.
#[derive(Clone, Copy)]
struct CachedSite {
    log: u64,
    location: usize,
    type_name: usize,
    variable: usize,
    stack: StackId,
    tag: TagId,
}

const NOTHING: CachedSite =
    CachedSite { log: 0, location: 0, type_name: 0, variable: 0, stack: StackId::UNKNOWN, tag: TagId::NONE };
/// The number of sites that a thread caches, each in the one slot where it may be.
const REMEMBERED: usize = 64;

thread_local! {
    static SITES: [Cell<CachedSite>; REMEMBERED] = const { [const { Cell::new(NOTHING) }; REMEMBERED] };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

fn thread() -> ThreadId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = THREAD.try_with(|known| {
        if known.get() == 0 {
            known.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        known.get()
    });
    ThreadId(number.unwrap_or(0))
}

/// The site of a type at a source location, cached by the addresses of their texts.
fn site(
    log: &EventLog,
    location: &'static Location<'static>,
    type_name: &'static str,
    variable: &'static str,
) -> (StackId, TagId) {
    let (at, text) = (std::ptr::from_ref(location) as usize, type_name.as_ptr() as usize);
    // Names of variables may share their bytes with longer ones.
    let named = (variable.as_ptr() as usize).wrapping_add(variable.len() << 48) * usize::from(!variable.is_empty());
    let slot = (at >> 3 ^ text >> 3) % REMEMBERED;
    SITES.with(|sites| {
        let known = sites[slot].get();
        if (known.log, known.location, known.type_name, known.variable) == (log.id(), at, text, named) {
            return (known.stack, known.tag);
        }
        let (stack, tag) = intern(log, location, type_name, variable);
        sites[slot].set(CachedSite { log: log.id(), location: at, type_name: text, variable: named, stack, tag });
        (stack, tag)
    })
}

#[cold]
fn intern(log: &EventLog, location: &'static Location<'static>, type_name: &str, variable: &str) -> (StackId, TagId) {
    log.change_catalog(|catalog| {
        let frame = FrameText { file: location.file(), line: location.line(), ..FrameText::default() };
        let stack = catalog.intern_stack(&[frame]);
        let (type_name, variable) = (catalog.strings.intern(type_name), catalog.strings.intern(variable));
        (stack, catalog.intern_tag(Tag { type_name, variable, ..Tag::default() }))
    })
}

fn address_of(id: u64) -> u64 {
    id.rotate_left(4)
}

impl StoreSink {
    #[inline]
    fn now(&self, kind: EventKind) {
        self.0.log.record_now(Event { time: Nanos(0), thread: thread(), kind });
    }

    /// Records an event that need not come after any event of another thread.
    #[inline]
    fn soon(&self, kind: EventKind) {
        self.0.log.record_now_unfenced(Event { time: Nanos(0), thread: thread(), kind });
    }

    fn instant(&self, label: &str) {
        if !label.is_empty() {
            let name = self.0.log.change_catalog(|catalog| catalog.strings.intern(label));
            self.now(EventKind::Mark { name });
        }
    }
}

impl Sink for StoreSink {
    fn record(&self, event: &ObjectEvent<'_>) {
        let resized = |id, bytes: usize| {
            let new = Placement { address: address_of(id), size: bytes as u64, ..Placement::default() };
            EventKind::Reallocate { old_address: new.address, claimed_old_size: None, new }
        };
        match *event {
            ObjectEvent::Allocate { id, bytes, type_name, location, variable } => {
                if EventLog::is_quiet() {
                    return self.0.log.drop_event();
                }
                let (stack, tag) = site(&self.0.log, location, type_name, variable.unwrap_or_default());
                let (address, size) = (address_of(id), bytes as u64);
                self.soon(EventKind::Allocate(Placement { address, size, stack, tag, ..Placement::default() }));
            }
            ObjectEvent::Drop { id, bytes, reported, same_thread, .. } => {
                if reported.is_some() {
                    self.now(resized(id, bytes));
                }
                let kind = EventKind::free(address_of(id), None);
                if same_thread { self.soon(kind) } else { self.now(kind) }
            }
            ObjectEvent::Resize { id, bytes, .. } => self.now(resized(id, bytes)),
            ObjectEvent::Memory { bytes, label } => {
                let name = self.0.log.change_catalog(|catalog| catalog.strings.intern("memory"));
                self.now(EventKind::Gauge { name, value: bytes });
                self.instant(label);
            }
            ObjectEvent::Mark { label } => self.instant(label),
        }
    }
}
