//! Findings: what stands out in the resident memory, and what would help. A finding appears only if its figure reaches the limits of [`limits`].

use super::answer::{RssFigures, RssFinding};
use super::map::PAGE;
use super::row_of;
use super::sites::{SiteKey, SiteNames, site_name};
use crate::units::{bytes, count, counted, share};
use highwater_model::{AreaKind, MemoryLimit, PageOwner, RssBreakdown, RssKind, StackId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// From when on something is a finding.
struct Limits {
    /// The least bytes.
    bytes: u64,
    /// The least share of the RSS, in percent.
    percent_of_rss: u64,
}

/// The limits of each finding, by its key. Further conditions stand at its function, and in docs/rss.md.
fn limits(key: &str) -> Limits {
    const MIB: u64 = 1 << 20;
    let (bytes, percent_of_rss) = match key {
        "trim" | "pinned" | "lazily_free" | "slack" => (MIB, 2),
        "arenas" => (4 * MIB, 5),
        "untouched" => (16 * MIB, 10),
        "cached_stacks" => (MIB, 1),
        "agent" => (4 * MIB, 10),
        "swap" => (MIB, 0),
        "unexplained" => (MIB, 1),
        _ => (0, 0),
    };
    Limits { bytes, percent_of_rss }
}

/// The least share of usable bytes that is slack, in percent.
const LEAST_SLACK_PERCENT: u64 = 10;
/// The least number of arenas that are too many.
const LEAST_ARENAS: u64 = 4;
/// A site pins pages if they are at least this many times its live bytes.
const LEAST_PINNED_FACTOR: u64 = 4;
/// The most findings about sites that pin pages.
const MOST_PINNING_SITES: usize = 3;
/// The least share of a limit that is used, in percent.
const LEAST_LIMIT_PERCENT: u64 = 80;

/// All findings: that about the limit first, then the largest, and last those about memory that is not resident.
pub fn findings(
    breakdown: &RssBreakdown,
    sites: &FxHashMap<SiteKey, RssFigures>,
    names: SiteNames<'_>,
) -> Vec<RssFinding> {
    let case = Case { breakdown, sites, names, rss: breakdown.process.rss.max(breakdown.sum()) };
    let single = [
        case.trim(),
        case.arenas(),
        case.slack(),
        case.untouched(),
        case.lazily_free(),
        case.cached_stacks(),
        case.agent(),
        case.swap(),
        case.unexplained(),
    ];
    let mut found: Vec<RssFinding> = single.into_iter().flatten().chain(case.pinned()).collect();
    let is_elsewhere = |finding: &RssFinding| matches!(finding.key, "untouched" | "swap");
    found.sort_by_key(|finding| (is_elsewhere(finding), Reverse(finding.bytes)));
    case.limit().into_iter().chain(found).collect()
}

struct Case<'a> {
    breakdown: &'a RssBreakdown,
    sites: &'a FxHashMap<SiteKey, RssFigures>,
    names: SiteNames<'a>,
    rss: u64,
}

impl Case<'_> {
    /// A finding, if its bytes reach its limits.
    fn finding(&self, key: &'static str, bytes: u64, sentence: String, how: &'static str) -> Option<RssFinding> {
        let limits = limits(key);
        let is_large = bytes >= limits.bytes && reaches(bytes, limits.percent_of_rss, self.rss);
        is_large.then_some(RssFinding { key, sentence, bytes, how, site: None })
    }

    fn limit(&self) -> Option<RssFinding> {
        let MemoryLimit { bytes: limit, used } = self.breakdown.process.limit?;
        if limit == 0 || !reaches(used, LEAST_LIMIT_PERCENT, limit) {
            return None;
        }
        let left = bytes(limit.saturating_sub(used));
        self.finding(
            "limit",
            used,
            format!("limit {}, {} used: {left} are left before the kernel ends a process", bytes(limit), share(used, limit)),
            "the limit of the process's control group and what the group uses: all its processes, with their page cache and page tables",
        )
    }

    fn trim(&self) -> Option<RssFinding> {
        let allocator = &self.breakdown.allocator;
        let trim = allocator.trim?;
        let (most, how) = if allocator.trim_is_upper_bound {
            (
                "up to ",
                "whole resident pages of glibc's heaps without any live block, and the top of the main heap; blocks in caches of threads are not known and can keep some of them",
            )
        } else {
            ("", "whole resident pages of glibc's heaps that only free blocks touch, and the top of the main heap")
        };
        self.finding("trim", trim, format!("malloc_trim(0) would return {most}{} to the kernel", bytes(trim)), how)
    }

    fn arenas(&self) -> Option<RssFinding> {
        let arenas = self.breakdown.allocator.arenas;
        if arenas < LEAST_ARENAS {
            return None;
        }
        let areas = self.breakdown.areas.iter().filter(|area| area.kind == AreaKind::Arena);
        let runs = areas.flat_map(|area| &area.runs).filter(|run| run.owner == PageOwner::Free);
        let free = runs.map(|run| u64::from(run.pages)).sum::<u64>().saturating_mul(PAGE);
        let count = count(arenas);
        self.finding(
            "arenas",
            free,
            format!(
                "{count} arenas hold {} free: the environment variable MALLOC_ARENA_MAX limits their number",
                bytes(free)
            ),
            "whole resident pages without any live block in the heaps of all arenas but the main one",
        )
    }

    fn slack(&self) -> Option<RssFinding> {
        let slack = self.breakdown.resident(RssKind::Slack);
        let usable = slack.saturating_add(self.breakdown.resident(RssKind::LiveBlocks));
        if !reaches(slack, LEAST_SLACK_PERCENT, usable) {
            return None;
        }
        let blocks = self.sites.iter().filter(|((_, is_mapping), _)| !is_mapping);
        let largest = blocks.max_by_key(|(key, figures)| (figures.slack_bytes, Reverse(**key)));
        let cause = largest.filter(|(_, figures)| figures.blocks > 0).map(|(key, figures)| {
            let each = |bytes: u64| count(bytes / figures.blocks);
            format!(
                "; most in {}: its blocks have {} bytes on average and take {}",
                self.quoted(key.0),
                each(figures.live_bytes),
                each(figures.live_bytes.saturating_add(figures.slack_bytes)),
            )
        });
        let finding = self.finding(
            "slack",
            slack,
            format!("slack {}: {} beyond what was requested{}", share(slack, usable), bytes(slack), cause.unwrap_or_default()),
            "resident usable bytes of live blocks beyond the requested ones, as a share of all their resident usable bytes",
        )?;
        Some(RssFinding { site: largest.map(|(key, _)| key.0.0), ..finding })
    }

    fn untouched(&self) -> Option<RssFinding> {
        // Of which site the swapped pages are is not known: at worst all are of this one.
        let swapped = |kind| row_of(self.breakdown, kind).map_or(0, |row| row.swapped);
        let untouched = |is_mapping: bool, figures: &RssFigures| {
            let swapped = swapped(if is_mapping { RssKind::Mappings } else { RssKind::LiveBlocks });
            figures.live_bytes.saturating_sub(figures.resident_bytes).saturating_sub(swapped)
        };
        let all = self.sites.iter().map(|(key, figures)| (*key, untouched(key.1, figures)));
        let ((stack, is_mapping), size) = all.max_by_key(|(key, bytes)| (*bytes, Reverse(*key)))?;
        let verb = if is_mapping { "mapped" } else { "allocated" };
        let finding = self.finding(
            "untouched",
            size,
            format!(
                "{} {verb} by {} were never touched, or given back: they take address space, no memory",
                bytes(size),
                self.quoted(stack)
            ),
            "live bytes of the site that are on no resident page, less all swapped ones",
        )?;
        Some(RssFinding { site: Some(stack.0), ..finding })
    }

    /// The sites whose few bytes keep the most pages in RAM.
    fn pinned(&self) -> Vec<RssFinding> {
        if !self.breakdown.knows_every_block {
            return Vec::new();
        }
        let is_pinning = |((_, is_mapping), figures): &(&SiteKey, &RssFigures)| {
            !is_mapping && figures.pinned_bytes >= figures.live_bytes.saturating_mul(LEAST_PINNED_FACTOR)
        };
        let mut pinning: Vec<_> = self.sites.iter().filter(is_pinning).collect();
        pinning.sort_unstable_by_key(|(key, figures)| (Reverse(figures.pinned_bytes), **key));
        pinning.truncate(MOST_PINNING_SITES);
        let finding = |(key, figures): (&SiteKey, &RssFigures)| {
            let finding = self.finding(
                "pinned",
                figures.pinned_bytes,
                format!(
                    "{} of {} ({}) {} {} of pages",
                    counted(figures.blocks, "block"),
                    self.quoted(key.0),
                    bytes(figures.live_bytes),
                    if figures.blocks == 1 { "pins" } else { "pin" },
                    bytes(figures.pinned_bytes)
                ),
                "resident pages on which all live blocks are of this site, and which the allocator could return to the kernel if they were freed",
            )?;
            Some(RssFinding { site: Some(key.0.0), ..finding })
        };
        pinning.into_iter().filter_map(finding).collect()
    }

    fn lazily_free(&self) -> Option<RssFinding> {
        let free = self.breakdown.process.lazily_free?;
        self.finding(
            "lazily_free",
            free,
            format!("{} were offered to the kernel (MADV_FREE): it takes them when memory is short", bytes(free)),
            "the kernel's LazyFree in smaps_rollup",
        )
    }

    fn cached_stacks(&self) -> Option<RssFinding> {
        let kept = self.breakdown.resident(RssKind::CachedStacks);
        self.finding(
            "cached_stacks",
            kept,
            format!("{} are stacks of ended threads, which the C library keeps for new ones", bytes(kept)),
            "resident pages of thread stacks without a thread",
        )
    }

    fn agent(&self) -> Option<RssFinding> {
        let own = self.breakdown.resident(RssKind::Agent);
        self.finding(
            "agent",
            own,
            format!(
                "{} are Highwater's agent: without it the process would have {}",
                bytes(own),
                bytes(self.breakdown.sum().saturating_sub(own))
            ),
            "resident pages of the agent's library, of its shared memory and of its private memory",
        )
    }

    fn swap(&self) -> Option<RssFinding> {
        let swap = self.breakdown.process.swap;
        self.finding(
            "swap",
            swap,
            format!("{} are swapped out, and no part of RSS", bytes(swap)),
            "the kernel's VmSwap",
        )
    }

    fn unexplained(&self) -> Option<RssFinding> {
        if !self.breakdown.knows_every_block {
            return None;
        }
        let other = self.breakdown.resident(RssKind::Other);
        self.finding(
            "unexplained",
            other,
            format!("{} are not explained: anonymous memory that was mapped before recording began, or by code that calls the kernel directly", bytes(other)),
            "resident anonymous pages in no block, mapping, heap, stack or file",
        )
    }

    fn quoted(&self, stack: StackId) -> String {
        format!("`{}`", self.names.naming.shown(&site_name(self.names, stack)))
    }
}

/// Whether a part reaches a share of a whole.
fn reaches(part: u64, percent: u64, whole: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rss::sites::figures_by_site;
    use highwater_model::{
        AllocatorMemory, Catalog, FrameText, Heap, HeapArea, Naming, PageRun, ProcessMemory, RssRow, SitePages, Tag,
    };

    const MIB: u64 = 1 << 20;

    /// A process of 100 MiB, of which 100 MiB are live blocks.
    struct Process {
        breakdown: RssBreakdown,
        catalog: Catalog,
    }

    impl Process {
        fn new() -> Self {
            let process = ProcessMemory { rss: 100 * MIB, rss_after: 100 * MIB, ..ProcessMemory::default() };
            let mut made = Self {
                breakdown: RssBreakdown { process, knows_every_block: true, ..RssBreakdown::default() },
                catalog: Catalog::default(),
            };
            made.row(RssKind::LiveBlocks, 100 * MIB);
            made
        }

        fn row(&mut self, kind: RssKind, resident: u64) {
            self.breakdown.rows.push(RssRow { kind, resident, size: resident, swapped: 0 });
        }

        fn site(&mut self, function: &str, is_mapping: bool, pages: SitePages) {
            let stack = self.catalog.intern_stack(&[FrameText { function, ..FrameText::default() }]);
            let heap = if is_mapping { Heap::Mapped } else { Heap::Malloc };
            let tag = self.catalog.intern_tag(Tag { heap, ..Tag::default() });
            self.breakdown.sites.push(SitePages { stack, tag, ..pages });
        }

        fn found(&self) -> Vec<RssFinding> {
            let naming = Naming::default();
            let names = SiteNames { catalog: &self.catalog, naming: &naming, has_site_types: true };
            findings(&self.breakdown, &figures_by_site(&self.catalog, &self.breakdown.sites), names)
        }

        fn sentence(&self, key: &str) -> Option<String> {
            self.found().into_iter().find(|finding| finding.key == key).map(|finding| finding.sentence)
        }
    }

    #[test]
    fn a_process_in_order_has_no_findings() {
        assert_eq!(Process::new().found(), []);
    }

    #[test]
    fn what_trim_returns_is_a_finding_from_two_percent_on() {
        let mut process = Process::new();
        process.breakdown.allocator = AllocatorMemory { trim: Some(2 * MIB - 1), ..AllocatorMemory::default() };
        assert_eq!(process.sentence("trim"), None);
        process.breakdown.allocator.trim = Some(40 * MIB);
        assert_eq!(process.sentence("trim").unwrap(), "malloc_trim(0) would return 40.0 MiB to the kernel");
        process.breakdown.allocator.trim_is_upper_bound = true;
        assert_eq!(process.sentence("trim").unwrap(), "malloc_trim(0) would return up to 40.0 MiB to the kernel");
    }

    #[test]
    fn slack_names_the_site_with_most_of_it() {
        let mut process = Process::new();
        process.row(RssKind::Slack, 25 * MIB);
        process.site(
            "cache_page",
            false,
            SitePages { blocks: 1000, live: 4_112_000, usable: 5_120_000, ..SitePages::default() },
        );
        process.site("other", false, SitePages { blocks: 10, live: 1000, usable: 1100, ..SitePages::default() });
        process.site("mapped", true, SitePages { blocks: 1, live: 0, usable: 50_000_000, ..SitePages::default() });
        assert_eq!(
            process.sentence("slack").unwrap(),
            "slack 20.0%: 25.0 MiB beyond what was requested; most in `cache_page`: its blocks have 4,112 bytes on average and take 5,120"
        );
        process.breakdown.rows[1].resident = 5 * MIB;
        assert_eq!(process.sentence("slack"), None);
    }

    #[test]
    fn arenas_count_free_pages_outside_of_the_main_heap() {
        let mut process = Process::new();
        let area = |kind, pages, owner| HeapArea { kind, start: 0, runs: vec![PageRun { pages, live: 0, owner }] };
        process.breakdown.areas = vec![
            area(AreaKind::Main, 100_000, PageOwner::Free),
            area(AreaKind::Arena, 2560, PageOwner::Free),
            area(AreaKind::Arena, 2560, PageOwner::Free),
            area(AreaKind::Arena, 2560, PageOwner::Several),
            area(AreaKind::Arena, 2560, PageOwner::Absent),
        ];
        process.breakdown.allocator.arenas = 3;
        assert_eq!(process.sentence("arenas"), None);
        process.breakdown.allocator.arenas = 64;
        assert_eq!(
            process.sentence("arenas").unwrap(),
            "64 arenas hold 20.0 MiB free: the environment variable MALLOC_ARENA_MAX limits their number"
        );
    }

    #[test]
    fn untouched_memory_names_its_site_and_leaves_swapped_memory_out() {
        let mut process = Process::new();
        process.site(
            "reserve",
            false,
            SitePages { blocks: 1, live: 1024 * MIB, usable: 1024 * MIB, ..SitePages::default() },
        );
        assert_eq!(
            process.sentence("untouched").unwrap(),
            "1.0 GiB allocated by `reserve` were never touched, or given back: they take address space, no memory"
        );
        process.breakdown.rows[0].swapped = 1023 * MIB;
        assert_eq!(process.sentence("untouched"), None);
    }

    #[test]
    fn few_blocks_that_pin_many_pages_are_a_finding() {
        let mut process = Process::new();
        let pages = SitePages {
            blocks: 40,
            live: 3200,
            usable: 3200,
            resident: 3200,
            pinned: 12 * MIB,
            ..SitePages::default()
        };
        process.site("Session::open", false, pages);
        process.site(
            "large",
            false,
            SitePages {
                live: 50 * MIB,
                usable: 50 * MIB,
                resident: 50 * MIB,
                pinned: 50 * MIB,
                blocks: 1,
                ..SitePages::default()
            },
        );
        assert_eq!(process.sentence("pinned").unwrap(), "40 blocks of `Session::open` (3.1 KiB) pin 12.0 MiB of pages");
        assert_eq!(process.found().iter().filter(|finding| finding.key == "pinned").count(), 1);
        process.breakdown.knows_every_block = false;
        assert_eq!(process.sentence("pinned"), None);
    }

    #[test]
    fn a_limit_is_a_finding_when_little_is_left_and_comes_first() {
        let mut process = Process::new();
        process.breakdown.allocator.trim = Some(90 * MIB);
        process.breakdown.process.limit = Some(MemoryLimit { bytes: 512 * MIB, used: 400 * MIB });
        assert_eq!(process.sentence("limit"), None);
        process.breakdown.process.limit = Some(MemoryLimit { bytes: 512 * MIB, used: 497 * MIB });
        assert_eq!(process.found()[0].key, "limit");
        assert_eq!(
            process.sentence("limit").unwrap(),
            "limit 512.0 MiB, 97.1% used: 15.0 MiB are left before the kernel ends a process"
        );
    }

    #[test]
    fn the_kernels_and_the_agents_figures_are_findings_when_large() {
        let mut process = Process::new();
        process.row(RssKind::Agent, 46 * MIB);
        process.row(RssKind::CachedStacks, 2 * MIB);
        process.row(RssKind::Other, 3 * MIB);
        process.breakdown.process.swap = 7 * MIB;
        process.breakdown.process.lazily_free = Some(8 * MIB);
        let keys: Vec<&str> = process.found().iter().map(|finding| finding.key).collect();
        assert_eq!(keys, ["agent", "lazily_free", "unexplained", "cached_stacks", "swap"]);
    }
}
