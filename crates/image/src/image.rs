//! The bytes of a memory: a file, read into memory. Holes of the file take no memory.
//!
//! The file is not mapped: a program that shortens a mapped file ends its reader with a signal, and a host that makes the next image of a running program
//! may overwrite the previous one. A heap is walked from end to end anyway, so few bytes are read that a mapping would not read.

use memmap2::{Advice, Mmap, MmapMut};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Data ranges from this length on ask for large pages; holes within a large page would take memory.
const LARGE: u64 = 8 << 20;

/// Every byte of a program's memory, by address. A read beyond its end returns nothing or 0, and never panics.
pub struct Image {
    bytes: ImageBytes,
    /// The ranges with data, in order; all else are holes, which read as zeros.
    data: Vec<Range<u64>>,
}

enum ImageBytes {
    Read(Mmap),
    Owned(Vec<u8>),
}

impl Image {
    /// Reads a regular file. Takes memory for its data, not for its holes.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if about.len() == 0 {
            return Ok(Self::from_bytes(Vec::new()));
        }
        let data = data_ranges(&file, about.len());
        let mut bytes = MmapMut::map_anon(usize::try_from(about.len()).map_err(io::Error::other)?)?;
        for range in &data {
            if range.end - range.start >= LARGE {
                // Large pages are faster; it also works without.
                let _ = bytes.advise_range(Advice::HugePage, range.start as usize, (range.end - range.start) as usize);
            }
            let part = &mut bytes[range.start as usize..range.end as usize];
            file.read_exact_at(part, range.start).map_err(became_shorter)?;
        }
        let now = file.metadata()?;
        if now.len() < about.len() {
            return Err(became_shorter(io::ErrorKind::UnexpectedEof.into()));
        }
        if (now.len(), now.modified().ok()) != (about.len(), about.modified().ok()) {
            return Err(io::Error::other("the file was written to while it was read"));
        }
        Ok(Self { bytes: ImageBytes::Read(bytes.make_read_only()?), data })
    }

    /// An image from bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let whole = 0..bytes.len() as u64;
        Self { bytes: ImageBytes::Owned(bytes), data: Vec::from_iter(Some(whole).filter(|whole| !whole.is_empty())) }
    }

    /// All bytes, holes as zeros.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            ImageBytes::Read(bytes) => bytes,
            ImageBytes::Owned(bytes) => bytes,
        }
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// True if its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranges of the file with data, in order. Between them are holes, which read as zeros and take no memory.
    pub fn data(&self) -> &[Range<u64>] {
        &self.data
    }

    /// The number of its bytes that are not in holes.
    pub fn data_bytes(&self) -> u64 {
        self.data.iter().map(|range| range.end - range.start).sum()
    }

    /// The parts of a range that have data.
    pub fn data_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let cut = move |data: &Range<u64>| data.start.max(range.start)..data.end.min(range.end);
        self.data.iter().map(cut).filter(|range| range.start < range.end)
    }

    /// Bytes at an address; fewer where the image ends.
    pub fn slice(&self, at: u64, length: u64) -> &[u8] {
        let end = at.saturating_add(length).min(self.len());
        self.bytes().get(at.min(end) as usize..end as usize).unwrap_or_default()
    }

    /// Eight bytes at an address, 0 beyond the end.
    #[inline]
    pub fn u64(&self, at: u64) -> u64 {
        self.array(at).map_or(0, u64::from_le_bytes)
    }

    /// Four bytes at an address, 0 beyond the end.
    #[inline]
    pub fn u32(&self, at: u64) -> u32 {
        self.array(at).map_or(0, u32::from_le_bytes)
    }

    /// Prefetches the bytes at an address that will be read soon.
    #[inline]
    #[allow(unsafe_code)]
    pub fn prefetch(&self, at: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.bytes().as_ptr().wrapping_add(at as usize);
            // SAFETY: the instruction is a hint: it reads nothing that the program sees, and faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    #[inline]
    fn array<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        self.bytes().get(at as usize..)?.first_chunk().copied()
    }
}

fn became_shorter(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("the file became shorter while it was read"),
        _ => error,
    }
}

/// Where a file has data. A file system that does not know says that all of it is.
fn data_ranges(file: &File, length: u64) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => return Vec::from_iter(Some(0..length)),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(length).min(length);
        if end <= start {
            break;
        }
        ranges.push(start..end);
        at = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_that_is_shortened_after_it_was_opened_is_still_all_there() {
        let path = std::env::temp_dir().join(format!("highwater-image-shortened-{}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 20]).expect("written");
        let image = Image::open(&path).expect("an image");
        File::options().write(true).open(&path).expect("a file").set_len(0).expect("shortened");
        std::fs::remove_file(&path).expect("removed");
        // A mapping would end the process here.
        assert_eq!((image.len(), image.u64((1 << 20) - 8)), (1 << 20, 0x0707_0707_0707_0707));
    }

    #[test]
    fn holes_are_known_and_what_is_beyond_the_end_is_nothing() {
        let path = std::env::temp_dir().join(format!("highwater-image-holes-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        file.set_len(1 << 30).expect("a long file");
        file.write_all_at(&[7; 16], 512 << 20).expect("written");
        let image = Image::open(&path).expect("an image");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((image.len(), image.u64(512 << 20)), (1 << 30, 0x0707_0707_0707_0707));
        assert!(image.data_bytes() < 1 << 20, "{:?}", image.data());
        assert_eq!((image.u64(u64::MAX - 3), image.u32((1 << 30) - 2)), (0, 0));
        assert_eq!(image.slice((1 << 30) - 2, 9).len(), 2);
        assert!(image.slice(u64::MAX, 9).is_empty());
    }
}
