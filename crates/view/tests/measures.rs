//! Every metric, with any filters, against the result of a naive pass over all events.

mod support;

use highwater_model::{Catalog, Nanos, Snapshot};
use highwater_query::{Filter, filtered_snapshot};
use highwater_store::Recording;
use highwater_store::history::{History, Work};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::Arc;
use support::history::{Placed, Sums, Truth, add, history, written};
use support::{Place, Running, encoded};

/// Whether a block in one state passes a filter, as the documentation of the API defines it.
fn passes(filter: &str, placed: &Placed, death: Option<u64>, catalog: &Catalog) -> bool {
    let (filter, is_negated) = filter.strip_prefix('!').map_or((filter, false), |rest| (rest, true));
    let (name, value) = filter.split_once(':').unwrap();
    let within = |number: u64| {
        let (least, most) = value.split_once("..").unwrap();
        least.parse().unwrap_or(0) <= number && number <= most.parse().unwrap_or(u64::MAX)
    };
    let tag = catalog.tag(placed.tag);
    let functions = || catalog.frame_texts(placed.stack).map(|frame| frame.function.to_owned());
    let some_frame = || {
        let (mode, text) = value.split_once(':').unwrap();
        functions().any(|function| match mode {
            "equal" => function == text,
            "contains" => function.contains(text),
            _ => regex::Regex::new(text).unwrap().is_match(&function),
        })
    };
    let is_it = match name {
        "allocated" => within(placed.birth),
        "freed" if value == "never" => death.is_none(),
        "freed" if value == "ever" => death.is_some(),
        "freed" => death.is_some_and(within),
        "live" => {
            let time = value.parse().unwrap();
            placed.birth <= time && death.is_none_or(|death| death > time)
        }
        "size" => within(placed.size),
        "lifetime" => death.is_some_and(|death| within(death - placed.birth)),
        "thread" => placed.thread.to_string() == value,
        "type" => catalog.strings.get(tag.type_name) == value,
        "heap" => tag.heap.name() == value,
        "module" => catalog.frame_texts(placed.stack).any(|frame| frame.module == value),
        "inside" => some_frame(),
        "outside" => !some_frame(),
        "site" => placed.stack.0.to_string() == value,
        other => panic!("{other}"),
    };
    is_it != is_negated
}

struct Asked {
    from: u64,
    to: u64,
    at: u64,
    filters: Vec<String>,
}

/// The expected value of a metric for each site.
fn expected(metric: &str, asked: &Asked, truth: &Truth, catalog: &Catalog) -> Sums {
    let Asked { from, to, at, filters } = asked;
    let window = *from..=*to;
    let death = |placed: &Placed| truth.deaths.get(&placed.id).copied();
    let wanted = |placed: &Placed| filters.iter().all(|filter| passes(filter, placed, death(placed), catalog));
    let asks_for_deaths = filters.iter().any(|filter| {
        ["freed:", "live:", "lifetime:"].iter().any(|name| filter.trim_start_matches('!').starts_with(name))
    });
    let is_last = |placed: &Placed| placed.end.is_none() || placed.is_freed;
    let mut sums = Sums::new();
    match metric {
        "live" => truth.live_at(*at).filter(|placed| wanted(placed)).for_each(|p| add(&mut sums, p, p.size)),
        "peak" => {
            let (steps, _) = truth.highest(*from, *to);
            truth.live_after(steps).filter(|placed| wanted(placed)).for_each(|p| add(&mut sums, p, p.size));
        }
        "leaked" => {
            let all = truth.placed.iter().filter(|placed| placed.end.is_none() && window.contains(&placed.birth));
            all.filter(|placed| wanted(placed)).for_each(|p| add(&mut sums, p, p.size));
        }
        "allocated" if asks_for_deaths => {
            let all = truth.placed.iter().filter(|placed| is_last(placed) && window.contains(&placed.birth));
            all.filter(|placed| wanted(placed)).for_each(|p| add(&mut sums, p, p.size));
        }
        "allocated" => {
            let all = truth.placed.iter().filter(|placed| window.contains(&placed.start));
            all.filter(|placed| wanted(placed)).for_each(|p| add(&mut sums, p, p.size));
        }
        "freed" => {
            let ended = |placed: &&Placed| placed.end.is_some_and(|end| window.contains(&end));
            let all = truth.placed.iter().filter(ended).filter(|placed| !asks_for_deaths || placed.is_freed);
            all.filter(|placed| wanted(placed)).for_each(|p| add(&mut sums, p, p.size));
        }
        "temporary" => {
            let all = truth.placed.iter().filter(|placed| placed.is_temporary);
            let all = all.filter(|placed| placed.end.is_some_and(|end| window.contains(&end)));
            all.filter(|placed| wanted(placed)).for_each(|p| add(&mut sums, p, 1));
        }
        other => panic!("{other}"),
    }
    sums
}

fn told(answer: &Value) -> Sums {
    let rows = answer["rows"].as_array().unwrap();
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    rows.iter().map(|row| (number(row, "id") as u32, (number(row, "value"), number(row, "blocks")))).collect()
}

fn filter(duration: u64) -> impl Strategy<Value = String> {
    let range = (0..=duration, 0..=duration).prop_map(|(a, b)| format!("{}..{}", a.min(b), a.max(b)));
    let open =
        prop_oneof![(0..=duration).prop_map(|a| format!("{a}..")), (0..=duration).prop_map(|a| format!("..{a}"))];
    let times = prop_oneof![range, open];
    let text = prop_oneof![
        times.clone().prop_map(|times| format!("allocated:{times}")),
        times.clone().prop_map(|times| format!("freed:{times}")),
        times.prop_map(|times| format!("lifetime:{times}")),
        Just("freed:never".to_owned()),
        Just("freed:ever".to_owned()),
        (0..=duration).prop_map(|time| format!("live:{time}")),
        (0..500u64, 0..500u64).prop_map(|(a, b)| format!("size:{}..{}", a.min(b), a.max(b))),
        (1..4u64).prop_map(|thread| format!("thread:{thread}")),
        prop_oneof![Just("Vec<u8>"), Just("Other")].prop_map(|name| format!("type:{name}")),
        prop_oneof![Just("malloc"), Just("mmap"), Just("minor")].prop_map(|name| format!("heap:{name}")),
        prop_oneof![Just("demo"), Just("lib.so")].prop_map(|name| format!("module:{name}")),
        prop_oneof![Just("inside"), Just("outside")].prop_flat_map(|name| {
            prop_oneof![Just("equal:make_2"), Just("contains:step_1"), Just("regex:^make_[024]$"), Just("equal:nobody")]
                .prop_map(move |mode| format!("{name}:{mode}"))
        }),
        (1..12u32).prop_map(|site| format!("site:{site}")),
    ];
    (text, prop::bool::ANY).prop_map(|(text, is_negated)| if is_negated { format!("!{text}") } else { text })
}

fn query(asked: &Asked) -> String {
    let filters: String = asked.filters.iter().map(|filter| format!("&filter={}", encoded(filter))).collect();
    format!("from={}&to={}&at={}{filters}", asked.from, asked.to, asked.at)
}

/// The step with which a block was born.
fn first_step(truth: &Truth, id: u64) -> usize {
    truth.placed.iter().find(|placed| placed.id == id).unwrap().start_step
}

/// The most bytes that wanted blocks held at once within the window, and when they first did.
fn own_peak(truth: &Truth, asked: &Asked, asks_for_deaths: bool, wanted: &dyn Fn(&&Placed) -> bool) -> (u64, u64) {
    let Asked { from, to, .. } = *asked;
    let mut best = (0, from);
    let mut see = |bytes: u64, at: u64| {
        if bytes > best.0 {
            best = (bytes, at);
        }
    };
    if asks_for_deaths {
        // By time: all events of one time are applied together.
        let live_at = |time: u64| truth.live_at(time).filter(wanted).map(|placed| placed.size).sum();
        let before = truth.placed.iter().filter(|p| p.start < from && p.end.is_none_or(|end| end >= from));
        see(before.filter(wanted).map(|placed| placed.size).sum(), from);
        truth
            .steps
            .iter()
            .filter(|step| (from..=to).contains(&step.time.0))
            .for_each(|s| see(live_at(s.time.0), s.time.0));
        return best;
    }
    let before = truth.steps.iter().take_while(|step| step.time.0 < from).count();
    let until = truth.steps.iter().take_while(|step| step.time.0 <= to).count();
    for steps in before..=until {
        let is_instant = steps == before || truth.steps[steps - 1].op.is_event();
        let at = if steps == before { from } else { truth.steps[steps - 1].time.0 };
        if is_instant {
            see(truth.live_after(steps).filter(wanted).map(|placed| placed.size).sum(), at);
        }
    }
    best
}

/// The live bytes of each site of a snapshot, with blocks.
fn live_sites(snapshot: &Snapshot) -> Sums {
    let sites = snapshot.accounts.sites().iter().filter(|(_, figures)| figures.live_blocks() > 0);
    sites.map(|(stack, figures)| (stack.0, (figures.live_bytes(), figures.live_blocks()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The snapshot that the command line works on: live blocks, and all counters, are those of the states that pass.
    #[test]
    fn a_filtered_snapshot_is_the_part_that_passes(
        seed in any::<u64>(),
        filters in prop::collection::vec(filter(60_000), 1..4),
        at in 0..60_000u64,
    ) {
        let (catalog, events) = history(seed, 600);
        let truth = Truth::of(&events);
        let recording = Recording::from_bytes(written(&catalog, &events, 150, 40)).unwrap();
        let history = Arc::new(History::of_recording(Arc::new(recording)).unwrap());
        let at = at.min(history.whole().to.0);
        let parsed: Vec<Filter> = filters.iter().map(|filter| filter.parse().unwrap()).collect();
        let moment = history.moment_at(Nanos(at));
        let part = filtered_snapshot(&history, moment, &parsed, &Work::quiet()).unwrap();
        let asked = Asked { from: 0, to: at, at, filters: filters.clone() };
        prop_assert_eq!(live_sites(&part), expected("live", &asked, &truth, &catalog));
        prop_assert_eq!(part.violations(), Vec::<String>::new());
        let death = |placed: &Placed| truth.deaths.get(&placed.id).copied();
        let passing = || {
            let wanted = |p: &&Placed| filters.iter().all(|filter| passes(filter, p, death(p), &catalog));
            truth.placed.iter().filter(wanted)
        };
        let figures = &part.accounts.totals().figures;
        let allocated: u64 = passing().filter(|placed| placed.start <= at).map(|placed| placed.size).sum();
        let freed: u64 = passing().filter(|placed| placed.end.is_some_and(|end| end <= at)).map(|placed| placed.size).sum();
        prop_assert_eq!((figures.allocated_bytes, figures.freed_bytes), (allocated, freed));
        let temporary = passing().filter(|placed| placed.is_temporary && placed.end.is_some_and(|end| end <= at)).count();
        prop_assert_eq!(figures.temporary_allocations, temporary as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_metric_with_any_filters_is_what_a_naive_pass_says(
        seed in 1u64..10_000,
        every in 20u64..400,
        flush in 5usize..150,
        ends in (0.0f64..1.0, 0.0f64..1.0, 0.0f64..1.0),
        filters in prop::collection::vec(filter(60_000), 0..4),
        is_gone_through in prop::bool::ANY,
    ) {
        let (catalog, events) = history(seed, 400);
        let truth = Truth::of(&events);
        let place = Place::new();
        let file = place.write("random.hw", &written(&catalog, &events, every, flush));
        let server = Running::new(&[file]);
        let duration = events.last().unwrap().time.0;
        let time = |part: f64| (duration as f64 * part) as u64;
        let (from, to) = (time(ends.0.min(ends.1)), time(ends.0.max(ends.1)));
        let asked = Asked { from, to, at: time(ends.2), filters };
        if is_gone_through {
            server.ask("timeline?points=1");
        }
        for metric in ["live", "peak", "allocated", "leaked", "temporary", "freed"] {
            let question = format!("rows?by=site&limit=1000&metric={metric}&{}", query(&asked));
            let answer = server.ask(&question);
            let expected = expected(metric, &asked, &truth, &catalog);
            prop_assert_eq!(told(&answer), expected.clone(), "{}", question);
            // The other tables and the flame graph have the same sums.
            let total: u64 = expected.values().map(|sum| sum.0).sum();
            for by in ["function", "file", "module", "thread", "heap"] {
                let rows = server.ask(&format!("rows?by={by}&limit=1000&metric={metric}&{}", query(&asked)));
                let sum: u64 = rows["rows"].as_array().unwrap().iter().map(|row| row["value"].as_u64().unwrap()).sum();
                prop_assert_eq!(sum, total, "{} {}", by, question);
            }
            let tree = server.ask(&format!("tree?least=0&library=1&metric={metric}&{}", query(&asked)));
            prop_assert_eq!(tree["total"].as_u64().unwrap(), total);
            let own: u64 = tree["node_self"].as_array().unwrap().iter().map(|own| own.as_u64().unwrap()).sum();
            prop_assert_eq!(own, total);
        }
        let (_, bytes) = truth.highest(from, to);
        let timeline = server.ask(&format!("timeline?from={from}&to={to}&points=7"));
        prop_assert_eq!(timeline["peak"]["bytes"].as_u64().unwrap(), bytes);
        let high = timeline["live_bytes"]["high"].as_array().unwrap().iter().map(|high| high.as_u64().unwrap()).max();
        prop_assert_eq!(high.unwrap(), bytes);
    }

    #[test]
    fn figures_are_the_same_before_and_after_the_recording_was_gone_through(
        seed in 1u64..10_000,
        every in 20u64..400,
        flush in 5usize..150,
        times in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 3),
    ) {
        let (catalog, events) = history(seed, 400);
        let place = Place::new();
        let file = place.write("random.hw", &written(&catalog, &events, every, flush));
        let (fresh, gone_through) = (Running::new(std::slice::from_ref(&file)), Running::new(&[file]));
        gone_through.ask("timeline?points=1");
        let duration = events.last().unwrap().time.0;
        for (a, b) in times {
            let (from, to) = ((duration as f64 * a.min(b)) as u64, (duration as f64 * a.max(b)) as u64);
            for by in ["site", "thread", "heap", "function"] {
                for metric in ["live", "peak", "allocated", "temporary", "freed"] {
                    let question = format!("rows?by={by}&metric={metric}&from={from}&to={to}&limit=1000");
                    prop_assert_eq!(fresh.ask(&question), gone_through.ask(&question), "{}", question);
                }
            }
            let question = format!("overview?from={from}&to={to}&at=peak");
            prop_assert_eq!(fresh.ask(&question), gone_through.ask(&question), "{}", question);
        }
    }

    #[test]
    fn timelines_show_what_was_live_and_what_came_in_each_bin(
        seed in 1u64..10_000,
        every in 20u64..400,
        points in 1usize..50,
        ends in (0.0f64..1.0, 0.0f64..1.0),
        filters in prop::collection::vec(filter(60_000), 0..3),
    ) {
        let (catalog, events) = history(seed, 300);
        let truth = Truth::of(&events);
        let place = Place::new();
        let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, every, 40))]);
        let duration = events.last().unwrap().time.0;
        let time = |part: f64| (duration as f64 * part) as u64;
        let (from, to) = (time(ends.0.min(ends.1)), time(ends.0.max(ends.1)));
        let asked = Asked { from, to, at: to, filters };
        let answer = server.ask(&format!("timeline?points={points}&{}", query(&asked)));
        let numbers = |value: &Value| value.as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect::<Vec<_>>();
        let edges = numbers(&answer["t"]);
        prop_assert_eq!((edges[0], *edges.last().unwrap()), (from, to));
        let death = |placed: &Placed| truth.deaths.get(&placed.id).copied();
        let wanted = |placed: &&Placed| asked.filters.iter().all(|filter| passes(filter, placed, death(placed), &catalog));
        let last = numbers(&answer["live_bytes"]["last"]);
        let allocated = numbers(&answer["allocated_bytes"]);
        for at in 0..last.len() {
            let is_final = at + 1 == last.len();
            let (begin, end) = (edges[at], if is_final { edges[at + 1] } else { edges[at + 1] - 1 });
            let live: u64 = truth.live_at(end).filter(wanted).map(|placed| placed.size).sum();
            let came: u64 = truth.placed.iter().filter(|p| (begin..=end).contains(&p.start)).filter(wanted).map(|p| p.size).sum();
            prop_assert_eq!((last[at], allocated[at]), (live, came), "bin {}", at);
        }
    }

    #[test]
    fn bands_are_what_a_naive_pass_says_with_any_filters(
        seed in 1u64..10_000,
        every in 20u64..400,
        points in 1usize..30,
        top in 0usize..4,
        ends in (0.0f64..1.0, 0.0f64..1.0),
        filters in prop::collection::vec(filter(60_000), 0..3),
    ) {
        let (catalog, events) = history(seed, 300);
        let truth = Truth::of(&events);
        let place = Place::new();
        let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, every, 40))]);
        let duration = events.last().unwrap().time.0;
        let time = |part: f64| (duration as f64 * part) as u64;
        let (from, to) = (time(ends.0.min(ends.1)), time(ends.0.max(ends.1)));
        let asked = Asked { from, to, at: to, filters };
        let numbers = |value: &Value| value.as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect::<Vec<_>>();
        let timeline = server.ask(&format!("timeline?points={points}&{}", query(&asked)));
        let death = |placed: &Placed| truth.deaths.get(&placed.id).copied();
        let wanted = |placed: &&Placed| asked.filters.iter().all(|filter| passes(filter, placed, death(placed), &catalog));
        let naive_key = |by: &str, placed: &Placed| -> String {
            let tag = catalog.tag(placed.tag);
            match by {
                "site" => placed.stack.0.to_string(),
                "thread" => placed.thread.to_string(),
                "heap" => tag.heap.name().to_owned(),
                "type" => catalog.strings.get(tag.type_name).to_owned(),
                "module" => catalog.frame_texts(placed.stack).next().map_or("[unknown]", |frame| frame.module).to_owned(),
                _ => catalog.frame_texts(placed.stack).next().map_or("[unknown]", |frame| frame.function).to_owned(),
            }
        };
        for by in ["site", "function", "module", "thread", "heap", "type"] {
            let answer = server.ask(&format!("bands?by={by}&top={top}&points={points}&{}", query(&asked)));
            prop_assert_eq!(&answer["t"], &timeline["t"]);
            prop_assert_eq!(&answer["total"]["bytes"], &timeline["live_bytes"]["last"], "{}", by);
            prop_assert_eq!(&answer["total"]["blocks"], &timeline["live_blocks"]["last"], "{}", by);
            let bands = answer["bands"].as_array().unwrap();
            prop_assert!(bands.len() <= top);
            for (bin, at) in numbers(&answer["at"]).into_iter().enumerate() {
                let mut sum = 0;
                for band in bands {
                    let key = band["id"].as_u64().map_or_else(|| band["key"].as_str().unwrap().to_owned(), |id| id.to_string());
                    let of_band = |placed: &&Placed| naive_key(by, placed) == key;
                    let (bytes, blocks) = truth.live_at(at).filter(wanted).filter(of_band).fold((0, 0), |sum, placed| (sum.0 + placed.size, sum.1 + 1));
                    prop_assert_eq!((band["bytes"][bin].as_u64(), band["blocks"][bin].as_u64()), (Some(bytes), Some(blocks)), "{} {} at {}", by, key, at);
                    sum += bytes as i64;
                }
                let total: u64 = truth.live_at(at).filter(wanted).map(|placed| placed.size).sum();
                prop_assert_eq!(sum + answer["rest"]["bytes"][bin].as_i64().unwrap(), total as i64);
            }
        }
    }

    #[test]
    fn every_figure_of_the_overview_is_that_of_the_blocks_that_pass(
        seed in 1u64..10_000,
        every in 20u64..400,
        ends in (0.0f64..1.0, 0.0f64..1.0),
        filters in prop::collection::vec(filter(60_000), 0..3),
    ) {
        let (catalog, events) = history(seed, 300);
        let truth = Truth::of(&events);
        let place = Place::new();
        let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, every, 40))]);
        let duration = events.last().unwrap().time.0;
        let time = |part: f64| (duration as f64 * part) as u64;
        let (from, to) = (time(ends.0.min(ends.1)), time(ends.0.max(ends.1)));
        let asked = Asked { from, to, at: to, filters };
        let figures = server.ask(&format!("overview?{}", query(&asked)))["figures"].take();
        let death = |placed: &Placed| truth.deaths.get(&placed.id).copied();
        let asks_for_deaths = asked.filters.iter().any(|filter| {
            ["freed:", "live:", "lifetime:"].iter().any(|name| filter.trim_start_matches('!').starts_with(name))
        });
        let wanted = |placed: &&Placed| asked.filters.iter().all(|filter| passes(filter, placed, death(placed), &catalog));
        let sum = |metric: &str| {
            let all = expected(metric, &asked, &truth, &catalog);
            (all.values().map(|sum| sum.0).sum::<u64>(), all.values().map(|sum| sum.1).sum::<u64>())
        };
        let window = from..=to;
        let resized_to = || truth.placed.iter().filter(|p| p.start_step != first_step(&truth, p.id) && window.contains(&p.start));
        let resized_from = || truth.placed.iter().filter(|p| !p.is_freed && p.end.is_some_and(|end| window.contains(&end)));
        let count = |all: usize| all as u64;
        let (allocated, freed, temporary) = (sum("allocated"), sum("freed"), sum("temporary"));
        let figure = |name: &str| figures[name].as_u64();
        prop_assert_eq!((figure("live_bytes"), figure("live_blocks")), (Some(sum("live").0), Some(sum("live").1)));
        prop_assert_eq!((figure("allocated_bytes"), figure("allocated_blocks")), (Some(allocated.0), Some(allocated.1)));
        prop_assert_eq!(figure("freed_bytes"), Some(freed.0));
        prop_assert_eq!(figure("temporary_allocations"), Some(temporary.0));
        if asks_for_deaths {
            // Each block counts once; the number of its resizes is absent, not zero.
            prop_assert_eq!((figure("allocations"), figure("reallocations"), figure("frees")), (Some(allocated.1), None, Some(freed.1)));
        } else {
            let moved = (count(resized_to().filter(wanted).count()), count(resized_from().filter(wanted).count()));
            let told = (figure("allocations"), figure("reallocations"), figure("frees"));
            prop_assert_eq!(told, (Some(allocated.1 - moved.0), Some(moved.0), Some(freed.1 - moved.1)));
        }
        let (bytes, at) = if asked.filters.is_empty() {
            let (steps, bytes) = truth.highest(from, to);
            (bytes, steps.checked_sub(1).map_or(0, |step| truth.steps[step].time.0).max(from))
        } else {
            own_peak(&truth, &asked, asks_for_deaths, &wanted)
        };
        prop_assert_eq!((figure("peak_bytes"), figure("peak_at_ns")), (Some(bytes), Some(at)));
        let peak = server.ask(&format!("peak?{}", query(&asked)));
        let highest = truth.highest(from, to).1;
        prop_assert_eq!(peak["bytes"].as_u64(), Some(highest));
        let told = if asked.filters.is_empty() { &peak } else { &peak["filtered"] };
        prop_assert_eq!((told["bytes"].as_u64(), told["at_ns"].as_u64()), (Some(bytes), Some(at)));
        let timeline = server.ask(&format!("timeline?points=5&{}", query(&asked)));
        prop_assert_eq!((timeline["peak"]["bytes"].as_u64(), timeline["peak"]["at_ns"].as_u64()), (Some(bytes), Some(at)));
    }

    #[test]
    fn blocks_and_histograms_are_those_that_pass(
        seed in 1u64..10_000,
        every in 20u64..400,
        at in 0.0f64..1.0,
        filters in prop::collection::vec(filter(60_000), 0..3),
    ) {
        let (catalog, events) = history(seed, 300);
        let truth = Truth::of(&events);
        let place = Place::new();
        let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, every, 40))]);
        let duration = events.last().unwrap().time.0;
        let asked = Asked { from: 0, to: duration, at: (duration as f64 * at) as u64, filters };
        let death = |placed: &Placed| truth.deaths.get(&placed.id).copied();
        let wanted = |placed: &&Placed| asked.filters.iter().all(|filter| passes(filter, placed, death(placed), &catalog));
        let named = |name: &str| asked.filters.iter().find_map(|filter| filter.strip_prefix(name));
        let population: Vec<&Placed> = match (named("live:"), named("allocated:")) {
            (Some(time), _) => truth.live_at(time.parse::<u64>().unwrap().min(duration)).filter(wanted).collect(),
            (None, Some(_)) => truth.placed.iter().filter(|p| p.end.is_none() || p.is_freed).filter(wanted).collect(),
            (None, None) => truth.live_at(asked.at).filter(wanted).collect(),
        };
        for sort in ["size", "time", "lifetime", "address"] {
            let answer = server.ask(&format!("blocks?limit=1000&sort={sort}&{}", query(&asked)));
            prop_assert_eq!(answer["count"].as_u64().unwrap() as usize, population.len());
            let mut told: Vec<(u64, u64, u64, Option<u64>)> = answer["blocks"].as_array().unwrap().iter().map(|block| {
                let number = |name: &str| block[name].as_u64().unwrap();
                (number("id"), number("size"), number("allocated_ns"), block["freed_ns"].as_u64())
            }).collect();
            let rank = |block: &(u64, u64, u64, Option<u64>)| match sort {
                "size" => block.1,
                "time" => block.2,
                "lifetime" => block.3.map_or(u64::MAX, |freed| freed - block.2),
                _ => 0,
            };
            prop_assert!(told.windows(2).all(|pair| rank(&pair[0]) >= rank(&pair[1])), "{}", sort);
            told.sort_unstable();
            let mut expected: Vec<_> = population.iter().map(|p| (p.id, p.size, p.birth, death(p))).collect();
            expected.sort_unstable();
            prop_assert_eq!(told, expected);
        }
        let histograms = server.ask(&format!("histograms?{}", query(&asked)));
        let count = |list: &Value, low: &str, high: &str, number: &dyn Fn(&Placed) -> Option<u64>| {
            list.as_array().unwrap().iter().all(|bar| {
                let (least, most) = (bar[low].as_u64().unwrap(), bar[high].as_u64().unwrap());
                let inside = population.iter().filter(|p| number(p).is_some_and(|number| (least..=most).contains(&number)));
                inside.count() as u64 == bar["blocks"].as_u64().unwrap()
            })
        };
        prop_assert!(count(&histograms["size"], "from", "to", &|p| Some(p.size)));
        prop_assert!(count(&histograms["lifetime"], "from_ns", "to_ns", &|p| death(p).map(|death| death - p.birth)));
        let never = population.iter().filter(|p| death(p).is_none()).count();
        prop_assert_eq!(histograms["never_freed"]["blocks"].as_u64().unwrap() as usize, never);
    }
}
