//! Key figures, top lists, and anomalies in plain words.

use crate::WindowAnswer;
use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::figures::{FigureMap, RowAnswer};
use crate::grouping::largest_sites;
use crate::measure::{Amounts, Figured, measure};
use crate::query::Query;
use crate::stacks::no_stacks;
use crate::timeline::filtered_peak;
use highwater_formats::json::StackTableAnswer;
use highwater_model::groups::{GroupBy, Metric, Row};
use highwater_model::{AddressSpace, Nanos, Snapshot, gauge, grouped};
use highwater_store::history::{History, Moment, WindowFigures, Work};
use serde::Serialize;

/// The number of rows of each list.
const ROWS: usize = 24;
/// The metrics that are measured. All but the last have a list.
const METRICS: [Metric; 6] =
    [Metric::Live, Metric::Peak, Metric::Allocated, Metric::Temporary, Metric::Leaked, Metric::Freed];

/// Key figures and top lists.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Overview"))]
pub struct OverviewAnswer {
    /// The instant of live figures.
    pub at_ns: u64,
    /// The window.
    pub window: WindowAnswer,
    /// The key figures.
    #[cfg_attr(test, ts(type = "Figures"))]
    pub figures: FigureMap,
    /// The largest sites.
    pub top: TopRows,
    /// Anomalies of the events, in words.
    pub anomalies: Vec<String>,
    /// Notes for the reader, in words.
    pub notes: Vec<String>,
    /// The stacks of sites.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub stacks: StackTableAnswer,
}

/// The largest sites by five metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TopRows {
    /// Live at the instant.
    pub live: Vec<RowAnswer>,
    /// Live at the peak.
    pub peak: Vec<RowAnswer>,
    /// Allocated in the window.
    pub allocated: Vec<RowAnswer>,
    /// Temporary allocations.
    pub temporary: Vec<RowAnswer>,
    /// Allocated in the window and never freed.
    pub leaked: Vec<RowAnswer>,
}

/// Key figures and top lists of the window.
pub fn overview(query: &Query, work: &Work<'_>) -> Result<OverviewAnswer, QueryError> {
    let catalog = query.history.catalog();
    let mut stacks = no_stacks([&**catalog]);
    let mut top = TopRows::default();
    let mut figures = FigureMap::default();
    let mut at = query.window.to;
    let is_filtered = !query.filters.is_empty();
    let source = query.history.source();
    let counts_blocks = source.knows_live_blocks();
    for (count, metric) in METRICS.into_iter().enumerate() {
        work.progress(count as f64 / METRICS.len() as f64, "summing")?;
        let measuring = query.measuring(metric);
        if measuring.must_have_metric().is_err() {
            continue;
        }
        let measured = measure(&measuring, false, work)?;
        // All metrics but one are the same at every instant.
        let largest = || Ok::<_, QueryError>(largest_sites(&measured, ROWS, |amount| (amount.value, amount.blocks)));
        let largest = query.history.cached(measured.key.clone(), largest, |_| ROWS * 512)?;
        largest.rows.iter().filter_map(Row::site).try_for_each(|stack| stacks.add(0, stack))?;
        let rows = RowAnswer::table(&largest.rows, &measured, (catalog, &query.naming), GroupBy::Site, &stacks);
        match metric {
            Metric::Live => top.live = rows,
            Metric::Peak => top.peak = rows,
            Metric::Allocated => top.allocated = rows,
            Metric::Temporary => top.temporary = rows,
            Metric::Leaked => top.leaked = rows,
            _ => {}
        }
        let name = match metric {
            Metric::Live => "live_samples",
            Metric::Peak if !is_filtered => "peak_samples",
            Metric::Allocated => "allocated_samples",
            Metric::Freed => "freed_samples",
            _ => "",
        };
        if let Some(samples) = measured.samples_of(&measured.total).filter(|_| !name.is_empty()) {
            figures.put(name, samples);
        }
        let mut put = |name: &str, value: u64| figures.put(name, value);
        match metric {
            Metric::Live => {
                at = measured.at;
                put("live_bytes", measured.total.value);
                if counts_blocks {
                    put("live_blocks", measured.total.blocks);
                }
            }
            // With filters, the peak of the filtered blocks counts. It is found below.
            Metric::Peak if is_filtered => {}
            Metric::Peak => {
                put("peak_bytes", measured.total.value);
                if counts_blocks {
                    put("peak_blocks_then", measured.total.blocks);
                }
                put("peak_at_ns", measured.at.0);
            }
            Metric::Temporary => {
                put("temporary_allocations", measured.total.value);
            }
            Metric::Leaked => put("leaked_bytes", measured.total.value),
            Metric::Freed => {
                let moved = measured.moved.map_or(0, |moved| moved.blocks());
                put("freed_bytes", measured.total.value);
                put("frees", measured.total.blocks.saturating_sub(moved));
            }
            _ => {
                put("allocated_bytes", measured.total.value);
                put("allocated_blocks", measured.total.blocks);
                let moved = measured.moved.map_or(0, |moved| moved.blocks());
                put("allocations", measured.total.blocks.saturating_sub(moved));
                // If each block counts once, in its last state, the number of its resizes is not known.
                if let Some(moved) = measured.moved {
                    if knows_reallocations(&query.history) {
                        put("reallocations", moved.resized);
                    }
                    if moved.promoted > 0 {
                        put("promoted_blocks", moved.promoted);
                    }
                }
                if let Amounts::Figures { figured: Figured::In(window), filter } = &measured.amounts {
                    if source.known.is_none() {
                        put("cross_thread_frees", cross_thread_frees(window, filter));
                    }
                    if filter.is_open() {
                        put("events", window.counters.accounts.events());
                        put("live_bytes_before", window.before.accounts.totals().figures.live_bytes());
                    }
                }
            }
        }
    }
    if is_filtered
        && let Some(recording) = query.history.recording()
        && let Some(peak) = filtered_peak(query, recording, work)?
    {
        let peak_bytes = peak.bytes.rounded();
        for (name, value) in [("peak_bytes", peak_bytes), ("peak_blocks_then", peak.blocks), ("peak_at_ns", peak.at.0)]
        {
            figures.put(name, value);
        }
    }
    let AddressSpace { reserved_bytes, mapped_file_bytes, returned_bytes } = address_space(&query.history, at)?;
    for (name, value) in [
        ("reserved_bytes", reserved_bytes),
        ("mapped_file_bytes", mapped_file_bytes),
        ("returned_bytes", returned_bytes),
    ] {
        if value > 0 {
            figures.put(name, value);
        }
    }
    let last = query.history.figures(Moment::End)?;
    Ok(OverviewAnswer {
        at_ns: at.0,
        window: WindowAnswer { from_ns: query.window.from.0, to_ns: query.window.to.0 },
        anomalies: anomalies(&last),
        notes: notes(query, &last, &figures),
        figures,
        top,
        stacks: stacks.table(),
    })
}

/// Address space of the process at an instant, beside the other figures. It does not depend on filters.
fn address_space(history: &History, at: Nanos) -> Result<AddressSpace, QueryError> {
    if history.recording().is_none() {
        return Ok(history.source().address_space);
    }
    let readings = history.gauges()?;
    let latest = |name: &str| readings.iter().rfind(|reading| reading.time <= at && reading.name == name);
    let value = |name| latest(name).map_or(0, |reading| reading.value);
    Ok(AddressSpace {
        reserved_bytes: value(gauge::RESERVED),
        mapped_file_bytes: value(gauge::FILES),
        returned_bytes: value(gauge::RETURNED),
    })
}

/// Whether the source knows which blocks were resized.
fn knows_reallocations(history: &History) -> bool {
    history.totals().is_ok_and(|totals| history.source().knows_reallocations(&totals.figures))
}

/// The number of blocks that were freed by another thread than the one that owned them, among the stacks that pass.
fn cross_thread_frees(window: &WindowFigures, filter: &CompiledFilter) -> u64 {
    let accounts = &window.counters.accounts;
    if filter.is_open() {
        return accounts.totals().figures.cross_thread_frees;
    }
    let passing = accounts.sites().iter().filter(|(stack, _)| filter.passes_stack(*stack));
    passing.map(|(_, figures)| figures.cross_thread_frees).sum()
}

/// The anomalies of the events, in words.
fn anomalies(snapshot: &Snapshot) -> Vec<String> {
    let odd = snapshot.accounts.anomalies().iter().filter(|(_, count)| *count > 0);
    odd.map(|(anomaly, count)| format!("{} {}", grouped(count), anomaly.explanation())).collect()
}

/// A percentage, rounded as the page rounds the figure itself.
fn percent(part: u64, whole: u64) -> u64 {
    (part * 100 + whole / 2) / whole
}

/// Notes for the reader of the page, in words.
fn notes(query: &Query, last: &Snapshot, figures: &FigureMap) -> Vec<String> {
    let number = |name: &str| figures.number(name);
    let mut notes = query.history.source().notes.clone();
    if last.is_estimate() {
        notes.push("All figures are estimates, made from samples.".to_owned());
    }
    let damaged = query.history.damage().len();
    if damaged > 0 {
        notes.push(format!("{} of the file could not be read; everything else is used.", parts(damaged)));
    }
    let (temporary, allocated) = (number("temporary_allocations"), number("allocated_blocks"));
    if allocated >= 1000 && temporary * 10 >= allocated * 3 {
        notes.push(format!(
            "{}% of the allocations were temporary: freed before their thread allocated anything else.",
            percent(temporary, allocated)
        ));
    }
    let (crossed, frees) = (number("cross_thread_frees"), number("frees"));
    if frees >= 1000 && crossed * 4 >= frees {
        notes.push(format!(
            "{}% of the blocks were freed by another thread than the one that allocated them.",
            percent(crossed, frees)
        ));
    }
    if query.history.recording().is_none() {
        let lacks_past = query.history.source().lacks_past();
        let peak = if lacks_past { ", and no peak is known" } else { "" };
        notes.push(format!("One instant only: there is no timeline{peak}."));
    }
    notes
}

fn parts(count: usize) -> String {
    if count == 1 { "One part".to_owned() } else { format!("{count} parts") }
}
