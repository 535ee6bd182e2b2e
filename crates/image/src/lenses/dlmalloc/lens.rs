//! The layout of dlmalloc heaps, chunk by chunk. References are guessed: any word that is an address within a chunk counts.

use super::chunk::{HEADER, PAGE};
use super::heap::{Dlmalloc, DlmallocKind, KIND_NAMES};
use crate::bitmap::Bitmap;
use crate::damage::Damages;
use crate::heap::HeapError;
use crate::lens::{HeapArea, Lens, Located, Root, RootName, address_of};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// Chunks up to this size have a shape for each size; larger ones are grouped by powers of two.
const EXACT_SIZES: u64 = 1024;

impl Dlmalloc<'_> {
    /// The size of the chunk at an address.
    #[inline]
    pub fn chunk_size(&self, chunk: u64) -> u64 {
        u64::from(self.image.u32(chunk.wrapping_add(4)) & !7)
    }

    /// The chunk in use that contains an address, in its header or its contents.
    pub fn chunk_of(&self, address: u64, found: &Bitmap) -> Option<u64> {
        self.chunk_around(address, found).or_else(|| self.is_object(address, found).then_some(address))
    }

    /// The bytes of a chunk that belong to the program.
    pub fn contents(&self, chunk: u64) -> &[u8] {
        self.image.slice(chunk.saturating_add(HEADER), self.chunk_size(chunk).saturating_sub(4))
    }

    /// The chunk whose contents include an address.
    #[inline]
    pub(super) fn chunk_around(&self, address: u64, found: &Bitmap) -> Option<u64> {
        let offset = address.checked_sub(self.base)?;
        let page = self.page_starts.get((offset / PAGE) as usize)?;
        let unit = (offset / 8).min(u64::from(u32::MAX));
        let start = found.last_between(u64::from(*page), unit)?;
        let chunk = self.base + start * 8;
        let first = chunk + HEADER;
        (first..first + self.chunk_size(chunk).saturating_sub(4)).contains(&address).then_some(chunk)
    }

    /// Words outside of the heap that refer into it: data, stack, and memory of unknown owners.
    pub(super) fn find_roots(&self) -> Vec<Root> {
        let mut found = Bitmap::new((self.end - self.base) / 8);
        self.walk_chunks(
            |area| {
                if area.is_object {
                    found.set((area.at - self.base) / 8);
                }
            },
            &mut Damages::default(),
        );
        let mut seen = FxHashSet::default();
        let mut roots = Vec::new();
        for range in self.outside().into_iter().flat_map(|range| self.image.data_in(range)) {
            for at in (range.start.next_multiple_of(4)..range.end & !3).step_by(4) {
                let word = u64::from(self.image.u32(at));
                if word < self.base || word >= self.end {
                    continue;
                }
                if let Some(chunk) = self.chunk_around(word, &found)
                    && seen.insert(chunk)
                {
                    roots.push(Root { object: chunk, name: RootName::At(at), is_variable: false });
                }
            }
        }
        roots
    }
}

impl Lens for Dlmalloc<'_> {
    const UNIT: u64 = 8;
    const KINDS: &'static [&'static str] = &KIND_NAMES;
    const IS_COLLECTED: bool = false;

    fn span(&self) -> Range<u64> {
        self.base..self.end
    }

    fn walk(&self, visit: impl FnMut(HeapArea), damage: &mut Damages) {
        self.walk_chunks(visit, damage);
    }

    #[inline]
    fn is_object(&self, address: u64, found: &Bitmap) -> bool {
        address >= self.base && address.is_multiple_of(8) && found.get((address - self.base) / 8)
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    fn next_reference(&self, object: u64, slot: u32, found: &Bitmap) -> Option<(u64, u32)> {
        let end = (self.chunk_size(object) + 4) / 4;
        let mut slot = u64::from(slot).max(HEADER / 4);
        while slot < end {
            let word = u64::from(self.image.u32(object + slot * 4));
            slot += 1;
            if (self.base..self.end).contains(&word)
                && let Some(chunk) = self.chunk_around(word, found)
            {
                return Some((chunk, slot as u32));
            }
        }
        None
    }

    fn kind(&self, _: u64) -> u8 {
        DlmallocKind::Chunk as u8
    }

    fn bytes(&self, object: u64) -> u64 {
        self.chunk_size(object)
    }

    fn is_in_heap(&self, _: u64) -> bool {
        true
    }

    fn shape_key(&self, object: u64) -> u64 {
        let size = self.chunk_size(object);
        if size <= EXACT_SIZES { size } else { 1 << (u64::BITS - size.leading_zeros()) }
    }

    fn shape_name(&self, object: u64) -> String {
        let key = self.shape_key(object);
        if key <= EXACT_SIZES {
            format!("chunk of {key} bytes")
        } else {
            format!("chunk of {}–{} bytes", key / 2, key - 1)
        }
    }

    fn step(&self, _: u64, slot: u32) -> String {
        format!("[+{}]", (u64::from(slot) * 4).saturating_sub(HEADER))
    }

    fn locate(&self, text: &str, _depth: u32, found: &Bitmap) -> Result<Located, HeapError> {
        let address = address_of(text)
            .ok_or_else(|| format!("'{text}' is no address, and the chunks of this heap have no names"))?;
        let chunk = self.chunk_of(address, found).ok_or_else(|| format!("no chunk in use is at {address:#x}"))?;
        Ok(Located { object: chunk, value: None })
    }
}
