//! An image in memory: only the pages that are not zero. Pages that did not change since the previous image are shared with it.

use crate::memory::{PAGE, PagedMemory, is_zero};
use highwater_image::hexadecimal;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A run of zeros is hashed in pieces of this size.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The bytes of a program's memory, of which only the non-zero pages are stored. Images share equal pages.
#[derive(Clone, Debug, Default)]
pub struct CapturedImage {
    bytes: u64,
    pages: BTreeMap<u64, Arc<[u8]>>,
}

/// A part of an image: a number of zeros, then bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePart {
    /// The number of zeros that come first.
    pub zeros: u64,
    /// The bytes after the zeros.
    pub bytes: Vec<u8>,
}

impl CapturedImage {
    /// Captures the finished state of a memory; equal pages are shared with the image `before`.
    pub fn capture(memory: &PagedMemory, bytes: u64, before: Option<&Self>) -> io::Result<Self> {
        let mut pages = BTreeMap::new();
        let mut buffer = vec![0; 1 << 20];
        for occupied in memory.occupied(bytes)? {
            let mut at = occupied.start;
            while at < occupied.end {
                let part = &mut buffer[..(occupied.end - at).min(1 << 20) as usize];
                memory.read(at, part)?;
                for (index, page) in part.chunks(PAGE).enumerate() {
                    if !is_zero(page) {
                        let number = at / PAGE as u64 + index as u64;
                        let same = before.and_then(|before| before.pages.get(&number)).filter(|same| ***same == *page);
                        pages.insert(number, same.cloned().unwrap_or_else(|| Arc::from(page)));
                    }
                }
                at += part.len() as u64;
            }
        }
        Ok(Self { bytes, pages })
    }

    /// An image of stored pages, by their numbers; pages of zeros are left out.
    pub(crate) fn of_pages(bytes: u64, pages: impl Iterator<Item = (u64, Arc<[u8]>)>) -> Self {
        Self { bytes, pages: pages.filter(|(_, page)| !is_zero(page)).collect() }
    }

    /// The stored pages, with their offsets.
    pub fn stored_pages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().map(|(number, page)| (number * PAGE as u64, &**page))
    }

    /// An image of zeros, to be filled.
    pub(crate) fn zeros(bytes: u64) -> Self {
        Self { bytes, pages: BTreeMap::new() }
    }

    /// Writes into it; `None` beyond its end.
    pub(crate) fn put(&mut self, offset: u64, content: &[u8]) -> Option<()> {
        offset.checked_add(content.len() as u64).filter(|&end| end <= self.bytes)?;
        let mut done = 0;
        while let Some(rest) = content.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let (number, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let part = &rest[..rest.len().min(PAGE - within)];
            // The last page may be shorter.
            let length = (self.bytes - number * PAGE as u64).min(PAGE as u64) as usize;
            let stored = self.pages.contains_key(&number);
            if stored || !is_zero(part) {
                let page = self.pages.entry(number).or_insert_with(|| vec![0; length].into());
                Arc::make_mut(page)[within..within + part.len()].copy_from_slice(part);
            }
            done += part.len();
        }
        Some(())
    }

    /// Reads from it; `None` beyond its end.
    pub(crate) fn read(&self, offset: u64, count: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(count).filter(|&end| end <= self.bytes)?;
        let mut read = vec![0; usize::try_from(count).ok()?];
        for (number, page) in self.pages.range(offset / PAGE as u64..end.div_ceil(PAGE as u64)) {
            let start = number * PAGE as u64;
            let (from, to) = (start.max(offset), (start + page.len() as u64).min(end));
            read[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&page[(from - start) as usize..(to - start) as usize]);
        }
        Some(read)
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes of its non-zero pages.
    pub fn occupied_bytes(&self) -> u64 {
        self.pages.values().map(|page| page.len() as u64).sum()
    }

    /// The part at an offset: zeros up to the next stored page, then at most `most` bytes.
    pub fn chunk(&self, offset: u64, most: usize) -> ImagePart {
        let first = offset / PAGE as u64;
        let mut pages = self.pages.range(first..).peekable();
        let begin = pages.peek().map_or(self.bytes, |(number, _)| (*number * PAGE as u64).max(offset));
        let mut bytes = Vec::new();
        let mut at = begin;
        for (number, page) in pages {
            let start = *number * PAGE as u64;
            if start > at || bytes.len() >= most {
                break;
            }
            let content = &page[(at - start) as usize..];
            let content = &content[..content.len().min(most - bytes.len())];
            bytes.extend(content);
            at += content.len() as u64;
        }
        ImagePart { zeros: begin.saturating_sub(offset), bytes }
    }

    /// The SHA-256 of all its bytes.
    pub fn sha256(&self) -> String {
        let mut hasher = Sha256::new();
        let mut at = 0;
        for (number, page) in &self.pages {
            hash_zeros(&mut hasher, number * PAGE as u64 - at);
            hasher.update(page);
            at = number * PAGE as u64 + page.len() as u64;
        }
        hash_zeros(&mut hasher, self.bytes - at);
        hexadecimal(&hasher.finalize())
    }

    /// Writes it into an empty file; zero pages become holes.
    pub fn write(&self, file: &File) -> io::Result<()> {
        file.set_len(self.bytes)?;
        for (number, page) in &self.pages {
            file.write_all_at(page, number * PAGE as u64)?;
        }
        Ok(())
    }
}

/// Hashes `count` zeros.
pub fn hash_zeros(hasher: &mut Sha256, mut count: u64) {
    while count > 0 {
        let part = count.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..part as usize]);
        count -= part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: u64, pages: &[u64]) -> CapturedImage {
        let page = |number: u64| (number, Arc::from(vec![number as u8 + 1; PAGE]));
        CapturedImage { bytes, pages: pages.iter().map(|&number| page(number)).collect() }
    }

    #[test]
    fn chunks_one_after_the_other_are_the_image() {
        let image = image(40 * PAGE as u64, &[0, 1, 2, 9, 30]);
        for most in [1000, PAGE, 1 << 20] {
            let (mut whole, mut at) = (Vec::new(), 0);
            while at < image.bytes() {
                let chunk = image.chunk(at, most);
                assert!(chunk.bytes.len() <= most);
                whole.resize(whole.len() + chunk.zeros as usize, 0);
                whole.extend(&chunk.bytes);
                at = whole.len() as u64;
            }
            assert_eq!(whole.len(), 40 * PAGE);
            assert_eq!(image.sha256(), hexadecimal(&Sha256::digest(&whole)));
            assert_eq!((whole[9 * PAGE], whole[31 * PAGE], whole[10 * PAGE]), (10, 0, 0));
        }
    }

    #[test]
    fn what_is_put_is_read() {
        let mut image = CapturedImage::zeros(3 * PAGE as u64 + 10);
        let content: Vec<u8> = (0..5000u32).map(|number| number as u8).collect();
        image.put(4000, &content).unwrap();
        image.put(8000, &[0; 100]).unwrap();
        image.put(3 * PAGE as u64 + 9, &[7]).unwrap();
        let mut whole = vec![0; 3 * PAGE + 10];
        whole[4000..9000].copy_from_slice(&content);
        whole[8000..8100].fill(0);
        whole[3 * PAGE + 9] = 7;
        assert_eq!(image.read(0, whole.len() as u64).unwrap(), whole);
        assert_eq!(image.read(3990, 30).unwrap(), whole[3990..4020]);
        assert_eq!(image.sha256(), hexadecimal(&Sha256::digest(&whole)));
        assert_eq!((image.put(u64::MAX, &[1]), image.put(3 * PAGE as u64 + 10, &[1])), (None, None));
        assert_eq!((image.read(1, u64::MAX), image.read(0, 3 * PAGE as u64 + 11)), (None, None));
    }

    #[test]
    fn an_image_of_zeros_is_one_chunk() {
        assert_eq!(image(1 << 40, &[]).chunk(5, 10), ImagePart { zeros: (1 << 40) - 5, bytes: vec![] });
        assert_eq!(image(0, &[]).chunk(0, 10), ImagePart { zeros: 0, bytes: vec![] });
    }
}
