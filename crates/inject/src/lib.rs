//! The agent as a flat image, which an attacher maps into a running process.
//!
//! The image has no imports, no relocations and no thread-local storage: it runs wherever it is mapped, without a loader.
//! [`attach_v1`](highwater_shm::attach_v1) says what it consists of. It is built from the same agent as the preload library (feature `injected` of crate
//! `agent`); `src/image` has what is different: the entries, the hooks of the malloc family of any number of allocators, and functions that
//! a compiler expects to be there.
#![cfg(not(feature = "image"))]
#![forbid(unsafe_code)]

use highwater_shm::attach_v1::{FUNCTION_COUNT, IMAGE_MAGIC, ImageHead, VERSION};

/// The bytes of the image. Those from its [`ImageHead::file_end`] to its [`ImageHead::end`] are zero, and not part of it.
pub static IMAGE: &[u8] = include_bytes!(env!("HIGHWATER_IMAGE"));

fn word(at: usize) -> u64 {
    IMAGE.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The head of the image.
pub fn head() -> ImageHead {
    let head = ImageHead {
        magic: word(0),
        version: word(8),
        entries: word(16),
        entry_count: word(24),
        data: word(32),
        switch: word(40),
        header: word(48),
        file_end: word(56),
        end: word(64),
    };
    assert_eq!((head.magic, head.version), (IMAGE_MAGIC, VERSION), "built together");
    head
}

/// The offset of the entry of each of the [`FUNCTIONS`](highwater_shm::attach_v1::FUNCTIONS).
pub fn entries() -> [u64; FUNCTION_COUNT] {
    let table = head().entries as usize;
    core::array::from_fn(|index| word(table + index * 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_shm::attach_v1::{AttachHeader, FUNCTIONS};

    #[test]
    fn the_image_is_what_its_head_says() {
        let head = head();
        assert_eq!(head.entry_count as usize, FUNCTIONS.len());
        assert_eq!(head.switch, head.data);
        assert!(head.data.is_multiple_of(4096) && head.end.is_multiple_of(4096) && head.header.is_multiple_of(4096));
        assert_eq!(head.file_end, IMAGE.len() as u64);
        assert!(head.header + size_of::<AttachHeader>() as u64 <= head.file_end && head.file_end <= head.end);
        let entries = entries();
        assert!(entries.iter().all(|&entry| (72..head.data).contains(&entry)));
        let mut different = entries.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), entries.len());
    }

    #[test]
    fn switch_and_header_are_zero_before_an_attacher_writes_them() {
        let head = head();
        let header_end = head.header as usize + size_of::<AttachHeader>();
        assert!(IMAGE[head.switch as usize..header_end].iter().all(|&byte| byte == 0));
    }
}
