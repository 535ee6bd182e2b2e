//! What a measure counts: as a whole, and by site.
//!
//! The rules are those of recordings: a reallocation is one event, and neither an allocation nor a free; a block belongs to the site that allocated it or last
//! resized it; it is temporary if it is freed before its thread allocates anything else.
//!
//! What each site had at the peak is known without a copy at each new peak. `peaks` counts the new peaks. A site remembers that number from its last
//! change; if there were new peaks since, then what it has now is what it had at the last of them.

use super::private_array::PrivateArray;

/// What a measure, or one site of it, took from the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapUse {
    /// Blocks allocated, not counting reallocations.
    pub allocations: u64,
    /// Blocks resized.
    pub reallocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes ever allocated. A reallocation counts with its new size; of a block that is older than the measure, only what it grew.
    pub bytes: u64,
    /// Blocks allocated and not freed.
    pub live_blocks: u64,
    /// Bytes allocated and not freed.
    pub live_bytes: u64,
    /// Blocks that were live when most bytes were. Of a site: its blocks at that instant.
    pub peak_blocks: u64,
    /// The most bytes that were ever live at once. Of a site: its bytes at that instant.
    pub peak_bytes: u64,
    /// Blocks freed before their thread allocated anything else.
    pub temporary: u64,
    /// The size of the largest block.
    pub largest_block: u64,
}

impl HeapUse {
    /// How often the heap was asked for memory: allocations and reallocations.
    pub fn requests(&self) -> u64 {
        self.allocations + self.reallocations
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.reallocations += other.reallocations;
        self.frees += other.frees;
        self.bytes += other.bytes;
        self.live_blocks += other.live_blocks;
        self.live_bytes += other.live_bytes;
        self.peak_blocks += other.peak_blocks;
        self.peak_bytes += other.peak_bytes;
        self.temporary += other.temporary;
        self.largest_block = self.largest_block.max(other.largest_block);
    }

    fn take(&mut self, size: u64, weight: BlockWeight) {
        self.bytes += weight.bytes;
        self.live_bytes += weight.bytes;
        self.live_blocks += weight.blocks;
        self.largest_block = self.largest_block.max(size);
    }

    fn give(&mut self, weight: BlockWeight) {
        self.live_bytes -= weight.bytes;
        self.live_blocks -= weight.blocks;
    }
}

/// What a block counts as. A block that is older than the measure is none of its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockWeight {
    pub(super) bytes: u64,
    pub(super) blocks: u64,
}

/// One site of a measure.
#[derive(Clone, Copy)]
pub(super) struct SiteAccount {
    pub(super) used: HeapUse,
    /// Its call stack among all frames, innermost first.
    start: usize,
    depth: usize,
    hash: u64,
    /// How many new peaks there were at its last change.
    peaks: u64,
}

/// The accounts of a measure.
pub(super) struct MeasureAccounts {
    total: HeapUse,
    peaks: u64,
    frames: PrivateArray<u64>,
    sites: PrivateArray<SiteAccount>,
    /// Numbers of sites plus one, by the hash of their stacks.
    index: PrivateArray<u32>,
}

fn hash(stack: &[u64]) -> u64 {
    stack.iter().fold(stack.len() as u64, |hash, frame| {
        let mixed = (hash ^ frame).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    })
}

impl MeasureAccounts {
    /// Nothing counted.
    pub(super) const fn new() -> Self {
        Self {
            total: HeapUse {
                allocations: 0,
                reallocations: 0,
                frees: 0,
                bytes: 0,
                live_blocks: 0,
                live_bytes: 0,
                peak_blocks: 0,
                peak_bytes: 0,
                temporary: 0,
                largest_block: 0,
            },
            peaks: 0,
            frames: PrivateArray::new(),
            sites: PrivateArray::new(),
            index: PrivateArray::new(),
        }
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        (self.total, self.peaks) = (HeapUse::default(), 0);
        self.frames.clear();
        self.sites.clear();
        self.index.clear();
    }

    /// The number of the site with this stack; `None` if there is no memory for a new one.
    pub(super) fn site(&mut self, stack: &[u64]) -> Option<u32> {
        const FIRST_SLOTS: usize = 256;
        if self.sites.len() >= self.index.len() / 2 {
            let mut larger = PrivateArray::new();
            let length = (self.index.len() * 2).max(FIRST_SLOTS);
            if !larger.reserve(length) || (0..length).any(|_| !larger.push(0)) {
                return None;
            }
            for (number, site) in (1..).zip(self.sites.iter()) {
                let mut at = site.hash as usize & (length - 1);
                while larger[at] != 0 {
                    at = (at + 1) & (length - 1);
                }
                larger[at] = number;
            }
            self.index = larger;
        }
        let (hash, mask) = (hash(stack), self.index.len() - 1);
        let mut at = hash as usize & mask;
        while let Some(number) = self.index[at].checked_sub(1) {
            let site = &self.sites[number as usize];
            if site.hash == hash && self.frames[site.start..][..site.depth] == *stack {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
        let number = u32::try_from(self.sites.len()).ok().filter(|number| *number < u32::MAX)?;
        let new = SiteAccount {
            used: HeapUse::default(),
            start: self.frames.len(),
            depth: stack.len(),
            hash,
            peaks: self.peaks,
        };
        if !self.frames.extend(stack) || !self.sites.push(new) {
            return None;
        }
        self.index[at] = number + 1;
        Some(number)
    }

    /// After a change.
    fn note_peak(&mut self) {
        if self.total.live_bytes > self.total.peak_bytes {
            (self.total.peak_bytes, self.total.peak_blocks) = (self.total.live_bytes, self.total.live_blocks);
            self.peaks += 1;
        }
    }

    /// A block was allocated.
    pub(super) fn allocated(&mut self, site: u32, size: u64) {
        let weight = BlockWeight { bytes: size, blocks: 1 };
        let site = changing(&mut self.sites, self.peaks, site);
        for used in [site, &mut self.total] {
            used.allocations += 1;
            used.take(size, weight);
        }
        self.note_peak();
    }

    /// A block was freed.
    pub(super) fn freed(&mut self, site: u32, weight: BlockWeight, is_temporary: bool) {
        let site = changing(&mut self.sites, self.peaks, site);
        for used in [site, &mut self.total] {
            used.frees += weight.blocks;
            used.temporary += u64::from(is_temporary);
            used.give(weight);
        }
    }

    /// A block was resized: it counted as `before` at its old site, if it counted at all.
    pub(super) fn resized(&mut self, before: Option<(u32, BlockWeight)>, site: u32, size: u64, after: BlockWeight) {
        if let Some((old_site, weight)) = before {
            changing(&mut self.sites, self.peaks, old_site).give(weight);
            self.total.give(weight);
        }
        let site = changing(&mut self.sites, self.peaks, site);
        for used in [site, &mut self.total] {
            used.reallocations += 1;
            used.take(size, after);
        }
        self.note_peak();
    }

    /// All figures.
    pub(super) fn total(&self) -> HeapUse {
        self.total
    }

    /// How many frames and sites there are.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.frames.len(), self.sites.len())
    }

    /// The stack of each site and its figures.
    pub(super) fn sites(&self) -> impl Iterator<Item = (&[u64], HeapUse)> {
        self.sites.iter().map(|site| {
            let mut site = *site;
            site.remember_peak(self.peaks);
            (&self.frames[site.start..][..site.depth], site.used)
        })
    }
}

/// The figures of a site that is about to change.
fn changing(sites: &mut [SiteAccount], peaks: u64, site: u32) -> &mut HeapUse {
    let site = &mut sites[site as usize];
    site.remember_peak(peaks);
    &mut site.used
}

impl SiteAccount {
    fn remember_peak(&mut self, peaks: u64) {
        if self.peaks < peaks {
            (self.used.peak_bytes, self.used.peak_blocks) = (self.used.live_bytes, self.used.live_blocks);
            self.peaks = peaks;
        }
    }
}
