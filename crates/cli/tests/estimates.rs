//! Compares estimates with exact sums in rational arithmetic: weights are summed first and rounded last.

mod support;

use highwater_formats::memtrace::{TraceWriter, Version};
use highwater_model::{
    Catalog, Event, EventKind, FrameText, Heap, Nanos, Placement, Source, SourceKind, Tag, ThreadId, WordSampling,
};
use serde_json::Value;
use std::collections::BTreeMap;
use support::Place;

/// Rates as fractions, and as they are in a trace.
const RATES: [(u128, u128, f64); 4] = [(3, 10, 0.3), (37, 100, 0.37), (3, 4, 0.75), (1, 1000, 1e-3)];
const SITES: u64 = 7;
const DOMAINS: u64 = 2;
const EVENTS: u64 = 20_000;

/// The bytes that a number of samples stands for, 8 bytes over the rate each: rounded once, half up.
fn bytes(samples: u64, (over, under, _): (u128, u128, f64)) -> u64 {
    let (doubled, parts) = (2 * u128::from(samples) * 8 * under, 2 * over);
    ((doubled + over) / parts) as u64
}

/// An object of the trace. Times are in microseconds.
struct Object {
    born: u64,
    died: Option<u64>,
    samples: u64,
    site: u64,
    domain: u64,
}

/// Objects that are allocated and freed, each at a time of its own.
fn objects() -> Vec<Object> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut dice = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    let mut objects: Vec<Object> = Vec::new();
    let mut live = Vec::new();
    for time in 1..=EVENTS {
        if !live.is_empty() && dice(5) < 2 {
            let at: usize = live.swap_remove(dice(live.len() as u64) as usize);
            objects[at].died = Some(time);
        } else {
            live.push(objects.len());
            let samples = [1, 1, 1, 2, 3, 500][dice(6) as usize];
            objects.push(Object { born: time, died: None, samples, site: dice(SITES), domain: dice(DOMAINS) });
        }
    }
    objects
}

fn trace(objects: &[Object], rate: f64) -> Vec<u8> {
    let sampling = WordSampling::new(rate, 8).unwrap();
    let source = Source {
        kind: SourceKind::MEMTRACE,
        start_unix_ns: 1_700_000_000_000_000_000,
        word_sampling: Some(sampling),
        ..Source::default()
    };
    let mut catalog = Catalog::default();
    let tag = catalog.intern_tag(Tag { heap: Heap::Minor, ..Tag::default() });
    let stacks: Vec<_> = (0..SITES)
        .map(|site| {
            let function = format!("Site.f{site}");
            let frame =
                FrameText { function: &function, file: "site.ml", line: 1, address: 16 + site, ..Default::default() };
            catalog.intern_stack(&[frame])
        })
        .collect();
    let mut events = Vec::new();
    for (address, object) in (1..).zip(objects) {
        let weight = sampling.weight(3, object.samples as u32);
        let stack = stacks[object.site as usize];
        let place = Placement { address: address * 16, size: 24, stack, tag, weight, ..Placement::default() };
        let thread = ThreadId(object.domain);
        events.push(Event { time: Nanos(object.born * 1000), thread, kind: EventKind::Allocate(place) });
        if let Some(died) = object.died {
            let kind = EventKind::free(address * 16, None);
            events.push(Event { time: Nanos(died * 1000), thread, kind });
        }
    }
    events.sort_by_key(|event| event.time);
    let mut writer = TraceWriter::new(Vec::new(), &source, Version::V3).unwrap();
    events.iter().for_each(|event| writer.write_event(event, &catalog).unwrap());
    writer.finish(&catalog).unwrap().1
}

/// Samples allocated in a window, freed in it, live at its end, and the most live at once until then.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    allocated: u64,
    freed: u64,
    live: u64,
    peak: u64,
}

fn samples<'a>(objects: impl Iterator<Item = &'a Object>, from: u64, to: u64) -> Samples {
    let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
    let mut sums = Samples::default();
    for object in objects {
        changes.insert(object.born, object.samples as i64);
        sums.allocated += if (from..=to).contains(&object.born) { object.samples } else { 0 };
        if let Some(died) = object.died {
            changes.insert(died, -(object.samples as i64));
            sums.freed += if (from..=to).contains(&died) { object.samples } else { 0 };
        }
    }
    let mut live = 0;
    for (_, change) in changes.range(..=to) {
        live += change;
        sums.peak = sums.peak.max(live as u64);
    }
    Samples { live: live as u64, ..sums }
}

fn assert_figures(shown: &Value, samples: Samples, with_peak: bool, rate: (u128, u128, f64), what: &str) {
    let Samples { allocated, freed, live, peak } = samples;
    let mut expected = vec![("allocated_bytes", allocated), ("freed_bytes", freed), ("live_bytes", live)];
    expected.extend(with_peak.then_some(("peak_bytes", peak)));
    for (name, samples) in expected {
        assert_eq!(shown[name], bytes(samples, rate), "{what}: {name} of {samples} samples at {}", rate.2);
    }
}

fn assert_report(report: &Value, objects: &[Object], (from, to): (u64, u64), rate: (u128, u128, f64), what: &str) {
    let is_window = from > 0;
    assert_figures(&report["totals"], samples(objects.iter(), from, to), !is_window, rate, what);
    let sites = report["sites"].as_array().unwrap();
    assert_eq!(sites.len(), SITES as usize, "{what}");
    for site in sites {
        let name = site["stack"][0]["function"].as_str().unwrap();
        let number: u64 = name.strip_prefix("Site.f").unwrap().parse().unwrap();
        let own = samples(objects.iter().filter(|object| object.site == number), from, to);
        assert_figures(site, own, !is_window, rate, &format!("{what} {name}"));
    }
    for thread in report["threads"].as_array().into_iter().flatten() {
        let own = samples(objects.iter().filter(|object| Some(object.domain) == thread["id"].as_u64()), from, to);
        assert_figures(thread, own, true, rate, &format!("{what} domain {}", thread["id"]));
    }
}

#[test]
fn estimates_are_rounded_once_in_the_report_of_a_trace_and_of_its_recording() {
    let objects = objects();
    for rate in RATES {
        let place = Place::new();
        place.write("trace.ctf", trace(&objects, rate.2));
        assert_eq!(place.highwater("import trace.ctf -o trace.hw").code, 0);
        let check = place.highwater("check trace.hw");
        assert_eq!(check.code, 0, "{}", check.stdout);
        for file in ["trace.ctf", "trace.hw"] {
            let what = |more: &str| format!("{file} {more}");
            let end = place.json(&format!("report {file} --top 0"));
            assert_report(&end, &objects, (0, EVENTS), rate, &what("at its end"));
            let middle = place.json(&format!("report {file} --top 0 --at 7777us"));
            assert_report(&middle, &objects, (0, 7777), rate, &what("in the middle"));
            let window = place.json(&format!("report {file} --top 0 --from 5001us --to 15000us"));
            assert_report(&window, &objects, (5001, 15_000), rate, &what("in a window"));
            // By function the figures are the same, and one function has all of them.
            let file_row = &place.json(&format!("report {file} --by file"))["files"][0];
            assert_figures(file_row, samples(objects.iter(), 0, EVENTS), false, rate, &what("by file"));
        }
        let diff = place.json("diff trace.hw@5000us trace.hw@15000us");
        let live = |to| samples(objects.iter(), 0, to).live;
        let (before, after) = (live(5000), live(15_000));
        assert!(after > before);
        assert_eq!(diff["live_bytes_delta"], bytes(after - before, rate), "{}", rate.2);
    }
}

#[test]
fn what_samples_cannot_say_is_not_said() {
    let place = Place::new();
    place.write("trace.ctf", trace(&objects(), 0.3));
    for command in ["report trace.ctf --metric temporary", "report trace.ctf --metric temporary --from 1ms --to 2ms"] {
        place.highwater(command).is_one_clear_line_about(&["temporary allocations cannot be estimated from samples"]);
    }
    let export = place.highwater("export trace.ctf --to folded --metric temporary -o -");
    export.is_one_clear_line_about(&["temporary allocations cannot be estimated from samples"]);
    let report = place.json("report trace.ctf");
    assert_eq!(report["totals"]["temporary_allocations"], Value::Null);
    assert_eq!(report["sites"][0]["temporary_allocations"], Value::Null);
    assert_eq!(report["threads"][0]["temporary_allocations"], Value::Null);
    assert!(!place.highwater("report trace.ctf").stdout.contains("temporary"));
}
