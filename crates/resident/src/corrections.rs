//! Pages that are present and not part of RSS, and pages that were not looked at.
//!
//! RSS leaves out the page of zeros, the kernel's data (`[vvar]`), hugetlbfs and device memory. The scan marks only the first. For the others `smaps` is read, which
//! takes the kernel long and delays the process's `mmap`: only if there may be such pages.

use crate::account::is_agents;
use crate::mappings::{Mapping, PAGE, mapping_at};
use crate::page_reader::PageSource;
use crate::regions::{FILE, PRESENT, PageRegion, RegionCursor, Regions};
use crate::status::{MappingFigures, Status, parse_smaps};
use std::fs;
use std::io;

/// Pages by which the kernel's counters may lag.
const LAG: u64 = 64 * PAGE;

/// The pages that RSS counts.
pub fn counted(
    pid: u32,
    source: PageSource,
    regions: Regions,
    mappings: &[Mapping],
    status: &Status,
) -> io::Result<Regions> {
    let regions = without_kernel_data(regions, mappings);
    let smaps = || Ok::<_, io::Error>(parse_smaps(&fs::read(format!("/proc/{pid}/smaps"))?));
    match source {
        PageSource::Scan if status.huge_tlb == 0 && !mappings.iter().any(is_device) => Ok(regions),
        PageSource::Scan => Ok(without_excess(&regions, mappings, &smaps()?, |figures, _| figures.rss > 0)),
        PageSource::Entries => {
            let regions = with_agents_memory(regions, mappings, status.shared_memory);
            match regions.resident() > status.memory.rss + LAG {
                // The page of zeros looks like any other here. Which pages are it is not known, only their number: the last ones are left out.
                true => Ok(without_excess(&regions, mappings, &smaps()?, |figures, before| before < figures.rss)),
                false => Ok(regions),
            }
        }
    }
}

fn is_device(mapping: &Mapping) -> bool {
    let name = mapping.name.as_str();
    name.starts_with("/dev/") && !name.starts_with("/dev/zero") && !name.starts_with("/dev/shm/")
}

fn without_kernel_data(regions: Regions, mappings: &[Mapping]) -> Regions {
    let is_kernels = |region: &PageRegion| {
        mapping_at(mappings, region.start).is_some_and(|mapping| mapping.name.starts_with("[vvar"))
    };
    regions.iter().filter(|region| !is_kernels(region)).copied().collect()
}

/// The pages that `smaps` counts: `is_counted` decides by the figures of the mapping and the resident bytes before the page.
fn without_excess(
    regions: &Regions,
    mappings: &[Mapping],
    figures: &[MappingFigures],
    is_counted: impl Fn(&MappingFigures, u64) -> bool,
) -> Regions {
    let mut kept = Regions::default();
    let mut cursor = RegionCursor::new(regions);
    for mapping in mappings {
        let found = figures.binary_search_by_key(&mapping.start, |figures| figures.start);
        let mut before = 0;
        cursor.for_each(mapping.start, mapping.end, |start, end, region| {
            let Some(region) = region else { return };
            let mut page = start;
            while page < end {
                // A mapping that `smaps` does not have has changed since: it counts as it was found.
                let is_kept = found.is_err() || !region.is_resident();
                if is_kept || found.is_ok_and(|index| is_counted(&figures[index], before)) {
                    kept.push(PageRegion { start: page, end: page + PAGE, ..*region });
                }
                before += if region.is_resident() { PAGE } else { 0 };
                page += PAGE;
            }
        });
    }
    kept
}

/// The agent's shared memory was not looked at. It is the part of the process's shared memory that is nowhere else.
fn with_agents_memory(regions: Regions, mappings: &[Mapping], shared_memory: u64) -> Regions {
    let is_skipped = |mapping: &&Mapping| mapping.shared && is_agents(mapping);
    let mut cursor = RegionCursor::new(&regions);
    let is_shared_memory = |mapping: &&Mapping| mapping.shared && !is_skipped(mapping) && mapping.is_shared_memory();
    let found = mappings.iter().filter(is_shared_memory);
    let found: u64 = found.map(|mapping| cursor.bytes(mapping.start, mapping.end).file).sum();
    let mut missing = shared_memory.saturating_sub(found);
    let mut list = regions.as_slice().to_vec();
    for mapping in mappings.iter().filter(is_skipped) {
        let bytes = missing.min(mapping.end - mapping.start);
        missing -= bytes;
        list.push(PageRegion { start: mapping.start, end: mapping.start + bytes, categories: PRESENT | FILE });
    }
    list.sort_by_key(|region| region.start);
    list.into_iter().collect()
}
