//! Writing traces.

use super::header::PacketHeader;
use super::info;
use super::packet::code;
use super::put_backtrace::Depths;
use super::put_codes::CodeNumbers;
use super::put_domain::{Common, DomainWriter, SampledObject, write_packet};
use highwater_model::{
    Accounts, AllocId, Block, Catalog, Event, EventKind, Heap, Nanos, Op, Placement, Source, SourceKind, StackId, Step,
    ThreadId, Weight, WordSampling,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{self, Write};

/// The version of the format to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// All tools read this version. All events are of one domain.
    V2,
    /// Has domains.
    #[default]
    V3,
}

impl Version {
    fn number(self) -> u16 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// Records that a trace cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtraceOmissions {
    /// Marks and gauges.
    pub remarks: u64,
    /// Frees of unknown blocks.
    pub unmatched: u64,
    /// Stacks that were too deep, and were truncated at their inner end.
    pub cut_stacks: u64,
}

/// A live object.
#[derive(Clone, Copy)]
struct LiveObject {
    id: i64,
    /// The domain that wrote the last event about it, and the number of the packet.
    domain: u32,
    packet: u64,
    stack: StackId,
}

/// Writes events as a trace that the reference tools accept.
///
/// A reallocation becomes a collection and an allocation, since traces have no reallocations. In the trace of an exact recording, every word is a
/// sample.
pub struct TraceWriter<W: Write> {
    out: W,
    common: Common,
    sampling: WordSampling,
    start: i64,
    has_domains: bool,
    /// True if the source is exact, not sampled.
    is_exact: bool,
    domains: Vec<DomainWriter>,
    places: FxHashMap<ThreadId, usize>,
    live: FxHashMap<u64, LiveObject>,
    codes: CodeNumbers,
    depths: Depths,
    next_lot: i64,
    left_out: MemtraceOmissions,
    last_time: i64,
}

/// Word length for programs that do not report theirs.
const WORD_BYTES: u8 = 8;

impl<W: Write> TraceWriter<W> {
    /// Begins a trace: writes the first packet.
    pub fn new(mut out: W, source: &Source, version: Version) -> io::Result<Self> {
        let sampling = source.word_sampling.unwrap_or_else(|| sampling_of(source));
        let start = (source.start_unix_ns / 1000) as i64;
        let pid = source.pid as i64;
        let common = Common { version: version.number(), pid };
        let mut content = Vec::new();
        info::put(source, &sampling, start, common.version, &mut content);
        let header = PacketHeader {
            size: 0,
            time_begin: start,
            time_end: start,
            version: common.version,
            pid,
            domain: 0,
            verifier: None,
            alloc_begin: 0,
            alloc_end: 0,
        };
        write_packet(&PacketHeader { size: header.length() + content.len(), ..header }, &content, &mut out)?;
        Ok(Self {
            out,
            common,
            sampling,
            start,
            has_domains: source.kind == SourceKind::MEMTRACE && version == Version::V3,
            is_exact: source.sample_rate.is_none() && source.word_sampling.is_none(),
            domains: Vec::new(),
            places: FxHashMap::default(),
            live: FxHashMap::default(),
            codes: CodeNumbers::default(),
            depths: Depths::default(),
            next_lot: 0,
            left_out: MemtraceOmissions::default(),
            last_time: start,
        })
    }

    /// Appends an event of a source. Blocks are identified by address.
    pub fn write_event(&mut self, event: &Event, catalog: &Catalog) -> io::Result<()> {
        let (time, thread) = (event.time, event.thread);
        match event.kind {
            EventKind::Allocate(place) => self.allocate(time, thread, place.address, &place, catalog),
            EventKind::Deallocate { address, .. } => self.refer(code::COLLECT, time, thread, address, catalog),
            EventKind::Promote { address, .. } => self.refer(code::PROMOTE, time, thread, address, catalog),
            EventKind::Reallocate { old_address, new, .. } => {
                let new = self.inherit(old_address, new);
                self.refer(code::COLLECT, time, thread, old_address, catalog)?;
                self.allocate(time, thread, new.address, &new, catalog)
            }
            EventKind::Mark { .. } | EventKind::Gauge { .. } | EventKind::Dropped { .. } => {
                self.left_out.remarks += 1;
                Ok(())
            }
        }
    }

    /// Appends a step of a recording. `next` is the number of the next allocation. Blocks are identified by their numbers.
    pub fn write_step(&mut self, step: &Step, next: AllocId, catalog: &Catalog) -> io::Result<()> {
        let (time, thread) = (step.time, step.thread);
        match step.op {
            Op::Allocate(place) => self.allocate(time, thread, next.0, &place, catalog),
            Op::Free { id, .. } | Op::Evict { id } => self.refer(code::COLLECT, time, thread, id.0, catalog),
            Op::Promote { id, .. } => self.refer(code::PROMOTE, time, thread, id.0, catalog),
            Op::Reallocate { id, size, stack, tag, weight, .. } => {
                let new = self.inherit(id.0, Placement { size, stack, tag, weight, ..Placement::default() });
                self.refer(code::COLLECT, time, thread, id.0, catalog)?;
                self.allocate(time, thread, id.0, &new, catalog)
            }
            Op::Mark { .. } | Op::Gauge { .. } => {
                self.left_out.remarks += 1;
                Ok(())
            }
            Op::UnmatchedFree { .. } => {
                self.left_out.unmatched += 1;
                Ok(())
            }
            Op::Note { .. } => Ok(()),
        }
    }

    /// A resized block without a stack of its own keeps the old one.
    fn inherit(&self, key: u64, new: Placement) -> Placement {
        match self.live.get(&key) {
            Some(old) if new.stack == StackId::UNKNOWN => Placement { stack: old.stack, ..new },
            _ => new,
        }
    }

    /// Converts a time. Times never run backwards, so that every reader accepts them.
    fn clock(&mut self, time: Nanos) -> i64 {
        let time = self.start.saturating_add(i64::try_from(time.0 / 1000).unwrap_or(i64::MAX));
        self.last_time = self.last_time.max(time);
        self.last_time
    }

    fn domain(&mut self, thread: ThreadId, time: i64) -> usize {
        // A thread that is no domain does not become one: viewers show only the first domain.
        let thread = if self.has_domains && thread.0 <= u16::MAX.into() { thread } else { ThreadId(0) };
        if let Some(&at) = self.places.get(&thread) {
            return at;
        }
        self.domains.push(DomainWriter::new(thread.0 as u16, time));
        self.places.insert(thread, self.domains.len() - 1);
        self.domains.len() - 1
    }

    fn allocate(
        &mut self,
        time: Nanos,
        thread: ThreadId,
        key: u64,
        place: &Placement,
        catalog: &Catalog,
    ) -> io::Result<()> {
        // If an address is allocated again, its block was freed without an event.
        if self.live.contains_key(&key) {
            self.refer(code::COLLECT, time, thread, key, catalog)?;
        }
        let time = self.clock(time);
        let at = self.domain(thread, time);
        let object = self.object(place, key, catalog);
        let domain = &mut self.domains[at];
        domain.make_room(time, true, &mut self.next_lot, self.common, catalog, &mut self.out)?;
        let id = domain.allocate(time, object, place.stack, catalog, &mut self.codes, &mut self.depths);
        let packet = domain.packets;
        self.live.insert(key, LiveObject { id, domain: at as u32, packet, stack: place.stack });
        Ok(())
    }

    /// Writes an event about an existing object.
    fn refer(&mut self, code: u32, time: Nanos, thread: ThreadId, key: u64, catalog: &Catalog) -> io::Result<()> {
        let Some(&live) = self.live.get(&key) else {
            self.left_out.unmatched += 1;
            return Ok(());
        };
        let time = self.clock(time);
        let at = self.domain(thread, time);
        // Events about an object must be in the file in the order in which they happened.
        let other = live.domain as usize;
        if other != at && self.domains[other].packets == live.packet {
            self.domains[other].flush(self.common, catalog, &mut self.out)?;
        }
        let domain = &mut self.domains[at];
        domain.make_room(time, false, &mut self.next_lot, self.common, catalog, &mut self.out)?;
        domain.refer(code, time, live.id);
        if code == code::COLLECT {
            self.live.remove(&key);
        } else {
            let packet = domain.packets;
            self.live.insert(key, LiveObject { domain: at as u32, packet, ..live });
        }
        Ok(())
    }

    /// Converts a block to an object with a number of words and samples.
    fn object(&self, place: &Placement, key: u64, catalog: &Catalog) -> SampledObject {
        let words = place.size.div_ceil(self.sampling.word_bytes().into());
        let heap = match catalog.tag(place.tag).heap {
            Heap::Minor => 0,
            Heap::Major => 1,
            Heap::Malloc | Heap::Mapped | Heap::External => 2,
        };
        let samples = match place.weight.counted() {
            Some((samples, _)) => samples,
            None if self.is_exact && place.weight.is_one() => u32::try_from(words).unwrap_or(u32::MAX).max(1),
            None => self.samples_of(place.weight, place.size, key),
        };
        SampledObject { words, samples, heap }
    }

    /// The number of samples that stand for the bytes of a block. The fraction is the probability of one more sample, so that sums are right on
    /// average.
    fn samples_of(&self, weight: Weight, size: u64, key: u64) -> u32 {
        let samples = weight.amount(size).units() as f64 / (1u64 << 32) as f64 / self.sampling.bytes_per_sample();
        let draw = Weight::new(1.0 + samples.fract()).blocks(AllocId(key)) - 1;
        (samples.floor() as u64 + draw).clamp(1, u32::MAX.into()) as u32
    }

    /// Writes all queued records, so that a reader has everything up to now.
    pub fn flush(&mut self, catalog: &Catalog) -> io::Result<()> {
        for domain in &mut self.domains {
            domain.flush(self.common, catalog, &mut self.out)?;
        }
        self.out.flush()
    }

    /// Ends the trace, and returns the counts of what it could not represent.
    pub fn finish(mut self, catalog: &Catalog) -> io::Result<(MemtraceOmissions, W)> {
        self.flush(catalog)?;
        let cut_stacks = self.domains.iter().map(DomainWriter::cut).sum();
        Ok((MemtraceOmissions { cut_stacks, ..self.left_out }, self.out))
    }
}

/// For a trace that begins or resumes in the middle of a recording.
impl<W: Write> TraceWriter<W> {
    /// Brings the trace to the state of `accounts`, which its events have not led to. Collects objects of the trace that are no longer live, and
    /// allocates live blocks that the trace does not have. Blocks for which `is_changed` is true are collected and allocated again. Blocks are
    /// identified by their numbers.
    pub fn catch_up(
        &mut self,
        accounts: &Accounts,
        is_changed: impl Fn(AllocId) -> bool,
        catalog: &Catalog,
    ) -> io::Result<()> {
        let state = accounts.to_state();
        let live: FxHashSet<u64> =
            state.blocks.iter().map(|block| block.id.0).filter(|&id| !is_changed(AllocId(id))).collect();
        let mut gone: Vec<u64> = self.live.keys().copied().filter(|id| !live.contains(id)).collect();
        gone.sort_unstable();
        for id in gone {
            self.refer(code::COLLECT, accounts.last_time(), ThreadId(0), id, catalog)?;
        }
        for block in state.blocks.iter() {
            if self.live.contains_key(&block.id.0) {
                continue;
            }
            let Block { address, size, stack, tag, surplus, weight, .. } = block;
            let place = Placement { address, size, stack, tag, surplus, weight };
            let thread = state.threads.get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
            self.allocate(block.time, thread, block.id.0, &place, catalog)?;
        }
        Ok(())
    }

    /// Writes an object of one word with this stack, allocated and collected at the same time: a remark that every viewer shows.
    pub fn remark(&mut self, time: Nanos, stack: StackId, catalog: &Catalog) -> io::Result<()> {
        let key = u64::MAX;
        let place = Placement { size: WORD_BYTES.into(), stack, ..Placement::default() };
        self.allocate(time, ThreadId(0), key, &place, catalog)?;
        self.refer(code::COLLECT, time, ThreadId(0), key, catalog)
    }

    /// Writes all queued records, or an empty packet, so that a reader sees that nothing happened until this time.
    pub fn still_here(&mut self, time: Nanos, catalog: &Catalog) -> io::Result<()> {
        let time = self.clock(time);
        self.flush(catalog)?;
        let at = self.domain(ThreadId(0), time);
        self.domains[at].still_here(time, self.common, catalog, &mut self.out)
    }
}

/// Word sampling that corresponds to the sampling of a source that does not sample words.
fn sampling_of(source: &Source) -> WordSampling {
    let rate = source.sample_rate.map_or(1.0, |bytes| f64::from(WORD_BYTES) / bytes as f64);
    let exact = || WordSampling::new(1.0, WORD_BYTES).unwrap_or_else(|| unreachable!("one is a probability"));
    WordSampling::new(rate.min(1.0), WORD_BYTES).unwrap_or_else(exact)
}
