//! A picture of the heap's address space: how full its pages are, and who keeps them in RAM.
//!
//! Heaps lie far apart, so an address says little about the place in the picture. The picture counts pages instead, through all heaps one after the other: page
//! 0 is the first page of the first heap.

use super::sites::{SiteNames, site_name};
use highwater_model::{AreaKind, HeapArea, PageOwner, PageRun, RssBreakdown};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// The most cells of an answer.
const MOST_CELLS: usize = 1 << 15;
/// The most areas of an answer.
const MOST_AREAS: usize = 1 << 12;

/// A part of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssMapOptions {
    /// The first page.
    pub from: u64,
    /// The page after the last one; later ones than there are mean the last one.
    pub to: u64,
    /// The most cells. At least one page is in each.
    pub cells: usize,
}

/// A picture of the heap's address space, or of a part of it. Pages are counted through all heaps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "RssMap"))]
pub struct RssMapAnswer {
    /// The instant.
    pub at_ns: u64,
    /// The pages of all heaps.
    pub pages: u64,
    /// The first page in this picture.
    pub from: u64,
    /// The page after the last one.
    pub to: u64,
    /// The pages of each cell; the last one may have less.
    pub cell_pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The cells, in order.
    pub cells: Vec<RssCell>,
    /// How many heaps are in this picture, also those that are not in `areas`.
    pub area_count: usize,
    /// The heaps in this picture, in order.
    pub areas: Vec<RssArea>,
    /// The sites that own cells, most cells first. Cells have indices of this list.
    pub sites: Vec<RssMapSite>,
}

/// Some pages of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssCell {
    /// The address of its first page.
    pub address: u64,
    /// The pages that are in RAM.
    pub resident_pages: u64,
    /// Bytes of live blocks on them.
    pub live_bytes: u64,
    /// The part of them that live blocks fill, from 0 to 1.
    pub fullness: f64,
    /// Who keeps most of its resident pages in RAM: `site`, `several` (sites), `free` (no owner), `allocator`, or `absent` if none is resident.
    pub owner: &'static str,
    /// How many pages that are.
    pub owner_pages: u64,
    /// The resident pages that no block keeps: they could be returned to the kernel.
    pub free_pages: u64,
    /// For `site`: its index in `sites`.
    pub site: Option<u32>,
}

/// A heap: a range in which an allocator places blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssArea {
    /// What it is: `main` (the heap that grows with `brk`), `arena` or `allocator` (a mapping of another allocator).
    pub kind: &'static str,
    /// Its first page, counted through all heaps.
    pub first_page: u64,
    /// Its pages.
    pub pages: u64,
    /// Its first address.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
}

/// A site that owns cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssMapSite {
    /// The number of its stack in the recording.
    pub id: u32,
    /// Its name, for people.
    pub key: String,
    /// Bytes of pages that could be returned to the kernel if only its blocks were freed, in the whole process.
    pub pinned_bytes: u64,
    /// Its cells in this picture.
    pub cells: u64,
}

/// The picture of one breakdown.
pub fn rss_map_of(breakdown: &RssBreakdown, names: SiteNames<'_>, options: &RssMapOptions) -> RssMapAnswer {
    let areas = areas_of(&breakdown.areas);
    let pages = areas.last().map_or(0, |area| area.first_page.saturating_add(area.pages));
    let from = options.from.min(pages);
    let to = options.to.clamp(from, pages);
    let cells = options.cells.clamp(1, MOST_CELLS) as u64;
    let cell_pages = (to - from).div_ceil(cells).max(1);
    let mut picture = Picture { from, to, cell_pages, cells: Vec::new() };
    picture.cells.resize_with((to - from).div_ceil(cell_pages) as usize, CellSum::default);
    for (area, source) in areas.iter().zip(&breakdown.areas) {
        picture.draw(area, source);
    }
    let is_inside = |area: &&RssArea| area.first_page < to && area.first_page.saturating_add(area.pages) > from;
    let inside: Vec<RssArea> = areas.iter().filter(is_inside).copied().collect();
    let (cells, sites) = picture.answer(breakdown, names);
    RssMapAnswer {
        at_ns: breakdown.at.0,
        pages,
        from,
        to,
        cell_pages,
        page_bytes: PAGE,
        cells,
        area_count: inside.len(),
        areas: inside.into_iter().take(MOST_AREAS).collect(),
        sites,
    }
}

fn areas_of(areas: &[HeapArea]) -> Vec<RssArea> {
    let mut first_page = 0u64;
    let area = |area: &HeapArea| {
        let pages = area.runs.iter().map(|run| u64::from(run.pages)).fold(0, u64::saturating_add);
        let placed = RssArea {
            kind: match area.kind {
                AreaKind::Main => "main",
                AreaKind::Arena => "arena",
                AreaKind::Allocator => "allocator",
            },
            first_page,
            pages,
            start: area.start,
            end: area.start.saturating_add(pages.saturating_mul(PAGE)),
        };
        first_page = first_page.saturating_add(pages);
        placed
    };
    areas.iter().map(area).collect()
}

/// What is known of a cell.
#[derive(Clone, Debug, Default)]
struct CellSum {
    address: Option<u64>,
    resident: u64,
    live: u64,
    /// The pages of each owner. A cell has few owners.
    owners: FxHashMap<CellOwner, u64>,
}

/// Who keeps a resident page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum CellOwner {
    Site(u32),
    Several,
    Allocator,
    Free,
}

struct Picture {
    from: u64,
    to: u64,
    cell_pages: u64,
    cells: Vec<CellSum>,
}

impl Picture {
    /// Adds the pages of an area to the cells.
    fn draw(&mut self, area: &RssArea, source: &HeapArea) {
        let mut first = area.first_page;
        for run in &source.runs {
            let end = first.saturating_add(run.pages.into());
            let (mut at, end_inside) = (first.max(self.from), end.min(self.to));
            while at < end_inside {
                let index = (at - self.from) / self.cell_pages;
                let next = self.from + (index + 1) * self.cell_pages;
                let pages = next.min(end_inside) - at;
                let address = area.start.saturating_add((at - area.first_page).saturating_mul(PAGE));
                self.cells[index as usize].add(address, pages, run);
                at += pages;
            }
            if end >= self.to {
                return;
            }
            first = end;
        }
    }

    fn answer(self, breakdown: &RssBreakdown, names: SiteNames<'_>) -> (Vec<RssCell>, Vec<RssMapSite>) {
        let mut cells_of: FxHashMap<u32, u64> = FxHashMap::default();
        let owners: Vec<Option<(CellOwner, u64)>> = self.cells.iter().map(CellSum::main_owner).collect();
        for owner in owners.iter().flatten() {
            if let CellOwner::Site(site) = owner.0 {
                *cells_of.entry(site).or_default() += 1;
            }
        }
        let mut shown: Vec<(u32, u64)> = cells_of.into_iter().collect();
        shown.sort_unstable_by_key(|(site, cells)| (std::cmp::Reverse(*cells), *site));
        let index_of: FxHashMap<u32, u32> = shown.iter().map(|(site, _)| *site).zip(0..).collect();
        let cell = |(sum, owner): (&CellSum, &Option<(CellOwner, u64)>)| {
            let (key, site) = match owner.map(|(owner, _)| owner) {
                Some(CellOwner::Site(site)) => ("site", index_of.get(&site).copied()),
                Some(CellOwner::Several) => ("several", None),
                Some(CellOwner::Allocator) => ("allocator", None),
                Some(CellOwner::Free) => ("free", None),
                None => ("absent", None),
            };
            RssCell {
                address: sum.address.unwrap_or(0),
                resident_pages: sum.resident,
                live_bytes: sum.live,
                fullness: (sum.live as f64 / (sum.resident.max(1) * PAGE) as f64).min(1.0),
                owner: key,
                owner_pages: owner.map_or(0, |(_, pages)| pages),
                free_pages: sum.owners.get(&CellOwner::Free).copied().unwrap_or(0),
                site,
            }
        };
        let cells = self.cells.iter().zip(&owners).map(cell).collect();
        let site = |&(site, cells): &(u32, u64)| {
            let pages = breakdown.sites.get(site as usize).copied().unwrap_or_default();
            RssMapSite { id: pages.stack.0, key: site_name(names, pages.stack), pinned_bytes: pages.pinned, cells }
        };
        (cells, shown.iter().map(site).collect())
    }
}

impl CellSum {
    fn add(&mut self, address: u64, pages: u64, run: &PageRun) {
        self.address.get_or_insert(address);
        let owner = match run.owner {
            PageOwner::Absent => return,
            PageOwner::Free => CellOwner::Free,
            PageOwner::Site(site) => CellOwner::Site(site),
            PageOwner::Several => CellOwner::Several,
            PageOwner::Allocator => CellOwner::Allocator,
        };
        self.resident += pages;
        self.live += pages * u64::from(run.live).min(PAGE);
        *self.owners.entry(owner).or_default() += pages;
    }

    /// The owner of most resident pages. Of equal ones, a site is preferred.
    fn main_owner(&self) -> Option<(CellOwner, u64)> {
        let owners = self.owners.iter().map(|(owner, pages)| (*owner, *pages));
        owners.max_by_key(|(owner, pages)| (*pages, std::cmp::Reverse(*owner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{Catalog, Naming, SitePages};

    fn breakdown() -> RssBreakdown {
        let run = |pages, live, owner| PageRun { pages, live, owner };
        let main = HeapArea {
            kind: AreaKind::Main,
            start: 0x5000_0000,
            runs: vec![run(2, 4096, PageOwner::Site(0)), run(1, 100, PageOwner::Several), run(1, 0, PageOwner::Absent)],
        };
        let arena = HeapArea {
            kind: AreaKind::Arena,
            start: 0x7000_0000_0000,
            runs: vec![run(3, 0, PageOwner::Free), run(1, 64, PageOwner::Site(1))],
        };
        let sites = vec![SitePages::default(), SitePages { pinned: 4096, ..SitePages::default() }];
        RssBreakdown { areas: vec![main, arena], sites, ..RssBreakdown::default() }
    }

    fn picture(from: u64, to: u64, cells: usize) -> RssMapAnswer {
        let (catalog, naming) = (Catalog::default(), Naming::default());
        let names = SiteNames { catalog: &catalog, naming: &naming, has_site_types: false };
        rss_map_of(&breakdown(), names, &RssMapOptions { from, to, cells })
    }

    #[test]
    fn heaps_far_apart_follow_each_other() {
        let map = picture(0, u64::MAX, 4);
        assert_eq!((map.pages, map.from, map.to, map.cell_pages), (8, 0, 8, 2));
        let owners: Vec<&str> = map.cells.iter().map(|cell| cell.owner).collect();
        assert_eq!(owners, ["site", "several", "free", "site"]);
        assert_eq!(map.cells[2].address, 0x7000_0000_0000);
        assert_eq!(map.cells.iter().map(|cell| cell.free_pages).collect::<Vec<_>>(), [0, 0, 2, 1]);
        assert_eq!(map.cells[0].fullness, 1.0);
        assert_eq!((map.cells[1].resident_pages, map.cells[1].live_bytes), (1, 100));
        assert_eq!(map.areas[1].first_page, 4);
        assert_eq!(map.areas[1].end, 0x7000_0000_0000 + 4 * PAGE);
        let pinned: Vec<u64> = map.sites.iter().map(|site| site.pinned_bytes).collect();
        assert_eq!(pinned, [0, 4096]);
    }

    #[test]
    fn a_part_has_single_pages() {
        let map = picture(3, 5, 100);
        assert_eq!((map.cell_pages, map.cells.len()), (1, 2));
        assert_eq!(map.cells.iter().map(|cell| cell.owner).collect::<Vec<_>>(), ["absent", "free"]);
        assert_eq!(map.areas.len(), 2);
        assert!(map.sites.is_empty());
    }

    #[test]
    fn a_part_after_the_end_is_empty() {
        let map = picture(100, 7, 10);
        assert_eq!((map.from, map.to, map.cells.len(), map.areas.len()), (8, 8, 0, 0));
    }
}
