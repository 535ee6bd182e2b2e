//! The addresses of all objects, and their numbers by order.
//!
//! One bit for each possible address, in pages: heaps lie far apart with some collectors, so only pages with objects take memory. A page with a single
//! object takes about a hundred bytes, which bounds the memory by the size of the dump.

use crate::large::room;
use rustc_hash::FxHashMap;

/// Bits of a page: 4 KiB of a heap whose objects are aligned to eight bytes.
const PAGE_BITS: u64 = 512;
const PAGE_WORDS: usize = 8;
/// No page.
const NONE: u32 = u32::MAX;

/// Collects addresses.
pub(super) struct AddressCollector {
    /// Addresses are multiples of two to this power.
    shift: u32,
    slots: FxHashMap<u64, u32>,
    words: Vec<[u64; PAGE_WORDS]>,
    last: (u64, u32),
}

/// What became of an address that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    New,
    Known,
    /// The address is not a multiple of the alignment.
    Unaligned,
}

impl AddressCollector {
    pub fn new(shift: u32) -> Self {
        Self { shift, slots: FxHashMap::default(), words: Vec::new(), last: (u64::MAX, 0) }
    }

    #[inline]
    pub fn add(&mut self, address: u64) -> Added {
        let unit = address >> self.shift;
        if unit << self.shift != address {
            return Added::Unaligned;
        }
        let page = unit / PAGE_BITS;
        if page != self.last.0 {
            let slot = *self.slots.entry(page).or_insert_with(|| {
                self.words.push([0; PAGE_WORDS]);
                self.words.len() as u32 - 1
            });
            self.last = (page, slot);
        }
        let bit = unit % PAGE_BITS;
        let word = &mut self.words[self.last.1 as usize][bit as usize / 64];
        let mask = 1 << (bit % 64);
        let is_new = *word & mask == 0;
        *word |= mask;
        if is_new { Added::New } else { Added::Known }
    }

    pub fn finish(self) -> Addresses {
        let mut order: Vec<(u64, u32)> = self.slots.into_iter().collect();
        order.sort_unstable();
        let mut words = room(order.len());
        let mut before = room(order.len());
        let mut count = 0u32;
        for (_, slot) in &order {
            let page = self.words[*slot as usize];
            before.push(page.map(|word| {
                let before = count;
                count += word.count_ones();
                before
            }));
            words.push(page);
        }
        let pages: Vec<u64> = order.into_iter().map(|(page, _)| page).collect();
        let table = PageTable::of(&pages);
        Addresses { shift: self.shift, pages, table, words, before, count }
    }
}

/// The addresses of all objects in order. An object's number is that of the objects with lower addresses.
pub(super) struct Addresses {
    shift: u32,
    /// The pages with objects, in order.
    pages: Vec<u64>,
    table: PageTable,
    words: Vec<[u64; PAGE_WORDS]>,
    /// For each word, the number of bits before it.
    before: Vec<[u32; PAGE_WORDS]>,
    count: u32,
}

/// Finds pages.
enum PageTable {
    /// By the number of the page, from the first page on.
    Direct { first: u64, slots: Vec<u32> },
    /// For heaps that are spread over far more addresses than they have objects.
    Sparse(FxHashMap<u64, u32>),
}

impl PageTable {
    fn of(pages: &[u64]) -> Self {
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else {
            return Self::Direct { first: 0, slots: Vec::new() };
        };
        if last - first <= pages.len() as u64 * 8 + 4096 {
            let mut slots = vec![NONE; (last - first) as usize + 1];
            for (slot, page) in pages.iter().enumerate() {
                slots[(page - first) as usize] = slot as u32;
            }
            Self::Direct { first: *first, slots }
        } else {
            Self::Sparse(pages.iter().copied().zip(0..).collect())
        }
    }

    #[inline]
    fn slot(&self, page: u64) -> Option<usize> {
        match self {
            Self::Direct { first, slots } => {
                let slot = *slots.get(usize::try_from(page.wrapping_sub(*first)).ok()?)?;
                (slot != NONE).then_some(slot as usize)
            }
            Self::Sparse(slots) => slots.get(&page).map(|slot| *slot as usize),
        }
    }
}

impl Addresses {
    /// The number of objects.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// True if all are multiples of eight. Otherwise they are not addresses, but numbers that the writer of the dump gave to objects.
    pub fn are_aligned(&self) -> bool {
        self.shift == 3
    }

    /// The number of the object at an address.
    #[inline]
    pub fn number(&self, address: u64) -> Option<u32> {
        let unit = address >> self.shift;
        let slot = self.table.slot(unit / PAGE_BITS)?;
        let bit = unit % PAGE_BITS;
        let index = bit as usize / 64;
        let word = self.words[slot][index];
        let shift = bit % 64;
        let is_object = word >> shift & 1 == 1 && unit << self.shift == address;
        is_object.then(|| self.before[slot][index] + (word & !(u64::MAX << shift)).count_ones())
    }

    /// The address of an object.
    pub fn address(&self, number: u32) -> Option<u64> {
        if number >= self.count {
            return None;
        }
        let slot = self.before.partition_point(|before| before[0] <= number).checked_sub(1)?;
        let index = self.before[slot].partition_point(|before| *before <= number).checked_sub(1)?;
        let mut word = self.words[slot][index];
        for _ in self.before[slot][index]..number {
            word &= word - 1;
        }
        let bit = index as u64 * 64 + u64::from(word.trailing_zeros());
        Some((self.pages[slot] * PAGE_BITS + bit) << self.shift)
    }

    /// All addresses, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let shift = self.shift;
        self.pages.iter().zip(&self.words).flat_map(move |(page, words)| {
            words.iter().enumerate().flat_map(move |(index, word)| {
                let mut rest = *word;
                std::iter::from_fn(move || {
                    let bit = (rest != 0).then(|| u64::from(rest.trailing_zeros()))?;
                    rest &= rest - 1;
                    Some((page * PAGE_BITS + index as u64 * 64 + bit) << shift)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbered_in_order_however_far_apart() {
        for spread in [1 << 12, 1 << 44] {
            let all: Vec<u64> = (0..2000u64).map(|at| at / 7 * spread + at * 8).collect();
            let mut collector = AddressCollector::new(3);
            for address in all.iter().rev() {
                assert_eq!(collector.add(*address), Added::New);
                assert_eq!(collector.add(*address), Added::Known);
            }
            assert_eq!(collector.add(12), Added::Unaligned);
            let addresses = collector.finish();
            assert_eq!(addresses.len(), 2000);
            assert_eq!(addresses.iter().collect::<Vec<_>>(), all);
            for (number, address) in (0..).zip(&all) {
                assert_eq!((addresses.number(*address), addresses.address(number)), (Some(number), Some(*address)));
                assert_eq!(addresses.number(address + 4), None);
            }
            assert_eq!((addresses.number(u64::MAX), addresses.address(2000)), (None, None));
        }
    }
}
