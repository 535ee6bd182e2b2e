//! Every question against sums over the rows that were written, which share no code with it.

mod support;

use highwater_fleet::FleetScope;
use highwater_fleet::label_filter::FleetLabel;
use highwater_fleet::questions::{
    FleetInstant, LeakRule, ProcessOrder, SiteTable, VersionPair, diff_sql, growth_sql, joint, leaks_sql,
    processes_sql, timeline_sql, top_sql,
};
use highwater_lake::compact::{CompactOptions, compact};
use highwater_lake::rows::{Batch, Labels, LakeProcess, ProcessRow, SiteRow};
use highwater_lake::{SlotRange, Table};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use support::{Dice, Folder, Rows, START, ask, name, open, random_lake};

type Passes = fn(&Labels, i64) -> bool;

fn part(since: Option<i64>, until: Option<i64>, filters: &[&str]) -> FleetScope {
    FleetScope { since, until, labels: filters.iter().map(|text| text.parse().unwrap()).collect() }
}

/// Parts of a fleet, with the same condition written by hand.
fn parts() -> Vec<(FleetScope, Passes)> {
    vec![
        (part(None, None, &[]), |_, _| true),
        (part(Some(START + 1800), Some(START + 5000), &["host=web-*"]), |labels, slot| {
            labels.host.starts_with("web-") && (START + 1800..START + 5000).contains(&slot)
        }),
        (part(None, Some(START + 7200), &["service=a/b'c\\d ${x} é %_", "host!=db%_!"]), |labels, slot| {
            labels.service == "a/b'c\\d ${x} é %_" && labels.host != "db%_!" && slot < START + 7200
        }),
        (part(None, None, &["region=eu west's", "container=pod 1", "container=pod 2"]), |labels, _| {
            labels.region == "eu west's" && labels.container != "pod 0"
        }),
        (part(None, None, &["host=nowhere"]), |_, _| false),
    ]
}

fn chosen(rows: &Rows, passes: Passes) -> (Vec<&ProcessRow>, Vec<&SiteRow>) {
    let processes = rows.processes.iter().filter(|row| passes(&row.process.labels, row.slot)).collect();
    (processes, rows.sites.iter().filter(|row| passes(&row.process.labels, row.slot)).collect())
}

/// The columns of an answer that are named.
fn columns(answer: &[Value], names: &[&str]) -> Vec<Vec<Value>> {
    answer.iter().map(|row| names.iter().map(|name| row[*name].clone()).collect()).collect()
}

/// Each part of each of some random lakes.
fn on_random_lakes(test: &str, check: impl Fn(&highwater_fleet::FleetLake, &Rows, &FleetScope, Passes)) {
    for seed in [1, 20, 300] {
        let folder = Folder::new(&format!("{test}-{seed}"));
        let rows = random_lake(&folder.0, seed);
        let lake = open(&folder.0);
        for (scope, passes) in parts() {
            check(&lake, &rows, &scope, passes);
        }
    }
}

#[test]
fn top_is_what_the_rows_of_the_fullest_slot_add_up_to() {
    on_random_lakes("top", |lake, rows, scope, passes| {
        let (processes, sites) = chosen(rows, passes);
        let mut totals: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for row in &processes {
            let total = totals.entry(row.slot).or_default();
            *total = (total.0 + row.live_bytes, total.1 + 1);
        }
        let middle = START + 4003;
        let ten: Vec<(i64, i64)> = totals.iter().rev().take(10).map(|(slot, total)| (*slot, total.1)).collect();
        let most = ten.iter().map(|(_, count)| *count).max().unwrap_or(0);
        for (instant, slot) in [
            (FleetInstant::Peak, totals.iter().map(|(slot, total)| (total.0, -slot)).max().map(|(_, slot)| -slot)),
            (FleetInstant::Latest, ten.iter().find(|(_, count)| count * 10 >= most * 9).map(|(slot, _)| *slot)),
            (FleetInstant::At(middle), totals.keys().copied().filter(|slot| *slot <= middle).max()),
        ] {
            #[allow(clippy::type_complexity, reason = "a sum of five figures, used here only")]
            let mut held: BTreeMap<i64, (i64, i64, BTreeSet<i64>, BTreeSet<&str>, i64)> = BTreeMap::new();
            for row in sites.iter().filter(|row| Some(row.slot) == slot) {
                let site = held.entry(row.site_id).or_default();
                site.0 += row.live_bytes;
                site.1 += row.live_blocks;
                site.2.insert(row.process.process_id);
                site.3.insert(&row.process.labels.host);
                site.4 = site.4.max(row.sample_period);
            }
            let mut expected: Vec<Vec<Value>> = Vec::new();
            let mut order: Vec<_> = held.iter().collect();
            order.sort_by_key(|(site_id, site)| (-site.0, **site_id));
            for (site_id, site) in order {
                let (slot, total) = (slot.unwrap(), totals[&slot.unwrap()]);
                expected.push(vec![
                    json!(site_id),
                    json!(name(*site_id)),
                    json!(site.0),
                    json!(site.1),
                    json!(site.2.len()),
                    json!(site.3.len()),
                    json!(site.4),
                    json!(slot),
                    json!(total.0),
                    json!(total.1),
                ]);
            }
            let names = "site_id function bytes blocks processes hosts sample_period slot fleet_bytes fleet_processes";
            let names: Vec<&str> = names.split(' ').collect();
            assert_eq!(
                columns(&ask(lake, &top_sql(scope, instant, 0), scope), &names),
                expected,
                "{instant:?} {scope:?}"
            );
            let first = columns(&ask(lake, &top_sql(scope, instant, 3), scope), &names);
            assert_eq!(first, expected[..expected.len().min(3)]);
        }
    });
}

/// Slots and hours give the same, where the scope has whole hours.
fn tables(scope: &FleetScope) -> Vec<SiteTable> {
    if scope.has_whole_hours() { vec![SiteTable::Minutes, SiteTable::Hours] } else { vec![SiteTable::Minutes] }
}

#[test]
fn growth_compares_means_over_all_slots_of_all_processes() {
    on_random_lakes("growth", |lake, rows, scope, passes| {
        let (processes, sites) = chosen(rows, passes);
        // Of each version: the first start, the first slot, the last slot.
        let mut first: BTreeMap<(&str, &str), (i64, i64, i64)> = BTreeMap::new();
        for row in &processes {
            let (labels, start) = (&row.process.labels, row.process.start_us);
            let seen = first.entry((&labels.service, &labels.version)).or_insert((start, row.slot, row.slot));
            *seen = (seen.0.min(start), seen.1.min(row.slot), seen.2.max(row.slot));
        }
        let services: BTreeSet<&str> = first.keys().map(|key| key.0).collect();
        let mut expected: Vec<(f64, &str, i64, f64, f64, i64, i64)> = Vec::new();
        for service in services {
            let mut versions: Vec<((i64, i64, i64), &str)> =
                first.iter().filter(|(key, _)| key.0 == service).map(|(key, slot)| (*slot, key.1)).collect();
            versions.sort();
            let [.., old, new] = versions.as_slice() else { continue };
            let slots = |version: &str, host: Option<&str>| {
                let is_it = |labels: &Labels| labels.service == service && labels.version == version;
                let is_here = |labels: &Labels| host.is_none_or(|host| labels.host == host);
                processes.iter().filter(|row| is_it(&row.process.labels) && is_here(&row.process.labels)).count() as f64
            };
            let bytes = |site: i64, version: &str, host: Option<&str>| {
                let is_it = |row: &&&SiteRow| {
                    let labels = &row.process.labels;
                    row.site_id == site
                        && labels.service == service
                        && labels.version == version
                        && host.is_none_or(|host| labels.host == host)
                };
                sites.iter().filter(is_it).map(|row| row.live_bytes).sum::<i64>() as f64
            };
            let hosts: BTreeSet<&str> = processes
                .iter()
                .map(|row| &row.process.labels)
                .filter(|labels| labels.service == service && labels.version == new.1)
                .map(|labels| labels.host.as_str())
                .collect();
            for site in sites.iter().map(|row| row.site_id).collect::<BTreeSet<i64>>() {
                let before = bytes(site, old.1, None) / slots(old.1, None);
                let after = bytes(site, new.1, None) / slots(new.1, None);
                let grew = |host: &&&str| {
                    let own = slots(old.1, Some(host));
                    let before = if own > 0.0 { bytes(site, old.1, Some(host)) / own } else { before };
                    bytes(site, new.1, Some(host)) / slots(new.1, Some(host)) > before
                };
                let grown = hosts.iter().filter(grew).count() as i64;
                if after > before {
                    expected.push((after - before, service, site, before, after, grown, hosts.len() as i64));
                }
            }
        }
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
        let expected: Vec<Vec<Value>> = expected
            .into_iter()
            .map(|row| {
                vec![json!(row.0), json!(row.1), json!(row.2), json!(row.3), json!(row.4), json!(row.5), json!(row.6)]
            })
            .collect();
        for table in tables(scope) {
            let answer = ask(lake, &growth_sql(scope, table, &VersionPair::Latest, false, 0), scope);
            let names = ["grew", "service", "site_id", "old_mean", "new_mean", "hosts_grew", "hosts_seen"];
            assert_eq!(columns(&answer, &names), expected, "{table:?} {scope:?}");
            let by_host = ask(lake, &growth_sql(scope, table, &VersionPair::Latest, true, 0), scope);
            let grown: i64 = answer.iter().map(|row| row["hosts_grew"].as_i64().unwrap()).sum();
            assert!(by_host.len() as i64 >= grown);
        }
        // The same pair by name.
        if let Some(row) =
            ask(lake, &growth_sql(scope, SiteTable::Minutes, &VersionPair::Latest, false, 1), scope).first()
        {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            let given = VersionPair::Given(text("from_version"), text("to_version"));
            let named = ask(lake, &growth_sql(scope, SiteTable::Minutes, &given, false, 0), scope);
            assert!(named.contains(row), "{row}");
        }
    });
}

#[test]
fn versions_are_in_the_order_in_which_they_started() {
    let folder = Folder::new("versions");
    let lake = open(&folder.0);
    let mut batch = Batch::default();
    // 1.9 is older than 1.10, and both run in all slots. A process of 1.9 has been started again since.
    for (number, (version, start, bytes)) in
        [("1.9", 0, 1000), ("1.10", 500, 5000), ("1.9", 900, 1000)].into_iter().enumerate()
    {
        let labels = Labels { service: "s".into(), version: version.into(), ..Labels::default() };
        let (process_id, start_us) = (number as i64 + 1, (START + start) * 1_000_000);
        let process = Arc::new(LakeProcess { labels, pid: 1, start_us, process_id });
        for slot in (START + 900..START + 1800).step_by(60) {
            let (process, sample_period, live_bytes, live_blocks) = (Arc::clone(&process), 0, bytes, 1);
            batch.processes.push(ProcessRow {
                slot,
                process: Arc::clone(&process),
                sample_period,
                live_bytes,
                live_blocks,
                rss_bytes: None,
                limit_bytes: None,
            });
            batch.sites.push(SiteRow {
                slot,
                process,
                stack_id: 1,
                site_id: 1,
                sample_period,
                live_bytes,
                live_blocks,
                alloc_bytes: None,
                alloc_blocks: None,
            });
        }
    }
    lake.lake().add("a", &batch).unwrap();
    let scope = FleetScope::default();
    let answer = ask(&lake, &growth_sql(&scope, SiteTable::Minutes, &VersionPair::Latest, false, 0), &scope);
    assert_eq!(
        columns(&answer, &["from_version", "to_version", "grew"]),
        [[json!("1.9"), json!("1.10"), json!(4000.0)]]
    );
}

#[test]
fn leaks_are_the_lines_of_least_squares() {
    on_random_lakes("leaks", |lake, rows, scope, passes| {
        let (processes, sites) = chosen(rows, passes);
        let mut seen: BTreeMap<i64, (i64, u64)> = BTreeMap::new();
        for row in &processes {
            let seen = seen.entry(row.process.process_id).or_insert((row.slot, 0));
            *seen = (seen.0.min(row.slot), seen.1 + 1);
        }
        let rule = LeakRule::default();
        let mut curves: BTreeMap<(&str, i64, i64, i64), Vec<&&SiteRow>> = BTreeMap::new();
        for row in sites.iter().filter(|row| seen[&row.process.process_id].1 >= rule.slots) {
            let key = (row.process.labels.service.as_str(), row.site_id, row.process.process_id, row.stack_id);
            curves.entry(key).or_default().push(row);
        }
        // Hosts and processes that leak and that have the site, slopes, r².
        type Leak<'a> = (BTreeSet<&'a str>, BTreeSet<&'a str>, BTreeSet<i64>, BTreeSet<i64>, Vec<f64>, Vec<f64>);
        let mut leaks: BTreeMap<(&str, i64), Leak<'_>> = BTreeMap::new();
        for ((service, site, process, _), curve) in &curves {
            let leak = leaks.entry((service, *site)).or_default();
            let host = curve[0].process.labels.host.as_str();
            leak.1.insert(host);
            leak.3.insert(*process);
            let x = |row: &SiteRow| i128::from(row.slot - seen[process].0);
            let y = |row: &SiteRow| i128::from(row.live_blocks);
            let sum = |term: &dyn Fn(&SiteRow) -> i128| curve.iter().map(|row| term(row)).sum::<i128>() as f64;
            let n = curve.len() as f64;
            let (sx, sy) = (sum(&x), sum(&y));
            let (sxx, sxy, syy) =
                (sum(&|row| x(row) * x(row)), sum(&|row| x(row) * y(row)), sum(&|row| y(row) * y(row)));
            let (dxx, dxy, dyy) = (n * sxx - sx * sx, n * sxy - sx * sy, n * syy - sy * sy);
            let (slope, r2) = (3600.0 * dxy / dxx, dxy * dxy / (dxx * dyy));
            if n >= rule.slots as f64 && dyy > 0.0 && dxx > 0.0 && r2 >= rule.r2 && slope >= rule.blocks_per_hour {
                leak.0.insert(host);
                leak.2.insert(*process);
                leak.4.push(slope);
                leak.5.push(r2);
            }
        }
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let mut order: Vec<_> = leaks.into_iter().filter(|(_, leak)| !leak.0.is_empty()).collect();
        let fastest = |leak: &Leak<'_>| leak.4.iter().copied().fold(0.0, f64::max);
        order.sort_by(|(key, a), (other, b)| {
            b.0.len().cmp(&a.0.len()).then(fastest(b).total_cmp(&fastest(a))).then(key.cmp(other))
        });
        let expected: Vec<Vec<Value>> = order
            .iter()
            .map(|((service, site), leak)| {
                let counts = [leak.0.len(), leak.1.len(), leak.2.len(), leak.3.len()].map(|count| json!(count));
                let mut row = vec![json!(service), json!(site)];
                row.extend(counts);
                row.extend([json!(least(&leak.4)), json!(fastest(leak)), json!(least(&leak.5))]);
                row
            })
            .collect();
        let names = "service site_id hosts hosts_seen processes processes_seen slowest fastest r2";
        let names: Vec<&str> = names.split(' ').collect();
        for table in tables(scope) {
            let answer = ask(lake, &leaks_sql(scope, table, rule, 0), scope);
            assert_eq!(columns(&answer, &names), expected, "{table:?} {scope:?}");
        }
        if scope.labels.is_empty() {
            assert!(expected.len() >= 4, "the leaks are found: {expected:?}");
        }
    });
}

#[test]
fn a_difference_is_one_of_means_by_service() {
    on_random_lakes("diff", |lake, rows, scope, passes| {
        let (processes, sites) = chosen(rows, passes);
        let hour = START + 3600;
        type Pair = (FleetScope, FleetScope, Passes, Passes);
        let pairs: [Pair; 3] = [
            (
                part(None, None, &["region=eu west's"]),
                part(None, None, &["region=us_west\\2"]),
                |labels, _| labels.region == "eu west's",
                |labels, _| labels.region == "us_west\\2",
            ),
            (
                part(None, Some(hour), &[]),
                part(Some(hour), None, &[]),
                |_, slot| slot < START + 3600,
                |_, slot| slot >= START + 3600,
            ),
            (
                part(None, None, &["service=checkout"]),
                part(None, None, &["service=007"]),
                |labels, _| labels.service == "checkout",
                |labels, _| labels.service == "007",
            ),
        ];
        for (a, b, in_a, in_b) in pairs {
            let has_services = !a.labels.is_empty() && a.labels[0].label == FleetLabel::Service;
            let group = |labels: &Labels| if has_services { String::new() } else { labels.service.clone() };
            let mut runs: BTreeMap<String, (f64, f64)> = BTreeMap::new();
            for row in &processes {
                let run = runs.entry(group(&row.process.labels)).or_default();
                run.0 += f64::from(u8::from(in_a(&row.process.labels, row.slot)));
                run.1 += f64::from(u8::from(in_b(&row.process.labels, row.slot)));
            }
            let mut held: BTreeMap<(String, i64), (i64, i64)> = BTreeMap::new();
            for row in &sites {
                let labels = &row.process.labels;
                let site = held.entry((group(labels), row.site_id)).or_default();
                site.0 += i64::from(in_a(labels, row.slot)) * row.live_bytes;
                site.1 += i64::from(in_b(labels, row.slot)) * row.live_bytes;
            }
            let mut expected: Vec<(String, i64, f64, f64, f64)> = Vec::new();
            for ((service, site), bytes) in held {
                let (a_n, b_n) = runs[&service];
                let (a, b) = (bytes.0 as f64 / a_n, bytes.1 as f64 / b_n);
                if a_n > 0.0 && b_n > 0.0 && a != b {
                    expected.push((service, site, a, b, b - a));
                }
            }
            expected.sort_by(|a, b| b.4.abs().total_cmp(&a.4.abs()).then_with(|| (&a.0, a.1).cmp(&(&b.0, b.1))));
            let expected: Vec<Vec<Value>> = expected
                .into_iter()
                .map(|row| vec![json!(row.0), json!(row.1), json!(row.2), json!(row.3), json!(row.4)])
                .collect();
            for table in tables(scope) {
                let answer = ask(lake, &diff_sql(scope, &a, &b, table, 0), &joint(scope, &a, &b));
                let names = ["service", "site_id", "a_mean", "b_mean", "more"];
                assert_eq!(columns(&answer, &names), expected, "{table:?} {scope:?} {a:?}");
            }
        }
    });
}

/// Roll-up and slots together, in scopes that begin and end anywhere.
#[test]
fn whole_hours_and_the_slots_around_them_give_what_all_slots_give() {
    let mut dice = Dice(7);
    let mut rows = 0;
    for seed in [2, 30, 400] {
        let folder = Folder::new(&format!("edges-{seed}"));
        random_lake(&folder.0, seed);
        let lake = open(&folder.0);
        // The third hour stays as hosts wrote it.
        let options = CompactOptions { until: START + 7200, memory: 64 << 20 };
        compact(lake.lake(), &options, &mut |_, _| {}).unwrap();
        for filters in [&[][..], &["host=web-*"], &["container=pod 1", "host!=web-2"]] {
            let offset = 1 + dice.below(3598) as i64;
            let since = if dice.below(2) == 0 { START - offset } else { START + offset };
            let scope = part(Some(since), Some(START + 7200 + dice.below(2500) as i64), filters);
            for table in [lake.site_table(&scope, false), lake.line_table(&scope, false)] {
                assert_eq!(table.unwrap(), (SiteTable::Edges, scope.clone()));
            }
            let answers = |table: SiteTable| -> Vec<Vec<Value>> {
                let all = LeakRule { slots: 5, r2: 0.0, blocks_per_hour: -1e9 };
                let (a, b) = (part(None, None, &["region=eu west's"]), part(None, None, &["region=us_west\\2"]));
                let texts = [
                    leaks_sql(&scope, table, LeakRule::default(), 0),
                    leaks_sql(&scope, table, all, 0),
                    growth_sql(&scope, table, &VersionPair::Latest, false, 0),
                    growth_sql(&scope, table, &VersionPair::Latest, true, 0),
                    diff_sql(&scope, &a, &b, table, 0),
                ];
                let answer = |sql: &String| {
                    let found = lake.ask_sites(sql, &scope, table, 1_000_000, &|| true).unwrap();
                    assert_eq!(found.left_out, [""; 0]);
                    found.answer.objects().collect()
                };
                texts.iter().map(answer).collect()
            };
            let expected = answers(SiteTable::Minutes);
            rows += expected.iter().map(Vec::len).sum::<usize>();
            assert_eq!(answers(SiteTable::Edges), expected, "{seed} {scope:?}");
        }
        // Slots of the whole hours are not even opened.
        let scope = part(Some(START + 60), Some(START + 7260), &[]);
        let inner = SlotRange { from: START + 3600, until: START + 7200 };
        for file in lake.lake().files(Table::Sites, inner).unwrap().compacted {
            std::fs::write(folder.0.join(file.key), "no Parquet").unwrap();
        }
        let left_out = |table: SiteTable| {
            let sql = leaks_sql(&scope, table, LeakRule::default(), 0);
            lake.ask_sites(&sql, &scope, table, 1000, &|| true).unwrap().left_out.len()
        };
        assert_eq!(left_out(SiteTable::Edges), 0);
        assert!(left_out(SiteTable::Minutes) > 0);
    }
    assert!(rows > 300, "{rows} rows");
}

#[test]
fn a_line_through_billions_of_blocks_is_exact_and_one_through_more_fails_no_question() {
    let folder = Folder::new("billions");
    let lake = open(&folder.0);
    let mut batch = Batch::default();
    let slots: Vec<i64> = (0..60).map(|number| START + number * 7200).collect();
    let curves = [(1, 2_000_000_000, 10_000_000), (2, (1 << 50) - 60, 1)];
    for (id, first, step) in curves {
        let labels = Labels { service: "s".into(), ..Labels::default() };
        let process = Arc::new(LakeProcess { labels, pid: 1, start_us: START * 1_000_000, process_id: id });
        for (slot, live_blocks) in slots.iter().zip((0..).map(|number| first + number * step)) {
            let (slot, sample_period, live_bytes) = (*slot, 0, live_blocks);
            batch.processes.push(ProcessRow {
                slot,
                process: Arc::clone(&process),
                sample_period,
                live_bytes,
                live_blocks,
                rss_bytes: None,
                limit_bytes: None,
            });
            batch.sites.push(SiteRow {
                slot,
                process: Arc::clone(&process),
                stack_id: id,
                site_id: id,
                sample_period,
                live_bytes,
                live_blocks,
                alloc_bytes: None,
                alloc_blocks: None,
            });
        }
    }
    lake.lake().add("a", &batch).unwrap();
    let scope = FleetScope::default();
    let answer = ask(&lake, &leaks_sql(&scope, SiteTable::Minutes, LeakRule::default(), 0), &scope);
    let points: Vec<(i128, i128)> =
        batch.sites[..60].iter().map(|row| (i128::from(row.slot - START), i128::from(row.live_blocks))).collect();
    let sum = |term: &dyn Fn(i128, i128) -> i128| points.iter().map(|(x, y)| term(*x, *y)).sum::<i128>() as f64;
    let (n, sx, sy) = (60.0, sum(&|x, _| x), sum(&|_, y| y));
    let (sxx, sxy, syy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    assert!(syy > 9.3e18, "the sum of the squares has more than 63 bits");
    let (dxx, dxy, dyy) = (n * sxx - sx * sx, n * sxy - sx * sy, n * syy - sy * sy);
    let expected = vec![json!(1), json!(3600.0 * dxy / dxx), json!(dxy * dxy / (dxx * dyy))];
    assert_eq!(columns(&answer, &["site_id", "slowest", "r2"]), [expected]);
    // The roll-up lacks the sums of the second process: lines are fitted to slots.
    compact(lake.lake(), &CompactOptions { until: i64::MAX, memory: 64 << 20 }, &mut |_, _| {}).unwrap();
    let later = part(Some(START + 60), None, &[]);
    assert_eq!(lake.site_table(&later, false).unwrap(), (SiteTable::Edges, later.clone()));
    assert_eq!(lake.line_table(&later, false).unwrap(), (SiteTable::Minutes, later));
}

#[test]
fn processes_have_their_slope_and_the_time_to_their_limit() {
    let at_limit = Cell::new(0);
    on_random_lakes("processes", |lake, rows, scope, passes| {
        let (processes, _) = chosen(rows, passes);
        let mut by_process: BTreeMap<i64, Vec<&ProcessRow>> = BTreeMap::new();
        processes.iter().for_each(|row| by_process.entry(row.process.process_id).or_default().push(row));
        let mut expected: Vec<(f64, i64, i64, i64, Option<f64>)> = Vec::new();
        for (process, rows) in by_process.iter().filter(|(_, rows)| rows.len() >= 3) {
            let first = rows.iter().map(|row| row.slot).min().unwrap();
            let last = rows.iter().max_by_key(|row| row.slot).unwrap();
            let sum = |term: &dyn Fn(i128, i128) -> i128| {
                let term = |row: &&ProcessRow| term(i128::from(row.slot - first), i128::from(row.live_bytes / 1024));
                rows.iter().map(term).sum::<i128>() as f64
            };
            let (n, sx, sy) = (rows.len() as f64, sum(&|x, _| x), sum(&|_, y| y));
            let (sxx, sxy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
            let slope = 3_686_400.0 * (n * sxy - sx * sy) / (n * sxx - sx * sx);
            let used = last.rss_bytes.unwrap_or(last.live_bytes);
            // One that has reached its limit has no time left, whether it grows or not.
            let hours = last.limit_bytes.and_then(|limit| match limit <= used {
                true => Some(0.0),
                false => (slope > 0.0).then(|| (limit - used) as f64 / slope),
            });
            at_limit.set(at_limit.get() + usize::from(hours == Some(0.0)));
            expected.push((slope, *process, last.live_bytes, rows.len() as i64, hours));
        }
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let rows = |list: &[(f64, i64, i64, i64, Option<f64>)]| -> Vec<Vec<Value>> {
            list.iter().map(|row| vec![json!(row.0), json!(row.1), json!(row.2), json!(row.3), json!(row.4)]).collect()
        };
        let names = ["bytes_per_hour", "process_id", "live_bytes", "slots", "hours_to_limit"];
        let answer = ask(lake, &processes_sql(scope, ProcessOrder::Slope, 3, 0), scope);
        assert_eq!(columns(&answer, &names), rows(&expected), "{scope:?}");
        expected.sort_by(|a, b| a.4.unwrap_or(1e300).total_cmp(&b.4.unwrap_or(1e300)).then(a.1.cmp(&b.1)));
        let answer = ask(lake, &processes_sql(scope, ProcessOrder::Limit, 3, 5), scope);
        assert_eq!(columns(&answer, &names), rows(&expected[..expected.len().min(5)]), "{scope:?}");
    });
    assert!(at_limit.get() > 0, "no process was at its limit");
}

#[test]
fn a_bucket_of_the_timeline_is_its_fullest_slot() {
    on_random_lakes("timeline", |lake, rows, scope, passes| {
        let (processes, _) = chosen(rows, passes);
        let mut totals: BTreeMap<i64, i64> = BTreeMap::new();
        processes.iter().for_each(|row| *totals.entry(row.slot).or_default() += row.live_bytes);
        let mut shown: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        if let (Some((first, _)), Some((last, _))) = (totals.first_key_value(), totals.last_key_value()) {
            for (slot, bytes) in &totals {
                let bucket = (slot - first) * 10 / (last - first + 1);
                let fullest = shown.entry(bucket).or_insert((*bytes, *slot));
                if *bytes > fullest.0 {
                    *fullest = (*bytes, *slot);
                }
            }
        }
        let slots: BTreeSet<i64> = shown.values().map(|(_, slot)| *slot).collect();
        let mut expected: BTreeMap<(i64, &str), (i64, i64)> = BTreeMap::new();
        for row in processes.iter().filter(|row| slots.contains(&row.slot)) {
            let group = expected.entry((row.slot, &row.process.labels.version)).or_default();
            *group = (group.0 + row.live_bytes, group.1 + 1);
        }
        let expected: Vec<Vec<Value>> =
            expected.iter().map(|(key, sum)| vec![json!(key.0), json!(key.1), json!(sum.0), json!(sum.1)]).collect();
        let answer = ask(lake, &timeline_sql(scope, FleetLabel::Version, 10), scope);
        assert_eq!(columns(&answer, &["slot", "grp", "bytes", "processes"]), expected, "{scope:?}");
    });
}

#[test]
fn the_latest_slot_waits_for_hosts_that_send_later() {
    let folder = Folder::new("latest");
    let lake = open(&folder.0);
    let mut batch = Batch::default();
    // Slots of ten seconds. The second host has sent up to 300 seconds before the end.
    for (host, slots) in [("a", 0..100), ("b", 0..70)] {
        let labels = Labels { service: "s".into(), host: host.into(), ..Labels::default() };
        let process_id = if host == "a" { 1 } else { 2 };
        let process = Arc::new(LakeProcess { labels, pid: 1, start_us: START * 1_000_000, process_id });
        for slot in slots {
            batch.processes.push(ProcessRow {
                slot: START + 10 * slot,
                process: Arc::clone(&process),
                sample_period: 0,
                live_bytes: 1000,
                live_blocks: 1,
                rss_bytes: None,
                limit_bytes: None,
            });
            batch.sites.push(SiteRow {
                slot: START + 10 * slot,
                process: Arc::clone(&process),
                stack_id: 1,
                site_id: 1,
                sample_period: 0,
                live_bytes: 1000,
                live_blocks: 1,
                alloc_bytes: None,
                alloc_blocks: None,
            });
        }
    }
    lake.lake().add("a", &batch).unwrap();
    let scope = FleetScope::default();
    let answer = ask(&lake, &top_sql(&scope, FleetInstant::Latest, 0), &scope);
    assert_eq!(columns(&answer, &["slot", "bytes", "hosts"]), [[json!(START + 690), json!(2000), json!(2)]]);
}
