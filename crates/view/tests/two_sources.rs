//! Questions about two files: numbers of sites and threads mean other ones in each.

mod support;

use highwater_model::{Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, StackId, ThreadId};
use highwater_store::Writer;
use support::{Place, Running};

/// A recording in which each function allocates its bytes on its thread, one after the other.
fn run(allocations: &[(&str, u64, (u64, &str))]) -> Vec<u8> {
    let mut catalog = Catalog::default();
    let mut events = Vec::new();
    for (number, (function, size, (thread, name))) in allocations.iter().enumerate() {
        let frames = [function, "main"].map(|function| FrameText { function, ..FrameText::default() });
        let stack: StackId = catalog.intern_stack(&frames);
        catalog.name_thread(ThreadId(*thread), name);
        let number = number as u64 + 1;
        let placement = Placement { address: number << 12, size: *size, stack, ..Placement::default() };
        events.push(Event {
            time: Nanos(number * 1000),
            thread: ThreadId(*thread),
            kind: EventKind::Allocate(placement),
        });
    }
    let source = Source { duration: Nanos(1_000_000), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.append(&events, &catalog).unwrap();
    writer.finish(&catalog, &source).unwrap().1
}

/// The old run, and a new one whose sites and threads have other numbers.
fn two() -> (Place, Running) {
    let place = Place::new();
    let old = run(&[("load", 100, (1, "reader")), ("save", 20, (2, "writer")), ("only_old", 3, (9, "only old"))]);
    let new = run(&[("other", 7000, (1, "new")), ("save", 40, (5, "writer")), ("load", 200, (2, "reader"))]);
    let files = [place.write("old.hw", &old), place.write("new.hw", &new)];
    let server = Running::new(&files);
    (place, server)
}

fn number(server: &Running, source: usize, by: &str, key: &str) -> u64 {
    let rows = server.ask(&format!("rows?source={source}&by={by}&metric=live"));
    let rows = rows["rows"].as_array().unwrap();
    rows.iter().find(|row| row["key"].as_str().unwrap().contains(key)).unwrap()["id"].as_u64().unwrap()
}

#[test]
fn filters_of_one_file_select_the_same_sites_and_threads_of_the_other() {
    let (_place, server) = two();
    let sides = |question: &str| {
        let compared = server.ask(question);
        [&compared["before"], &compared["after"]].map(|side| side["live_bytes"].as_u64().unwrap())
    };
    let site = number(&server, 0, "site", "load");
    assert_eq!(sides(&format!("compare?a=0@end&b=1@end&filter=site:{site}")), [100, 200]);
    assert_eq!(sides(&format!("compare?a=0@end&b=1@end&filter=!site:{site}")), [23, 7040]);
    // The older file may be on side A although filters are those of the other.
    let site = number(&server, 1, "site", "load");
    assert_eq!(sides(&format!("compare?source=1&a=0@end&b=1@end&filter=site:{site}")), [100, 200]);
    let thread = number(&server, 0, "thread", "writer");
    assert_eq!(sides(&format!("compare?a=0@end&b=1@end&filter=thread:{thread}")), [20, 40]);
    assert_eq!(sides("compare?a=0@end&b=1@end&filter=thread:9"), [3, 0]);
    assert_eq!(sides("compare?a=0@end&b=1@end&filter=inside:equal:save"), [20, 40]);
}

#[test]
fn the_timeline_of_a_second_file_follows_the_filters_of_the_first() {
    let (_place, server) = two();
    let last = |question: &str| {
        let answer = server.ask(question);
        answer["live_bytes"]["last"].as_array().unwrap().last().unwrap().as_u64().unwrap()
    };
    let site = number(&server, 0, "site", "load");
    assert_eq!(last(&format!("timeline?source=1&points=10&filters_of=0&filter=site:{site}")), 200);
    let thread = number(&server, 0, "thread", "writer");
    assert_eq!(last(&format!("timeline?source=1&points=10&filters_of=0&filter=thread:{thread}")), 40);
    assert_eq!(last("timeline?source=1&points=10&filters_of=0"), 7240);
    assert_eq!(server.get("/api/1/timeline?source=1&filters_of=x").status, 400);
}

#[test]
fn a_window_is_that_of_the_source_that_is_named() {
    let (_place, server) = two();
    // Until 1.5 µs the new run has one block; the old run, which is on side A, is compared as a whole.
    let compared = server.ask("compare?source=1&to=1500&a=0@peak&b=1@peak");
    assert_eq!((&compared["before"]["live_bytes"], &compared["after"]["live_bytes"]), (&123.into(), &7000.into()));
}

#[test]
fn leaks_are_judged_before_the_teardown_if_that_is_asked_for() {
    let mut catalog = Catalog::default();
    let stack = catalog.intern_stack(&[FrameText { function: "keep", ..FrameText::default() }]);
    let allocate = |number: u64| Event {
        time: Nanos(number * 1000),
        thread: ThreadId(1),
        kind: EventKind::Allocate(Placement { address: number << 12, size: 10, stack, ..Placement::default() }),
    };
    let free = |number: u64| Event {
        time: Nanos(99_000 + number),
        thread: ThreadId(1),
        kind: EventKind::free(number << 12, None),
    };
    let events: Vec<_> = (1..=90).map(allocate).chain((1..=80).map(free)).collect();
    let source = Source { duration: Nanos(100_000), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.append(&events, &catalog).unwrap();
    let place = Place::new();
    let server = Running::new(&[place.write("one.hw", &writer.finish(&catalog, &source).unwrap().1)]);
    let at_end = server.ask("still_live");
    assert_eq!((&at_end["live_bytes"], &at_end["at_ns"]), (&100.into(), &100_000.into()));
    let before = server.ask("still_live?before_teardown=1");
    assert_eq!(before["live_bytes"], 900, "{before}");
    assert!(before["at_ns"].as_u64().unwrap() < 99_001);
}

#[test]
fn a_comparison_has_a_flame_graph_in_blocks() {
    let (_place, server) = two();
    let whole = |question: &str| {
        let tree = &server.ask(question)["tree"];
        ["node_before", "node_after", "node_value"].map(|column| tree[column][0].as_u64().unwrap())
    };
    assert_eq!(whole("compare?a=0@end&b=1@end"), [123, 7240, 7243]);
    // Each stack has one block in each run that has it: three before, three after, two of them in both.
    assert_eq!(whole("compare?a=0@end&b=1@end&measure=blocks"), [3, 3, 4]);
}

#[test]
fn filters_are_checked_without_a_question() {
    let (_place, server) = two();
    assert_eq!(server.plain("filters?filter=inside:regex:load|save&filter=size:1..")["count"], 2);
    let refused = server.get("/api/1/filters?filter=inside:regex:(");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("not a regular expression"), "{}", refused.text());
}
