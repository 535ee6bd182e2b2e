//! Decoding a trace as it arrives.

use super::framer::{FramedPacket, Framer, InputState};
use super::header::{HeaderFault, LONGEST_HEADER, TIME_BITS, VERSIONS};
use super::info;
use super::order::Domains;
use super::packet::Packet;
use super::trace::Trace;
use highwater_model::{Anomaly, Catalog, Damage, EventSink, GUESSED, Source};
use std::fmt;

/// Default limit for bytes of packets that are held back so that events of several domains come out in the order of time.
pub const PATIENCE: usize = 32 << 20;

/// Why bytes are not a readable trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotATrace {
    /// There are no bytes.
    Empty,
    /// The bytes do not begin like a trace.
    Foreign,
    /// The trace has an unknown version.
    Version(u16),
    /// Its first packet, which says how it was sampled, is damaged.
    NoInfo,
}

impl fmt::Display for NotATrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the trace is empty"),
            Self::Foreign => f.write_str("not a memtrace trace"),
            Self::Version(version) => {
                let (first, last) = (VERSIONS.start(), VERSIONS.end());
                write!(f, "a memtrace trace of version {version}; versions {first} to {last} can be read")
            }
            Self::NoInfo => f.write_str(
                "the first packet of the trace, which says how it was sampled, is damaged: nothing in it can be used",
            ),
        }
    }
}

impl std::error::Error for NotATrace {}

/// Decodes a trace from bytes that are pushed into it, and gives out events as soon as they are known. Holds a bounded number of bytes, whatever the
/// trace.
///
/// Every call must get the same catalog: the handles in the events refer to it.
#[derive(Clone, Debug)]
pub struct Decoder {
    framer: Framer,
    domains: Domains,
    trace: Option<Trace>,
    source: Option<Source>,
    version: u16,
    patience: usize,
    packets: u64,
    /// The offset at which another trace begins, which is not read.
    other_trace: Option<u64>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl Decoder {
    /// A decoder that holds back up to `bytes` bytes of packets before it decides which event is next in time. With 0, events are given out at once
    /// in the order of their packets, and late events get the latest time given out.
    pub fn with_patience(bytes: usize) -> Self {
        Self {
            framer: Framer::default(),
            domains: Domains::default(),
            trace: None,
            source: None,
            version: 0,
            patience: bytes,
            packets: 0,
            other_trace: None,
        }
    }

    /// Takes more bytes of the trace, and gives out the events that are known by now.
    pub fn push<R: EventSink + ?Sized>(
        &mut self,
        bytes: &[u8],
        catalog: &mut Catalog,
        receiver: &mut R,
    ) -> Result<(), NotATrace> {
        self.framer.push(bytes);
        self.advance(InputState::More, catalog, receiver)
    }

    /// Gives out the events of all complete packets that have arrived.
    pub fn flush<R: EventSink + ?Sized>(&mut self, catalog: &mut Catalog, receiver: &mut R) -> Result<(), NotATrace> {
        self.advance(InputState::Now, catalog, receiver)
    }

    /// Gives out everything: no more bytes will arrive. Returns an error if no part of the input was a trace.
    pub fn finish<R: EventSink + ?Sized>(&mut self, catalog: &mut Catalog, receiver: &mut R) -> Result<(), NotATrace> {
        self.advance(InputState::End, catalog, receiver)?;
        match &self.trace {
            None if self.framer.arrived() == 0 => Err(NotATrace::Empty),
            None => Err(NotATrace::NoInfo),
            Some(_) => Ok(()),
        }
    }

    fn advance<R: EventSink + ?Sized>(
        &mut self,
        state: InputState,
        catalog: &mut Catalog,
        receiver: &mut R,
    ) -> Result<(), NotATrace> {
        if self.trace.is_none() {
            if !self.begin(state, catalog)? {
                return Ok(());
            }
            self.source.iter().for_each(|source| receiver.begin(source));
        }
        let Some(trace) = &mut self.trace else { return Ok(()) };
        trace.bytes = self.framer.arrived();
        while self.other_trace.is_none()
            && let Some(frame) = self.framer.next(state, &mut trace.damage)
        {
            self.packets += 1;
            take(&frame, &self.framer, trace, &mut self.domains, catalog, &mut self.other_trace);
            // Traces of versions without domains need no reordering.
            let patience = if self.version < 3 { 0 } else { self.patience };
            self.domains.give(patience, trace, catalog, receiver);
        }
        if state != InputState::More {
            self.domains.give(0, trace, catalog, receiver);
        }
        if let Some(offset) = self.other_trace {
            self.framer.discard();
            let length = self.framer.arrived() - offset;
            let what = "another trace begins here; only the first is read, cut the file there to read the other";
            trace.damage.add(offset, length, what);
            self.other_trace = Some(self.framer.arrived());
        }
        Ok(())
    }

    /// Reads the first packet; false while it is incomplete.
    fn begin(&mut self, state: InputState, catalog: &mut Catalog) -> Result<bool, NotATrace> {
        match self.framer.first_header() {
            Err(HeaderFault::Version(version)) => return Err(NotATrace::Version(version)),
            Err(HeaderFault::Magic) => return Err(NotATrace::Foreign),
            Err(HeaderFault::Short) if state != InputState::End && self.framer.arrived() < LONGEST_HEADER as u64 => {
                return Ok(false);
            }
            Err(HeaderFault::Short) if self.framer.arrived() == 0 => return Err(NotATrace::Empty),
            Err(_) => return Err(NotATrace::NoInfo),
            Ok(_) => {}
        }
        let mut damage = Default::default();
        let Some(frame) = self.framer.next(state, &mut damage) else { return Ok(false) };
        let source = info::read(&frame.header, self.framer.content(&frame)).ok_or(NotATrace::NoInfo)?;
        let sampling = source.word_sampling.ok_or(NotATrace::NoInfo)?;
        self.framer.expect(frame.header.pid, frame.header.version);
        self.version = frame.header.version;
        self.packets = 1;
        let mut trace = Trace::new(frame.header.time_begin, sampling, catalog);
        trace.damage = damage;
        self.trace = Some(trace);
        self.source = Some(source);
        Ok(true)
    }

    /// The process that wrote the trace, as soon as that is known. The duration is that of the events given out so far.
    pub fn source(&self) -> Option<Source> {
        let (source, trace) = (self.source.as_ref()?, self.trace.as_ref()?);
        Some(Source { duration: trace.since_start(trace.end), ..source.clone() })
    }

    /// The version of the trace's format; 0 while it is unknown.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The number of packets found.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The number of events given out.
    pub fn events(&self) -> u64 {
        self.trace.as_ref().map_or(0, |trace| trace.events)
    }

    /// The number of bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.framer.arrived()
    }

    /// Parts of the trace that were not used, or not used as they are, by offset.
    pub fn damage(&self) -> Vec<Damage> {
        let Some(trace) = &self.trace else { return Vec::new() };
        let mut damage = trace.damage.list();
        let (contradictions, doubts) = (trace.codes.contradictions(), self.doubtful_stacks());
        if doubts > 0 {
            let what = format!("{doubts} stacks may be wrong, and are marked: they build on what is missing");
            let offset = trace.damage.first_offset().unwrap_or(0);
            damage.insert(
                damage.iter().take_while(|one| one.offset <= offset).count(),
                Damage { offset, length: 0, what: what.into() },
            );
        }
        if let (Some(offset), guesses @ 1..) = (trace.first_guess, trace.codes.guesses()) {
            let what = format!(
                "columns did not fit into their records: {guesses} locations are the likeliest readings, and are marked{GUESSED}"
            );
            damage.insert(
                damage.iter().take_while(|one| one.offset <= offset).count(),
                Damage { offset, length: 0, what: what.into() },
            );
        }
        if contradictions > 0 {
            let what = format!("{contradictions} locations are described in two ways; the first counts");
            damage.push(Damage { offset: self.framer.arrived(), length: 0, what: what.into() });
        }
        damage
    }

    fn doubtful_stacks(&self) -> u64 {
        self.domains.iter().map(|domain| domain.backtraces.in_doubt).sum()
    }

    /// Anomalies that the events themselves do not show.
    pub fn oddities(&self) -> Vec<(Anomaly, u64)> {
        let Some(trace) = &self.trace else { return Vec::new() };
        let cut = self.domains.iter().map(|domain| domain.backtraces.cut).sum();
        let all = [
            (Anomaly::RepairedTime, trace.repaired_times),
            (Anomaly::ClockStep, trace.clock_steps),
            (Anomaly::ClockStepMicroseconds, trace.clock_step_us),
            (Anomaly::TruncatedStack, cut),
            (Anomaly::GuessedLocation, trace.codes.guesses()),
            (Anomaly::LostToDamage, trace.lost.objects.saturating_add(trace.lost.references)),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// Queues a packet.
fn take(
    frame: &FramedPacket,
    framer: &Framer,
    trace: &mut Trace,
    domains: &mut Domains,
    catalog: &mut Catalog,
    other_trace: &mut Option<u64>,
) {
    let content = framer.content(frame);
    let header = &frame.header;
    let is_info = content.get(3).is_some_and(|byte| u32::from(*byte) >> (TIME_BITS - 24) == info::CODE);
    if is_info && info::read(header, content).is_some() {
        *other_trace = Some(frame.offset);
        return;
    }
    if frame.is_after_gap {
        domains.lose();
    }
    if !framer.is_expected(header) {
        let length = (header.length() + content.len()) as u64;
        let what = match framer.is_expected_process(header) {
            true => format!("a packet is of version {}, unlike the first", header.version),
            false => format!("a packet of another process (pid {}), as a forked child leaves them", header.pid),
        };
        return trace.damage.add(frame.offset, length, what);
    }
    let mut room = domains.room();
    room.extend_from_slice(content);
    let sequence = domains.next_sequence();
    let packet = Packet { is_cut: frame.is_cut, ..Packet::new(*header, frame.offset, sequence, room) };
    if !domains.push(packet, trace.start, catalog) {
        let length = (header.length() + content.len()) as u64;
        trace.damage.add(frame.offset, length, "a packet of one domain more than any program has");
    }
}
