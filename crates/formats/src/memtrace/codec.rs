//! How backtraces are coded: buckets that hold locations, and for each the bucket that came after it the last time.

use highwater_model::StackId;

/// How many buckets there are.
pub const BUCKETS: usize = 1 << 14;
/// Buckets of a page.
const PAGE: usize = 256;

/// A bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket {
    /// The location code in it.
    pub code: u64,
    /// The stack with this location in it that was met last, and its caller: what nearly always is asked for.
    pub caller: StackId,
    /// See `caller`; unknown where none was met.
    pub stack: StackId,
    /// The bucket that followed this one the last time.
    pub next: u16,
    /// When the code was put here, in losses of packets.
    pub code_age: u16,
    /// When what follows was put here.
    pub next_age: u16,
}

/// The buckets of a domain. They are many, and a hostile trace may have many domains: pages of them are made when they are used.
#[derive(Clone, Debug)]
pub struct Codec {
    /// By page: where it lies among those that were made. The first is that of all pages that were not.
    page_of: [u8; BUCKETS / PAGE],
    pages: Vec<[Bucket; PAGE]>,
}

impl Default for Codec {
    fn default() -> Self {
        Self { page_of: [0; BUCKETS / PAGE], pages: vec![[Bucket::default(); PAGE]] }
    }
}

impl Codec {
    /// A bucket; the number must be below [`BUCKETS`].
    #[inline]
    pub fn get(&self, number: u16) -> &Bucket {
        let number = usize::from(number) % BUCKETS;
        let page = usize::from(self.page_of[number / PAGE]);
        &self.pages[page][number % PAGE]
    }

    /// A bucket that is changed.
    #[inline]
    pub fn get_mut(&mut self, number: u16) -> &mut Bucket {
        let number = usize::from(number) % BUCKETS;
        let mut page = usize::from(self.page_of[number / PAGE]);
        if page == 0 {
            page = self.add_page(number / PAGE);
        }
        &mut self.pages[page][number % PAGE]
    }

    #[cold]
    fn add_page(&mut self, at: usize) -> usize {
        let page = self.pages.len();
        self.pages.push([Bucket::default(); PAGE]);
        self.page_of[at] = page as u8;
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_empty_until_they_are_filled_and_take_room_only_then() {
        let mut codec = Codec::default();
        assert_eq!((codec.get(16_383).code, codec.get(0).next), (0, 0));
        codec.get_mut(300).code = 7;
        codec.get_mut(16_383).next = 9;
        assert_eq!((codec.get(300).code, codec.get(301).code, codec.get(16_383).next), (7, 0, 9));
        assert_eq!(codec.pages.len(), 3);
        for number in 0..BUCKETS {
            codec.get_mut(number as u16).next = number as u16;
        }
        assert!((0..BUCKETS).all(|number| codec.get(number as u16).next == number as u16));
        assert_eq!(codec.pages.len(), 65);
    }
}
