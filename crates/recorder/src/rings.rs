//! Reads the rings of a process in place, in the order of stamps.
//!
//! Each round determines the *watermark*: a stamp before which no new record can appear. For a ring whose thread was not busy when the reader checked, that
//! is the time at which the round began, less a margin. For a busy one it is its last stamp, since the stamp that it is about to publish is not smaller. The
//! margin covers the delay until the reader sees a thread's `busy` flag, which may be after the stamp was taken: a store buffer's delay, far below a
//! microsecond; the flag of a thread that is interrupted has long been seen. Records beyond the watermark stay in their ring until the next round.
//!
//! Nothing is copied: records that a program has just written are still in a cache that the recorder shares with it.

use crate::record::{RecordedBlock, RingRecord};
use highwater_session::{SessionMemory, wake_writer};
use highwater_shm::ring_v1::{LONGEST_TEXT, RingHeader, fixed_words, kind};
use highwater_shm::session_v1::ring_bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of rounds after which the reader no longer waits for a thread that seems to be taking a stamp.
const MOST_ROUNDS_BUSY: u32 = 200;
/// Words of the longest record: a name of another thread.
const LONGEST_RECORD: usize = 3 + LONGEST_TEXT / 8;

/// Receives records, in the order of their stamps.
pub trait RecordSink {
    /// A block was allocated: nearly half of all records.
    fn allocate(&mut self, stamp: u64, ring: u32, block: &RecordedBlock);
    /// A block is freed: nearly all the others.
    fn free(&mut self, stamp: u64, ring: u32, address: u64);
    /// The same with its stack's node.
    fn free_by(&mut self, stamp: u64, ring: u32, address: u64, node: u32);
    /// Anything else.
    fn other(&mut self, stamp: u64, ring: u32, record: RingRecord);
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Bytes read.
    pub bytes: u64,
    /// Everything with a stamp up to here has been read.
    pub watermark: u64,
    /// Events that writers had to drop since the last round.
    pub dropped: u64,
}

/// The reading end of all rings of a process.
#[derive(Default)]
pub struct RingReader {
    cursors: Vec<RingCursor>,
    /// The next record of each ring that has one.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Invalid records.
    pub nonsense: u64,
}

/// How far a ring was read.
#[derive(Default)]
struct RingCursor {
    /// Bytes ever read.
    read: u64,
    /// The end of the records to read in this round.
    end: u64,
    busy_rounds: u32,
    dropped: u64,
}

impl RingReader {
    /// Passes settled records to `sink`. `now` is the time before this call less the margin; `None` once the process has ended, when everything is settled.
    pub fn round(&mut self, shared: &SessionMemory, now: Option<u64>, sink: &mut impl RecordSink) -> Round {
        let mut round = Round { watermark: now.unwrap_or(u64::MAX), ..Round::default() };
        self.cursors.resize_with(shared.rings() as usize, RingCursor::default);
        self.queue.clear();
        let before: u64 = self.cursors.iter().map(|cursor| cursor.read).sum();
        for (ring, cursor) in (0..).zip(&mut self.cursors) {
            let header = shared.ring(ring);
            let busy = header.busy.load(Ordering::Acquire) != 0;
            let stamp = header.stamp.load(Ordering::Acquire);
            if !cursor.look(header, ring) {
                round.dropped += 1;
            }
            let all_dropped = header.dropped.load(Ordering::Relaxed);
            round.dropped += all_dropped.saturating_sub(cursor.dropped);
            cursor.dropped = all_dropped.max(cursor.dropped);
            cursor.busy_rounds = if busy { cursor.busy_rounds + 1 } else { 0 };
            if now.is_some() && busy && cursor.busy_rounds < MOST_ROUNDS_BUSY {
                round.watermark = round.watermark.min(stamp);
            }
            self.queue.extend(cursor.stamp(shared.ring_words(ring)).map(|stamp| Reverse((stamp, ring))));
        }
        while let Some(Reverse((stamp, ring))) = self.queue.pop() {
            if stamp > round.watermark {
                break;
            }
            // This ring's records up to the first one of another ring, or up to the watermark.
            let others = self.queue.peek().map_or(u64::MAX, |Reverse((stamp, _))| *stamp);
            let limit = others.min(round.watermark);
            let (cursor, words) = (&mut self.cursors[ring as usize], shared.ring_words(ring));
            self.nonsense += u64::from(!cursor.pass_on(words, limit, ring, shared.ring(ring), sink));
            self.queue.extend(cursor.stamp(words).map(|stamp| Reverse((stamp, ring))));
        }
        for (ring, cursor) in (0..).zip(&self.cursors) {
            cursor.give_back(shared.ring(ring));
        }
        round.bytes = self.cursors.iter().map(|cursor| cursor.read).sum::<u64>() - before;
        round
    }
}

impl RingCursor {
    /// Reads how far the ring was written; false if that is invalid.
    fn look(&mut self, header: &RingHeader, ring: u32) -> bool {
        let tail = header.tail.load(Ordering::Acquire);
        // The agent never leaves a ring in another state; its claimed records are skipped.
        let is_sound = tail.is_multiple_of(8) && tail.checked_sub(self.read).is_some_and(|new| new <= ring_bytes(ring));
        self.end = tail & !7;
        if !is_sound {
            self.read = self.end;
        }
        is_sound
    }

    /// The stamp of the next record.
    #[inline]
    fn stamp(&self, words: &[AtomicU64]) -> Option<u64> {
        (self.read < self.end).then(|| words[self.position(words)].load(Ordering::Relaxed) >> 8)
    }

    #[inline]
    fn position(&self, words: &[AtomicU64]) -> usize {
        (self.read / 8) as usize & (words.len() - 1)
    }

    /// Passes on all records whose stamps are not beyond `limit`. False if one is invalid: the record after it cannot be found, so the rest is skipped.
    #[inline]
    fn pass_on(
        &mut self,
        words: &[AtomicU64],
        limit: u64,
        ring: u32,
        header: &RingHeader,
        sink: &mut impl RecordSink,
    ) -> bool {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let quarter = ring_bytes(ring) / 4;
        while self.read < self.end {
            let at = self.position(words);
            // No record crosses the ring's end.
            let there = &words[at..words.len().min(at + ((self.end - self.read) / 8) as usize)];
            let head = load(&there[0]);
            let stamp = head >> 8;
            if stamp > limit {
                break;
            }
            let length = match (head as u8, there) {
                (kind::ALLOCATE, [_, address, size, node_and_surplus, ..]) => {
                    sink.allocate(stamp, ring, &RecordedBlock::new(load(address), load(size), load(node_and_surplus)));
                    4
                }
                (kind::FREE, [_, address, ..]) => {
                    sink.free(stamp, ring, load(address));
                    2
                }
                (kind::FREE_BY, [_, address, node, ..]) => {
                    sink.free_by(stamp, ring, load(address), load(node) as u32);
                    3
                }
                (kind::PAD, _) => words.len() - at,
                _ => match rare(head, there) {
                    Some((record, length)) => {
                        sink.other(stamp, ring, record);
                        length
                    }
                    None => {
                        self.read = self.end;
                        return false;
                    }
                },
            };
            let before = self.read;
            self.read = (self.read + length as u64 * 8).min(self.end);
            // Its writer gets room before everything is read.
            if (before ^ self.read) & quarter != 0 {
                self.give_back(header);
            }
        }
        true
    }

    /// Returns the space of records that were read to the ring's writer.
    fn give_back(&self, header: &RingHeader) {
        if header.head.load(Ordering::Relaxed) != self.read {
            header.head.store(self.read, Ordering::Release);
            wake_writer(header);
        }
    }
}

/// The record at the beginning of these words, whose first one was `head` when it was loaded, and its length; `None` if it is invalid. The
/// writer could change it at any time, so it is copied first.
#[cold]
fn rare(head: u64, words: &[AtomicU64]) -> Option<(RingRecord, usize)> {
    let mut copy = [0; LONGEST_RECORD];
    let words = words.iter().take(LONGEST_RECORD);
    let count = words.len();
    copy.iter_mut().zip(words).for_each(|(word, from)| *word = from.load(Ordering::Relaxed));
    copy[0] = head;
    let length = record_words(&copy[..count])?;
    Some((RingRecord::read(copy[..count].get(..length)?)?, length))
}

/// Words of a record.
fn record_words(words: &[u64]) -> Option<usize> {
    match *words.first()? as u8 {
        kind @ (kind::NAME | kind::MARK | kind::RENAME) => {
            let before = 2 + usize::from(kind == kind::RENAME);
            let text = usize::try_from(*words.get(before - 1)?).ok()?;
            (text <= LONGEST_TEXT).then(|| before + text.div_ceil(8))
        }
        kind => fixed_words(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_shm::session_v1::{Capacity, Header, MAGIC};
    use proptest::prelude::*;

    const CAPACITY: Capacity = Capacity { rings: 18, nodes: 2 };
    /// The rings that are used: two large ones and a small one.
    const USED: [u32; 3] = [0, 1, 17];

    /// Memory as an agent shares it, and the records written into each ring.
    struct Memory {
        _pages: Vec<Page>,
        shared: SessionMemory,
    }

    #[derive(Clone)]
    #[repr(align(4096))]
    struct Page(#[expect(dead_code, reason = "reached through its address")] [u64; 512]);

    impl Memory {
        fn new() -> Self {
            let mut pages = vec![Page([0; 512]); CAPACITY.bytes() as usize / 4096];
            let base = pages.as_mut_ptr().cast::<u8>();
            // SAFETY: the memory is as long as the capacity says, and lives as long as what is made of it.
            let shared = unsafe {
                let header = &*base.cast::<Header>();
                header.magic.store(MAGIC, Ordering::Relaxed);
                header.ring_capacity.store(CAPACITY.rings, Ordering::Relaxed);
                header.node_capacity.store(CAPACITY.nodes, Ordering::Relaxed);
                header.rings.store(CAPACITY.rings, Ordering::Relaxed);
                SessionMemory::of_ourselves(base, CAPACITY.bytes()).expect("the header is sound")
            };
            Self { _pages: pages, shared }
        }

        /// Writes a record as an agent does; false if there is no room.
        fn write(&self, ring: u32, record: &[u64]) -> bool {
            let (header, words) = (self.shared.ring(ring), self.shared.ring_words(ring));
            let tail = header.tail.load(Ordering::Relaxed);
            let at = tail as usize / 8 % words.len();
            let padding = if at + record.len() > words.len() { words.len() - at } else { 0 };
            let end = tail + (padding + record.len()) as u64 * 8;
            if end - header.head.load(Ordering::Relaxed) > ring_bytes(ring) {
                return false;
            }
            if padding > 0 {
                words[at].store(kind::PAD.into(), Ordering::Relaxed);
            }
            for (index, word) in record.iter().enumerate() {
                words[(at + padding + index) % words.len()].store(*word, Ordering::Relaxed);
            }
            header.stamp.store(record[0] >> 8, Ordering::Relaxed);
            header.tail.store(end, Ordering::Release);
            true
        }
    }

    /// The records passed on: stamp, ring, and a number that identifies the record.
    #[derive(Default)]
    struct Seen(Vec<(u64, u32, u64)>);

    impl RecordSink for Seen {
        fn allocate(&mut self, stamp: u64, ring: u32, block: &RecordedBlock) {
            assert_eq!(block.size, block.address + 1);
            self.0.push((stamp, ring, block.address));
        }

        fn free(&mut self, stamp: u64, ring: u32, address: u64) {
            self.0.push((stamp, ring, address));
        }

        fn free_by(&mut self, stamp: u64, ring: u32, address: u64, node: u32) {
            assert_eq!(node, address as u32);
            self.0.push((stamp, ring, address));
        }

        fn other(&mut self, stamp: u64, ring: u32, record: RingRecord) {
            match record {
                RingRecord::Unmap { address, length, .. } => {
                    assert_eq!(length, address + 1);
                    self.0.push((stamp, ring, address));
                }
                RingRecord::Mark(text) => self.0.push((stamp, ring, text.len() as u64)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn record(stamp: u64, what: u8, number: u64) -> Vec<u64> {
        let head = |kind: u8| stamp << 8 | u64::from(kind);
        match what {
            0 | 1 => vec![head(kind::ALLOCATE), number, number + 1, 0],
            2 => vec![head(kind::FREE), number],
            3 => vec![head(kind::FREE_BY), number, number],
            4 => vec![head(kind::UNMAP), number, number + 1],
            _ => {
                let length = number % (LONGEST_TEXT as u64 + 1);
                let mut words = vec![head(kind::MARK), length];
                words.resize(2 + length.div_ceil(8) as usize, u64::from_le_bytes(*b"aaaaaaaa"));
                words
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Rings are filled several times over, in pieces; each record is read once, all of them in the order of stamps.
        #[test]
        fn every_record_comes_once_and_in_order(
            pieces in prop::collection::vec((0usize..3, 1u64..4000, 0u8..6, any::<u64>()), 1..150),
        ) {
            let memory = Memory::new();
            let (mut rings, mut seen, mut written) = (RingReader::default(), Seen::default(), Vec::new());
            let mut stamp = 0;
            for (ring, count, what, seed) in pieces {
                for number in 0..count {
                    let (what, number) = (if what == 5 && number % 9 > 0 { 0 } else { what }, (seed ^ number) >> 20);
                    stamp += 1 + number % 3;
                    if !memory.write(USED[ring], &record(stamp, what, number)) {
                        rings.round(&memory.shared, Some(stamp - 1), &mut seen);
                        prop_assert!(memory.write(USED[ring], &record(stamp, what, number)));
                    }
                    let number = if what == 5 { number % (LONGEST_TEXT as u64 + 1) } else { number };
                    written.push((stamp, USED[ring], number));
                }
                // Not everything is settled yet: the rest stays in the ring.
                rings.round(&memory.shared, Some(stamp.saturating_sub(seed % 40)), &mut seen);
                prop_assert!(seen.0.iter().all(|(at, ..)| *at <= stamp));
            }
            rings.round(&memory.shared, None, &mut seen);
            prop_assert_eq!(&seen.0, &written);
            prop_assert_eq!(rings.nonsense, 0);
        }

        /// Whatever a ring contains, it is read to its end.
        #[test]
        fn nonsense_is_passed_over(words in prop::collection::vec(any::<u64>(), 1..300), tail in any::<u64>()) {
            struct Any;
            impl RecordSink for Any {
                fn allocate(&mut self, _: u64, _: u32, _: &RecordedBlock) {}
                fn free(&mut self, _: u64, _: u32, _: u64) {}
                fn free_by(&mut self, _: u64, _: u32, _: u64, _: u32) {}
                fn other(&mut self, _: u64, _: u32, _: RingRecord) {}
            }
            let memory = Memory::new();
            let ring = memory.shared.ring(0);
            for (word, value) in memory.shared.ring_words(0).iter().zip(&words) {
                word.store(*value, Ordering::Relaxed);
            }
            ring.tail.store(words.len() as u64 * 8, Ordering::Relaxed);
            let mut rings = RingReader::default();
            rings.round(&memory.shared, None, &mut Any);
            prop_assert_eq!(ring.head.load(Ordering::Relaxed), words.len() as u64 * 8);
            ring.tail.store(tail, Ordering::Relaxed);
            rings.round(&memory.shared, None, &mut Any);
            prop_assert_eq!(ring.head.load(Ordering::Relaxed), tail & !7);
        }
    }
}
