//! Where the agent's private memory comes from: the system, or, in an injected agent, the object that the attacher has mapped.

#[cfg(not(feature = "injected"))]
pub use crate::sys::{give_back_pages, limits_address_space, make_accessible, map_private, reserve, unmap};

#[cfg(feature = "injected")]
pub use from_object::{give_back_pages, limits_address_space, make_accessible, map_private, reserve, unmap};

/// The object's private part is given out from its beginning on, and never taken back. The reader allocates it ahead, so that its pages are not charged to
/// the process's container; nothing here can wait for that. What a hook takes before the reader has allocated it is counted.
#[cfg(feature = "injected")]
mod from_object {
    use crate::injected;
    use core::sync::atomic::Ordering;

    const PAGE: u64 = 4096;

    /// Zeroed memory.
    pub fn map_private(bytes: usize) -> Option<*mut u8> {
        let memory = reserve(bytes)?;
        make_accessible(memory, bytes);
        Some(memory)
    }

    /// The same, of which only a part may be used.
    pub fn reserve(bytes: usize) -> Option<*mut u8> {
        let header = injected::header();
        let bytes = (bytes as u64).checked_next_multiple_of(PAGE)?;
        let used = &injected::page().private_used;
        let taken = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|&used| used <= header.private_bytes)
        });
        taken.ok().map(|offset| (header.shared + header.private + offset) as *mut u8)
    }

    /// Always true. Counts what is not allocated yet.
    pub fn make_accessible(start: *mut u8, bytes: usize) -> bool {
        let (header, page) = (injected::header(), injected::page());
        let end = start as u64 + bytes as u64 - (header.shared + header.private);
        let provided = page.private_provided.load(Ordering::Relaxed);
        if end > provided {
            let unprovided = (end - provided).min(bytes as u64);
            page.private_unprovided.fetch_add(unprovided, Ordering::Relaxed);
        }
        true
    }

    /// Areas are small: the memory is given out in the order of its addresses, and the reader allocates it in that order.
    pub fn limits_address_space() -> bool {
        true
    }

    /// Makes the whole pages within this memory zero. They stay allocated: the kernel would charge them to the process when they are touched again.
    pub fn give_back_pages(start: *mut u8, bytes: usize) {
        let (from, to) = ((start as u64).next_multiple_of(PAGE), (start as u64 + bytes as u64) & !(PAGE - 1));
        if from < to {
            // SAFETY: private memory of ours that nothing refers to any more.
            unsafe { (from as *mut u8).write_bytes(0, (to - from) as usize) };
        }
    }

    /// Does nothing: the object stays mapped.
    ///
    /// # Safety
    /// Nothing refers to the memory any more.
    pub unsafe fn unmap(_: *mut u8, _: usize) {}
}
