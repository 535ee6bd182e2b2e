//! Records of all threads in the order of their stamps.
//!
//! Each round empties the rings into buffers of our own, so that no writer waits for another thread's sake, and passes on
//! everything up to a *watermark*: a stamp before which nothing can come any more. For a ring whose thread was not at
//! work when we looked, that is the time at which the round began, less a margin; for one that was, its last stamp,
//! since the stamp it is about to publish is not smaller.
//!
//! The margin covers the time that a thread's word "I am about to take a stamp" takes to become visible to us after the stamp was
//! taken: a store buffer's delay, far below a microsecond; a thread that is interrupted has long been seen.

use crate::record::Record;
use crate::shared::Shared;
use highwater_shm::ring_v1::{LONGEST_TEXT, fixed_words, kind};
use highwater_shm::session_v1::RING_BYTES;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

/// Rounds after which a thread that seems to be taking a stamp is no longer waited for.
const MOST_ROUNDS_BUSY: u32 = 200;

/// What was taken out of a ring and not yet passed on.
#[derive(Default)]
struct Buffer {
    words: Vec<u64>,
    next: usize,
    /// The ring's count of bytes where `words` end.
    read: u64,
    busy_rounds: u32,
    dropped: u64,
}

/// A record, and the ring it was in.
pub struct Stamped {
    /// Its stamp.
    pub stamp: u64,
    /// The ring.
    pub ring: u32,
    /// What it says.
    pub record: Record,
}

/// The merged stream of one process.
#[derive(Default)]
pub struct Merge {
    buffers: Vec<Buffer>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Records that made no sense.
    pub nonsense: u64,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Bytes taken out of rings.
    pub bytes: u64,
    /// Everything with a stamp up to here was passed on.
    pub watermark: u64,
    /// Events that writers had to drop since the last round.
    pub dropped: u64,
}

impl Merge {
    /// Empties the rings, and passes on what is settled. `now` is the time before this call less the margin; `None` once the process has
    /// ended, when everything is settled.
    pub fn round(&mut self, shared: &Shared, now: Option<u64>, mut pass_on: impl FnMut(Stamped)) -> Round {
        let mut round = Round { watermark: now.unwrap_or(u64::MAX), ..Round::default() };
        self.buffers.resize_with(shared.rings() as usize, Buffer::default);
        for (ring, buffer) in (0..).zip(&mut self.buffers) {
            let busy = shared.ring(ring).busy.load(Ordering::Acquire) != 0;
            let stamp = shared.ring(ring).stamp.load(Ordering::Acquire);
            round.bytes += buffer.fill(shared, ring, &mut round.dropped);
            buffer.busy_rounds = if busy { buffer.busy_rounds + 1 } else { 0 };
            if now.is_some() && busy && buffer.busy_rounds < MOST_ROUNDS_BUSY {
                round.watermark = round.watermark.min(stamp);
            }
        }
        self.queue.clear();
        for (ring, buffer) in (0..).zip(&self.buffers) {
            if let Some(&head) = buffer.words.get(buffer.next) {
                self.queue.push(Reverse((head >> 8, ring)));
            }
        }
        while let Some(Reverse((stamp, ring))) = self.queue.pop() {
            if stamp > round.watermark {
                break;
            }
            let others = self.queue.peek().map_or(u64::MAX, |Reverse((stamp, _))| *stamp);
            let limit = others.min(round.watermark);
            let buffer = &mut self.buffers[ring as usize];
            while let Some((stamp, record)) = buffer.next_until(limit, &mut self.nonsense) {
                pass_on(Stamped { stamp, ring, record });
            }
            if let Some(&head) = buffer.words.get(buffer.next) {
                self.queue.push(Reverse((head >> 8, ring)));
            }
        }
        self.buffers.iter_mut().for_each(Buffer::compact);
        round
    }
}

impl Buffer {
    /// Takes out what the ring holds, and gives its room back; how many bytes.
    fn fill(&mut self, shared: &Shared, ring: u32, dropped: &mut u64) -> u64 {
        let header = shared.ring(ring);
        let tail = header.tail.load(Ordering::Acquire);
        let all_dropped = header.dropped.load(Ordering::Relaxed);
        *dropped += all_dropped.saturating_sub(self.dropped);
        self.dropped = all_dropped.max(self.dropped);
        let length = tail.wrapping_sub(self.read);
        if length == 0 {
            return 0;
        }
        if length > RING_BYTES || tail % 8 != 0 {
            // No writer of ours leaves a ring like this: start anew where it claims to be.
            self.read = tail & !7;
        } else {
            shared.copy_ring(ring, self.read, tail, &mut self.words);
            self.read = tail;
        }
        header.head.store(self.read, Ordering::Release);
        std::sync::atomic::fence(Ordering::SeqCst);
        if header.writer_waits.load(Ordering::Relaxed) != 0 && header.writer_waits.swap(0, Ordering::SeqCst) != 0 {
            let _ = rustix::thread::futex::wake(&header.writer_waits, rustix::thread::futex::Flags::empty(), u32::MAX);
        }
        length
    }

    /// Words of the record at word `at`; `None` if it is nonsense.
    fn length(&self, at: usize) -> Option<usize> {
        let head = *self.words.get(at)?;
        let words = match head as u8 {
            kind::PAD => self.padding(at),
            kind @ (kind::NAME | kind::MARK | kind::RENAME) => {
                let before = 2 + usize::from(kind == kind::RENAME);
                let text = *self.words.get(at + before - 1)? as usize;
                if text > LONGEST_TEXT {
                    return None;
                }
                before + text.div_ceil(8)
            }
            kind => fixed_words(kind)?,
        };
        (at + words <= self.words.len()).then_some(words)
    }

    /// Words from a padding word to the end of its ring.
    fn padding(&self, at: usize) -> usize {
        let behind = (self.words.len() - at) as u64 * 8;
        let position = self.read.wrapping_sub(behind) % RING_BYTES;
        ((RING_BYTES - position) / 8) as usize
    }

    /// The next record, if its stamp is not beyond `limit`.
    #[inline]
    fn next_until(&mut self, limit: u64, nonsense: &mut u64) -> Option<(u64, Record)> {
        loop {
            let head = *self.words.get(self.next)?;
            let stamp = head >> 8;
            if stamp > limit {
                return None;
            }
            let record = self.length(self.next).and_then(|words| {
                let record = Record::read(&self.words[self.next..self.next + words]);
                self.next += words;
                record
            });
            match record {
                Some(Record::Padding) => {}
                Some(record) => return Some((stamp, record)),
                None => {
                    *nonsense += 1;
                    self.next = self.words.len();
                    return None;
                }
            }
        }
    }

    /// Forgets what was passed on.
    fn compact(&mut self) {
        if self.next == self.words.len() {
            self.words.clear();
            self.next = 0;
        } else if self.next > self.words.len() / 2 {
            self.words.drain(..self.next);
            self.next = 0;
        }
    }
}
