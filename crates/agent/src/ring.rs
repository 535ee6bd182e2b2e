//! Writing into a thread's ring.

use crate::session::{self, AgentMode, Session};
use crate::sys;
use core::sync::atomic::{Ordering, compiler_fence};
use highwater_shm::ring_v1::{PROVIDED_FIRST, RingHeader, kind};

/// How long a writer sleeps before it checks whether the recorder is still alive.
const NAP_NS: u64 = 50_000_000;
/// After this number of naps without room, the writer stops waiting and drops records.
const MOST_NAPS: u32 = 200;

/// The writing end of a ring.
pub struct RingWriter {
    header: &'static RingHeader,
    data: *mut u64,
    /// Size in bytes: a power of two.
    size: u64,
    /// Bytes ever written.
    tail: u64,
    /// `tail` may grow up to this without checking the reader's position again.
    limit: u64,
    /// Waiting was useless: drop records until there is room again.
    impatient: bool,
}

impl RingWriter {
    /// Continues where the ring's last owner stopped.
    pub fn new(header: &'static RingHeader, data: *mut u64, size: u64) -> Self {
        let tail = header.tail.load(Ordering::Acquire);
        Self { header, data, size, tail, limit: tail, impatient: false }
    }

    /// Whether the thread is inside the agent already: a signal handler allocates, or the agent itself does.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.header.busy.load(Ordering::Relaxed) != 0
    }

    /// Announces that a stamp is about to be taken, or that its record has been published.
    #[inline(always)]
    pub fn set_busy(&self, busy: bool) {
        compiler_fence(Ordering::SeqCst);
        self.header.busy.store(u32::from(busy), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// Reserves space for a record of `words` words. Returns `None`, and counts a drop, if there is no room.
    #[inline(always)]
    pub fn reserve(&mut self, words: usize, session: &Session) -> Option<*mut u64> {
        let bytes = words as u64 * 8;
        let position = self.tail & (self.size - 1);
        // A record does not wrap: the rest of the ring may have to be skipped as well.
        let needed = if position + bytes <= self.size { bytes } else { self.size - position + bytes };
        if self.tail + needed > self.limit && !self.wait_for(needed, session) {
            self.header.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: positions lie within the ring.
        unsafe {
            if needed != bytes {
                self.data.add(position as usize / 8).write(u64::from(kind::PAD));
                self.tail += self.size - position;
            }
            Some(self.data.add((self.tail & (self.size - 1)) as usize / 8))
        }
    }

    /// Publishes the record of `words` words that was written into the reserved space.
    #[inline(always)]
    pub fn publish(&mut self, words: usize, stamp: u64, session: &Session) {
        let before = self.tail;
        self.tail += words as u64 * 8;
        self.header.stamp.store(stamp, Ordering::Relaxed);
        self.header.tail.store(self.tail, Ordering::Release);
        if (before ^ self.tail) & (self.size / 4) != 0 {
            session.end_if_requested();
        }
    }

    /// Up to where the ring has memory, counted as `tail` is. A lossy program never waits: it touches new memory itself.
    fn provided(&self, session: &Session) -> u64 {
        let provided = u64::from(self.header.provided.load(Ordering::SeqCst)).max(PROVIDED_FIRST);
        // An injected agent takes none, even before its reader says so: its process did not ask for it.
        let is_bounded =
            cfg!(feature = "injected") || session.header().provides.load(Ordering::Relaxed) != 0 && !session.is_lossy();
        if is_bounded && provided < self.size { provided } else { u64::MAX }
    }

    #[cold]
    fn wait_for(&mut self, needed: u64, session: &Session) -> bool {
        let mut naps = 0;
        loop {
            let head = self.header.head.load(Ordering::Acquire);
            // A reader that claims to have read more than was written is not our recorder.
            if head > self.tail {
                session.end();
                return false;
            }
            let provided = self.provided(session);
            // Check again soon: a recorder that has just connected may provide memory from now on.
            self.limit = (head + self.size).min(provided).min(self.tail + needed + PROVIDED_FIRST);
            if self.tail + needed <= self.limit {
                self.impatient = false;
                return true;
            }
            if session.is_lossy() || self.impatient || session.end_if_requested() || session::mode() == AgentMode::Off {
                return false;
            }
            self.header.writer_waits.store(1, Ordering::SeqCst);
            if self.header.head.load(Ordering::SeqCst) == head && self.provided(session) == provided {
                sys::futex_wait(&self.header.writer_waits, 1, NAP_NS);
            }
            if self.header.writer_waits.swap(0, Ordering::SeqCst) != 0 {
                // The reader did not wake us.
                naps += 1;
                if !session.has_reader() {
                    session.end();
                    return false;
                }
                self.impatient = naps >= MOST_NAPS;
            }
        }
    }
}
