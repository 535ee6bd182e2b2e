//! Object logs of modules whose glue wasm-bindgen makes: in node and in a browser, in one thread and in several that share a memory.
//!
//! The modules are `crates/tracked/tests/fixtures/wasm-bindgen`.

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::Place;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tracked/tests/fixtures/wasm-bindgen").join(name)
}

fn output_of(command: &mut Command) -> String {
    let output = command.stderr(Stdio::piped()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text.into_owned()
}

fn in_node(target: &str) -> String {
    // Node's flag for the glue of bundlers, which import the module as a module of JavaScript.
    output_of(Command::new("node").arg("--experimental-wasm-modules").arg(script("node.mjs")).arg(target))
}

fn in_browser(place: &Place, target: &str) -> String {
    output_of(Command::new("node").arg(script("browser.mjs")).arg(target).arg(place.file("profile")))
}

fn objects_of(place: &Place, log: &str) -> Value {
    place.write("console.log", log);
    place.json("objects console.log")
}

fn live_of(found: &Value, name: &str) -> u64 {
    let row =
        found["types"].as_array().unwrap().iter().find(|row| row["type"] == name).expect("the type is in the log");
    row["live_objects"].as_u64().unwrap()
}

/// Six rounds of eight proofs, two of each forgotten.
fn assert_one_thread(found: &Value) {
    assert_eq!(found["object_lines"], 284);
    assert_eq!(found["ids"], 3 * 48 + 1);
    assert_eq!((live_of(found, "leaky::Proof"), live_of(found, "leaky::Witness")), (12, 0));
    assert_eq!((&found["trust"]["verdict"], &found["trust"]["malformed_at_lines"]), (&json!("yes"), &json!(0)));
    assert_eq!(found["trust"]["memory"]["readings"], 7);
}

/// Five threads, forty proofs in each, ten of them forgotten.
fn assert_five_threads(found: &Value, log: &str) {
    // The ids of threads in one memory come from one sequence.
    let ids = log.lines().filter(|line| line.starts_with("@ ALLOCATE ")).map(|line| line.rsplit(' ').next().unwrap());
    let mut ids: Vec<u64> = ids.map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..5 * 40 * 3 + 1).collect::<Vec<u64>>());
    assert_eq!((&found["trust"]["malformed_at_lines"], &found["noise_lines"]), (&json!(0), &json!(0)));
    assert_eq!((live_of(found, "leaky::Proof"), live_of(found, "leaky::Witness")), (50, 0));
    assert_eq!(found["trust"]["memory"]["readings"], 2);
    for kind in ["duplicate_allocate_ids", "duplicate_drop_ids", "drop_without_allocate_ids"] {
        assert_eq!(found["trust"][kind], json!([]), "{kind}");
    }
}

#[test]
fn the_console_works_with_the_glue_of_each_target_in_node() {
    let place = Place::new();
    for target in ["nodejs", "web", "bundler"] {
        assert_one_thread(&objects_of(&place, &in_node(target)));
    }
}

#[test]
fn threads_that_share_a_memory_write_whole_lines_in_node() {
    let place = Place::new();
    for target in ["threads", "threads-nodejs"] {
        let log = in_node(target);
        assert_five_threads(&objects_of(&place, &log), &log);
    }
}

#[test]
fn the_console_of_a_browser_shows_the_log() {
    let place = Place::new();
    let log = in_browser(&place, "web");
    assert_one_thread(&objects_of(&place, &log));
    assert_eq!(log, in_node("web"), "the same lines in the same order");
}

#[test]
fn threads_that_share_a_memory_write_whole_lines_in_a_browser() {
    let place = Place::new();
    let log = in_browser(&place, "threads");
    assert_five_threads(&objects_of(&place, &log), &log);
}
