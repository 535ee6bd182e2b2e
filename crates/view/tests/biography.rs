//! The life of every block of a random history, against a naive pass over all its steps.

mod support;

use highwater_model::{Catalog, Event, EventKind, Heap, Nanos, Op, Placement, StackId, TagId, ThreadId};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use support::history::{Truth, history, written};
use support::{Place, Running};

/// A state of a block, until it is freed or resized.
#[derive(Clone, Debug)]
struct State {
    id: u64,
    address: u64,
    size: u64,
    tag: TagId,
    start: u64,
    end: Option<u64>,
    /// What happened at its start and at its end: the thread and the stack.
    begun_by: (u64, StackId),
    ended_by: Option<(u64, StackId)>,
    /// Why it ended.
    how: &'static str,
}

impl State {
    fn is_mapping(&self, catalog: &Catalog) -> bool {
        catalog.tag(self.tag).heap == Heap::Mapped
    }

    fn bytes(&self, catalog: &Catalog) -> std::ops::Range<u64> {
        let start = catalog.tag(self.tag).heap.true_address(self.address);
        start..start + self.size.max(1)
    }

    fn overlaps(&self, other: &Self, catalog: &Catalog) -> bool {
        let (a, b) = (self.bytes(catalog), other.bytes(catalog));
        self.is_mapping(catalog) == other.is_mapping(catalog) && a.start < b.end && b.start < a.end
    }
}

/// The states of all blocks, by block, in order.
fn states_of(events: &[Event]) -> BTreeMap<u64, Vec<State>> {
    let mut all: BTreeMap<u64, Vec<State>> = BTreeMap::new();
    for step in Truth::of(events).steps {
        let (time, thread) = (step.time.0, step.thread.0);
        let mut end = |id: u64, stack: StackId, how: &'static str| -> State {
            let last = all.get_mut(&id).unwrap().last_mut().unwrap();
            (last.end, last.ended_by, last.how) = (Some(time), Some((thread, stack)), how);
            last.clone()
        };
        match step.op {
            Op::Allocate(place) => {
                let id = all.len() as u64;
                let begun_by = (thread, place.stack);
                let (address, size, tag) = (place.address, place.size, place.tag);
                let state = State { id, address, size, tag, start: time, end: None, begun_by, ended_by: None, how: "" };
                all.insert(id, vec![state]);
            }
            Op::Free { id, stack } => drop(end(id.0, stack, "freed")),
            Op::Evict { id } => drop(end(id.0, StackId::UNKNOWN, "evicted")),
            Op::Reallocate { id, moved_to, size, stack, tag, .. } => {
                let old = end(id.0, stack, "reallocated");
                let address = moved_to.unwrap_or(old.address);
                let tag = if tag == TagId::NONE { old.tag } else { tag };
                let new = State {
                    address,
                    size,
                    tag,
                    start: time,
                    end: None,
                    begun_by: (thread, stack),
                    ended_by: None,
                    how: "",
                    ..old
                };
                all.get_mut(&id.0).unwrap().push(new);
            }
            _ => {}
        }
    }
    all
}

fn site(stack: StackId) -> Value {
    if stack == StackId::UNKNOWN { Value::Null } else { stack.0.into() }
}

/// What the server must say about a block, as far as this test looks.
fn expected(states: &[State], all: &BTreeMap<u64, Vec<State>>, catalog: &Catalog) -> Value {
    let (first, last) = (&states[0], &states[states.len() - 1]);
    let hex = |state: &State| format!("{:#x}", state.bytes(catalog).start);
    let mut events = vec![json!({
        "what": "allocated", "time_ns": first.start, "thread": first.begun_by.0, "size": first.size, "address": hex(first), "site": site(first.begun_by.1),
    })];
    for pair in states.windows(2) {
        let moved = hex(&pair[0]) != hex(&pair[1]);
        events.push(json!({
            "what": "reallocated", "time_ns": pair[1].start, "thread": pair[1].begun_by.0, "size": pair[1].size, "address": hex(&pair[1]), "site": site(pair[1].begun_by.1),
            "old_size": pair[0].size, "old_address": if moved { json!(hex(&pair[0])) } else { Value::Null },
        }));
    }
    if let Some((thread, stack)) = last.ended_by {
        let thread = if last.how == "freed" { json!(thread) } else { Value::Null };
        events.push(json!({ "what": last.how, "time_ns": last.end, "thread": thread, "size": last.size, "address": hex(last), "site": site(stack) }));
    }
    let others = || all.values().flatten().filter(|state| state.id != first.id);
    let before = others()
        .filter(|state| state.end.is_some_and(|end| end <= first.start) && state.overlaps(first, catalog))
        .max_by_key(|state| (state.end, state.id));
    let after = last.end.and_then(|end| {
        others()
            .filter(|state| state.start >= end && state.overlaps(last, catalog))
            .min_by_key(|state| (state.start, state.id))
    });
    let near = |state: Option<&State>| match state {
        None => Value::Null,
        Some(state) => {
            let left = if state.end.is_some() { json!(state.how) } else { Value::Null };
            json!({ "id": state.id, "size": state.size, "address": hex(state), "since_ns": state.start, "until_ns": state.end, "left": left })
        }
    };
    json!({ "events": events, "before": near(before), "after": near(after), "freed_ns": last.end })
}

/// The same parts of an answer.
fn told(answer: &Value) -> Value {
    let events: Vec<Value> = answer["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let mut told = json!({});
            for name in ["what", "time_ns", "thread", "size", "address", "site"] {
                told[name] = event[name].clone();
            }
            if event["what"] == "reallocated" {
                told["old_size"] = event["old_size"].clone();
                told["old_address"] = event["old_address"].clone();
            }
            told
        })
        .collect();
    let near = |one: &Value| match one.is_null() {
        true => Value::Null,
        false => {
            json!({ "id": one["block"]["id"], "size": one["block"]["size"], "address": one["block"]["address"], "since_ns": one["since_ns"], "until_ns": one["until_ns"], "left": one["left"] })
        }
    };
    json!({ "events": events, "before": near(&answer["before"]), "after": near(&answer["after"]), "freed_ns": answer["block"]["freed_ns"] })
}

/// A history in which every event has a time of its own, and most frees have a stack.
fn distinct(seed: u64, length: usize) -> (Catalog, Vec<Event>) {
    let (catalog, mut events) = history(seed, length);
    for (number, event) in events.iter_mut().enumerate() {
        event.time = Nanos(10 + number as u64 * 7);
        if let EventKind::Deallocate { stack, .. } = &mut event.kind {
            *stack = StackId(number as u32 * 5 % catalog.stacks.nodes().len() as u32);
        }
    }
    (catalog, events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_life_is_what_a_naive_pass_says(seed in 1u64..10_000, every in 20u64..400, flush in 5usize..150) {
        let (catalog, events) = distinct(seed, 400);
        let all = states_of(&events);
        let place = Place::new();
        let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, every, flush))]);
        for states in all.values() {
            let answer = server.ask(&format!("block?id={}", states[0].id));
            prop_assert_eq!(told(&answer), expected(states, &all, &catalog), "block {}", states[0].id);
            prop_assert_eq!(&answer["left_out"], 0);
        }
    }

    /// An address names the block that lay there, or the last one before, or the first one after.
    #[test]
    fn an_address_names_a_block(seed in 1u64..10_000, at in 0u64..3000, place_number in 0u64..60, byte in 0u64..24) {
        let (catalog, events) = distinct(seed, 400);
        let all = states_of(&events);
        let place = Place::new();
        let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, 100, 60))]);
        let address = 0x7f00_0000_0000 + place_number * 48 + byte;
        let at = at.min(events.last().unwrap().time.0);
        let there = |state: &&State| state.bytes(&catalog).contains(&address);
        let states = || all.values().flatten().filter(there);
        let lying: Vec<u64> = states().filter(|state| state.start <= at && state.end.is_none_or(|end| end > at)).map(|state| state.id).collect();
        let before = states().filter(|state| state.end.is_some_and(|end| end <= at)).max_by_key(|state| state.end);
        let after = states().filter(|state| state.start > at).min_by_key(|state| state.start);
        if lying.is_empty() && before.is_none() && after.is_none() {
            let response = server.get(&format!("/api/1/block?address={address:#x}&at={at}"));
            prop_assert!(response.text().contains("no block ever lay at"), "{}", response.text());
            return Ok(());
        }
        let answer = server.ask(&format!("block?address={address:#x}&at={at}"));
        let id = answer["block"]["id"].as_u64().unwrap();
        match (&lying[..], before, after) {
            ([], Some(before), _) => prop_assert_eq!((id, &answer["found"]), (before.id, &json!("before"))),
            ([], None, Some(after)) => prop_assert_eq!((id, &answer["found"]), (after.id, &json!("after"))),
            (lying, ..) => prop_assert!(lying.contains(&id) && answer["found"] == "then", "{lying:?} {id}"),
        }
    }
}

#[test]
fn a_block_that_does_not_exist_and_parameters_that_make_no_sense_are_errors() {
    let (catalog, events) = distinct(7, 100);
    let place = Place::new();
    let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, 100, 60))]);
    for (question, line) in [
        ("block?id=1000000", "there is no block with the number 1000000"),
        ("block?id=-1", "id=-1: a number up to 18446744073709551615 is wanted"),
        ("block?address=0xg", "address=0xg: an address in hex is wanted"),
        ("block?address=%2B1", "address=+1: an address in hex is wanted"),
        ("block?address=11223344556677889900", "an address in hex is wanted"),
        ("block", "either id= or address= is wanted"),
        ("block?id=1&address=0x1", "either id= or address= is wanted"),
    ] {
        let response = server.get(&format!("/api/1/{question}"));
        assert!((400..500).contains(&response.status), "{question}: {}", response.status);
        assert!(response.text().contains(line), "{question}: {}", response.text());
    }
}

/// A search finds blocks by any function, file or module of their stacks.
#[test]
fn blocks_are_searched() {
    let (catalog, events) = distinct(3, 400);
    let truth = Truth::of(&events);
    let place = Place::new();
    let server = Running::new(&[place.write("random.hw", &written(&catalog, &events, 100, 60))]);
    let last = |wanted: &dyn Fn(&str) -> bool| {
        let found = truth.live_at(u64::MAX - 1).filter(|placed| {
            catalog
                .frame_texts(placed.stack)
                .any(|frame| [frame.function, frame.file, frame.module].iter().any(|text| wanted(text)))
        });
        let mut ids: Vec<u64> = found.map(|placed| placed.id).collect();
        ids.sort_unstable();
        ids
    };
    let asked = |search: &str| {
        let answer = server.ask(&format!("blocks?limit=1000&search={}", support::encoded(search)));
        let mut ids: Vec<u64> =
            answer["blocks"].as_array().unwrap().iter().map(|block| block["id"].as_u64().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(answer["count"], ids.len());
        ids
    };
    assert_eq!(asked("MAKE_1"), last(&|text| text.contains("make_1")));
    assert_eq!(asked("/^make_[02]$/"), last(&|text| text == "make_0" || text == "make_2"));
    assert_eq!(asked("lib.so"), last(&|text| text == "lib.so"));
    assert_eq!(asked("make.1"), Vec::<u64>::new());
    assert!(!asked("").is_empty());
    assert!(server.get("/api/1/blocks?search=/(/").text().contains("not a regular expression"));
}

/// Of a block that was resized very often, the first states and the end are listed, and the rest is counted.
#[test]
fn a_long_life_is_cut() {
    const RESIZES: u64 = 1500;
    let (catalog, _) = history(1, 1);
    let event = |time, kind| Event { time: Nanos(time), thread: ThreadId(1), kind };
    let place = |size| Placement { address: 0x1000, size, stack: StackId(1), ..Placement::default() };
    let mut events = vec![event(1, EventKind::Allocate(place(1)))];
    events.extend((0..RESIZES).map(|number| {
        let new = place(number + 2);
        event(10 + number, EventKind::Reallocate { old_address: 0x1000, claimed_old_size: None, new })
    }));
    events.push(event(9000, EventKind::Deallocate { address: 0x1000, claimed_size: None, stack: StackId(2) }));
    let folder = Place::new();
    let server = Running::new(&[folder.write("long.hw", &written(&catalog, &events, 700, 100))]);
    let answer = server.ask("block?id=0");
    let listed = answer["events"].as_array().unwrap();
    let resizes = listed.iter().filter(|event| event["what"] == "reallocated").count() as u64;
    assert_eq!(resizes + answer["left_out"].as_u64().unwrap(), RESIZES);
    assert_eq!(resizes, 999);
    let end = listed.last().unwrap();
    assert_eq!((&end["what"], &end["site"], &end["size"]), (&json!("freed"), &json!(2), &json!(RESIZES + 1)));
    assert_eq!(answer["block"]["size"], RESIZES + 1);
}
