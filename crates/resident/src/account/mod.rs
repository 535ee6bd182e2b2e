//! From pages and live blocks to rows: pure computation, without a process.
//!
//! One pass in order of addresses. The address space is cut into zones on page borders, each of one kind ([`zones`]). Inside a zone live blocks take their bytes, and the
//! rest goes to the zone's kind ([`rows`]). So every resident byte is counted once, whatever the process claims. For heaps the same pass follows which chunks touch each
//! page ([`holders`]): that gives pins, what `malloc_trim` would return, and the map of the heap ([`areas`]).

mod areas;
mod blocks;
mod holders;
mod rows;
mod zones;

use crate::image::ProcessImage;
use crate::live_memory::LiveMemory;
use highwater_model::{AllocatorMemory, FilePages, PageOwner, RssBreakdown, SitePages};
use rows::Ledger;
use zones::Zones;
pub use zones::is_agents;

/// Files that are listed.
const MOST_FILES: usize = 4096;

/// The libraries that replace glibc's malloc.
const LIBRARIES: [&str; 3] = ["jemalloc", "tcmalloc", "mimalloc"];

/// Compares pages with live memory.
pub fn breakdown(mut image: ProcessImage, mut live: LiveMemory) -> RssBreakdown {
    image.heaps.sort_unstable_by_key(|heap| heap.start);
    image.chunks.sort_unstable_by_key(|chunk| chunk.start);
    let mut sites = claimed(&live);
    blocks::put_in_order(&mut live.blocks, &image.heaps);
    let zones = Zones::new(&image, &live);
    let mut ledger = Ledger::new(&image, &live, &zones, &mut sites);
    ledger.add_all();
    let totals = ledger.finish();
    let name = allocator_name(&image, totals.glibc_bytes >= totals.foreign_bytes);
    // Another library has the program's blocks; what glibc still holds is not worth a trim line.
    let knows_gaps = live.knows_every_block && !image.heaps.is_empty() && !LIBRARIES.contains(&name.as_str());
    let allocator = AllocatorMemory {
        arenas: if name.starts_with("glibc") { image.arenas } else { 0 },
        name,
        trim: knows_gaps.then_some(totals.trim),
        trim_is_upper_bound: knows_gaps && !image.knows_caches,
        other_tops: totals.other_tops,
    };
    let mut areas = areas::limited(totals.areas, areas::MOST_RUNS);
    let sites = used_sites(sites, &mut areas);
    RssBreakdown {
        rows: totals.rows,
        process: image.process,
        allocator,
        knows_every_block: live.knows_every_block,
        uncertain: image.uncertain,
        sites,
        files: largest_first(totals.files),
        areas,
        ..RssBreakdown::default()
    }
}

/// The sites of all owners, with what is claimed of them. Pages come later.
fn claimed(live: &LiveMemory) -> Vec<SitePages> {
    let site = |&(stack, tag): &_| SitePages { stack, tag, ..SitePages::default() };
    let mut sites: Vec<SitePages> = live.owners.iter().map(site).collect();
    let mut add = |owner: u32, size: u64, usable: u64| {
        if let Some(site) = sites.get_mut(owner as usize) {
            site.blocks += 1;
            site.live = site.live.saturating_add(size);
            site.usable = site.usable.saturating_add(usable);
        }
    };
    live.blocks.iter().for_each(|block| add(block.owner, block.size, block.usable.max(block.size)));
    for mapping in &live.mappings {
        let size = mapping.end.saturating_sub(mapping.start);
        add(mapping.owner, size, size);
    }
    sites
}

/// The sites with blocks. Runs refer to them by their new numbers.
fn used_sites(sites: Vec<SitePages>, areas: &mut [highwater_model::HeapArea]) -> Vec<SitePages> {
    let mut count = 0;
    let number = |site: &SitePages| {
        count += u32::from(site.blocks > 0);
        count.wrapping_sub(1)
    };
    let numbers: Vec<u32> = sites.iter().map(number).collect();
    for run in areas.iter_mut().flat_map(|area| &mut area.runs) {
        if let PageOwner::Site(site) = &mut run.owner {
            *site = numbers[*site as usize];
        }
    }
    sites.into_iter().filter(|site| site.blocks > 0).collect()
}

fn largest_first(mut files: Vec<FilePages>) -> Vec<FilePages> {
    files.retain(|file| file.shared + file.private > 0);
    files.sort_by(|a, b| (b.shared + b.private).cmp(&(a.shared + a.private)).then_with(|| a.path.cmp(&b.path)));
    files.truncate(MOST_FILES);
    files
}

/// The library that holds the program's blocks. One that is linked statically has no name.
fn allocator_name(image: &ProcessImage, holds_blocks: bool) -> String {
    let files = || image.mappings.iter().filter(|mapping| mapping.is_named_object());
    let library = LIBRARIES.into_iter().find(|name| files().any(|mapping| mapping.file_name().contains(name)));
    match (library, &image.glibc) {
        (Some(library), _) => library.to_owned(),
        (None, Some(version)) if holds_blocks => format!("glibc {version}").trim_end().to_owned(),
        _ => String::new(),
    }
}
