//! Records of all threads in the order of their stamps, as far as [`drain`](crate::drain) has them settled.

use crate::drain::{Haul, Piece};
use crate::record::{Place, Record};
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

/// Who is told of records, in the order of their stamps.
pub trait Reader {
    /// A block was handed out: nearly half of all records.
    fn allocate(&mut self, stamp: u64, ring: u32, place: &Place);
    /// A block is given back: nearly all the others.
    fn free(&mut self, stamp: u64, ring: u32, address: u64);
    /// Anything else.
    fn other(&mut self, stamp: u64, ring: u32, record: Record);
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
    pub fn take(&mut self, haul: Haul, reader: &mut impl Reader) {
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
            self.nonsense += buffer.pass_on(limit, ring, reader);
            self.queue.extend(buffer.stamp().map(|stamp| Reverse((stamp, ring))));
        }
    }
}

impl Buffer {
    /// The stamp of the next record.
    fn stamp(&self) -> Option<u64> {
        Some(self.pieces.front()?.words.get(self.next)? >> 8)
    }

    /// Passes on all records whose stamps are not beyond `limit`; how many pieces had to be given up because they made no sense.
    fn pass_on(&mut self, limit: u64, ring: u32, reader: &mut impl Reader) -> u64 {
        let mut nonsense = 0;
        while let Some(piece) = self.pieces.front() {
            let words: &[u64] = &piece.words;
            let mut at = self.next;
            while let Some(&head) = words.get(at) {
                let stamp = head >> 8;
                if stamp > limit {
                    self.next = at;
                    return nonsense;
                }
                at += match (head as u8, &words[at + 1..]) {
                    (kind::ALLOCATE, [address, size, node_and_surplus, ..]) => {
                        reader.allocate(stamp, ring, &Place::new(*address, *size, *node_and_surplus));
                        4
                    }
                    (kind::FREE, [address, ..]) => {
                        reader.free(stamp, ring, *address);
                        2
                    }
                    _ => match piece.rare(at) {
                        Some((Record::Padding, length)) => length,
                        Some((record, length)) => {
                            reader.other(stamp, ring, record);
                            length
                        }
                        None => {
                            nonsense += 1;
                            // Behind nonsense nothing can be found.
                            words.len() - at
                        }
                    },
                };
            }
            self.pieces.pop_front();
            self.next = 0;
        }
        nonsense
    }
}

impl Piece {
    /// The record at word `at` and its length in words; `None` if it is nonsense.
    #[cold]
    fn rare(&self, at: usize) -> Option<(Record, usize)> {
        let length = self.record_words(at)?;
        Some((Record::read(&self.words[at..at + length])?, length))
    }

    /// Words of the record at word `at`; `None` if it is nonsense.
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
