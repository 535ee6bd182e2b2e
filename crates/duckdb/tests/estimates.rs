//! Which figures are estimates: those, and only those, that have a row of a process that counts only samples of its blocks.

mod support;

use highwater_fleet::label_filter::FleetLabel;
use highwater_fleet::questions::{
    FleetInstant, LeakRule, ProcessOrder, SiteTable, VersionPair, diff_sql, growth_sql, leaks_sql, processes_sql,
    timeline_sql, top_sql,
};
use highwater_fleet::{FleetLake, FleetPart, FleetScope, ProfileSlots, fleet_timeline, profile};
use highwater_lake::rows::{Labels, ProcessRow, SiteRow};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use support::{Folder, Rows, ask, open, random_lake};

fn all() -> FleetScope {
    FleetScope::default()
}

fn only(filter: &str) -> FleetScope {
    FleetScope { labels: vec![filter.parse().unwrap()], ..FleetScope::default() }
}

/// Some random lakes, each with sampled and exact processes, and some that change.
fn on_random_lakes(test: &str, check: impl Fn(&FleetLake, &Rows)) {
    for seed in [1, 20, 300] {
        let folder = Folder::new(&format!("estimates-{test}-{seed}"));
        let rows = random_lake(&folder.0, seed);
        let sampled = rows.processes.iter().filter(|row| row.sample_period > 0).count();
        assert!(sampled > 0 && sampled < rows.processes.len());
        check(&open(&folder.0), &rows);
    }
}

/// What an answer says of each of its rows: by a key of it, whether it is an estimate.
fn marked<K: Ord>(answer: &[Value], key: impl Fn(&Value) -> K) -> BTreeMap<K, bool> {
    answer.iter().map(|row| (key(row), row["sample_period"].as_i64().unwrap() > 0)).collect()
}

/// The same of rows that were written.
fn expected<'a, R: 'a, K: Ord>(
    rows: impl Iterator<Item = &'a R>,
    key: impl Fn(&R) -> K,
    is_sampled: impl Fn(&R) -> bool,
) -> BTreeMap<K, bool> {
    let mut marks = BTreeMap::new();
    for row in rows {
        *marks.entry(key(row)).or_default() |= is_sampled(row);
    }
    marks
}

fn is_sampled_process(row: &ProcessRow) -> bool {
    row.sample_period > 0
}

fn is_sampled_site(row: &SiteRow) -> bool {
    row.sample_period > 0
}

/// The marks of an answer are those expected of its rows, and there are both kinds.
fn assert_marks<K: Ord + Clone + std::fmt::Debug>(found: &BTreeMap<K, bool>, expected: &BTreeMap<K, bool>) {
    let of_rows: BTreeMap<K, bool> = found.keys().map(|key| (key.clone(), expected[key])).collect();
    assert_eq!(*found, of_rows);
    assert!(!found.is_empty());
}

#[test]
fn a_site_and_the_whole_fleet_at_a_slot() {
    on_random_lakes("top", |lake, rows| {
        let of_slots = expected(rows.processes.iter(), |row| row.slot, is_sampled_process);
        let kinds: BTreeSet<bool> = of_slots.values().copied().collect();
        assert!(kinds.contains(&true));
        for (slot, is_sampled) in &of_slots {
            // Every slot would take minutes; those at which sampling begins or ends are among these.
            if slot % 420 != 0 {
                continue;
            }
            let answer = ask(lake, &top_sql(&all(), FleetInstant::At(*slot), 0), &all());
            let held = rows.sites.iter().filter(|row| row.slot == *slot);
            let found = marked(&answer, |row| row["site_id"].as_i64().unwrap());
            assert_marks(&found, &expected(held, |row| row.site_id, is_sampled_site));
            assert!(answer.iter().all(|row| (row["fleet_sample_period"].as_i64().unwrap() > 0) == *is_sampled));
        }
    });
}

#[test]
fn the_slope_of_a_process_that_sampled_at_any_time() {
    on_random_lakes("processes", |lake, rows| {
        let answer = ask(lake, &processes_sql(&all(), ProcessOrder::Slope, 3, 0), &all());
        let found = marked(&answer, |row| row["process_id"].as_i64().unwrap());
        let expected = expected(rows.processes.iter(), |row| row.process.process_id, is_sampled_process);
        assert_marks(&found, &expected);
        assert_eq!(found.values().copied().collect::<BTreeSet<_>>(), BTreeSet::from([false, true]));
    });
}

#[test]
fn means_of_two_versions_and_of_two_regions() {
    on_random_lakes("means", |lake, rows| {
        let key = |row: &Value| (row["service"].as_str().unwrap().to_owned(), row["site_id"].as_i64().unwrap());
        let of_site = |row: &SiteRow| (row.process.labels.service.clone(), row.site_id);
        let is_in = |labels: &Labels| ["1.9.0", "1.10.0"].contains(&labels.version.as_str());
        let versions = VersionPair::Given("1.9.0".into(), "1.10.0".into());
        let compared = rows.sites.iter().filter(|row| is_in(&row.process.labels));
        let of_versions = expected(compared, of_site, is_sampled_site);
        let of_regions = expected(rows.sites.iter(), of_site, is_sampled_site);
        for table in [SiteTable::Minutes, SiteTable::Hours] {
            let answer = ask(lake, &growth_sql(&all(), table, &versions, false, 0), &all());
            assert_marks(&marked(&answer, key), &of_versions);
            let (a, b) = (only("region=eu west's"), only("region=us_west\\2"));
            let answer = ask(lake, &diff_sql(&all(), &a, &b, table, 0), &all());
            assert_marks(&marked(&answer, key), &of_regions);
        }
    });
}

/// A site leaks in some processes: only those make its figures.
#[test]
fn a_leak_in_a_sampled_process() {
    on_random_lakes("leaks", |lake, rows| {
        let rule = LeakRule::default();
        let key = |row: &Value| (row["service"].as_str().unwrap().to_owned(), row["site_id"].as_i64().unwrap());
        let ask_leaks = |scope: &FleetScope| ask(lake, &leaks_sql(scope, SiteTable::Minutes, rule, 0), scope);
        let by_process =
            expected(rows.sites.iter(), |row| (row.process.process_id, row.stack_id, row.site_id), is_sampled_site);
        let mut expected: BTreeMap<(String, i64), bool> = BTreeMap::new();
        let processes: BTreeSet<i64> = rows.processes.iter().map(|row| row.process.process_id).collect();
        for process in processes {
            for row in ask_leaks(&only(&format!("process={process}"))) {
                let site = row["site_id"].as_i64().unwrap();
                let stacks = by_process.iter().filter(|((owner, _, of), _)| *owner == process && *of == site);
                *expected.entry(key(&row)).or_default() |= stacks.into_iter().any(|(_, is_sampled)| *is_sampled);
            }
        }
        let found = marked(&ask_leaks(&all()), key);
        assert_eq!(found, expected);
        assert!(!found.is_empty());
    });
}

#[test]
fn the_total_and_the_parts_of_a_timeline() {
    on_random_lakes("timeline", |lake, rows| {
        let progress = |_: Option<(f64, &str)>| true;
        let scope = all();
        let part = FleetPart::new(lake, &scope, &progress);
        let of_slots = expected(rows.processes.iter(), |row| row.slot, is_sampled_process);
        let of_hosts =
            expected(rows.processes.iter(), |row| (row.slot, row.process.labels.host.clone()), is_sampled_process);
        let timeline = fleet_timeline(&part, "host", 1000, 2).unwrap();
        assert!(timeline.estimated && timeline.bands.len() == 2);
        let named: Vec<&str> = timeline.bands.iter().map(|band| band.value.as_str()).collect();
        for (at, slot) in timeline.slots.iter().enumerate() {
            assert_eq!(timeline.total_estimated[at], of_slots[slot]);
            let rest = of_hosts.iter().filter(|((of, host), _)| of == slot && !named.contains(&host.as_str()));
            assert_eq!(timeline.rest_estimated[at], rest.into_iter().any(|(_, is_sampled)| *is_sampled));
            for band in &timeline.bands {
                let is_sampled = of_hosts.get(&(*slot, band.value.clone())).copied().unwrap_or(false);
                assert_eq!(band.estimated[at], is_sampled, "{} at {slot}", band.value);
            }
        }
        let answer = ask(lake, &timeline_sql(&scope, FleetLabel::Host, 10), &scope);
        let key = |row: &Value| (row["slot"].as_i64().unwrap(), row["grp"].as_str().unwrap().to_owned());
        assert_marks(&marked(&answer, key), &of_hosts);
        // A source of one slot is an estimate if that slot has samples.
        for slot in timeline.slots.iter().filter(|slot| **slot % 420 == 0) {
            let made = profile(&part, ProfileSlots::At(*slot), "fleet").unwrap();
            assert_eq!(made.source.sample_rate.is_some(), of_slots[slot], "{slot}");
        }
    });
}
