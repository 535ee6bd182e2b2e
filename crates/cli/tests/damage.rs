//! The undamaged part of a damaged recording is used, and the damage is reported.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::{Place, as_lines};

/// Enough events for several blocks of the file.
const EVENTS: u64 = 900_000;

/// Blocks allocated one after the other, each freed a hundred events later.
fn long_recording(place: &Place) -> Vec<u8> {
    let mut lines: Vec<Value> = Vec::new();
    for number in 0..EVENTS / 2 {
        let time = number * 1000;
        let stack = ["work", "main"];
        lines.push(json!({"event": "allocate", "address": number + 1, "size": 10 + number % 7, "time_ns": time, "stack": stack}));
        if let Some(old) = number.checked_sub(100) {
            lines.push(json!({"event": "deallocate", "address": old + 1, "time_ns": time}));
        }
    }
    place.write("long.jsonl", as_lines(&lines));
    assert_eq!(place.highwater("import long.jsonl -o long.hw").code, 0);
    std::fs::read(place.file("long.hw")).unwrap()
}

fn events_in(place: &Place, file: &str) -> u64 {
    place.json(&format!("info {file}"))["file"]["events"].as_u64().unwrap()
}

#[test]
fn a_flipped_byte_is_warned_of_with_its_offset_and_is_an_error_only_if_strict() {
    let place = Place::new();
    let mut bytes = long_recording(&place);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    place.write("flipped.hw", &bytes);

    let check = place.highwater("check flipped.hw");
    assert_eq!((check.code, check.stderr.as_str()), (1, ""));
    assert!(check.stdout.contains("damage:") && check.stdout.contains("offset"), "{}", check.stdout);
    assert!(check.stdout.contains("not sound"), "{}", check.stdout);

    // A timeline reads every block, so it meets the damage.
    let timeline = place.highwater("timeline flipped.hw");
    assert_eq!(timeline.code, 0, "{}", timeline.stderr);
    assert!(timeline.stderr.starts_with("highwater: warning: flipped.hw: "), "{}", timeline.stderr);
    assert!(timeline.stderr.contains("offset"), "{}", timeline.stderr);
    place.highwater("timeline flipped.hw --strict").is_one_clear_line_about(&["flipped.hw", "damaged", "offset"]);
}

#[test]
fn a_cut_recording_is_used_up_to_the_cut() {
    let place = Place::new();
    let bytes = long_recording(&place);
    place.write("cut.hw", &bytes[..bytes.len() * 2 / 3]);

    let run = place.highwater("report cut.hw");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("warning") && run.stderr.contains("cut"), "{}", run.stderr);
    let events = events_in(&place, "cut.hw");
    assert!(0 < events && events < EVENTS, "{events}");
    assert_eq!(place.json("info cut.hw")["file"]["complete"], false);
    assert_eq!(place.json("report cut.hw")["totals"]["live_blocks"].as_u64().unwrap() / 10, 10, "about a hundred");
    assert_eq!(place.highwater("check cut.hw").code, 1);
    place.highwater("report cut.hw --strict").is_one_clear_line_about(&["cut.hw", "damaged"]);
}

#[test]
fn a_recording_of_which_nothing_is_left_is_an_error() {
    let place = Place::new();
    let bytes = long_recording(&place);
    for length in [1, 8, 20, 60] {
        place.write("stump.hw", &bytes[..length]);
        let run = place.highwater("report stump.hw");
        assert_eq!((run.code, run.stderr.lines().count()), (1, 1), "{length}: {run:?}");
    }
    assert!(Path::new(&place.file("long.hw")).exists());
}
