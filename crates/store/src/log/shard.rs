//! One thread's part of the log.
//!
//! Events are appended under the shard's own lock, which only its thread and the occasional reader take. Words are
//! atomics, though plain stores and loads on every machine that matters: so a reader needs the lock only to learn how
//! far the shard has got, and then reads at leisure while the thread goes on. (The lock orders what both do.)

use super::words::{self, MOST_WORDS};
use highwater_model::{Event, Nanos};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words of a shard's first chunk; the next ones are twice as large each, up to [`LARGEST_CHUNK`].
const SMALLEST_CHUNK: usize = 1 << 10;
const LARGEST_CHUNK: usize = 1 << 15;

/// Words of encoded events. Those in use never change again.
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

/// What is behind a shard's lock.
#[derive(Debug, Default)]
pub struct ShardState {
    /// Oldest first; only the last one is written to.
    chunks: VecDeque<Chunk>,
    /// The number of the first of them, counting those removed.
    first_chunk: u64,
    /// Time of the event encoded last.
    previous: Nanos,
    /// The latest time since a thread took the shard over: its stamps never go behind it.
    latest: Nanos,
    /// The latest time of all.
    highest: Nanos,
    /// The time of the last cut: stamps never go behind that either.
    cut: Nanos,
    /// Events ever recorded.
    events: u64,
    /// Those of them that were earlier than one before of the same thread.
    late: u64,
    /// Those that were earlier than any before: the shard is to be sorted if there are some.
    unsorted: u64,
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
    unsorted: u64,
}

impl Shard {
    /// Locks the shard. What a panicking thread left behind is sound: `used` is set last.
    #[inline(always)]
    pub fn lock(&self) -> MutexGuard<'_, ShardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardState {
    /// The time to stamp an event with that happens `now`: not before any other of this shard, nor before the last cut.
    #[inline(always)]
    pub fn stamp(&self, now: Nanos) -> Nanos {
        now.max(self.latest).max(self.cut)
    }

    /// Begins to serve another thread, which may count time as it likes.
    pub fn take_over(&mut self) {
        self.latest = Nanos(0);
    }

    /// Sees to it that no event will be stamped with a time before `cut`, even if its thread has read the clock already.
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

    /// Everything recorded behind `from`, up to now.
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

    /// Where the shard ends now.
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
    runs: Vec<Chunk>,
    run: usize,
    word: usize,
    previous: Nanos,
    late: u64,
    unsorted: u64,
}

impl ShardReader {
    /// How many events of the stretch are earlier than one before them of the same thread.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// True if no event of the stretch is earlier than one before it.
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
            // Give memory back as soon as it is read.
            self.runs[self.run] = Chunk::new(0);
            self.run += 1;
            self.word = 0;
        }
    }
}
