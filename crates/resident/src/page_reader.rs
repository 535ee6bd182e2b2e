//! Which pages of a process are in RAM, from the kernel.
//!
//! Linux 6.7 and later answer `PAGEMAP_SCAN`: regions instead of pages, holes skipped, the page of zeros marked. Older kernels have `pagemap`: eight bytes for each
//! page of address space.
//!
//! Both hold a lock of the process's address space, for which its `mmap` and `munmap` wait. One scan of a gibibyte delays them by 50 ms. So it is read in slices, with
//! a short sleep after each: without the sleep the next slice takes the lock before the waiting thread wakes up.

use crate::mappings::{Mapping, PAGE};
use crate::regions::{FILE, HUGE, PRESENT, PageRegion, Regions, SWAPPED, ZERO};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Pages of a slice: 8 MiB.
const SLICE_PAGES: u64 = 2048;

/// The address space that a slice covers at most: pages that are not in RAM take time as well if they have page tables.
const SLICE_SPAN: u64 = 512 << 20;

/// How long the process's threads have the lock for themselves.
const REST: Duration = Duration::from_micros(50);

/// Regions that one call returns at most.
const VECTOR: usize = 4096;

/// How pages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSource {
    /// `PAGEMAP_SCAN`.
    Scan,
    /// `pagemap`.
    Entries,
}

/// `struct pm_scan_arg` of the kernel.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xC060_6610_u32 as libc::Ioctl;

/// Reads the pages of a process.
#[derive(Debug)]
pub struct PageReader<'a> {
    pagemap: &'a File,
    /// Pages of a slice.
    pub slice_pages: u64,
    /// The sleep after each slice.
    pub rest: Duration,
}

impl<'a> PageReader<'a> {
    /// Reads from an open `/proc/PID/pagemap`.
    pub fn new(pagemap: &'a File) -> Self {
        Self { pagemap, slice_pages: SLICE_PAGES, rest: REST }
    }

    /// The pages, by `PAGEMAP_SCAN`. Pages that are in no mapping are found as well: they came after the mappings were read.
    pub fn scan(&self, mappings: &[Mapping]) -> io::Result<Regions> {
        let mut regions = Regions::default();
        let mut vector = vec![PageRegion::default(); VECTOR];
        for (start, end) in spans(mappings) {
            self.scan_span(start, end, &mut vector, &mut regions)?;
        }
        Ok(regions)
    }

    /// Where a slice ended is taken from the regions alone. The kernel's own answer (`walk_end`) is an old value once a call has found more than 512 regions.
    fn scan_span(&self, start: u64, end: u64, vector: &mut [PageRegion], regions: &mut Regions) -> io::Result<()> {
        let mut at = start;
        while at < end {
            let found = self.scan_once(at, end, vector)?;
            found.iter().for_each(|region| regions.push(*region));
            let pages: u64 = found.iter().map(|region| region.end.saturating_sub(region.start) / PAGE).sum();
            let is_cut = pages >= self.slice_pages || found.len() == VECTOR;
            if pages > 0 && !self.rest.is_zero() {
                std::thread::sleep(self.rest);
            }
            match found.last() {
                Some(last) if is_cut && last.end > at => at = last.end,
                _ => break,
            }
        }
        Ok(())
    }

    fn scan_once<'v>(&self, start: u64, end: u64, vector: &'v mut [PageRegion]) -> io::Result<&'v [PageRegion]> {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start,
            end,
            regions: vector.as_mut_ptr() as u64,
            regions_length: vector.len() as u64,
            max_pages: self.slice_pages,
            any_of: PRESENT | SWAPPED,
            returned: FILE | PRESENT | SWAPPED | ZERO | HUGE,
            ..ScanArgument::default()
        };
        // SAFETY: the argument is the structure that this request takes; its vector is writable, of that length, and has the layout of the kernel's regions.
        let found = unsafe { libc::ioctl(self.pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        match usize::try_from(found) {
            Ok(found) => Ok(&vector[..found.min(vector.len())]),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// The pages, by reading their entries. Huge pages look like small ones, and the page of zeros like any other, except to root.
    pub fn entries(&self, mappings: &[Mapping]) -> io::Result<Regions> {
        let mut regions = Regions::default();
        let zero = zero_page_number();
        let mut buffer = vec![0u8; SLICE_PAGES as usize * 8];
        for mapping in mappings {
            let mut at = mapping.start;
            while at < mapping.end {
                let bytes = ((mapping.end - at) / PAGE * 8).min(buffer.len() as u64) as usize;
                let read = self.pagemap.read_at(&mut buffer[..bytes], at / PAGE * 8)?;
                if read < 8 {
                    break;
                }
                let entries = buffer[..read].as_chunks::<8>().0;
                for (index, entry) in entries.iter().enumerate() {
                    let start = at + index as u64 * PAGE;
                    if let Some(categories) = categories_of(u64::from_ne_bytes(*entry), zero) {
                        regions.push(PageRegion { start, end: start + PAGE, categories });
                    }
                }
                at += entries.len() as u64 * PAGE;
                if !self.rest.is_zero() {
                    std::thread::sleep(self.rest);
                }
            }
        }
        Ok(regions)
    }
}

/// The bits of an entry that hold the number of the page in RAM. The kernel shows it to root alone; others see 0.
const PAGE_NUMBER: u64 = (1 << 55) - 1;

/// The number of the page of zeros: that of a new page which was only read.
fn zero_page_number() -> Option<u64> {
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE as usize, rights, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page is mapped and readable.
    unsafe { page.cast::<u8>().read_volatile() };
    let mut entry = [0; 8];
    let own = File::open("/proc/self/pagemap");
    let read = own.and_then(|pagemap| pagemap.read_exact_at(&mut entry, page as u64 / PAGE * 8));
    // SAFETY: nothing refers to it any more.
    let unmapped = unsafe { munmap(page, PAGE as usize) };
    read.ok().and(unmapped.ok())?;
    Some(u64::from_ne_bytes(entry) & PAGE_NUMBER).filter(|&number| number != 0)
}

/// What an entry of `pagemap` says; `None` for a page that is neither in RAM nor swapped out.
fn categories_of(entry: u64, zero: Option<u64>) -> Option<u64> {
    let bit = |number: u32| entry >> number & 1;
    let is_zero = bit(63) == 1 && bit(61) == 0 && zero == Some(entry & PAGE_NUMBER);
    let categories = (u64::from(is_zero) * ZERO) | (bit(63) * PRESENT) | (bit(62) * SWAPPED) | (bit(61) * FILE);
    (categories & (PRESENT | SWAPPED) != 0).then_some(categories)
}

/// The mappings, joined and cut so that none of the ranges has more than [`SLICE_SPAN`] bytes of them. Holes between them cost nothing.
fn spans(mappings: &[Mapping]) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut room = 0;
    for mapping in mappings {
        let mut at = mapping.start;
        while at < mapping.end {
            if room == 0 || spans.is_empty() {
                spans.push((spans.last().map_or(at, |last| last.1), at));
                room = SLICE_SPAN;
            }
            let length = room.min(mapping.end - at);
            at += length;
            room -= length;
            if let Some(last) = spans.last_mut() {
                last.1 = at;
            }
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mappings::parse_maps;

    /// Memory of which every second page was touched: many regions.
    struct Holes(*mut u8, usize);

    impl Holes {
        fn new(pages: usize) -> Self {
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, at an address that the kernel chooses.
            let start = unsafe { mmap_anonymous(std::ptr::null_mut(), pages * 4096, rights, MapFlags::PRIVATE) };
            let start = start.unwrap().cast::<u8>();
            for page in (0..pages).step_by(2) {
                // SAFETY: inside the mapping.
                unsafe { start.add(page * 4096).write_volatile(1) };
            }
            Self(start, pages * 4096)
        }

        fn range(&self) -> (u64, u64) {
            (self.0 as u64, self.0 as u64 + self.1 as u64)
        }
    }

    impl Drop for Holes {
        fn drop(&mut self) {
            // SAFETY: nothing refers to it.
            unsafe { munmap(self.0.cast(), self.1) }.unwrap();
        }
    }

    fn within(regions: &Regions, (start, end): (u64, u64)) -> Vec<PageRegion> {
        regions.iter().filter(|region| region.start >= start && region.end <= end).copied().collect()
    }

    #[test]
    fn every_second_page_is_found_once_in_one_call_and_in_slices() {
        let holes = Holes::new(20_000);
        let maps = parse_maps(&std::fs::read("/proc/self/maps").unwrap());
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let reader = PageReader::new(&pagemap);
        let whole = PageReader { slice_pages: 1 << 40, rest: Duration::ZERO, pagemap: &pagemap };
        let expected: Vec<u64> = (0..20_000).step_by(2).map(|page| holes.range().0 + page * PAGE).collect();
        for regions in [reader.scan(&maps), whole.scan(&maps), reader.entries(&maps)] {
            let Ok(regions) = regions else { panic!("this kernel has no PAGEMAP_SCAN") };
            let found = within(&regions, holes.range());
            assert_eq!(found.iter().map(|region| region.start).collect::<Vec<_>>(), expected);
            assert!(found.iter().all(|region| region.bytes() == PAGE && region.is_resident()));
        }
    }

    #[test]
    fn spans_cover_every_mapping_once() {
        let mapping = |start: u64, end: u64| Mapping { start, end, ..Mapping::default() };
        let mappings =
            [mapping(PAGE, 2 * PAGE), mapping(1 << 40, (1 << 40) + (1 << 30)), mapping(1 << 45, (1 << 45) + PAGE)];
        let spans = spans(&mappings);
        assert_eq!(spans.first().unwrap().0, PAGE);
        assert_eq!(spans.last().unwrap().1, (1 << 45) + PAGE);
        assert!(spans.is_sorted_by(|one, other| one.1 == other.0));
        assert_eq!(spans.len(), 3);
    }
}
