//! The viewer's sums of samples, against exact sums in rational arithmetic: rounded once, at the end.

mod support;

use highwater_model::{
    Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, SourceKind, ThreadId, WordSampling,
};
use highwater_store::{Spacing, Writer};
use support::{Place, Running};

const RATES: [(u128, u128, f64); 4] = [(3, 10, 0.3), (37, 100, 0.37), (3, 4, 0.75), (1, 1000, 1e-3)];
const OBJECTS: u64 = 3000;
/// Of each ten objects, this many die right after the last of the ten is born.
const DYING: u64 = 4;

fn bytes(samples: u64, (over, under, _): (u128, u128, f64)) -> u64 {
    ((2 * u128::from(samples) * 8 * under + over) / (2 * over)) as u64
}

fn samples_of(object: u64) -> u64 {
    [1, 2, 1, 1, 3, 1, 7][(object % 7) as usize]
}

fn is_born_by(object: u64, time: u64) -> bool {
    born(object) <= time
}

/// Objects are born a microsecond apart; those that die do so half a microsecond after the birth of the last of their ten.
fn born(object: u64) -> u64 {
    (object + 1) * 1000
}

fn death(object: u64) -> Option<u64> {
    (object % 10 < DYING).then(|| (object / 10 + 1) * 10_000 + 500)
}

fn recording(rate: f64) -> Vec<u8> {
    let sampling = WordSampling::new(rate, 8).unwrap();
    let source = Source {
        kind: SourceKind::MEMTRACE,
        word_sampling: Some(sampling),
        sample_rate: Some(sampling.bytes_per_sample().round() as u64),
        ..Source::default()
    };
    let mut catalog = Catalog::default();
    let stacks = ["f0", "f1", "f2"].map(|function| {
        let frames =
            [FrameText { function, ..FrameText::default() }, FrameText { function: "main", ..FrameText::default() }];
        catalog.intern_stack(&frames)
    });
    let mut events = Vec::new();
    for object in 0..OBJECTS {
        let (address, thread) = ((object + 1) * 16, ThreadId(object % 2));
        let weight = sampling.weight(3, samples_of(object) as u32);
        let stack = stacks[(object % 3) as usize];
        let place = Placement { address, size: 24, stack, weight, ..Placement::default() };
        events.push(Event { time: Nanos(born(object)), thread, kind: EventKind::Allocate(place) });
        if let Some(time) = death(object) {
            let kind = EventKind::free(address, None);
            events.push(Event { time: Nanos(time), thread, kind });
        }
    }
    events.sort_by_key(|event| event.time);
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.set_spacing(Spacing::every(500));
    for batch in events.chunks(170) {
        writer.append(batch, &catalog).unwrap();
        writer.flush(&catalog).unwrap();
    }
    let duration = events.last().unwrap().time;
    writer.finish(&catalog, &Source { duration, ..source }).unwrap().1
}

fn sum(is_meant: impl Fn(u64) -> bool) -> u64 {
    (0..OBJECTS).filter(|object| is_meant(*object)).map(samples_of).sum()
}

fn is_live(object: u64, time: u64) -> bool {
    is_born_by(object, time) && death(object).is_none_or(|death| death > time)
}

#[test]
fn every_answer_adds_up_first_and_rounds_last() {
    for rate in RATES {
        let place = Place::new();
        let path = place.write("estimates.hw", &recording(rate.2));
        let view = Running::new(&[path]);
        let value = |question: &str| view.ask(question)["total"]["value"].as_u64().unwrap();
        let (from, to) = (700_000, 2_100_000);
        let in_window = |time: u64| (from..=to).contains(&time);
        let window = format!("from={from}&to={to}&at={to}");
        let metrics: [(&str, &dyn Fn(u64) -> bool); 4] = [
            ("live", &|object| is_live(object, to)),
            ("allocated", &|object| in_window(born(object))),
            ("freed", &|object| death(object).is_some_and(in_window)),
            ("leaked", &|object| in_window(born(object)) && death(object).is_none()),
        ];
        // From figures, and from single blocks.
        let filters: [(&str, &dyn Fn(u64) -> bool); 4] = [
            ("", &|_| true),
            ("&filter=inside:equal:f1", &|object| object % 3 == 1),
            ("&filter=thread:1", &|object| object % 2 == 1),
            ("&filter=size:1..100", &|_| true),
        ];
        for (metric, is_counted) in metrics {
            for (filter, passes) in filters {
                let question = format!("rows?by=function&metric={metric}&{window}{filter}");
                let expected = bytes(sum(|object| is_counted(object) && passes(object)), rate);
                assert_eq!(value(&question), expected, "{question} at {}", rate.2);
                let rows = view.ask(&question);
                let main = rows["rows"].as_array().unwrap().iter().find(|row| row["key"] == "main").unwrap();
                assert_eq!(main["total"], expected, "{question} at {}", rate.2);
                let tree = view.ask(&format!("tree?metric={metric}&{window}{filter}"));
                assert_eq!(tree["total"], expected, "tree of {question} at {}", rate.2);
            }
        }
        let live = bytes(sum(|object| is_live(object, to)), rate);
        for filter in ["", "&filter=size:1..100"] {
            let timeline = view.ask(&format!("timeline?points=20&{window}{filter}"));
            let last = timeline["live_bytes"]["last"].as_array().unwrap().last().unwrap().as_u64();
            assert_eq!(last, Some(live), "{filter} at {}", rate.2);
        }
        let blocks = view.ask(&format!("blocks?{window}"));
        assert_eq!(blocks["bytes"], live, "at {}", rate.2);
        let change = view.ask(&format!("compare?a=0@{from}&b=0@{to}"))["change"]["bytes"].as_u64();
        let before = sum(|object| is_live(object, from));
        assert_eq!(change, Some(bytes(sum(|object| is_live(object, to)) - before, rate)), "at {}", rate.2);
    }
}
