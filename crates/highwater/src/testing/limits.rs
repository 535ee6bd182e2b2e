//! What work may take from the heap, and the message if it takes more.

use super::accounts::HeapUse;
use super::measure::{Counted, OpenMeasure, uncounted};
use super::names::{Site, named_sites};
use super::size::shown;
use highwater_model::grouped;
use std::fmt::Write;

/// What work may take. For `#[highwater::test]`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub max_peak: Option<u64>,
    pub max_bytes: Option<u64>,
    pub max_block: Option<u64>,
    pub max_allocations: Option<u64>,
    pub no_leaks: bool,
}

/// The sites that a message shows, and the calls of each.
const MOST_SITES: usize = 5;
const MOST_FRAMES: usize = 8;

/// A figure with a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limited {
    Leaks,
    Allocations,
    Peak,
    Bytes,
    Block,
}

fn blocks(count: u64) -> String {
    times(count, "block")
}

fn times(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn live(used: &HeapUse) -> String {
    match (used.live_blocks, used.live_bytes) {
        (0, bytes) => format!("{} more in blocks from before", shown(bytes)),
        (count, bytes) => format!("{} in {}", shown(bytes), blocks(count)),
    }
}

fn requests(used: &HeapUse) -> String {
    match (used.allocations, used.reallocations) {
        (allocations, 0) => times(allocations, "allocation"),
        (0, reallocations) => times(reallocations, "reallocation"),
        (allocations, reallocations) => {
            format!("{}, {}", times(allocations, "allocation"), times(reallocations, "reallocation"))
        }
    }
}

impl Limited {
    /// How much of the figure there is.
    fn value(self, used: &HeapUse) -> u64 {
        match self {
            // Bytes, or blocks without any.
            Self::Leaks => used.live_bytes.max(used.live_blocks),
            Self::Allocations => used.requests(),
            Self::Peak => used.peak_bytes,
            Self::Bytes => used.bytes,
            Self::Block => used.largest_block,
        }
    }

    /// The figure of a site.
    fn of_site(self, used: &HeapUse) -> String {
        match self {
            Self::Leaks => live(used),
            Self::Allocations => format!("{} ({})", requests(used), shown(used.bytes)),
            Self::Peak => format!("{} in {}", shown(used.peak_bytes), blocks(used.peak_blocks)),
            Self::Bytes => format!("{} by {}", shown(used.bytes), requests(used)),
            Self::Block => shown(used.largest_block),
        }
    }

    /// What is wrong, and what the sites show.
    fn verdict(self, used: &HeapUse, limit: u64) -> String {
        let over = |value: u64| format!("{} more than the limit of {}", shown(value - limit), shown(limit));
        match self {
            Self::Leaks => format!("{} left over", live(used)),
            Self::Allocations if limit == 0 => format!("{}, none is allowed", requests(used)),
            Self::Allocations => format!("{}, the limit is {}", requests(used), grouped(limit)),
            Self::Peak => {
                format!("peak of {}, {}; live at that moment:", shown(used.peak_bytes), over(used.peak_bytes))
            }
            Self::Bytes => format!("{} allocated, {}", shown(used.bytes), over(used.bytes)),
            Self::Block => {
                format!("a block of {}, {}", shown(used.largest_block), over(used.largest_block))
            }
        }
    }
}

/// One line for each figure of a measure.
pub(super) fn summary(used: &HeapUse) -> String {
    format!(
        "{}, {} freed; {} allocated, peak {}, left over {}",
        requests(used),
        grouped(used.frees),
        shown(used.bytes),
        shown(used.peak_bytes),
        shown(used.live_bytes)
    )
}

/// A site and its callers, one line each.
pub(super) fn write_site(text: &mut String, figure: &str, site: &Site) {
    let mut frames = site.frames.iter();
    let first = frames.next().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "  {figure}: {first}");
    for frame in frames.by_ref().take(MOST_FRAMES - 1) {
        let _ = writeln!(text, "      by {frame}");
    }
    match frames.count() {
        0 => {}
        more => _ = writeln!(text, "      and {} further out", times(more as u64, "call")),
    }
}

/// The sites with the most of a figure.
fn write_sites(text: &mut String, limited: Limited, sites: &[Site]) {
    let mut largest: Vec<&Site> = sites.iter().filter(|site| limited.value(&site.used) > 0).collect();
    largest.sort_by_key(|site| std::cmp::Reverse(limited.value(&site.used)));
    for site in largest.iter().take(MOST_SITES) {
        write_site(text, &limited.of_site(&site.used), site);
    }
    match largest.len().saturating_sub(MOST_SITES) {
        0 => {}
        more => _ = writeln!(text, "  and {}", times(more as u64, "further site")),
    }
}

/// The figures without the output that the test harness keeps. The peak cannot be told apart.
fn without_captured_output(mut total: HeapUse, sites: &mut Vec<Site>) -> HeapUse {
    sites.retain(|site| {
        if site.is_captured_output {
            total.allocations -= site.used.allocations;
            total.reallocations -= site.used.reallocations;
            total.frees -= site.used.frees;
            total.temporary -= site.used.temporary;
            total.bytes -= site.used.bytes;
            total.live_blocks -= site.used.live_blocks;
            total.live_bytes -= site.used.live_bytes;
        }
        !site.is_captured_output
    });
    total.largest_block = sites.iter().map(|site| site.used.largest_block).max().unwrap_or(0);
    total
}

impl Limits {
    fn broken(&self, used: &HeapUse) -> Vec<(Limited, u64)> {
        let limits = [
            (Limited::Leaks, self.no_leaks.then_some(0)),
            (Limited::Allocations, self.max_allocations),
            (Limited::Peak, self.max_peak),
            (Limited::Bytes, self.max_bytes),
            (Limited::Block, self.max_block),
        ];
        let limits = limits.into_iter().filter_map(|(limited, limit)| Some((limited, limit?)));
        limits.filter(|(limited, limit)| limited.value(used) > *limit).collect()
    }

    /// The message, if the figures are beyond a limit.
    pub(super) fn verdict(&self, counted: &Counted) -> Option<String> {
        if self.broken(&counted.total).is_empty() {
            return None;
        }
        // Names are only found for figures that are too large.
        let mut sites = named_sites(&counted.sites);
        let total = without_captured_output(counted.total, &mut sites);
        let broken = self.broken(&total);
        if broken.is_empty() {
            return None;
        }
        let mut text = String::new();
        for (limited, limit) in broken {
            let _ = writeln!(text, "{}", limited.verdict(&total, limit));
            write_sites(&mut text, limited, &sites);
        }
        let _ = write!(text, "in all: {}", summary(&total));
        if self.no_leaks && counted.threads > 0 {
            let _ = write!(text, "\n{} that it began still run: join them", times(counted.threads as u64, "thread"));
        }
        Some(text)
    }

    /// Runs `work`. Panics if it takes more than the limits.
    #[track_caller]
    pub(super) fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        let measure = begin();
        let value = work();
        let counted = end(measure);
        self.assert(&counted);
        value
    }

    #[track_caller]
    pub(super) fn assert(&self, counted: &Counted) {
        if let Some(text) = uncounted(|| self.verdict(counted)) {
            panic!("{text}");
        }
    }
}

/// Begins a measure.
#[track_caller]
pub(super) fn begin() -> OpenMeasure {
    super::check_allocator();
    OpenMeasure::begin().expect("there is no memory for a measure")
}

/// Ends a measure.
#[track_caller]
pub(super) fn end(measure: OpenMeasure) -> Counted {
    let counted = measure.end();
    let lost = counted.lost;
    assert!(lost == 0, "the measure is not complete: there was no memory to keep {lost} of its blocks");
    counted
}

/// What a test returns. For `#[highwater::test]`.
#[doc(hidden)]
pub trait TestOutcome {
    /// Whether the test has failed by itself, so that its limits do not matter.
    fn has_failed(&self) -> bool;
}

impl TestOutcome for () {
    fn has_failed(&self) -> bool {
        false
    }
}

impl<T, E> TestOutcome for Result<T, E> {
    fn has_failed(&self) -> bool {
        self.is_err()
    }
}

impl TestOutcome for std::process::ExitCode {
    fn has_failed(&self) -> bool {
        *self != Self::SUCCESS
    }
}

/// Runs a test with limits. For `#[highwater::test]`.
#[doc(hidden)]
#[track_caller]
pub fn run_test<T: TestOutcome>(limits: &Limits, test: impl FnOnce() -> T) -> T {
    let measure = begin();
    let outcome = test();
    let counted = end(measure);
    if !outcome.has_failed() {
        limits.assert(&counted);
    }
    outcome
}
