//! Heaps of glibc and of other allocators, in programs with known answers.

mod scene;

use highwater_model::{PageOwner, RssKind, StackId};
use highwater_resident::LiveMemory;
use scene::{Scene, table};

const PAGE: u64 = 4096;

/// The site that the programs call 1.
fn site(breakdown: &highwater_model::RssBreakdown, number: u32) -> highwater_model::SitePages {
    *breakdown.sites.iter().find(|site| site.stack == StackId(number + 1)).unwrap()
}

#[test]
fn malloc_trim_returns_what_was_predicted() {
    let mut scene = Scene::start("every_40th", &["0", "1000000", "40", "200"]);
    let breakdown = scene.breakdown();
    let predicted = breakdown.allocator.trim.unwrap();
    let before = scene.rss();
    scene.command('t');
    let returned = before - scene.rss();
    assert!(predicted > 50 << 20 && !breakdown.allocator.trim_is_upper_bound, "{}", table(&breakdown));
    assert!(predicted.abs_diff(returned) <= 4 * PAGE, "predicted {predicted}, returned {returned}");
    assert!(breakdown.allocator.name.starts_with("glibc 2."), "{}", breakdown.allocator.name);
}

#[test]
fn freeing_the_blocks_of_a_site_returns_the_pages_that_they_pin() {
    let mut scene = Scene::start("every_40th", &["0", "1000000", "40", "200"]);
    scene.command('t');
    let breakdown = scene.breakdown();
    let kept = site(&breakdown, 1);
    assert_eq!((kept.blocks, kept.live, kept.resident), (25_000, 5_000_000, 5_000_000));
    let before = scene.rss();
    scene.command('f');
    scene.command('t');
    let returned = before - scene.rss();
    assert!(kept.pinned > 90 << 20, "{}", table(&breakdown));
    // Some of the freed blocks go to the thread's cache, and keep their pages.
    assert!(kept.pinned.abs_diff(returned) <= 16 * PAGE, "pinned {}, returned {returned}", kept.pinned);
}

#[test]
fn arenas_of_many_threads_add_up_and_trim_is_predicted() {
    let mut scene = Scene::start_with("every_40th", &["64", "20000", "40", "200"], &[("MALLOC_ARENA_MAX", "100")]);
    let breakdown = scene.breakdown();
    assert!(breakdown.allocator.arenas >= 64, "{}", table(&breakdown));
    assert!(breakdown.allocator.other_tops > 0);
    let predicted = breakdown.allocator.trim.unwrap();
    let before = scene.rss();
    scene.command('t');
    let returned = before - scene.rss();
    assert!(predicted.abs_diff(returned) <= returned / 100, "predicted {predicted}, returned {returned}");
    assert_eq!(breakdown.areas.len() as u64, breakdown.allocator.arenas);
}

#[test]
fn the_map_shows_the_site_that_keeps_each_page() {
    let mut scene = Scene::start("every_40th", &["0", "100000", "40", "200"]);
    let breakdown = scene.breakdown();
    let index = breakdown.sites.iter().position(|site| site.stack == StackId(2)).unwrap() as u32;
    let runs = breakdown.areas.iter().flat_map(|area| &area.runs);
    let of_site: u64 = runs.filter(|run| run.owner == PageOwner::Site(index)).map(|run| u64::from(run.pages)).sum();
    assert_eq!(of_site * PAGE, site(&breakdown, 1).pinned);
}

#[test]
fn without_a_list_of_blocks_the_heap_still_adds_up() {
    let scene = Scene::start("every_40th", &["0", "100000", "40", "200"]);
    let breakdown = highwater_resident::PageScan::read(scene.pid(), Default::default()).unwrap();
    let breakdown = breakdown.breakdown(LiveMemory::default());
    assert_eq!(breakdown.sum(), scene.rss());
    assert!(breakdown.resident(RssKind::AllocatorRest) > 15 << 20, "{}", table(&breakdown));
    assert_eq!((breakdown.allocator.trim, breakdown.knows_every_block), (None, false));
    assert_eq!(breakdown.resident(RssKind::FreePinned) + breakdown.resident(RssKind::FreePages), 0);
}

#[test]
fn memory_that_was_never_touched_is_live_and_not_resident() {
    let mut scene = Scene::start("untouched", &[]);
    let breakdown = scene.breakdown();
    let (untouched, some, half) = (site(&breakdown, 1), site(&breakdown, 2), site(&breakdown, 3));
    assert_eq!((untouched.live, untouched.resident / PAGE), (1 << 30, 0), "{}", table(&breakdown));
    // The first page begins with the block's header.
    assert_eq!((some.resident, some.pinned), ((16 << 20) - 16, 16 << 20));
    assert_eq!((half.live, half.resident, half.pinned), (64 << 20, 64 << 20, 64 << 20));
    // Memory that was only read is the kernel's page of zeros.
    assert_eq!(site(&breakdown, 4).resident, 0);
    scene.command('m');
    let breakdown = scene.breakdown();
    assert_eq!(site(&breakdown, 3).resident, 32 << 20);
    assert_eq!(breakdown.resident(RssKind::Mappings), 32 << 20);
}

#[test]
fn a_byte_in_a_huge_page_is_two_mebibytes() {
    let mut scene = Scene::start("huge", &[]);
    let breakdown = scene.breakdown();
    assert_eq!(breakdown.process.huge, 16 << 20, "{}", table(&breakdown));
    assert_eq!(site(&breakdown, 1).resident, 16 << 20);
}

/// Preloads another allocator.
fn with_library(library: &str, name: &str) {
    let path = format!("/usr/lib/x86_64-linux-gnu/{library}");
    assert!(std::path::Path::new(&path).exists(), "{library} is not installed");
    let mut scene = Scene::start_with("every_40th", &["0", "200000", "40", "200"], &[("LD_PRELOAD", &path)]);
    let breakdown = scene.breakdown();
    assert_eq!((breakdown.allocator.name.as_str(), breakdown.allocator.trim), (name, None), "{}", table(&breakdown));
    let kept = site(&breakdown, 1);
    assert_eq!((kept.blocks, kept.resident), (5000, 1_000_000));
    assert!(kept.pinned > 10 << 20, "{}", table(&breakdown));
    assert!(breakdown.resident(RssKind::AllocatorRest) > 10 << 20, "{}", table(&breakdown));
}

#[test]
fn blocks_of_jemalloc_are_found_in_its_mappings() {
    with_library("libjemalloc.so.2", "jemalloc");
}

#[test]
fn blocks_of_tcmalloc_are_found_in_its_mappings() {
    with_library("libtcmalloc_minimal.so.4", "tcmalloc");
}

#[test]
fn blocks_of_mimalloc_are_found_in_its_mappings() {
    with_library("libmimalloc.so.2", "mimalloc");
}
