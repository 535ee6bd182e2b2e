//! Events as words: the encoding of the in-memory log, 16 bytes for the usual event.
//!
//! ```text
//!  word 0   bits 0–2 kind, 3–7 what follows, 8–31 thread, 32–63 nanoseconds since the event before
//!  word 1   bits 0–47 address (or name, or nothing), 48–63 size
//!  then, as bits 3–7 of word 0 say:
//!    TIME     absolute time, when it ran backwards or by more than 4 s
//!    THREAD   the thread, when it does not fit in 24 bits
//!    ADDRESS  the address, when it does not fit in 48 bits
//!    SIZE     the size, when it does not fit in 16 bits
//!    OWNER    stack (low half) and tag (high half), when either is known
//!  then, for a reallocation: the old address, and its claimed old size plus one (0: not claimed)
//! ```
//!
//! A placement that has a surplus or a weight is preceded by three words: the kind `EXTRA` (low half) and its samples, then the surplus (low half) and
//! the weight's bits, then the distance between samples. A promotion is of the kind `DROPPED`, but has an owner.

use highwater_model::{Event, EventKind, Nanos, Placement, SampleSpacing, StackId, StringId, TagId, ThreadId, Weight};
use std::sync::atomic::{AtomicU64, Ordering};

/// The limit of words of one event.
pub const MOST_WORDS: usize = 12;

const ALLOCATE: u64 = 0;
const REALLOCATE: u64 = 1;
const DEALLOCATE: u64 = 2;
const DEALLOCATE_SIZED: u64 = 3;
const MARK: u64 = 4;
const GAUGE: u64 = 5;
const DROPPED: u64 = 6;
const EXTRA: u64 = 7;
const EXTRA_WORDS: usize = 3;

const TIME: u64 = 1 << 3;
const THREAD: u64 = 1 << 4;
const ADDRESS: u64 = 1 << 5;
const SIZE: u64 = 1 << 6;
const OWNER: u64 = 1 << 7;

const ADDRESS_BITS: u32 = 48;

/// Encodes `event` and returns how many words it took. `previous` is the time of the event before it.
#[inline(always)]
pub fn encode(event: &Event, previous: Nanos, out: &[AtomicU64; MOST_WORDS]) -> usize {
    if let EventKind::Allocate(place) | EventKind::Reallocate { new: place, .. } = &event.kind
        && (place.surplus != 0 || !place.weight.is_one())
    {
        return encode_extra(event, place, previous, out);
    }
    encode_plain(event, previous, out)
}

/// Encodes an event whose placement has a surplus or a weight.
#[cold]
fn encode_extra(event: &Event, place: &Placement, previous: Nanos, out: &[AtomicU64]) -> usize {
    let (samples, spacing) = place.weight.counted().unwrap_or_default();
    out[0].store(EXTRA | u64::from(samples) << 32, Ordering::Relaxed);
    out[1].store(u64::from(place.surplus as u32) | u64::from(place.weight.raw()) << 32, Ordering::Relaxed);
    out[2].store(spacing.bits(), Ordering::Relaxed);
    EXTRA_WORDS + encode_plain(event, previous, &out[EXTRA_WORDS..])
}

#[inline(always)]
fn encode_plain(event: &Event, previous: Nanos, out: &[AtomicU64]) -> usize {
    let (kind, address, size, stack, tag) = match event.kind {
        EventKind::Allocate(place) => (ALLOCATE, place.address, place.size, place.stack, place.tag),
        EventKind::Reallocate { new, .. } => (REALLOCATE, new.address, new.size, new.stack, new.tag),
        EventKind::Deallocate { address, claimed_size, .. } => {
            let kind = if claimed_size.is_some() { DEALLOCATE_SIZED } else { DEALLOCATE };
            (kind, address, claimed_size.unwrap_or(0), StackId::UNKNOWN, TagId::NONE)
        }
        EventKind::Promote { address, tag } => (DROPPED, address, 0, StackId::UNKNOWN, tag),
        EventKind::Mark { name } => (MARK, name.0.into(), 0, StackId::UNKNOWN, TagId::NONE),
        EventKind::Gauge { name, value } => (GAUGE, name.0.into(), value, StackId::UNKNOWN, TagId::NONE),
        EventKind::Dropped { count } => (DROPPED, 0, count, StackId::UNKNOWN, TagId::NONE),
    };
    let passed = event.time.0.wrapping_sub(previous.0);
    let thread = event.thread.0;
    let usual = passed <= u64::from(u32::MAX) && thread < 1 << 24 && address < 1 << ADDRESS_BITS && size < 1 << 16;
    let length = if usual && event.time >= previous {
        out[0].store(kind | passed << 32 | thread << 8, Ordering::Relaxed);
        out[1].store(address | size << ADDRESS_BITS, Ordering::Relaxed);
        2
    } else {
        encode_unusual(kind, event, previous, address, size, out)
    };
    if kind == REALLOCATE || kind == DROPPED || stack != StackId::UNKNOWN || tag != TagId::NONE {
        return encode_rest(event, stack, tag, length, out);
    }
    length
}

/// Encodes an event with a number that needs a word of its own.
#[cold]
fn encode_unusual(kind: u64, event: &Event, previous: Nanos, address: u64, size: u64, out: &[AtomicU64]) -> usize {
    let mut head = kind;
    let mut length = 2;
    let mut put = |word| {
        out[length].store(word, Ordering::Relaxed);
        length += 1;
    };
    match event.time.0.checked_sub(previous.0).filter(|&passed| passed <= u64::from(u32::MAX)) {
        Some(passed) => head |= passed << 32,
        None => {
            head |= TIME;
            put(event.time.0);
        }
    }
    if event.thread.0 < 1 << 24 {
        head |= event.thread.0 << 8;
    } else {
        head |= THREAD;
        put(event.thread.0);
    }
    let mut place = 0;
    if address < 1 << ADDRESS_BITS {
        place |= address;
    } else {
        head |= ADDRESS;
        put(address);
    }
    if size < 1 << 16 {
        place |= size << ADDRESS_BITS;
    } else {
        head |= SIZE;
        put(size);
    }
    out[0].store(head, Ordering::Relaxed);
    out[1].store(place, Ordering::Relaxed);
    length
}

/// Encodes the words after those that every event has.
#[inline]
fn encode_rest(event: &Event, stack: StackId, tag: TagId, mut length: usize, out: &[AtomicU64]) -> usize {
    let mut put = |word| {
        out[length].store(word, Ordering::Relaxed);
        length += 1;
    };
    let is_promotion = matches!(event.kind, EventKind::Promote { .. });
    let owned = is_promotion || stack != StackId::UNKNOWN || tag != TagId::NONE;
    if owned {
        put(u64::from(stack.0) | u64::from(tag.0) << 32);
    }
    if let EventKind::Reallocate { old_address, claimed_old_size, .. } = event.kind {
        put(old_address);
        put(claimed_old_size.map_or(0, |size| size.saturating_add(1)));
    }
    if owned {
        out[0].store(out[0].load(Ordering::Relaxed) | OWNER, Ordering::Relaxed);
    }
    length
}

/// Decodes the event at the start of the words that `word` returns by index. Also returns how many words it took.
#[inline]
pub fn decode(word: impl Fn(usize) -> u64, previous: Nanos) -> (Event, usize) {
    if word(0) & 7 == EXTRA { decode_extra(word, previous) } else { decode_plain(word, previous) }
}

#[cold]
fn decode_extra(word: impl Fn(usize) -> u64, previous: Nanos) -> (Event, usize) {
    let (samples, extra, spacing) = ((word(0) >> 32) as u32, word(1), word(2));
    let (mut event, length) = decode_plain(|at| word(at + EXTRA_WORDS), previous);
    if let EventKind::Allocate(place) | EventKind::Reallocate { new: place, .. } = &mut event.kind {
        place.surplus = extra as u32 as i32;
        place.weight = Weight::from_raw((extra >> 32) as u32).of_samples(samples, SampleSpacing::from_bits(spacing));
    }
    (event, length + EXTRA_WORDS)
}

#[inline]
fn decode_plain(word: impl Fn(usize) -> u64, previous: Nanos) -> (Event, usize) {
    let (head, place) = (word(0), word(1));
    let mut length = 2;
    let mut next = || {
        length += 1;
        word(length - 1)
    };
    let time = if head & TIME != 0 { next() } else { previous.0 + (head >> 32) };
    let thread = if head & THREAD != 0 { next() } else { head >> 8 & 0xff_ffff };
    let address = if head & ADDRESS != 0 { next() } else { place & ((1 << ADDRESS_BITS) - 1) };
    let size = if head & SIZE != 0 { next() } else { place >> ADDRESS_BITS };
    let owner = if head & OWNER != 0 { next() } else { 0 };
    let (stack, tag) = (StackId(owner as u32), TagId((owner >> 32) as u32));
    let placement = Placement { address, size, stack, tag, ..Placement::default() };
    let kind = match head & 7 {
        ALLOCATE => EventKind::Allocate(placement),
        REALLOCATE => {
            let (old_address, claimed) = (next(), next());
            EventKind::Reallocate { old_address, claimed_old_size: claimed.checked_sub(1), new: placement }
        }
        DEALLOCATE => EventKind::free(address, None),
        DEALLOCATE_SIZED => EventKind::free(address, Some(size)),
        MARK => EventKind::Mark { name: StringId(address as u32) },
        GAUGE => EventKind::Gauge { name: StringId(address as u32), value: size },
        _ if head & OWNER != 0 => EventKind::Promote { address, tag },
        _ => EventKind::Dropped { count: size },
    };
    (Event { time: Nanos(time), thread: ThreadId(thread), kind }, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = u64> {
        any::<u64>().prop_map(|value| value >> (value % 64))
    }

    fn any_place() -> impl Strategy<Value = Placement> {
        let rare = prop_oneof![3 => Just((0, 0, 0)), 1 => (any::<i32>(), 0u64..1 << 22, any::<u32>())];
        (number(), number(), any::<u32>(), any::<u32>(), rare).prop_map(|(address, size, stack, tag, rare)| Placement {
            address,
            size,
            stack: StackId(stack >> (stack % 32)),
            tag: TagId(tag >> (tag % 32)),
            surplus: rare.0,
            weight: Weight::from_bits(rare.1).unwrap().of_samples(rare.2, SampleSpacing::new(rare.2.into())),
        })
    }

    fn claim() -> impl Strategy<Value = Option<u64>> {
        prop::option::of(number().prop_map(|size| size / 2))
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let kind = prop_oneof![
            any_place().prop_map(EventKind::Allocate),
            (number(), claim(), any_place()).prop_map(|(old_address, claimed_old_size, new)| {
                EventKind::Reallocate { old_address, claimed_old_size, new }
            }),
            (number(), claim()).prop_map(|(address, claimed_size)| EventKind::free(address, claimed_size)),
            any::<u32>().prop_map(|name| EventKind::Mark { name: StringId(name) }),
            (any::<u32>(), number()).prop_map(|(name, value)| EventKind::Gauge { name: StringId(name), value }),
            number().prop_map(|count| EventKind::Dropped { count }),
            (number(), any::<u32>()).prop_map(|(address, tag)| EventKind::Promote { address, tag: TagId(tag) }),
        ];
        (number(), number(), kind).prop_map(|(time, thread, kind)| Event {
            time: Nanos(time),
            thread: ThreadId(thread),
            kind,
        })
    }

    proptest! {
        #[test]
        fn every_event_is_read_as_it_was_written(event in any_event(), previous in number()) {
            let words: [AtomicU64; MOST_WORDS] = Default::default();
            let length = encode(&event, Nanos(previous), &words);
            let word = |at: usize| words[at].load(Ordering::Relaxed);
            prop_assert_eq!(decode(word, Nanos(previous)), (event, length));
        }
    }

    #[test]
    fn the_usual_event_takes_sixteen_bytes() {
        let place = Placement { address: 0x7fff_ffff_f000, size: 4096, ..Placement::default() };
        let event = Event { time: Nanos(1000), thread: ThreadId(4_000_000), kind: EventKind::Allocate(place) };
        assert_eq!(encode(&event, Nanos(900), &Default::default()), 2);
    }
}
