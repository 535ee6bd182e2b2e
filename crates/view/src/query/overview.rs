//! `overview`: key figures, four top lists, and anomalies in plain words.

use super::figures::row_json;
use super::grouping::{By, Row, rows_of};
use super::stacks::{none_yet, put_table};
use super::timeline::own_peak;
use crate::choice::{Choice, Metric};
use crate::http::request::Request;
use crate::measure::{Amounts, Figured, measure};
use crate::problem::Problem;
use crate::sieve::Sieve;
use crate::sources::{Between, Loaded};
use crate::work::Work;
use highwater_model::{AddressSpace, Nanos, Snapshot, gauge, grouped};
use serde_json::{Map, Value, json};

/// The number of rows of each list.
const ROWS: usize = 8;
/// The metrics that are measured. All but the last have a list.
const METRICS: [Metric; 5] = [Metric::Live, Metric::Peak, Metric::Allocated, Metric::Temporary, Metric::Freed];

/// The answer.
pub fn answer(_: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let catalog = choice.loaded.catalog();
    let mut stacks = none_yet([&**catalog]);
    let mut top = Map::new();
    let mut figures = Map::new();
    let mut at = choice.window.to;
    let is_filtered = !choice.filters.is_empty();
    for (count, metric) in METRICS.into_iter().enumerate() {
        work.progress(count as f64 / METRICS.len() as f64, "adding up")?;
        if !Metric::of(&choice.loaded).contains(&metric) {
            top.insert(metric.key().to_owned(), json!([]));
            continue;
        }
        let measured = measure(&choice.measuring(metric), false, work)?;
        let mut rows = rows_of(&measured, catalog, By::Site, work)?;
        rows.sort_by(|a, b| (b.own.value, b.own.blocks).cmp(&(a.own.value, a.own.blocks)).then(a.key.cmp(&b.key)));
        rows.truncate(ROWS);
        rows.iter().filter_map(Row::site).try_for_each(|stack| stacks.add(0, stack))?;
        let rows: Value = rows.iter().map(|row| row_json(row, &measured, catalog, By::Site, &stacks)).collect();
        top.insert(metric.key().to_owned(), rows);
        let mut put = |name: &str, value: u64| figures.insert(name.to_owned(), value.into());
        match metric {
            Metric::Live => {
                at = measured.at;
                put("live_bytes", measured.total.value);
                put("live_blocks", measured.total.blocks);
            }
            // With filters, the peak of the filtered blocks counts. It is found below.
            Metric::Peak if is_filtered => {}
            Metric::Peak => {
                put("peak_bytes", measured.total.value);
                put("peak_blocks_then", measured.total.blocks);
                put("peak_at_ns", measured.at.0);
            }
            Metric::Temporary => {
                put("temporary_allocations", measured.total.value);
            }
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
                    if knows_reallocations(&choice.loaded) {
                        put("reallocations", moved.resized);
                    }
                    if moved.promoted > 0 {
                        put("promoted_blocks", moved.promoted);
                    }
                }
                if let Amounts::Figures { figured: Figured::In(between), sieve } = &measured.amounts {
                    put("cross_thread_frees", cross_thread_frees(between, sieve));
                    if sieve.is_open() {
                        put("events", between.counters.accounts.events());
                        put("live_bytes_before", between.before.accounts.totals().figures.live_bytes());
                    }
                }
            }
        }
    }
    if is_filtered
        && let Some(recording) = choice.loaded.recording()
        && let Some(peak) = own_peak(choice, recording, work)?
    {
        let peak_bytes = peak.bytes.rounded();
        for (name, value) in [("peak_bytes", peak_bytes), ("peak_blocks_then", peak.blocks), ("peak_at_ns", peak.at.0)]
        {
            figures.insert(name.to_owned(), value.into());
        }
    }
    let AddressSpace { reserved_bytes, mapped_file_bytes } = address_space(&choice.loaded, at)?;
    for (name, value) in [("reserved_bytes", reserved_bytes), ("mapped_file_bytes", mapped_file_bytes)] {
        if value > 0 {
            figures.insert(name.to_owned(), value.into());
        }
    }
    top.remove(Metric::Freed.key());
    let last = choice.loaded.standing(crate::sources::Moment::End)?;
    let mut answer = json!({
        "at_ns": at.0,
        "window": { "from_ns": choice.window.from.0, "to_ns": choice.window.to.0 },
        "figures": figures,
        "top": top,
        "anomalies": anomalies(&last),
        "notes": notes(choice, &last, &figures),
    });
    put_table(&mut answer, &stacks);
    Ok(answer)
}

/// Address space that the process had mapped at an instant and that no other figure contains. It does not depend on filters.
fn address_space(loaded: &Loaded, at: Nanos) -> Result<AddressSpace, Problem> {
    if loaded.recording().is_none() {
        return Ok(loaded.source().address_space);
    }
    let readings = loaded.gauges()?;
    let latest = |name: &str| readings.iter().rfind(|reading| reading.time <= at && reading.name == name);
    let value = |name| latest(name).map_or(0, |reading| reading.value);
    Ok(AddressSpace { reserved_bytes: value(gauge::RESERVED), mapped_file_bytes: value(gauge::FILES) })
}

/// Whether the source knows which blocks were resized.
fn knows_reallocations(loaded: &Loaded) -> bool {
    loaded.totals().is_ok_and(|totals| loaded.source().knows_reallocations(&totals.figures))
}

/// The number of blocks that were freed by another thread than the one that owned them, among the stacks that pass.
fn cross_thread_frees(between: &Between, sieve: &Sieve) -> u64 {
    let accounts = &between.counters.accounts;
    if sieve.is_open() {
        return accounts.totals().figures.cross_thread_frees;
    }
    let passing = accounts.sites().iter().filter(|(stack, _)| sieve.passes_stack(*stack));
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
fn notes(choice: &Choice, last: &Snapshot, figures: &Map<String, Value>) -> Vec<String> {
    let number = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or(0);
    let mut notes = choice.loaded.source().notes.clone();
    if last.is_estimate() {
        notes.push("All figures are estimates, made from samples.".to_owned());
    }
    let damaged = choice.loaded.damage().len();
    if damaged > 0 {
        notes.push(format!("{} of the file could not be read; everything else is used.", parts(damaged)));
    }
    let (temporary, allocated) = (number("temporary_allocations"), number("allocated_blocks"));
    if allocated >= 1000 && temporary * 10 >= allocated * 3 {
        notes.push(format!(
            "{} % of the allocations were temporary: freed before their thread allocated anything else.",
            percent(temporary, allocated)
        ));
    }
    let (crossed, frees) = (number("cross_thread_frees"), number("frees"));
    if frees >= 1000 && crossed * 4 >= frees {
        notes.push(format!(
            "{} % of the blocks were freed by another thread than the one that allocated them.",
            percent(crossed, frees)
        ));
    }
    if choice.loaded.recording().is_none() {
        notes.push("One instant only: there is no course in time, and no peak is known.".to_owned());
    }
    notes
}

fn parts(count: usize) -> String {
    if count == 1 { "One part".to_owned() } else { format!("{count} parts") }
}
