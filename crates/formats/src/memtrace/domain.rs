//! One domain of a program: its packets in order, and the state that its events change.

use super::backtrace::Backtraces;
use super::bytes::PacketCursor;
use super::codes::Codes;
use super::header::TIME_BITS;
use super::locations::{self, Described, Location};
use super::names::NameTables;
use super::packet::{Packet, TIME_MASK, code};
use super::spill;
use super::trace::Trace;
use highwater_model::{Catalog, Event, EventKind, EventSink, Placement, TagId, ThreadId};
use std::collections::VecDeque;
use std::sync::Arc;

/// From version 3 on, domains get object numbers in lots of this size.
const LOT: i64 = 10_000;

/// A position in the order in which events are given out: the time, then the packet's number.
pub type EventPosition = (i64, u64);

/// One domain of the traced program: its queued packets, and the decoder state that its events change.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its number.
    pub number: u16,
    /// The state of the backtraces, each coded as a difference from the previous one.
    pub backtraces: Backtraces,
    names: NameTables,
    /// True if some of the names come from a guessed reading.
    has_guessed_names: bool,
    /// The time of the clock at its last event.
    last_clock: i64,
    /// The sum of all steps by which the clock was set back so far. It is added to all later times.
    shift: i64,
    /// The expected number of the next allocation.
    expected_id: Option<i64>,
    /// Queued packets.
    packets: VecDeque<Packet>,
    /// The instant of its next event, if known.
    next: Option<EventPosition>,
    /// True if packets before the next one may have been lost.
    is_after_gap: bool,
}

/// The known names, for repairing locations.
struct LocationsOfTrace<'a> {
    codes: &'a Codes,
    catalog: &'a Catalog,
}

impl spill::KnownLocations for LocationsOfTrace<'_> {
    fn locations(&self, code: u64) -> Option<Vec<Location>> {
        self.codes.known(code, self.catalog)
    }

    fn file_of(&self, module: &str) -> Option<Arc<str>> {
        self.codes.file_of(module)
    }
}

/// Damage text for a packet with more allocations than its header says.
const TOO_MANY: &str = "there are more allocations than the packet says";

/// The reason why an event is malformed.
struct MalformedEvent(&'static str);

impl Domain {
    /// A domain without any state yet.
    pub fn new(number: u16, start: i64) -> Self {
        Self {
            number,
            backtraces: Backtraces::default(),
            names: NameTables::default(),
            has_guessed_names: false,
            last_clock: start,
            shift: 0,
            expected_id: None,
            packets: VecDeque::new(),
            next: None,
            is_after_gap: false,
        }
    }

    /// Marks that packets may have been lost here.
    pub fn lose(&mut self) {
        self.is_after_gap = true;
    }

    /// Queues a packet.
    pub fn push(&mut self, mut packet: Packet) {
        packet.is_after_gap |= std::mem::take(&mut self.is_after_gap);
        self.packets.push_back(packet);
    }

    /// The instant of the next event; `None` if no event is queued. Processes everything before that event that is no event.
    pub fn next(&mut self, trace: &mut Trace, catalog: &mut Catalog, done: &mut Vec<Packet>) -> Option<EventPosition> {
        if self.next.is_none() {
            self.next = self.find_next(trace, catalog, done);
        }
        self.next
    }

    fn find_next(&mut self, trace: &mut Trace, catalog: &mut Catalog, done: &mut Vec<Packet>) -> Option<EventPosition> {
        loop {
            let mut packet = self.packets.pop_front()?;
            if !packet.is_begun {
                self.begin(&mut packet, trace, catalog);
            }
            match self.peek(&mut packet, trace, catalog) {
                Some(time) => {
                    let instant = (time, packet.sequence);
                    self.packets.push_front(packet);
                    return Some(instant);
                }
                None => {
                    self.end(&packet, trace);
                    done.push(packet);
                }
            }
        }
    }

    /// Gives out events of the first queued packet, up to and including an instant.
    pub fn give<R: EventSink + ?Sized>(
        &mut self,
        until: EventPosition,
        trace: &mut Trace,
        catalog: &mut Catalog,
        receiver: &mut R,
    ) {
        let Some(mut packet) = self.packets.pop_front() else { return };
        self.next = None;
        while let Some(time) = self.peek(&mut packet, trace, catalog) {
            if (time, packet.sequence) > until {
                break;
            }
            let at = packet.at;
            match self.event(&mut packet, time, trace, catalog, receiver) {
                Ok(()) => {}
                Err(MalformedEvent(what)) => {
                    packet.at = at;
                    if what != TOO_MANY || !self.believe_content(&mut packet, trace) {
                        self.give_up(&mut packet, what, trace);
                    }
                }
            }
        }
        self.packets.push_front(packet);
    }

    fn forget_names(&mut self) {
        self.names.forget();
        self.has_guessed_names = false;
    }

    /// Checks the packet's header against the state before it.
    fn begin(&mut self, packet: &mut Packet, trace: &mut Trace, catalog: &mut Catalog) {
        packet.is_begun = true;
        if packet.is_after_gap {
            self.backtraces.lose();
            self.forget_names();
        }
        if let Some(only) = locations::only_event(&packet.content, packet.header.time_begin, packet.header.time_end) {
            debug_assert_eq!(only >> TIME_BITS, code::LOCATION);
            return self.locations(packet, trace, catalog);
        }
        let lost = self.note_missing(packet, trace);
        let agrees = packet.header.verifier.is_none_or(|verifier| self.backtraces.agrees(&verifier));
        if lost || (!agrees && !packet.is_after_gap) {
            self.backtraces.lose();
        }
        if !agrees && !lost && !packet.is_after_gap {
            let what = "packets are missing before this one: it does not go on where the one before ended";
            trace.damage.add(packet.offset - packet.header.length() as u64, 0, what);
        }
    }

    /// Compares the number of the packet's first allocation with the expected one. True if allocations are missing.
    fn note_missing(&mut self, packet: &mut Packet, trace: &mut Trace) -> bool {
        let (begin, end) = (packet.header.alloc_begin, packet.header.alloc_end);
        let Some(expected) = self.expected_id.replace(end.max(self.expected_id.unwrap_or(end))) else { return false };
        let offset = packet.offset - packet.header.length() as u64;
        // A new lot begins when the previous one is used up.
        let is_new_lot = packet.header.version >= 3 && begin > expected && begin % LOT == 0 && expected % LOT == 0;
        if begin == expected || is_new_lot {
            return false;
        }
        if begin < expected {
            trace.damage.add(
                offset,
                packet.content.len() as u64,
                "a packet is out of place, or there twice; it is left out",
            );
            packet.at = packet.content.len();
            packet.next_id = end;
            return false;
        }
        let within_lot = packet.header.version < 3 || begin / LOT == expected / LOT;
        let missing = if within_lot {
            trace.lost.add(expected, begin);
            begin - expected
        } else {
            // Missing: the rest of the old lot, and the part of the new lot before this packet.
            let rest = expected.checked_add(LOT - expected.rem_euclid(LOT)).unwrap_or(expected);
            let rest = if expected % LOT == 0 { expected } else { rest };
            trace.lost.add(expected, rest);
            trace.lost.add(begin - begin.rem_euclid(LOT), begin);
            (rest - expected).saturating_add(begin.rem_euclid(LOT))
        };
        let what = format!("packets are missing before this one, with {missing} allocations");
        trace.damage.add(offset, 0, what);
        true
    }

    /// Reads a packet that has only locations.
    fn locations(&mut self, packet: &mut Packet, trace: &mut Trace, catalog: &mut Catalog) {
        let mut tables = self.names.clone();
        let run = locations::read_run(&packet.content, &mut tables);
        let is_whole = run.end == packet.content.len();
        let mut described = run.described;
        let mut is_read = is_whole;
        // Readable locations are doubted only in a trace in which some locations are unreadable.
        if !is_whole || (trace.has_spills && spill::is_suspicious(&described)) {
            let repaired = trace.with_effort(|trace, effort| {
                let known = LocationsOfTrace { codes: &trace.codes, catalog };
                spill::read(&packet.content, &self.names, &known, effort)
            });
            if let Some((repaired, repaired_tables)) = repaired {
                (described, tables, is_read) = (repaired, repaired_tables, true);
                trace.has_spills = true;
                trace.first_guess.get_or_insert(packet.offset);
                self.has_guessed_names = true;
            }
        }
        // A location refers to earlier names. If one of those is a guess, so is the location.
        described.iter_mut().for_each(|one| one.is_guess |= self.has_guessed_names);
        described.iter().for_each(|one| trace.codes.describe(one, catalog));
        self.names = tables;
        if !is_read {
            self.forget_names();
            let what = if packet.is_cut { None } else { Some("locations are malformed: their names are not known") };
            let rest = (packet.content.len() - run.end) as u64;
            what.into_iter().for_each(|what| trace.damage.add(packet.offset + run.end as u64, rest, what));
        }
        packet.at = packet.content.len();
        packet.next_id = packet.header.alloc_end;
    }

    /// The time of the next event of a packet, after reading the locations before it.
    #[inline]
    fn peek(&mut self, packet: &mut Packet, trace: &mut Trace, catalog: &mut Catalog) -> Option<i64> {
        while packet.at < packet.content.len() {
            let Some(word) = PacketCursor::new(&packet.content, packet.at).u32() else {
                self.give_up(packet, "an event is cut", trace);
                return None;
            };
            if word >> TIME_BITS == code::LOCATION {
                self.one_location(packet, trace, catalog);
                continue;
            }
            let time = packet.time_of(word & TIME_MASK);
            let is_in_order = time >= packet.time && time <= packet.header.time_end;
            if !is_in_order && !packet.has_odd_clock && !self.excuse_clock(packet, trace) {
                return None;
            }
            return Some(self.shifted(time));
        }
        None
    }

    /// Converts a time to a clock that is never set back. The first time after a step back becomes the time of the event before it, and all later
    /// times keep their distances. So an event never has an earlier time than the event that its domain wrote before it.
    #[inline]
    fn shifted(&self, clock: i64) -> i64 {
        clock.saturating_add(self.shift).saturating_add(self.step_to(clock))
    }

    /// The least amount by which the clock was set back, if its next time is this one.
    #[inline]
    fn step_to(&self, clock: i64) -> i64 {
        self.last_clock.saturating_sub(clock).max(0)
    }

    /// Reads one location among other events.
    #[cold]
    fn one_location(&mut self, packet: &mut Packet, trace: &mut Trace, catalog: &mut Catalog) {
        let mut input = PacketCursor::new(&packet.content, packet.at + 4);
        match locations::read(&mut input, &mut self.names) {
            Some(described) => {
                packet.at = input.at;
                let described = Described { is_guess: self.has_guessed_names, ..described };
                trace.codes.describe(&described, catalog);
            }
            None => {
                self.forget_names();
                self.give_up(packet, "a location is malformed", trace);
            }
        }
    }

    /// If times run backwards but the rest of the packet is sound, the clock was set back. Otherwise bytes are damaged.
    #[cold]
    fn excuse_clock(&mut self, packet: &mut Packet, trace: &mut Trace) -> bool {
        packet.has_odd_clock = packet.is_sound_from(packet.at);
        if !packet.has_odd_clock {
            self.give_up(packet, "an event has a time that cannot be", trace);
        }
        packet.has_odd_clock
    }

    /// If a packet has more allocations than its header says and all are complete, uses them all.
    #[cold]
    fn believe_content(&mut self, packet: &mut Packet, trace: &mut Trace) -> bool {
        let Some(more) = packet.allocations_from(packet.at) else { return false };
        let end = packet.next_id.saturating_add(more as i64);
        let what =
            format!("a packet has {} allocations more than it says; they are used", end - packet.header.alloc_end);
        trace.damage.add(packet.offset - packet.header.length() as u64, 0, what);
        self.expected_id = self.expected_id.map(|expected| expected.max(end));
        packet.header.alloc_end = end;
        true
    }

    /// Skips the rest of a packet.
    #[cold]
    fn give_up(&mut self, packet: &mut Packet, what: &'static str, trace: &mut Trace) {
        let rest = packet.content.len() - packet.at;
        // If the trace ends within the event, that is reported as damage elsewhere.
        if !packet.is_cut {
            trace.damage.add(packet.offset + packet.at as u64, rest as u64, what);
            self.backtraces.lose();
            trace.lost.add(packet.next_id, packet.header.alloc_end);
        }
        packet.at = packet.content.len();
        packet.next_id = packet.header.alloc_end;
    }

    /// Reads the event whose time was read before, and gives it out.
    #[inline]
    fn event<R: EventSink + ?Sized>(
        &mut self,
        packet: &mut Packet,
        time: i64,
        trace: &mut Trace,
        catalog: &mut Catalog,
        receiver: &mut R,
    ) -> Result<(), MalformedEvent> {
        let mut input = PacketCursor::new(&packet.content, packet.at);
        let word = input.u32().ok_or(MalformedEvent("an event is cut"))?;
        let clock = packet.time_of(word & TIME_MASK);
        let kind = match word >> TIME_BITS {
            short @ 101..=code::LAST_SHORT_ALLOC => {
                let words = u64::from(short - code::SHORT_ALLOC);
                let common = input.count().ok_or(MalformedEvent("an allocation is cut"))?;
                let codewords = input.u8().ok_or(MalformedEvent("an allocation is cut"))?;
                let tag = trace.tag(0).unwrap_or(TagId::NONE);
                let place = self.place(&mut input, (words, 1, tag), (common, codewords.into()), trace, catalog)?;
                Some(allocated(&mut packet.next_id, packet.header.alloc_end, place)?)
            }
            code::ALLOC => {
                let place = self.long_place(&mut input, trace, catalog)?;
                Some(allocated(&mut packet.next_id, packet.header.alloc_end, place)?)
            }
            code::COLLECT => {
                let distance = input.vint().ok_or(MalformedEvent("a collection is cut"))?;
                let id = object(packet.next_id, distance)?;
                let is_lost = trace.lost.refers(id);
                (!is_lost).then_some(EventKind::free(address_of(id), None))
            }
            code::PROMOTE => {
                let distance = input.vint().ok_or(MalformedEvent("a promotion is cut"))?;
                if distance < 0 {
                    return Err(MalformedEvent("an object is promoted that was not yet there"));
                }
                let id = object(packet.next_id, distance)?;
                let is_lost = trace.lost.refers(id);
                (!is_lost).then_some(EventKind::Promote { address: address_of(id), tag: trace.promoted() })
            }
            _ => return Err(MalformedEvent("an event is of a kind that does not exist")),
        };
        if std::mem::take(&mut self.backtraces.met_empty) {
            let what = "a backtrace refers to a location that none has named: bytes are damaged, or packets missing";
            trace.damage.add(packet.offset + packet.at as u64, 0, what);
            self.backtraces.lose();
        }
        packet.at = input.at;
        packet.time = clock;
        let step = self.step_to(clock);
        if step > 0 {
            self.shift = self.shift.saturating_add(step);
            trace.clock_steps += 1;
            trace.clock_step_us = trace.clock_step_us.saturating_add(step as u64);
        }
        self.last_clock = clock;
        if let Some(kind) = kind {
            trace.events += 1;
            // A late event gets the latest time given out.
            trace.end = trace.end.max(time);
            trace.repaired_times += u64::from(time < trace.end);
            let time = trace.end;
            let event = Event { time: trace.since_start(time), thread: ThreadId(self.number.into()), kind };
            receiver.event(event, catalog);
        }
        Ok(())
    }

    /// Reads an allocation in the long form.
    fn long_place(
        &mut self,
        input: &mut PacketCursor<'_>,
        trace: &mut Trace,
        catalog: &mut Catalog,
    ) -> Result<Placement, MalformedEvent> {
        let cut = MalformedEvent("an allocation is cut");
        let Some(words) = input.count() else { return Err(MalformedEvent("an allocation has no length that can be")) };
        let samples = input.count().and_then(|samples| u32::try_from(samples).ok()).filter(|&samples| samples > 0);
        let samples = samples.ok_or(MalformedEvent("an allocation has no number of samples that can be"))?;
        let heap =
            input.u8().and_then(|heap| trace.tag(heap)).ok_or(MalformedEvent("an allocation is of no known heap"))?;
        let (Some(common), Some(codewords)) = (input.count(), input.u16()) else { return Err(cut) };
        self.place(input, (words, samples, heap), (common, codewords.into()), trace, catalog)
    }

    #[inline]
    fn place(
        &mut self,
        input: &mut PacketCursor<'_>,
        (words, samples, tag): (u64, u32, TagId),
        (common, codewords): (u64, usize),
        trace: &mut Trace,
        catalog: &mut Catalog,
    ) -> Result<Placement, MalformedEvent> {
        let size = words.checked_mul(trace.sampling.word_bytes().into());
        let size = size.ok_or(MalformedEvent("an allocation is larger than any memory"))?;
        let stack = self.backtraces.read(input, common, codewords, &mut trace.tables(catalog));
        let stack = stack.ok_or(MalformedEvent("a backtrace is cut"))?;
        let weight = trace.weight(words, samples);
        Ok(Placement { address: 0, size, stack, tag, surplus: 0, weight })
    }

    /// Checks whether a packet had all the allocations that its header says.
    fn end(&mut self, packet: &Packet, trace: &mut Trace) {
        let missing = packet.header.alloc_end.saturating_sub(packet.next_id);
        if missing != 0 && packet.is_cut {
            trace.lost.add(packet.next_id, packet.header.alloc_end);
        } else if missing != 0 {
            let what = format!("a packet has {missing} allocations fewer than it says");
            trace.damage.add(packet.offset - packet.header.length() as u64, 0, what);
            trace.lost.add(packet.next_id, packet.header.alloc_end);
            self.backtraces.lose();
        }
    }
}

/// Gives an allocation its number.
#[inline]
fn allocated(next_id: &mut i64, end: i64, place: Placement) -> Result<EventKind, MalformedEvent> {
    let id = *next_id;
    if id >= end {
        return Err(MalformedEvent(TOO_MANY));
    }
    *next_id += 1;
    Ok(EventKind::Allocate(Placement { address: address_of(id), ..place }))
}

/// The number of the object that was allocated `distance` objects before the last one.
#[inline]
fn object(next_id: i64, distance: i64) -> Result<i64, MalformedEvent> {
    let id = next_id.checked_sub(1).and_then(|last| last.checked_sub(distance));
    id.ok_or(MalformedEvent("an object's number is out of range"))
}

/// The address under which an object is recorded. Traces have no addresses, but object numbers, which are never reused.
#[inline]
pub fn address_of(id: i64) -> u64 {
    (id as u64).rotate_left(4)
}

/// The number of the object recorded under an address.
pub fn id_of(address: u64) -> i64 {
    address.rotate_right(4) as i64
}
