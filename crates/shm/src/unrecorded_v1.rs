//! Programs that a process starts and that are not recorded: their number, the reasons, and the names of the first of them.
//!
//! Part of the [header](crate::session_v1::Header), so that it can be written by a child that was forked and has no session of its own, and without
//! a system call.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Why a program is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Reason {
    /// Statically linked: no library can be loaded into it.
    Static = 1,
    /// For another processor.
    OtherMachine = 2,
    /// For another C library.
    OtherLibrary = 3,
    /// Built with AddressSanitizer, whose runtime must be the first library.
    AddressSanitizer = 4,
    /// Built with LeakSanitizer.
    LeakSanitizer = 5,
    /// Built with ThreadSanitizer.
    ThreadSanitizer = 6,
    /// Built with MemorySanitizer.
    MemorySanitizer = 7,
    /// It gets other rights when it starts (setuid, setgid), and the loader then ignores the library.
    MoreRights = 8,
    /// It has other rights or another root directory: it cannot read the library, or cannot reach its reader.
    OutOfReach = 9,
    /// A seccomp filter is in force.
    Filter = 10,
    /// It has a `malloc` of its own, which the agent does not see.
    OwnAllocator = 11,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Static,
        Self::OtherMachine,
        Self::OtherLibrary,
        Self::AddressSanitizer,
        Self::LeakSanitizer,
        Self::ThreadSanitizer,
        Self::MemorySanitizer,
        Self::MoreRights,
        Self::OutOfReach,
        Self::Filter,
        Self::OwnAllocator,
    ];

    /// The reason of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&reason| reason as u32 == number)
    }
}

/// The longest name that is kept.
pub const LONGEST_NAME: usize = 56;
const NOTES: usize = 32;
const COUNTS: usize = 16;

/// One program's name.
#[repr(C)]
pub struct Note {
    /// The reason and, in the bits from 16 on, the length of the name plus one; 0 until it is complete.
    about: AtomicU32,
    name: [AtomicU64; LONGEST_NAME / 8],
}

/// Counts of unrecorded programs, and the names of the first of them.
#[repr(C)]
pub struct UnrecordedCounts {
    counts: [AtomicU32; COUNTS],
    taken: AtomicU32,
    notes: [Note; NOTES],
}

impl UnrecordedCounts {
    /// Counts a program, and notes its name while there is room.
    pub fn add(&self, reason: Reason, name: &[u8]) {
        self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
        // Never beyond the capacity, so that the counter does not wrap.
        let slot = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            ((taken as usize) < NOTES).then_some(taken + 1)
        });
        let Some(note) = slot.ok().and_then(|slot| self.notes.get(slot as usize)) else { return };
        let name = &name[..name.len().min(LONGEST_NAME)];
        for (word, bytes) in note.name.iter().zip(name.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        note.about.store(reason as u32 | (name.len() as u32 + 1) << 16, Ordering::Release);
    }

    /// The number of programs counted for a reason.
    pub fn count(&self, reason: Reason) -> u32 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// The noted names, each with its reason and its length.
    pub fn names(&self) -> impl Iterator<Item = (Reason, [u8; LONGEST_NAME], usize)> {
        self.notes.iter().filter_map(|note| {
            let about = note.about.load(Ordering::Acquire);
            let reason = Reason::from_number(about & 0xffff)?;
            let length = ((about >> 16) as usize).checked_sub(1).filter(|&length| length <= LONGEST_NAME)?;
            let mut name = [0; LONGEST_NAME];
            for (bytes, word) in name.chunks_exact_mut(8).zip(&note.name) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            Some((reason, name, length))
        })
    }
}
