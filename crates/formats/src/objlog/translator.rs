//! Translates a log into events: objects become blocks, and their ids become addresses.
//!
//! Order in the file is not order in time. A drop that comes before its birth is held back until the birth. Events with times are sorted, within a
//! window of [`HELD_BACK`] events.
//!
//! A log without times has only the order of its lines. The times of its events are then line numbers, and [`Source::clock`] says so. In a log with
//! times, events before the first time are held back until that time is known, and get it.

use super::json_form::LogThread;
use super::matcher::{Matcher, Meaning, SiteId};
use super::reader::{LogEvent, LogEventKind, ObjectLogReader, Observer};
use crate::events::stack_texts::StackTexts;
use highwater_model::{
    Anomaly, Catalog, Event, EventKind, EventSink, FrameText, Nanos, Placement, Source, SourceKind, StackId, StringId,
    Tag, TagId, ThreadId,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Limit for the number of events with times that are held back for earlier ones.
const HELD_BACK: usize = 1 << 16;
/// The first thread id of threads with names.
const NAMED_THREADS: u64 = 1 << 32;

/// The address under which an object is recorded.
pub fn address_of(id: u64) -> u64 {
    id.rotate_left(4)
}

/// The id of the object that is recorded under an address.
fn id_at(address: u64) -> u64 {
    address.rotate_right(4)
}

/// Turns the lines of a log into events.
pub struct Translator<R> {
    receiver: R,
    catalog: Catalog,
    sites: FxHashMap<SiteId, (StackId, TagId)>,
    stacks: StackTexts,
    threads: FxHashMap<String, ThreadId>,
    /// Drops that came before their births.
    early: FxHashMap<u64, (Nanos, ThreadId)>,
    /// The times of births, in a log with times. No other event of an object may be earlier, whatever the log says.
    births: FxHashMap<u64, Nanos>,
    memory: StringId,
    seen: u64,
    clock: LogClock,
    waiting: BinaryHeap<Reverse<WaitingEvent>>,
    duplicates: u64,
    type_mismatches: u64,
}

/// The source of times.
enum LogClock {
    /// No time has come yet. Events with line numbers are held back until the first time.
    Unknown(Vec<Event>),
    /// The latest time in the log.
    Time(Nanos),
    /// The log has no times: line numbers are used.
    Lines,
}

/// A held-back event, ordered by time and then by arrival.
struct WaitingEvent {
    time: Nanos,
    number: u64,
    event: Event,
}

impl PartialEq for WaitingEvent {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for WaitingEvent {}

impl PartialOrd for WaitingEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WaitingEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl<R: EventSink> Translator<R> {
    /// A translator that passes events to a receiver.
    pub fn new(receiver: R) -> Self {
        let mut catalog = Catalog::default();
        let memory = catalog.strings.intern("memory");
        Self {
            receiver,
            catalog,
            sites: FxHashMap::default(),
            stacks: StackTexts::default(),
            threads: FxHashMap::default(),
            early: FxHashMap::default(),
            births: FxHashMap::default(),
            memory,
            seen: 0,
            clock: LogClock::Unknown(Vec::new()),
            waiting: BinaryHeap::new(),
            duplicates: 0,
            type_mismatches: 0,
        }
    }

    /// The source of a log's events.
    pub fn source(program: &str) -> Source {
        Source { kind: SourceKind::OBJLOG, program: program.to_owned(), ..Source::default() }
    }

    /// True if the log has had no times so far. The answer is final at the end of the log.
    pub fn is_untimed(&self) -> bool {
        !matches!(self.clock, LogClock::Time(_))
    }

    /// Ends the log: gives out the held-back events, drops without births and all other anomalies. Returns the receiver and the catalog.
    pub fn finish(mut self, reader: &ObjectLogReader) -> (R, Catalog) {
        self.go_by_lines();
        self.release(0);
        let odd = reader.matcher().contradictions();
        let notes = [
            (Anomaly::UnmatchedFree, odd.drop_without_allocate.count + odd.duplicate_drop.count),
            (Anomaly::UnmatchedReallocation, odd.resize_without_allocate.count),
            (Anomaly::DuplicateAllocation, self.duplicates),
            (Anomaly::TypeMismatch, self.type_mismatches),
            (Anomaly::LostToDamage, reader.counts().malformed),
        ];
        for (anomaly, count) in notes.into_iter().filter(|(_, count)| *count > 0) {
            self.receiver.note(anomaly, count, &self.catalog);
        }
        (self.receiver, self.catalog)
    }

    fn emit(&mut self, time: Nanos, thread: ThreadId, kind: EventKind) {
        let event = Event { time, thread, kind };
        match &mut self.clock {
            LogClock::Unknown(untimed) => {
                untimed.push(event);
                if untimed.len() == HELD_BACK {
                    self.go_by_lines();
                }
            }
            LogClock::Time(_) => self.wait(event),
            LogClock::Lines => self.receiver.event(event, &self.catalog),
        }
    }

    fn wait(&mut self, event: Event) {
        self.waiting.push(Reverse(WaitingEvent { time: event.time, number: self.seen, event }));
        self.seen += 1;
        self.release(HELD_BACK);
    }

    /// No time came: uses line numbers, and ignores later times.
    fn go_by_lines(&mut self) {
        if let LogClock::Unknown(untimed) = &mut self.clock {
            let untimed = std::mem::take(untimed);
            self.clock = LogClock::Lines;
            untimed.into_iter().for_each(|event| self.receiver.event(event, &self.catalog));
        }
    }

    /// The time of an event, or its line number.
    fn instant_of(&mut self, log_event: &LogEvent<'_>) -> Nanos {
        match (&mut self.clock, log_event.time) {
            (LogClock::Lines, _) | (LogClock::Unknown(_), None) => Nanos(log_event.line),
            (LogClock::Time(time), None) => *time,
            (LogClock::Time(latest), Some(time)) => {
                *latest = time;
                time
            }
            (LogClock::Unknown(untimed), Some(time)) => {
                let untimed = std::mem::take(untimed);
                self.clock = LogClock::Time(time);
                self.early.values_mut().for_each(|early| early.0 = time);
                for event in untimed {
                    match event.kind {
                        EventKind::Allocate(place) => drop(self.births.insert(id_at(place.address), time)),
                        EventKind::Deallocate { address, .. } => drop(self.births.remove(&id_at(address))),
                        _ => {}
                    }
                    self.wait(Event { time, ..event });
                }
                time
            }
        }
    }

    fn release(&mut self, keep: usize) {
        while self.waiting.len() > keep
            && let Some(Reverse(next)) = self.waiting.pop()
        {
            self.receiver.event(next.event, &self.catalog);
        }
    }

    fn thread(&mut self, thread: Option<&LogThread<'_>>) -> ThreadId {
        match thread {
            None => ThreadId(0),
            Some(LogThread::Number(number)) => ThreadId(*number),
            Some(LogThread::Name(name)) => {
                if let Some(known) = self.threads.get(name.as_ref()) {
                    return *known;
                }
                let id = ThreadId(NAMED_THREADS + self.threads.len() as u64);
                self.catalog.name_thread(id, name);
                self.threads.insert(name.clone().into_owned(), id);
                id
            }
        }
    }

    fn site(&mut self, site: SiteId, matcher: &Matcher) -> (StackId, TagId) {
        if let Some(known) = self.sites.get(&site) {
            return *known;
        }
        let place = matcher.place_of(site);
        let (file, line) = place.rsplit_once(':').unwrap_or((&place, ""));
        let frame = FrameText { file, line: line.parse().unwrap_or(0), ..FrameText::default() };
        let stack = self.catalog.intern_stack(&[frame]);
        let type_name = self.catalog.strings.intern(&matcher.type_of(site));
        let variable = self.catalog.strings.intern(&matcher.variable_of(site).unwrap_or_default());
        let tag = self.catalog.intern_tag(Tag { type_name, variable, ..Tag::default() });
        self.sites.insert(site, (stack, tag));
        (stack, tag)
    }

    fn birth(&mut self, time: Nanos, thread: ThreadId, place: Placement, meaning: Meaning, id: u64) {
        match meaning {
            Meaning::LateBirth { bytes, dropped } => {
                self.emit(time, thread, EventKind::Allocate(place));
                if bytes != place.size {
                    let new = Placement { size: bytes, ..place };
                    let change = EventKind::Reallocate { old_address: place.address, claimed_old_size: None, new };
                    self.emit(time, thread, change);
                }
                if dropped {
                    let (later, dropper) = self.early.remove(&id).unwrap_or((time, thread));
                    let address = place.address;
                    self.emit(later.max(time), dropper, EventKind::free(address, None));
                }
            }
            Meaning::Duplicate => {
                self.duplicates += 1;
                return;
            }
            _ => self.emit(time, thread, EventKind::Allocate(place)),
        }
        if matches!(self.clock, LogClock::Time(_)) && !matches!(meaning, Meaning::LateBirth { dropped: true, .. }) {
            self.births.insert(id, time);
        }
    }

    /// The time, but not before the object's birth.
    fn in_its_life(&self, time: Nanos, id: u64) -> Nanos {
        self.births.get(&id).map_or(time, |birth| time.max(*birth))
    }

    fn drop_object(&mut self, time: Nanos, thread: ThreadId, bytes: u64, meaning: Meaning, id: u64) {
        let address = address_of(id);
        match meaning {
            Meaning::Nothing => drop(self.early.insert(id, (time, thread))),
            Meaning::Death { size_mismatch, type_mismatch } => {
                self.type_mismatches += u64::from(type_mismatch);
                let time = self.in_its_life(time, id);
                self.births.remove(&id);
                let claimed_size = size_mismatch.then_some(bytes);
                self.emit(time, thread, EventKind::free(address, claimed_size));
            }
            _ => {}
        }
    }

    fn instant(&mut self, time: Nanos, thread: ThreadId, label: &[u8]) {
        if !label.is_empty() {
            let name = self.catalog.strings.intern(&String::from_utf8_lossy(label));
            self.emit(time, thread, EventKind::Mark { name });
        }
    }
}

impl<R: EventSink> Observer for Translator<R> {
    fn event(&mut self, log_event: &LogEvent<'_>, matcher: &Matcher) {
        let time = self.instant_of(log_event);
        let thread = self.thread(log_event.thread.as_ref());
        match log_event.kind {
            LogEventKind::Allocate { bytes, site, id, meaning } => {
                let (place, tag) = self.site(site, matcher);
                let logged = log_event.stack.and_then(|text| self.stacks.stack(text, &mut self.catalog).ok());
                let stack = logged.filter(|stack| *stack != StackId::UNKNOWN).unwrap_or(place);
                let place = Placement { address: address_of(id), size: bytes, stack, tag, ..Placement::default() };
                self.birth(time, thread, place, meaning, id);
            }
            LogEventKind::Drop { bytes, id, meaning } => self.drop_object(time, thread, bytes, meaning, id),
            LogEventKind::Resize { bytes, id, meaning: Meaning::Resized } => {
                let new = Placement { address: address_of(id), size: bytes, ..Placement::default() };
                let change = EventKind::Reallocate { old_address: new.address, claimed_old_size: None, new };
                self.emit(self.in_its_life(time, id), thread, change);
            }
            LogEventKind::Resize { .. } => {}
            LogEventKind::Memory { bytes, label } => {
                self.emit(time, thread, EventKind::Gauge { name: self.memory, value: bytes });
                self.instant(time, thread, label);
            }
            LogEventKind::Mark { label } => self.instant(time, thread, label),
        }
    }
}
