//! What a tracked object knows of itself.

use crate::event::ObjectEvent;
use crate::switch;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

/// The next id. On machines without atomics of 64 bits there would be none; all that std supports have them, WASM included.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The number of this thread, for telling it from others.
fn thread_number() -> u16 {
    use std::cell::Cell;
    use std::sync::atomic::AtomicU16;
    static THREADS: AtomicU16 = AtomicU16::new(1);
    thread_local!(static NUMBER: Cell<u16> = const { Cell::new(0) });
    let number = NUMBER.try_with(|number| {
        if number.get() == 0 {
            let next = THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
            number.set(next.unwrap_or(SOMEBODY));
        }
        number.get()
    });
    number.unwrap_or(SOMEBODY)
}

/// An object's id, its thread and the size that was told last. An object that was born while nobody listened has none.
#[derive(Debug)]
pub(crate) struct Life {
    /// The id in the lower 48 bits, the thread's number in the upper; all bits set for none.
    packed: u64,
    told: usize,
}

const ID_BITS: u32 = 48;
const NONE: u64 = u64::MAX;
/// A thread that is not known: of two such it is not known whether they are one.
const SOMEBODY: u16 = u16::MAX;

impl Life {
    /// That of an object of which nobody hears.
    pub const UNHEARD: Self = Self { packed: NONE, told: 0 };

    /// Begins a life, and tells of it.
    #[cold]
    #[inline(never)]
    pub fn begin(bytes: usize, type_name: &'static str, place: &'static Location<'static>) -> Self {
        if !switch::is_heard() {
            return Self::UNHEARD;
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        switch::tell(&ObjectEvent::Allocate { id, bytes, type_name, place });
        Self { packed: id | u64::from(thread_number()) << ID_BITS, told: bytes }
    }

    /// True if somebody heard of its birth.
    #[inline(always)]
    pub fn is_heard(&self) -> bool {
        self.packed != NONE
    }

    /// The id.
    pub fn id(&self) -> Option<u64> {
        self.is_heard().then_some(self.packed & ((1 << ID_BITS) - 1))
    }

    /// Tells of its size if that is another.
    pub fn update(&mut self, bytes: usize, type_name: &'static str) {
        if let Some(id) = self.id().filter(|_| bytes != self.told) {
            self.told = bytes;
            if (self.packed >> ID_BITS) as u16 != thread_number() {
                // Somebody else was heard of it: its end must not seem to come before this.
                self.packed |= u64::from(SOMEBODY) << ID_BITS;
            }
            switch::tell(&ObjectEvent::Resize { id, bytes, type_name });
        }
    }

    /// Tells of its end. Nothing more is told afterwards.
    #[cold]
    #[inline(never)]
    pub fn end(&mut self, bytes: usize, type_name: &'static str) {
        if let Some(id) = self.id() {
            let thread = (self.packed >> ID_BITS) as u16;
            let same_thread = thread == thread_number() && thread != SOMEBODY;
            self.packed = NONE;
            let told = (bytes != self.told).then_some(self.told);
            switch::tell(&ObjectEvent::Drop { id, bytes, told, type_name, same_thread });
        }
    }

    /// The size that was told last.
    pub fn told(&self) -> usize {
        self.told
    }
}
