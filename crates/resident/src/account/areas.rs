//! The map of heaps: pages in rows that are alike.

use highwater_model::{HeapArea, PageOwner, PageRun};

/// Runs that a breakdown has at most. A gibibyte of pages that all differ from their neighbours has a quarter of that.
pub const MOST_RUNS: usize = 1 << 20;

/// Live bytes are rounded down to multiples of this where there are too many runs.
const COARSE_STEP: u16 = 256;

/// Adds pages at the end of an area.
pub fn push(runs: &mut Vec<PageRun>, mut pages: u64, live: u16, owner: PageOwner) {
    if let Some(last) = runs.last_mut()
        && last.live == live
        && last.owner == owner
    {
        let room = u64::from(u32::MAX - last.pages).min(pages);
        last.pages += room as u32;
        pages -= room;
    }
    while pages > 0 {
        let part = pages.min(u64::from(u32::MAX));
        runs.push(PageRun { pages: part as u32, live, owner });
        pages -= part;
    }
}

/// Makes the map coarser until it has at most this number of runs, or cannot be any coarser: first live bytes are rounded, then neighbours are joined.
pub fn limited(mut areas: Vec<HeapArea>, limit: usize) -> Vec<HeapArea> {
    let count = |areas: &[HeapArea]| areas.iter().map(|area| area.runs.len()).sum::<usize>();
    if count(&areas) > limit {
        areas.iter_mut().for_each(|area| area.runs = rounded(&area.runs));
    }
    let mut runs = count(&areas);
    while runs > limit {
        areas.iter_mut().for_each(|area| area.runs = joined(&area.runs));
        let before = std::mem::replace(&mut runs, count(&areas));
        if runs == before {
            break;
        }
    }
    areas
}

fn rounded(runs: &[PageRun]) -> Vec<PageRun> {
    let mut result = Vec::with_capacity(runs.len());
    for run in runs {
        push(&mut result, u64::from(run.pages), run.live / COARSE_STEP * COARSE_STEP, run.owner);
    }
    result
}

/// Joins each two neighbours: live bytes are the mean, the owner is that of more pages.
fn joined(runs: &[PageRun]) -> Vec<PageRun> {
    let mut result = Vec::with_capacity(runs.len() / 2 + 1);
    for pair in runs.chunks(2) {
        let pages: u64 = pair.iter().map(|run| u64::from(run.pages)).sum();
        let live: u64 = pair.iter().map(|run| u64::from(run.pages) * u64::from(run.live)).sum();
        if let Some(largest) = pair.iter().max_by_key(|run| run.pages) {
            push(&mut result, pages, (live / pages.max(1)) as u16, largest.owner);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_is_too_fine_keeps_its_pages() {
        let run = |index: u32| PageRun {
            pages: 1 + index % 3,
            live: (index * 37 % 4096) as u16,
            owner: PageOwner::Site(index % 5),
        };
        let runs: Vec<PageRun> = (0..1000).map(run).collect();
        let pages = |runs: &[PageRun]| runs.iter().map(|run| u64::from(run.pages)).sum::<u64>();
        let before = pages(&runs);
        let areas = limited(vec![HeapArea { runs, ..HeapArea::default() }], 100);
        assert!(areas[0].runs.len() <= 100);
        assert_eq!(pages(&areas[0].runs), before);
    }

    #[test]
    fn long_rows_of_pages_are_several_runs() {
        let mut runs = Vec::new();
        push(&mut runs, 1 << 33, 0, PageOwner::Absent);
        push(&mut runs, 5, 0, PageOwner::Absent);
        assert_eq!(runs.iter().map(|run| u64::from(run.pages)).sum::<u64>(), (1 << 33) + 5);
    }
}
