//! The identity of a tracked object, and the size that was reported last.

use crate::event::ObjectEvent;
use crate::switch;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

/// The next id. Needs 64-bit atomics; all targets that std supports have them, WASM included.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The number of this thread, which distinguishes it from others.
fn thread_number() -> u16 {
    use std::cell::Cell;
    use std::sync::atomic::AtomicU16;
    static THREADS: AtomicU16 = AtomicU16::new(1);
    thread_local!(static NUMBER: Cell<u16> = const { Cell::new(0) });
    let number = NUMBER.try_with(|number| {
        if number.get() == 0 {
            let next = THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
            number.set(next.unwrap_or(UNKNOWN_THREAD));
        }
        number.get()
    });
    number.unwrap_or(UNKNOWN_THREAD)
}

/// An object's id, its thread and the size reported last. An object created while there was no sink has no id.
#[derive(Debug)]
pub(crate) struct ObjectLife {
    /// The id in the lower 48 bits, the thread's number in the upper 16; all bits set if there is no id.
    packed: u64,
    reported: usize,
}

const ID_BITS: u32 = 48;
const NONE: u64 = u64::MAX;
/// An unknown thread. Two unknown threads may or may not be the same one.
const UNKNOWN_THREAD: u16 = u16::MAX;

impl ObjectLife {
    /// The state of an object that is never reported.
    pub const UNREPORTED: Self = Self { packed: NONE, reported: 0 };

    /// Assigns an id and reports the creation.
    #[cold]
    #[inline(never)]
    pub fn begin(
        bytes: usize,
        type_name: &'static str,
        location: &'static Location<'static>,
        variable: Option<&'static str>,
    ) -> Self {
        if !switch::is_receiving() {
            return Self::UNREPORTED;
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        switch::report(&ObjectEvent::Allocate { id, bytes, type_name, location, variable });
        Self { packed: id | u64::from(thread_number()) << ID_BITS, reported: bytes }
    }

    /// True if the creation was reported.
    #[inline(always)]
    pub fn is_reported(&self) -> bool {
        self.packed != NONE
    }

    /// The id, if the creation was reported.
    pub fn id(&self) -> Option<u64> {
        self.is_reported().then_some(self.packed & ((1 << ID_BITS) - 1))
    }

    /// Reports the size if it differs from the one reported last.
    pub fn update(&mut self, bytes: usize, type_name: &'static str) {
        if let Some(id) = self.id().filter(|_| bytes != self.reported) {
            self.reported = bytes;
            if (self.packed >> ID_BITS) as u16 != thread_number() {
                // Another thread has reported this object: its drop must not appear to come before this event.
                self.packed |= u64::from(UNKNOWN_THREAD) << ID_BITS;
            }
            switch::report(&ObjectEvent::Resize { id, bytes, type_name });
        }
    }

    /// Reports the drop. Nothing is reported after it.
    #[cold]
    #[inline(never)]
    pub fn end(&mut self, bytes: usize, type_name: &'static str) {
        if let Some(id) = self.id() {
            let thread = (self.packed >> ID_BITS) as u16;
            let same_thread = thread == thread_number() && thread != UNKNOWN_THREAD;
            self.packed = NONE;
            let reported = (bytes != self.reported).then_some(self.reported);
            switch::report(&ObjectEvent::Drop { id, bytes, reported, type_name, same_thread });
        }
    }

    /// The size reported last.
    pub fn reported(&self) -> usize {
        self.reported
    }
}
