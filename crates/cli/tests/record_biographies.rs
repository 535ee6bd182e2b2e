//! Records a program that says who allocates, resizes and frees each of its blocks, and compares it with what is said about each block's life.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use support::programs;
use support::recorded::{record, run};
use support::{HIGHWATER, Place};

/// Something that happened to a block, as the program says.
#[derive(Debug, PartialEq, Eq)]
struct Happened {
    what: String,
    address: String,
    size: u64,
    thread: u64,
    by: String,
}

/// By the size with which a block was born, which no other has: what happened to it.
fn said(text: &str) -> BTreeMap<u64, Vec<Happened>> {
    let mut all: BTreeMap<u64, Vec<Happened>> = BTreeMap::new();
    for line in text.lines() {
        let [born, what, address, size, thread, by] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let happened = Happened {
            what: what.to_owned(),
            address: address.to_owned(),
            size: size.parse().unwrap(),
            thread: thread.parse().unwrap(),
            by: by.to_owned(),
        };
        all.entry(born.parse().unwrap()).or_default().push(happened);
    }
    all
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    let output = Command::new(HIGHWATER).current_dir(place.path()).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The functions of a stack, innermost first.
fn functions(document: &Value, stack: &Value) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = stack.as_u64();
    while let Some(number) = at {
        let call = &document["stacks"][number as usize];
        names.push(
            document["frames"][call[1].as_u64().unwrap() as usize]["function"].as_str().unwrap_or_default().to_owned(),
        );
        at = call[0].as_u64();
    }
    names
}

/// The numbers of all blocks, by the sizes with which they were born.
fn numbers(place: &Place) -> BTreeMap<u64, u64> {
    let output = Command::new(HIGHWATER)
        .current_dir(place.path())
        .args(["export", "recording.hw", "--to", "events", "--force", "-o", "numbers.jsonl"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(place.file("numbers.jsonl")).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let born = events.filter(|event| event["event"] == "allocate");
    born.map(|event| (event["size"].as_u64().unwrap(), event["block"].as_u64().unwrap())).collect()
}

fn is_by(document: &Value, event: &Value, function: &str) -> bool {
    functions(document, &event["stack"]).iter().any(|name| name.split('(').next() == Some(function))
}

#[test]
fn who_allocated_resized_and_freed_each_block_is_what_the_program_says() {
    let place = Place::new();
    let ended =
        run(&mut record(&place, &["--free-stacks"], programs::cpp("biographies", &["-fno-builtin"]))).succeeded();
    let (said, numbers) = (said(&ended.stdout_text()), numbers(&place));
    assert_eq!(said.len(), 10, "{said:?}");
    for (born, happened) in &said {
        let document = json(&place, &["block", "recording.hw", "--id", &numbers[born].to_string()]);
        let events = document["events"].as_array().unwrap();
        assert_eq!(events.len(), happened.len(), "{born}: {document:#}");
        for (event, happened) in events.iter().zip(happened) {
            assert_eq!(event["what"], *happened.what, "{born}");
            assert_eq!(event["address"], *happened.address, "{born}: {event:#}");
            assert_eq!(event["thread"], happened.thread, "{born}");
            if happened.what != "freed" {
                assert_eq!(event["size"], happened.size, "{born}");
            }
            assert!(
                is_by(&document, event, &happened.by),
                "{born}: {happened:?} {:?}",
                functions(&document, &event["stack"])
            );
        }
        let is_freed = happened.last().unwrap().what == "freed";
        assert_eq!(document["block"]["freed_ns"].is_u64(), is_freed, "{born}");
    }
    // Three blocks lay at one address, one after the other.
    if said[&10011][0].address == said[&10012][0].address {
        let second = json(&place, &["block", "recording.hw", "--id", &numbers[&10012].to_string()]);
        assert_eq!(second["before"]["block"]["id"], numbers[&10011]);
        assert_eq!(second["before"]["left"], "freed");
        assert_eq!(second["after"]["block"]["id"], numbers[&10013]);
        let found = json(&place, &["block", "recording.hw", "--address", &said[&10013][0].address, "--at", "end"]);
        assert!(found["found"] == "before" || found["found"] == "then", "{found:#}");
    }
    let checked = Command::new(HIGHWATER).current_dir(place.path()).args(["check", "recording.hw"]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// Trimmed, exported as events and imported again, the recording still says who freed a block.
#[test]
fn stacks_of_frees_are_kept_by_trim_and_by_events() {
    let place = Place::new();
    run(&mut record(&place, &["--free-stacks"], programs::cpp("biographies", &["-fno-builtin"]))).succeeded();
    let command = |arguments: &[&str]| {
        let output = Command::new(HIGHWATER).current_dir(place.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    command(&["trim", "recording.hw", "-o", "trimmed.hw"]);
    command(&["export", "recording.hw", "--to", "events", "-o", "events.jsonl"]);
    command(&["import", "events.jsonl", "-o", "imported.hw"]);
    let id = numbers(&place)[&30011].to_string();
    for file in ["recording.hw", "trimmed.hw", "imported.hw"] {
        let document = json(&place, &["block", file, "--id", &id]);
        let freed = document["events"].as_array().unwrap().last().unwrap();
        assert_eq!(freed["what"], "freed", "{file}");
        assert!(is_by(&document, freed, "destroy"), "{file}: {document:#}");
    }
}

/// Without the option, everything else is known, and the text says what is missing.
#[test]
fn without_stacks_of_frees_the_rest_is_known() {
    let place = Place::new();
    let ended = run(&mut record(&place, &[], programs::cpp("biographies", &["-fno-builtin"]))).succeeded();
    let (said, numbers) = (said(&ended.stdout_text()), numbers(&place));
    for (born, happened) in &said {
        let document = json(&place, &["block", "recording.hw", "--id", &numbers[born].to_string()]);
        let events = document["events"].as_array().unwrap();
        assert_eq!(events.len(), happened.len(), "{born}");
        for (event, happened) in events.iter().zip(happened) {
            assert_eq!(
                (event["what"].as_str(), event["thread"].as_u64()),
                (Some(&*happened.what), Some(happened.thread))
            );
            assert_eq!(event["stack"].is_null(), happened.what == "freed", "{born}: {event:#}");
        }
    }
    let text = Command::new(HIGHWATER)
        .current_dir(place.path())
        .args(["block", "recording.hw", "--id", &numbers[&30011].to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("--free-stacks"), "{text}");
    let list =
        Command::new(HIGHWATER).current_dir(place.path()).args(["block", "recording.hw", "--ever"]).output().unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains("390.6 KiB"), "{}", String::from_utf8_lossy(&list.stdout));
}
