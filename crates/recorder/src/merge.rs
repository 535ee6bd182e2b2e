//! Records of all threads in the order of their stamps, as far as [`drain`](crate::drain) has them settled.

use crate::drain::{Haul, Piece};
use crate::record::Record;
use highwater_shm::ring_v1::{LONGEST_TEXT, fixed_words, kind};
use highwater_shm::session_v1::ring_bytes;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What was taken out of a ring and not yet passed on.
#[derive(Default)]
struct Buffer {
    /// Each has whole records, the first at least one that was not passed on.
    pieces: VecDeque<Piece>,
    /// The word of the first piece where that is.
    next: usize,
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

impl Merge {
    /// Takes in a haul, and passes on what is settled by it.
    pub fn take(&mut self, haul: Haul, mut pass_on: impl FnMut(Stamped)) {
        for piece in haul.pieces {
            let ring = piece.ring as usize;
            if ring >= self.buffers.len() {
                self.buffers.resize_with(ring + 1, Buffer::default);
            }
            if !piece.words.is_empty() {
                self.buffers[ring].pieces.push_back(piece);
            }
        }
        self.queue.clear();
        for (ring, buffer) in (0..).zip(&self.buffers) {
            self.queue.extend(buffer.stamp().map(|stamp| Reverse((stamp, ring))));
        }
        while let Some(Reverse((stamp, ring))) = self.queue.pop() {
            if stamp > haul.watermark {
                break;
            }
            // This ring's records up to the next one's first, or as far as is settled.
            let others = self.queue.peek().map_or(u64::MAX, |Reverse((stamp, _))| *stamp);
            let limit = others.min(haul.watermark);
            let buffer = &mut self.buffers[ring as usize];
            while let Some((stamp, record)) = buffer.next_until(limit, &mut self.nonsense) {
                pass_on(Stamped { stamp, ring, record });
            }
            self.queue.extend(buffer.stamp().map(|stamp| Reverse((stamp, ring))));
        }
    }
}

impl Buffer {
    /// The stamp of the next record.
    fn stamp(&self) -> Option<u64> {
        Some(self.pieces.front()?.words.get(self.next)? >> 8)
    }

    /// The next record, if its stamp is not beyond `limit`.
    #[inline]
    fn next_until(&mut self, limit: u64, nonsense: &mut u64) -> Option<(u64, Record)> {
        loop {
            let piece = self.pieces.front()?;
            let Some(&head) = piece.words.get(self.next) else {
                self.pieces.pop_front();
                self.next = 0;
                continue;
            };
            let stamp = head >> 8;
            if stamp > limit {
                return None;
            }
            let words = piece.record_words(self.next);
            let record = words.and_then(|words| Record::read(&piece.words[self.next..self.next + words]));
            // Behind nonsense nothing can be found.
            self.next = words.map_or(piece.words.len(), |words| self.next + words);
            if self.next >= piece.words.len() {
                self.pieces.pop_front();
                self.next = 0;
            }
            match record {
                Some(Record::Padding) => {}
                Some(record) => return Some((stamp, record)),
                None => *nonsense += 1,
            }
        }
    }
}

impl Piece {
    /// Words of the record at word `at`; `None` if it is nonsense.
    #[inline]
    fn record_words(&self, at: usize) -> Option<usize> {
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
        let size = ring_bytes(self.ring);
        let position = self.end.wrapping_sub(behind) % size;
        ((size - position) / 8) as usize
    }
}
