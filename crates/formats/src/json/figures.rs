//! `totals`, `anomalies` and the figures of every row.

use highwater_model::{Anomalies, Certainty, Figures, Interval, Snapshot};
use serde_json::{Map, Value, json};

/// The figures of a thread, a site or any other row. If they are estimates, adds the number of records that they are based on. If only one instant is
/// known, there is no peak.
pub fn figures(snapshot: &Snapshot, figures: &Figures) -> Map<String, Value> {
    let mut members = exact_figures(figures);
    let source = &snapshot.source;
    let mut hide = |is_hidden: &dyn Fn(&str) -> bool| {
        members.iter_mut().filter(|(name, _)| is_hidden(name)).for_each(|(_, value)| *value = Value::Null);
    };
    if !source.knows_own_peaks() {
        hide(&|name| name == "peak_bytes");
    }
    // An image has only live blocks, and no history.
    if !source.knows_allocated() {
        hide(&|name| !name.starts_with("live_") && name != "peak_bytes");
    }
    if !source.knows_live_blocks() {
        hide(&|name| name == "live_blocks" || name == "allocations" || name == "frees");
    }
    if source.known.is_some() {
        hide(&|name| name == "cross_thread_frees");
    }
    if snapshot.is_estimate() && source.knows_samples() {
        members.extend(estimates(snapshot, figures));
    }
    if !snapshot.knows_every_block() {
        members.insert("temporary_allocations".to_owned(), Value::Null);
    }
    if !snapshot.knows_reallocations() {
        members.insert("reallocations".to_owned(), Value::Null);
        members.insert("reallocated_away".to_owned(), Value::Null);
    }
    // Only sources with promotions have this member. Promotions into a heap are also counted among its reallocations, so that the figures add up.
    if figures.promotions > 0 {
        members.insert("promotions".to_owned(), figures.promotions.into());
    }
    members
}

/// The numbers of samples and records that estimated figures are based on, and the intervals of these figures.
pub fn estimates(snapshot: &Snapshot, figures: &Figures) -> Map<String, Value> {
    let mut members = super::members(json!({
        "samples": figures.samples(),
        "live_samples": figures.live_samples(),
        "records": figures.records(),
        "freed_records": figures.freed_records(),
        "live_records": figures.live_records(),
    }));
    if figures.promotions > 0 {
        members.insert("promoted_records".to_owned(), figures.promoted_records().into());
    }
    if let Some(certainty) = snapshot.certainty() {
        members.insert("interval_95".to_owned(), intervals(snapshot, figures, &certainty));
    }
    members
}

/// `interval_95`: the 95 % interval of each figure. Blocks have one if any record represents them.
fn intervals(snapshot: &Snapshot, figures: &Figures, certainty: &Certainty) -> Value {
    let bounds = |interval: Interval| json!([interval.low, interval.high]);
    let blocks = |estimate, records| (records > 0).then(|| bounds(certainty.of_blocks(estimate, records)));
    let peak = (!snapshot.source.lacks_past()).then(|| bounds(certainty.of_bytes_alone(figures.peak_bytes)));
    json!({
        "allocated_bytes": bounds(figures.allocated_interval(certainty)),
        "freed_bytes": bounds(certainty.of_bytes(figures.freed_bytes, figures.freed_samples())),
        "live_bytes": bounds(figures.live_interval(certainty)),
        "peak_bytes": peak,
        "allocations": blocks(figures.allocations + figures.reallocations, figures.records()),
        "live_blocks": blocks(figures.live_blocks(), figures.live_records()),
    })
}

fn exact_figures(figures: &Figures) -> Map<String, Value> {
    super::members(json!({
        "allocations": figures.allocations,
        "frees": figures.frees,
        "reallocations": figures.reallocations,
        "reallocated_away": figures.reallocated_away,
        "allocated_bytes": figures.allocated_bytes,
        "freed_bytes": figures.freed_bytes,
        "live_blocks": figures.live_blocks(),
        "live_bytes": figures.live_bytes(),
        "peak_bytes": figures.peak_bytes,
        "cross_thread_frees": figures.cross_thread_frees,
        "temporary_allocations": figures.temporary_allocations,
    }))
}

/// `totals`: the whole memory. In total, the blocks reallocated away equal the blocks reallocated to, so that counter is left out. Estimates need not
/// be equal, so they keep it.
pub fn totals(snapshot: &Snapshot) -> Value {
    let totals = snapshot.accounts.totals();
    let mut members = figures(snapshot, &totals.figures);
    // Rows may lack peaks of their own where the whole has one.
    if !snapshot.source.lacks_past() {
        members.insert("peak_bytes".to_owned(), totals.figures.peak_bytes.into());
    }
    if !snapshot.is_estimate() {
        members.remove("reallocated_away");
    }
    let inside_reallocation = totals.peak_bytes_inside_reallocation.max(totals.figures.peak_bytes);
    for (name, peak) in [
        ("peak_blocks", snapshot.source.knows_live_blocks().then_some(totals.peak_blocks)),
        ("peak_at_ns", Some(totals.peak_at.0)),
        ("peak_bytes_inside_reallocation", snapshot.knows_reallocations().then_some(inside_reallocation)),
    ] {
        members.insert(name.to_owned(), peak.filter(|_| !snapshot.source.lacks_past()).into());
    }
    members.insert("usable_bytes".to_owned(), snapshot.usable_bytes().into());
    if snapshot.is_estimate() {
        members.insert("estimate".to_owned(), true.into());
        if let Some(words) = snapshot.source.word_sampling {
            members.insert("allocated_words".to_owned(), (totals.figures.samples() as f64 / words.rate()).into());
        }
    }
    members.into()
}

/// `anomalies`: every counter, zeros included.
pub fn anomalies(anomalies: &Anomalies) -> Value {
    anomalies
        .iter()
        .map(|(anomaly, count)| (anomaly.key().to_owned(), Value::from(count)))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{any_snapshot, parser};
    use proptest::prelude::*;

    #[test]
    fn totals_have_exactly_the_names_of_the_contract() {
        let mut scene = parser();
        let mut expected = vec![
            "allocations",
            "frees",
            "reallocations",
            "allocated_bytes",
            "freed_bytes",
            "live_blocks",
            "live_bytes",
            "peak_blocks",
            "peak_bytes",
            "peak_at_ns",
            "temporary_allocations",
            "peak_bytes_inside_reallocation",
            "cross_thread_frees",
            "usable_bytes",
        ];
        let names = |totals: Value| -> Vec<String> { totals.as_object().unwrap().keys().cloned().collect() };
        expected.sort_unstable();
        assert_eq!(names(totals(&scene.snapshot())), expected);

        scene.source.sample_rate = Some(4096);
        let sampled = totals(&scene.snapshot());
        assert_eq!(sampled["estimate"], true);
        assert_eq!((&sampled["samples"], &sampled["live_samples"]), (&json!(4), &json!(2)));
        // Figures that samples cannot estimate are null.
        for name in ["temporary_allocations", "reallocations", "reallocated_away", "peak_bytes_inside_reallocation"] {
            assert_eq!(sampled.get(name), Some(&Value::Null), "{name}");
        }
        scene.source.word_sampling = highwater_model::WordSampling::new(0.1, 8);
        let words = totals(&scene.snapshot());
        assert_eq!((&words["temporary_allocations"], &words["reallocations"]), (&Value::Null, &json!(1)));
        scene.source.word_sampling = highwater_model::WordSampling::new(1.0, 8);
        assert_eq!(totals(&scene.snapshot())["temporary_allocations"], 0);
    }

    #[test]
    fn totals_tell_what_happened() {
        let totals = totals(&parser().snapshot());
        let expected = json!({
            "allocations": 3, "frees": 1, "reallocations": 1, "allocated_bytes": 458, "freed_bytes": 150,
            "live_blocks": 2, "live_bytes": 308, "peak_blocks": 3, "peak_bytes": 358, "peak_at_ns": 40,
            "peak_bytes_inside_reallocation": 450, "temporary_allocations": 0, "cross_thread_frees": 1,
            "usable_bytes": null,
        });
        assert_eq!(totals, expected);
    }

    #[test]
    fn a_sample_counts_as_what_it_stands_for_and_tells_how_many_there_are() {
        let mut scene = crate::scene::Scene::default();
        scene.source.usable_sizes = true;
        let weight = highwater_model::Weight::new(10.0);
        let place = highwater_model::Placement { address: 16, size: 30, weight, surplus: 8, ..Default::default() };
        scene.happen(1, highwater_model::EventKind::Allocate(place));
        let totals = totals(&scene.snapshot());
        assert_eq!((&totals["live_blocks"], &totals["live_bytes"]), (&json!(10), &json!(300)));
        assert_eq!((&totals["samples"], &totals["live_samples"]), (&json!(1), &json!(1)));
        // The weights show that it is an estimate, though the source does not say so.
        assert_eq!((&totals["estimate"], &totals["usable_bytes"]), (&json!(true), &json!(480)));
    }

    #[test]
    fn of_one_instant_no_peak_is_known_and_of_figures_alone_no_usable_bytes() {
        let mut scene = parser();
        scene.source.usable_sizes = true;
        scene.source.snapshot = true;
        let with_blocks = totals(&scene.snapshot());
        for name in ["peak_blocks", "peak_bytes", "peak_at_ns", "peak_bytes_inside_reallocation"] {
            assert_eq!(with_blocks[name], Value::Null, "{name}");
        }
        assert_eq!((&with_blocks["live_bytes"], &with_blocks["usable_bytes"]), (&json!(308), &json!(336)));
        let snapshot = scene.snapshot();
        assert_eq!(
            figures(&snapshot, snapshot.accounts.sites().get(highwater_model::StackId(2)).unwrap())["peak_bytes"],
            Value::Null
        );
        scene.source.aggregated = true;
        assert_eq!(totals(&scene.snapshot())["usable_bytes"], Value::Null);
    }

    #[test]
    fn every_anomaly_has_its_counter() {
        let mut scene = parser();
        scene.free(1, 0xdead);
        let anomalies = anomalies(scene.snapshot().accounts.anomalies());
        assert_eq!(anomalies["unmatched_frees"], 1);
        assert_eq!(anomalies["duplicate_allocations"], 0);
        assert_eq!(anomalies.as_object().unwrap().len(), highwater_model::Anomaly::ALL.len());
    }

    proptest! {
        #[test]
        fn a_reader_can_check_law_1_from_any_row(snapshot in any_snapshot()) {
            for (_, site) in snapshot.accounts.sites().iter() {
                let shown = figures(&snapshot, site);
                let number = |name: &str| i128::from(shown[name].as_u64().unwrap());
                if snapshot.knows_reallocations() {
                    let births = number("allocations") + number("reallocations");
                    let deaths = number("frees") + number("reallocated_away");
                    prop_assert_eq!(births - deaths, number("live_blocks"));
                }
                // Each of the three figures is rounded separately.
                let rounding = i128::from(snapshot.is_estimate());
                let live = number("allocated_bytes") - number("freed_bytes");
                prop_assert!((live - number("live_bytes")).abs() <= rounding);
            }
        }
    }
}
