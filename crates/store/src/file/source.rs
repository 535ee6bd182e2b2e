//! The source block: the program whose memory it is (docs/format.md §7). A later one replaces an earlier one.

use super::varint::{self, VarintReader};
use highwater_model::{AddressSpace, Clock, KnownFigures, Nanos, Source, SourceKind, StoreId, WordSampling};

/// Bits of the flags.
mod flag {
    /// Every block's usable size is known.
    pub const USABLE_SIZES: u64 = 1;
    /// Only one instant is known.
    pub const SNAPSHOT: u64 = 1 << 1;
    /// Only figures are known.
    pub const AGGREGATED: u64 = 1 << 2;
    /// Times are lines of a log.
    pub const LINES: u64 = 1 << 3;
    /// Times are numbers of instructions.
    pub const INSTRUCTIONS: u64 = 1 << 4;
    /// Times are numbers of bytes allocated and freed.
    pub const BYTES: u64 = 1 << 5;
    /// Besides live bytes, only the figures of the next bits are known.
    pub const KNOWN: u64 = 1 << 6;
    pub const LIVE_BLOCKS: u64 = 1 << 7;
    pub const ALLOCATED: u64 = 1 << 8;
    pub const OWN_PEAKS: u64 = 1 << 9;
    pub const SAMPLES: u64 = 1 << 10;
    /// The snapshot knows what led to it.
    pub const HAS_PAST: u64 = 1 << 11;
    /// The process was forked, and its parent's blocks are not in this file.
    pub const FORKED: u64 = 1 << 12;
}

fn flags(source: &Source) -> u64 {
    let bit = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
    bit(source.usable_sizes, flag::USABLE_SIZES)
        | bit(source.snapshot, flag::SNAPSHOT)
        | bit(source.aggregated, flag::AGGREGATED)
        | bit(source.snapshot && source.has_past, flag::HAS_PAST)
        | bit(source.forked, flag::FORKED)
        | match source.clock {
            Clock::Time => 0,
            Clock::Lines => flag::LINES,
            Clock::Instructions => flag::INSTRUCTIONS,
            Clock::Bytes => flag::BYTES,
        }
        | source.known.map_or(0, |known| {
            flag::KNOWN
                | bit(known.live_blocks, flag::LIVE_BLOCKS)
                | bit(known.allocated, flag::ALLOCATED)
                | bit(known.own_peaks, flag::OWN_PEAKS)
                | bit(known.samples, flag::SAMPLES)
        })
}

fn clock_of(flags: u64) -> Clock {
    match () {
        () if flags & flag::LINES != 0 => Clock::Lines,
        () if flags & flag::INSTRUCTIONS != 0 => Clock::Instructions,
        () if flags & flag::BYTES != 0 => Clock::Bytes,
        () => Clock::Time,
    }
}

fn known_of(flags: u64) -> Option<KnownFigures> {
    (flags & flag::KNOWN != 0).then_some(KnownFigures {
        live_blocks: flags & flag::LIVE_BLOCKS != 0,
        allocated: flags & flag::ALLOCATED != 0,
        own_peaks: flags & flag::OWN_PEAKS != 0,
        samples: flags & flag::SAMPLES != 0,
    })
}

/// Kinds that have a number. All others are stored as events, with their key at the end.
const NUMBERED: [SourceKind; 5] =
    [SourceKind::NATIVE, SourceKind::MEMTRACE, SourceKind::OBJLOG, SourceKind::EVENTS, SourceKind::IMAGE];
const EVENTS: u64 = 3;

fn number_of(kind: &SourceKind) -> Option<u64> {
    NUMBERED.iter().position(|numbered| numbered == kind).map(|number| number as u64)
}

/// Appends the payload.
pub fn encode(source: &Source, out: &mut Vec<u8>) {
    let sample = source.sample_rate.map_or(0, |rate| rate.max(1));
    let number = number_of(&source.kind).unwrap_or(EVENTS);
    for value in [number, source.pid, source.start_unix_ns, source.duration.0, sample] {
        varint::put(out, value);
    }
    varint::put_byte_string(out, source.program.as_bytes());
    varint::put_byte_string(out, source.host.as_bytes());
    // If none of these is known, the file is the same as before these fields were added.
    if source.parent_pid != 0
        || flags(source) != 0
        || !source.command.is_empty()
        || has_runtime(source)
        || has_more(source)
    {
        varint::put(out, source.parent_pid);
        varint::put(out, flags(source));
        varint::put(out, source.command.len() as u64);
        source.command.iter().for_each(|word| varint::put_byte_string(out, word.as_bytes()));
    }
    if has_runtime(source) || has_more(source) {
        varint::put_byte_string(out, source.context.as_bytes());
        varint::put_byte_string(out, source.runtime_parameters.as_bytes());
        let (word_bytes, rate) = source.word_sampling.map_or((0, 0.0), |words| (words.word_bytes(), words.rate()));
        varint::put(out, word_bytes.into());
        out.extend_from_slice(&rate.to_bits().to_le_bytes());
    }
    if has_more(source) {
        varint::put_byte_string(out, source.executable.as_bytes());
        varint::put(out, source.address_space.reserved_bytes);
        varint::put(out, source.address_space.mapped_file_bytes);
    }
    if !source.notes.is_empty() || has_last(source) {
        varint::put(out, source.notes.len() as u64);
        source.notes.iter().for_each(|note| varint::put_byte_string(out, note.as_bytes()));
    }
    if has_last(source) {
        // An empty key is none.
        let key = if number_of(&source.kind).is_none() { source.kind.key() } else { "" };
        varint::put_byte_string(out, key.as_bytes());
    }
    if let Some(StoreId(id)) = source.store {
        varint::put_byte_string(out, &id.to_le_bytes());
    }
    let returned = source.address_space.returned_bytes;
    if returned > 0 {
        if source.store.is_none() {
            varint::put_byte_string(out, &[]);
        }
        varint::put(out, returned);
    }
}

/// True if the executable or the address space is known, or if notes or a key follow them.
fn has_more(source: &Source) -> bool {
    let has_space = source.address_space != AddressSpace::default();
    !source.executable.is_empty() || has_space || !source.notes.is_empty() || has_last(source)
}

/// True if the kind has no number, or the store or returned memory is known, which come after the key.
fn has_last(source: &Source) -> bool {
    number_of(&source.kind).is_none() || source.store.is_some() || source.address_space.returned_bytes > 0
}

/// True if facts about the program's runtime are known.
fn has_runtime(source: &Source) -> bool {
    !source.context.is_empty() || !source.runtime_parameters.is_empty() || source.word_sampling.is_some()
}

/// Reads a payload; `None` if it is malformed.
pub fn decode(payload: &[u8]) -> Option<Source> {
    let mut input = VarintReader::new(payload);
    let number = usize::try_from(input.number()?).ok();
    let kind = number.and_then(|number| NUMBERED.get(number).cloned()).unwrap_or(SourceKind::EVENTS);
    let (pid, start_unix_ns, duration, sample) =
        (input.number()?, input.number()?, Nanos(input.number()?), input.number()?);
    let (program, host) = (text(&mut input)?, text(&mut input)?);
    let sample_rate = (sample > 0).then_some(sample);
    let mut source = Source { kind, program, pid, host, start_unix_ns, duration, sample_rate, ..Source::default() };
    if !input.is_empty() {
        source.parent_pid = input.number()?;
        let flags = input.number()?;
        source.usable_sizes = flags & flag::USABLE_SIZES != 0;
        source.snapshot = flags & flag::SNAPSHOT != 0;
        source.aggregated = flags & flag::AGGREGATED != 0;
        source.has_past = source.snapshot && flags & flag::HAS_PAST != 0;
        source.forked = flags & flag::FORKED != 0;
        source.clock = clock_of(flags);
        source.known = known_of(flags);
        for _ in 0..input.number()? {
            source.command.push(text(&mut input)?);
        }
    }
    if !input.is_empty() {
        source.context = text(&mut input)?;
        source.runtime_parameters = text(&mut input)?;
        let word_bytes = input.number()?;
        let rate = f64::from_bits(u64::from_le_bytes(input.bytes(8)?.try_into().ok()?));
        source.word_sampling = u8::try_from(word_bytes).ok().and_then(|bytes| WordSampling::new(rate, bytes));
    }
    if !input.is_empty() {
        source.executable = text(&mut input)?;
        source.address_space =
            AddressSpace { reserved_bytes: input.number()?, mapped_file_bytes: input.number()?, returned_bytes: 0 };
    }
    if !input.is_empty() {
        for _ in 0..input.number()? {
            source.notes.push(text(&mut input)?);
        }
    }
    if !input.is_empty() {
        source.kind = SourceKind::from_key(&text(&mut input)?).unwrap_or(source.kind);
    }
    if !input.is_empty() {
        source.store = input.byte_string()?.try_into().ok().map(|id| StoreId(u128::from_le_bytes(id)));
    }
    if !input.is_empty() {
        source.address_space.returned_bytes = input.number()?;
    }
    Some(source)
}

fn text(input: &mut VarintReader<'_>) -> Option<String> {
    Some(String::from_utf8_lossy(input.byte_string()?).into_owned())
}
