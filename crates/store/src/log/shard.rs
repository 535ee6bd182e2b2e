//! One thread's part of the log.
//!
//! Events are appended under the shard's own lock, which only its thread and the occasional reader take. Words are
//! atomics, though plain stores and loads on every machine that matters: so a reader needs the lock only to learn how
//! far the shard has got, and then reads at leisure while the thread goes on.

use super::words::{self, MOST_WORDS};
use highwater_model::{Event, Nanos};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words of a shard's first chunk; the next ones are twice as large each, up to [`LARGEST_CHUNK`].
const SMALLEST_CHUNK: usize = 1 << 10;
const LARGEST_CHUNK: usize = 1 << 15;

/// A run of encoded events. Words below `used` never change again.
#[derive(Debug)]
struct Chunk {
    words: Box<[AtomicU64]>,
    used: AtomicUsize,
}

impl Chunk {
    fn new(words: usize) -> Self {
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), used: AtomicUsize::new(0) }
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// What is behind a shard's lock.
#[derive(Debug, Default)]
pub struct ShardState {
    /// Oldest first; only the last one is written to.
    chunks: VecDeque<Arc<Chunk>>,
    /// The number of the first of them, counting those removed.
    first_chunk: u64,
    /// Time of the event encoded last.
    previous: Nanos,
    /// The latest time of all: stamps never go behind it.
    latest: Nanos,
    /// Events ever recorded.
    events: u64,
    /// Those of them that were earlier than one before.
    late: u64,
}

/// One thread's part of the log.
#[derive(Debug, Default)]
pub struct Shard {
    state: Mutex<ShardState>,
}

/// How far a reader has read a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    chunk: u64,
    word: usize,
    previous: Nanos,
    events: u64,
    late: u64,
}

impl Shard {
    /// Locks the shard. What a panicking thread left behind is sound: `used` is set last.
    pub fn lock(&self) -> MutexGuard<'_, ShardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardState {
    /// The time to stamp an event with, not before any other of this shard.
    #[inline]
    pub fn stamp(&self, now: Nanos) -> Nanos {
        now.max(self.latest)
    }

    /// Appends an event. Returns how many bytes the shard grew by.
    #[inline]
    pub fn push(&mut self, event: &Event) -> u64 {
        let mut words = [0; MOST_WORDS];
        let length = words::encode(event, self.previous, &mut words);
        let mut grown = 0;
        let chunk = match self.chunks.back() {
            Some(chunk) if chunk.used() + length <= chunk.words.len() => chunk,
            _ => {
                grown = self.add_chunk();
                &self.chunks[self.chunks.len() - 1]
            }
        };
        let used = chunk.used();
        for (place, word) in chunk.words[used..used + length].iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        chunk.used.store(used + length, Ordering::Release);
        self.late += u64::from(event.time < self.latest);
        self.latest = self.latest.max(event.time);
        self.previous = event.time;
        self.events += 1;
        grown
    }

    #[cold]
    fn add_chunk(&mut self) -> u64 {
        let last = self.chunks.back().map_or(SMALLEST_CHUNK / 2, |chunk| chunk.words.len());
        let words = (last * 2).min(LARGEST_CHUNK);
        self.chunks.push_back(Arc::new(Chunk::new(words)));
        words as u64 * 8
    }

    /// Events ever recorded.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Everything recorded behind `from`, up to now.
    pub fn since(&self, from: Position) -> ShardReader {
        let skipped = from.chunk.saturating_sub(self.first_chunk) as usize;
        let runs: Vec<(Arc<Chunk>, usize)> =
            self.chunks.iter().skip(skipped).map(|chunk| (Arc::clone(chunk), chunk.used())).collect();
        let word = if from.chunk >= self.first_chunk { from.word } else { 0 };
        ShardReader { runs, run: 0, word, previous: from.previous, late: self.late - from.late }
    }

    /// Where the shard ends now.
    pub fn end(&self) -> Position {
        let last = self.chunks.len().saturating_sub(1);
        Position {
            chunk: self.first_chunk + last as u64,
            word: self.chunks.back().map_or(0, |chunk| chunk.used()),
            previous: self.previous,
            events: self.events,
            late: self.late,
        }
    }

    /// Takes everything behind `from` out of the shard. Returns it, and how many bytes the shard shrank by.
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

/// Reads a stretch of a shard. Holds what it reads alive, so the shard may drop it meanwhile.
#[derive(Debug)]
pub struct ShardReader {
    /// Chunks with how many of their words belong to the stretch.
    runs: Vec<(Arc<Chunk>, usize)>,
    run: usize,
    word: usize,
    previous: Nanos,
    late: u64,
}

impl ShardReader {
    /// How many events of the stretch are earlier than one before them.
    pub fn late(&self) -> u64 {
        self.late
    }
}

impl Iterator for ShardReader {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        loop {
            let (chunk, end) = self.runs.get(self.run)?;
            if self.word < *end {
                let words = &chunk.words[self.word..];
                let (event, length) = words::decode(|at| words[at].load(Ordering::Relaxed), self.previous);
                self.word += length;
                self.previous = event.time;
                return Some(event);
            }
            // Give memory back as soon as it is read.
            self.runs[self.run].0 = Arc::new(Chunk::new(0));
            self.runs[self.run].1 = 0;
            self.run += 1;
            self.word = 0;
        }
    }
}
