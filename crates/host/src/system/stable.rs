//! A canister's stable memory: only pieces that were written take memory, and the writes of a message can be undone.

use crate::content::MemoryContent;
use crate::image::CapturedImage;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The size of a page of stable memory.
const PAGE_BYTES: u64 = 64 << 10;
/// The most pages: 500 GiB.
const MOST_PAGES: u64 = 500 << 14;
/// The unit in which memory is allocated.
const PIECE: u64 = 4096;

/// A piece, shared with images of the memory until it is written to.
type StablePiece = Arc<[u8]>;

/// A canister's stable memory, stored in pieces of 4 KiB. Changes are kept by `commit` or undone by `restore`.
#[derive(Debug, Default)]
pub struct StableMemory {
    pages: u64,
    pieces: BTreeMap<u64, StablePiece>,
    /// The number of pages at the last commit; below, the previous content of the pieces changed since.
    committed_pages: u64,
    undo: BTreeMap<u64, Option<StablePiece>>,
}

impl StableMemory {
    /// Its size, in pages of 64 KiB.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Grows it; returns the previous size, or `None` if it cannot grow.
    pub fn grow(&mut self, pages: u64) -> Option<u64> {
        let before = self.pages;
        self.pages = before.checked_add(pages).filter(|&pages| pages <= MOST_PAGES).unwrap_or(before);
        (self.pages - before == pages).then_some(before)
    }

    fn holds(&self, offset: u64, length: usize) -> Option<()> {
        let end = offset.checked_add(length as u64)?;
        (end <= self.pages * PAGE_BYTES).then_some(())
    }

    /// Reads from it; `None` beyond its end.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Option<()> {
        self.holds(offset, target.len())?;
        for (number, within, part) in parts(offset, target.len()) {
            let target = &mut target[part];
            match self.pieces.get(&number) {
                Some(piece) => target.copy_from_slice(&piece[within..within + target.len()]),
                None => target.fill(0),
            }
        }
        Some(())
    }

    /// Writes to it; `None` beyond its end.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Option<()> {
        self.holds(offset, bytes.len())?;
        for (number, within, part) in parts(offset, bytes.len()) {
            let source = &bytes[part];
            let before = self.pieces.get(&number).cloned();
            self.undo.entry(number).or_insert(before);
            let piece = self.pieces.entry(number).or_insert_with(|| Arc::from([0; PIECE as usize]));
            Arc::make_mut(piece)[within..within + source.len()].copy_from_slice(source);
        }
        Some(())
    }

    /// Its bytes as they are now.
    pub fn capture(&self) -> CapturedImage {
        let pieces = self.pieces.iter().map(|(number, piece)| (*number, Arc::clone(piece)));
        CapturedImage::of_pages(self.pages * PAGE_BYTES, pieces)
    }

    /// Replaces all of it by other bytes.
    pub fn load(&mut self, content: &dyn MemoryContent) -> io::Result<()> {
        let pages = content.bytes().div_ceil(PAGE_BYTES);
        if pages > MOST_PAGES {
            return Err(io::Error::other("a stable memory has at most 500 GiB"));
        }
        *self = Self { pages, ..Self::default() };
        content.pages(&mut |at, bytes| {
            self.write(at, bytes).ok_or_else(|| io::Error::other("bytes beyond the end of the stable memory"))
        })?;
        self.commit();
        Ok(())
    }

    /// Keeps all changes since the last commit.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.committed_pages = self.pages;
    }

    /// Undoes all changes since the last commit.
    pub fn restore(&mut self) {
        self.pages = self.committed_pages;
        for (number, piece) in std::mem::take(&mut self.undo) {
            match piece {
                Some(piece) => self.pieces.insert(number, piece),
                None => self.pieces.remove(&number),
            };
        }
    }
}

/// The pieces that a range touches: the number of each, the offset within it, and the part of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = length.checked_sub(done).filter(|&left| left > 0)?;
        let at = offset + done as u64;
        let within = (at % PIECE) as usize;
        let part = left.min(PIECE as usize - within);
        let range = done..done + part;
        done += part;
        Some((at / PIECE, within, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_across_pieces_is_read_again() {
        let mut stable = StableMemory::default();
        assert_eq!(stable.grow(2), Some(0));
        let bytes: Vec<u8> = (0..10_000u32).map(|number| number as u8).collect();
        stable.write(4000, &bytes).unwrap();
        let mut read = vec![1; 10_010];
        stable.read(3995, &mut read).unwrap();
        assert_eq!(read[..5], [0; 5]);
        assert_eq!(read[5..10_005], bytes);
    }

    #[test]
    fn a_message_that_failed_leaves_no_trace() {
        let mut stable = StableMemory::default();
        stable.grow(1);
        stable.write(0, b"before").unwrap();
        stable.commit();
        stable.grow(3);
        stable.write(3, b"after").unwrap();
        stable.write(100_000, b"far").unwrap();
        stable.restore();
        assert_eq!(stable.pages(), 1);
        let mut read = [0; 8];
        stable.read(0, &mut read).unwrap();
        assert_eq!(&read, b"before\0\0");
        assert_eq!(stable.read(100_000, &mut read), None);
    }

    #[test]
    fn an_image_of_it_does_not_change_with_it() {
        let mut stable = StableMemory::default();
        stable.grow(2);
        stable.write(70_000, b"first").unwrap();
        let image = stable.capture();
        stable.write(70_000, b"later").unwrap();
        let mut loaded = StableMemory::default();
        loaded.load(&image).unwrap();
        let mut read = [0; 5];
        loaded.read(70_000, &mut read).unwrap();
        assert_eq!((loaded.pages(), &read), (2, b"first"));
        assert_eq!(image.occupied_bytes(), 4096);
        loaded.restore();
        assert_eq!(loaded.capture().sha256(), image.sha256());
    }

    #[test]
    fn nothing_lies_beyond_its_end() {
        let mut stable = StableMemory::default();
        assert_eq!(stable.write(0, &[1]), None);
        stable.grow(1);
        assert_eq!(stable.write(65_535, &[1]), Some(()));
        assert_eq!(stable.write(65_536, &[1]), None);
        assert_eq!(stable.write(u64::MAX, &[1]), None);
        assert_eq!(stable.grow(u64::MAX), None);
    }
}
