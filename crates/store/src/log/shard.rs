//! One thread's part of the log.
//!
//! Events are appended under the shard's own lock, which only its thread and the occasional reader take. Words are atomics, though plain stores and
//! loads on every machine that matters. So a reader needs the lock only to find the end of the shard, and then reads without it while the thread
//! continues. (The lock orders the accesses of both.)

use super::words::{self, MOST_WORDS};
use highwater_model::{Event, Nanos};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words of a shard's first chunk; the next ones are twice as large each, up to [`LARGEST_CHUNK`].
const SMALLEST_CHUNK: usize = 1 << 10;
const LARGEST_CHUNK: usize = 1 << 15;

/// Words of encoded events. Words in use never change again.
type Words = Arc<[AtomicU64]>;

/// A run of encoded events.
#[derive(Clone, Debug)]
struct Chunk {
    words: Words,
    /// How many words are in use.
    used: usize,
}

impl Chunk {
    fn new(words: usize) -> Self {
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), used: 0 }
    }
}

/// The data under a shard's lock.
#[derive(Debug, Default)]
pub struct ShardState {
    /// Oldest first; only the last chunk is written to.
    chunks: VecDeque<Chunk>,
    /// The number of the first chunk, counting removed ones.
    first_chunk: u64,
    /// Time of the event encoded last.
    previous: Nanos,
    /// The latest time since a thread took the shard over: its stamps are never earlier.
    latest: Nanos,
    /// The latest time of all.
    highest: Nanos,
    /// The time of the last cut: stamps are never earlier than that either.
    cut: Nanos,
    /// Events ever recorded.
    events: u64,
    /// Events that were earlier than a previous one of the same thread.
    late: u64,
    /// Events that were earlier than a previous one of any thread: if there are some, the shard must be sorted.
    unsorted: u64,
}

/// One thread's part of the log.
#[derive(Debug, Default)]
pub struct Shard {
    state: Mutex<ShardState>,
}

/// The position of a reader in a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    chunk: u64,
    word: usize,
    previous: Nanos,
    events: u64,
    late: u64,
    unsorted: u64,
}

impl Shard {
    /// Locks the shard. The state that a panicking thread left is sound: `used` is set last.
    #[inline(always)]
    pub fn lock(&self) -> MutexGuard<'_, ShardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardState {
    /// The time stamp of an event that happens `now`: not before any other of this shard, nor before the last cut.
    #[inline(always)]
    pub fn stamp(&self, now: Nanos) -> Nanos {
        now.max(self.latest).max(self.cut)
    }

    /// Prepares the shard for another thread, whose times are independent of those of the previous one.
    pub fn take_over(&mut self) {
        self.latest = Nanos(0);
    }

    /// Makes sure that no event will be stamped with a time before `cut`, even if its thread has already read the clock.
    pub fn advance_to(&mut self, cut: Nanos) {
        self.cut = self.cut.max(cut);
    }

    /// Appends an event. Returns how many bytes the shard grew by.
    #[inline(always)]
    pub fn push(&mut self, event: &Event) -> u64 {
        let mut grown = 0;
        if self.chunks.back().is_none_or(|chunk| chunk.used + MOST_WORDS > chunk.words.len()) {
            grown = self.add_chunk();
        }
        let Some(chunk) = self.chunks.back_mut() else { return grown };
        if let Some(place) = chunk.words[chunk.used..].first_chunk() {
            chunk.used += words::encode(event, self.previous, place);
        }
        self.late += u64::from(event.time < self.latest);
        self.unsorted += u64::from(event.time < self.highest);
        self.latest = self.latest.max(event.time);
        self.highest = self.highest.max(event.time);
        self.previous = event.time;
        self.events += 1;
        grown
    }

    #[cold]
    fn add_chunk(&mut self) -> u64 {
        let last = self.chunks.back().map_or(SMALLEST_CHUNK / 2, |chunk| chunk.words.len());
        let words = (last * 2).min(LARGEST_CHUNK);
        self.chunks.push_back(Chunk::new(words));
        words as u64 * 8
    }

    /// Events ever recorded.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Everything recorded after `from`, up to now.
    pub fn since(&self, from: Position) -> ShardReader {
        let skipped = from.chunk.saturating_sub(self.first_chunk) as usize;
        let runs = self.chunks.iter().skip(skipped).cloned().collect();
        let word = if from.chunk >= self.first_chunk { from.word } else { 0 };
        ShardReader {
            runs,
            run: 0,
            word,
            previous: from.previous,
            late: self.late - from.late,
            unsorted: self.unsorted - from.unsorted,
        }
    }

    /// The present end of the shard.
    pub fn end(&self) -> Position {
        let last = self.chunks.len().saturating_sub(1);
        Position {
            chunk: self.first_chunk + last as u64,
            word: self.chunks.back().map_or(0, |chunk| chunk.used),
            previous: self.previous,
            events: self.events,
            late: self.late,
            unsorted: self.unsorted,
        }
    }

    /// Removes everything after `from` from the shard. Returns it, and how many bytes the shard shrank by.
    pub fn take(&mut self, from: Position) -> (ShardReader, u64) {
        let reader = self.since(from);
        let bytes = self.chunks.iter().map(|chunk| chunk.words.len() as u64 * 8).sum();
        self.first_chunk += self.chunks.len() as u64;
        self.chunks.clear();
        (reader, bytes)
    }
}

impl Position {
    /// Events of the shard before this position.
    pub fn events(&self) -> u64 {
        self.events
    }
}

/// Reads a segment of a shard. It keeps the segment's memory alive, so the shard may drop it meanwhile.
#[derive(Debug)]
pub struct ShardReader {
    runs: Vec<Chunk>,
    run: usize,
    word: usize,
    previous: Nanos,
    late: u64,
    unsorted: u64,
}

impl ShardReader {
    /// How many events of the segment are earlier than a previous one of the same thread.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// True if no event of the segment is earlier than a previous one.
    pub fn is_in_order(&self) -> bool {
        self.unsorted == 0
    }
}

impl Iterator for ShardReader {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        loop {
            let chunk = self.runs.get(self.run)?;
            if self.word < chunk.used {
                let words = &chunk.words[self.word..];
                let (event, length) = words::decode(|at| words[at].load(Ordering::Relaxed), self.previous);
                self.word += length;
                self.previous = event.time;
                return Some(event);
            }
            // Free memory as soon as it is read.
            self.runs[self.run] = Chunk::new(0);
            self.run += 1;
            self.word = 0;
        }
    }
}
