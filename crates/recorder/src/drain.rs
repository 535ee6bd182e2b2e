//! Emptying the rings: quick, so that no program waits for what takes time.
//!
//! Each round empties the rings of a process into buffers of our own and says up to where everything is settled: the
//! *watermark*, a stamp before which nothing can come any more. For a ring whose thread was not at work when we looked, that is the
//! time at which the round began, less a margin; for one that was, its last stamp, since the stamp that it is about to publish is
//! not smaller. The margin covers the time that a thread's word "I am about to take a stamp" takes to become visible to us after the
//! stamp was taken: a store buffer's delay, far below a microsecond; a thread that is interrupted has long been seen.

use crate::shared::{Shared, wake_writer};
use crate::words::{Pool, Words};
use highwater_shm::session_v1::ring_bytes;
use std::sync::atomic::Ordering;

/// Rounds after which a thread that seems to be taking a stamp is no longer waited for.
const MOST_ROUNDS_BUSY: u32 = 200;

/// What was taken out of one ring.
#[derive(Debug)]
pub struct Piece {
    /// Which ring.
    pub ring: u32,
    /// The ring's count of bytes where the words end.
    pub end: u64,
    /// Whole records.
    pub words: Words,
}

/// What one round brought in.
#[derive(Debug, Default)]
pub struct Haul {
    /// Ring by ring.
    pub pieces: Vec<Piece>,
    /// Everything with a stamp up to here has been brought in, by this round or an earlier one.
    pub watermark: u64,
    /// Events that writers had to drop since the last round.
    pub dropped: u64,
    /// Bytes of the process that are resident, where that was looked at: at the time of the watermark.
    pub resident: Option<u64>,
}

impl Haul {
    /// How much memory it takes.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.words.len() as u64 * 8).sum()
    }
}

/// How far a ring was read.
#[derive(Default)]
struct Position {
    read: u64,
    busy_rounds: u32,
    dropped: u64,
}

/// The reading end of all rings of a process.
#[derive(Default)]
pub struct Drain {
    positions: Vec<Position>,
}

impl Drain {
    /// Empties the rings. `now` is the time before this call less the margin; `None` once the process has ended, when everything is
    /// settled.
    pub fn round(&mut self, shared: &Shared, now: Option<u64>, pool: &mut Pool) -> Haul {
        let mut haul = Haul { watermark: now.unwrap_or(u64::MAX), ..Haul::default() };
        self.positions.resize_with(shared.rings() as usize, Position::default);
        for (ring, position) in (0..).zip(&mut self.positions) {
            let header = shared.ring(ring);
            let busy = header.busy.load(Ordering::Acquire) != 0;
            let stamp = header.stamp.load(Ordering::Acquire);
            match position.read(shared, ring, pool) {
                Some(piece) if piece.words.is_empty() => haul.dropped += 1,
                piece => haul.pieces.extend(piece),
            }
            let all_dropped = header.dropped.load(Ordering::Relaxed);
            haul.dropped += all_dropped.saturating_sub(position.dropped);
            position.dropped = all_dropped.max(position.dropped);
            position.busy_rounds = if busy { position.busy_rounds + 1 } else { 0 };
            if now.is_some() && busy && position.busy_rounds < MOST_ROUNDS_BUSY {
                haul.watermark = haul.watermark.min(stamp);
            }
        }
        haul
    }
}

impl Position {
    /// Takes out what the ring holds, and gives its room back.
    fn read(&mut self, shared: &Shared, ring: u32, pool: &mut Pool) -> Option<Piece> {
        let header = shared.ring(ring);
        let tail = header.tail.load(Ordering::Acquire);
        let length = tail.wrapping_sub(self.read);
        if length == 0 {
            return None;
        }
        // No writer of ours leaves a ring in another state; what it claims to have is passed over.
        let sound = length <= ring_bytes(ring) && tail.is_multiple_of(8) && self.read <= tail;
        let words = if sound { shared.copy_ring(ring, self.read, tail, pool) } else { Words::Few(Vec::new()) };
        self.read = tail & !7;
        header.head.store(self.read, Ordering::Release);
        wake_writer(header);
        Some(Piece { ring, end: self.read, words })
    }
}
