//! Pages in rows: which of them are in RAM or swapped out.

use crate::mappings::PAGE;

/// The page belongs to a file or to shared memory; without it the page is private.
pub const FILE: u64 = 1 << 2;
/// The page is in RAM.
pub const PRESENT: u64 = 1 << 3;
/// The page was swapped out.
pub const SWAPPED: u64 = 1 << 4;
/// The page is the kernel's page of zeros: present, but not part of RSS.
pub const ZERO: u64 = 1 << 5;
/// The page is part of a huge page.
pub const HUGE: u64 = 1 << 6;

/// Pages in a row that are alike. The kernel writes this structure (`struct page_region`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageRegion {
    /// The first address.
    pub start: u64,
    /// The address after the last byte.
    pub end: u64,
    /// What the pages are: `FILE`, `PRESENT`, `SWAPPED`, `ZERO`, `HUGE`.
    pub categories: u64,
}

impl PageRegion {
    /// Whether its pages are part of RSS.
    pub fn is_resident(&self) -> bool {
        self.categories & (PRESENT | ZERO) == PRESENT
    }

    /// Whether its pages were swapped out.
    pub fn is_swapped(&self) -> bool {
        self.categories & (PRESENT | SWAPPED) == SWAPPED
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Regions in order of their addresses, disjoint, on page boundaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    list: Vec<PageRegion>,
}

impl Regions {
    /// Adds a region after all others. One that begins before their end, or not on a page, is left out.
    pub fn push(&mut self, region: PageRegion) {
        let is_sound =
            region.start < region.end && region.start.is_multiple_of(PAGE) && region.end.is_multiple_of(PAGE);
        match self.list.last_mut() {
            _ if !is_sound => {}
            Some(last) if last.end == region.start && last.categories == region.categories => last.end = region.end,
            Some(last) if last.end > region.start => {}
            _ => self.list.push(region),
        }
    }

    /// All regions.
    pub fn iter(&self) -> std::slice::Iter<'_, PageRegion> {
        self.list.iter()
    }

    /// All regions.
    pub fn as_slice(&self) -> &[PageRegion] {
        &self.list
    }

    /// Whether all bytes from `start` to `end` are on pages that are in RAM. Only those may be read: reading others would change the process.
    pub fn are_present(&self, start: u64, end: u64) -> bool {
        let mut index = self.list.partition_point(|region| region.end <= start);
        let mut at = start;
        while let Some(region) = self.list.get(index)
            && region.start <= at
            && region.categories & PRESENT != 0
        {
            at = region.end;
            if at >= end {
                return true;
            }
            index += 1;
        }
        start >= end
    }

    /// The bytes that are part of RSS.
    pub fn resident(&self) -> u64 {
        self.list.iter().filter(|region| region.is_resident()).map(PageRegion::bytes).sum()
    }
}

impl FromIterator<PageRegion> for Regions {
    fn from_iter<T: IntoIterator<Item = PageRegion>>(regions: T) -> Self {
        let mut list = Self::default();
        regions.into_iter().for_each(|region| list.push(region));
        list
    }
}

/// Bytes of a range by what their pages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageBytes {
    /// In RAM, of a file or of shared memory.
    pub file: u64,
    /// In RAM, private.
    pub private: u64,
    /// Swapped out.
    pub swapped: u64,
}

impl PageBytes {
    /// In RAM.
    pub fn resident(&self) -> u64 {
        self.file + self.private
    }
}

/// Looks up ranges that come in order of their addresses.
#[derive(Clone, Debug)]
pub struct RegionCursor<'a> {
    regions: &'a [PageRegion],
    /// The first region that ends after the last range's start.
    next: usize,
}

impl<'a> RegionCursor<'a> {
    pub fn new(regions: &'a Regions) -> Self {
        Self { regions: &regions.list, next: 0 }
    }

    /// What the pages of a range are. It must not begin before an earlier one did.
    pub fn bytes(&mut self, start: u64, end: u64) -> PageBytes {
        let mut bytes = PageBytes::default();
        // Most ranges are parts of a page, and come one after the other.
        if let Some(region) = self.regions.get(self.next)
            && region.start <= start
            && end <= region.end
            && region.categories & (PRESENT | ZERO | FILE) == PRESENT
        {
            bytes.private = end.saturating_sub(start);
            return bytes;
        }
        self.for_each(start, end, |from, to, region| {
            let length = to - from;
            match region {
                Some(region) if region.is_resident() && region.categories & FILE != 0 => bytes.file += length,
                Some(region) if region.is_resident() => bytes.private += length,
                Some(region) if region.is_swapped() => bytes.swapped += length,
                _ => {}
            }
        });
        bytes
    }

    /// Cuts a range at the borders of regions: calls `each` with all parts, in order, and the region of each.
    pub fn for_each(&mut self, start: u64, end: u64, mut each: impl FnMut(u64, u64, Option<&PageRegion>)) {
        while self.regions.get(self.next).is_some_and(|region| region.end <= start) {
            self.next += 1;
        }
        let mut at = start;
        let mut index = self.next;
        while at < end {
            match self.regions.get(index) {
                Some(region) if region.start <= at => {
                    let to = region.end.min(end);
                    each(at, to, Some(region));
                    at = to;
                    index += 1;
                }
                Some(region) if region.start < end => {
                    each(at, region.start, None);
                    at = region.start;
                }
                _ => {
                    each(at, end, None);
                    at = end;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, categories: u64) -> PageRegion {
        PageRegion { start: start * PAGE, end: end * PAGE, categories }
    }

    #[test]
    fn ranges_are_cut_at_the_borders_of_regions() {
        let regions: Regions =
            [region(2, 4, PRESENT), region(4, 5, PRESENT | ZERO), region(6, 7, SWAPPED), region(7, 9, PRESENT | FILE)]
                .into_iter()
                .collect();
        let mut cursor = RegionCursor::new(&regions);
        let bytes = cursor.bytes(PAGE, 8 * PAGE + 1);
        assert_eq!(bytes, PageBytes { file: PAGE + 1, private: 2 * PAGE, swapped: PAGE });
        assert_eq!(cursor.bytes(3 * PAGE + 5, 3 * PAGE + 6).private, 1);
        assert!(regions.are_present(2 * PAGE + 7, 5 * PAGE) && !regions.are_present(4 * PAGE, 6 * PAGE));
    }

    #[test]
    fn neighbours_that_are_alike_are_one_region() {
        let mut regions: Regions = [region(2, 4, PRESENT), region(4, 5, PRESENT)].into_iter().collect();
        regions.push(region(3, 6, PRESENT));
        assert_eq!(regions.as_slice(), [region(2, 5, PRESENT)]);
    }
}
