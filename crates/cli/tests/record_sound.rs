//! `highwater check` on recordings of the test programs: every keyframe equals the state from a replay of the events.

mod support;

use serde_json::Value;
use std::path::PathBuf;
use support::Place;
use support::programs;
use support::recorded::{Recording, record, run};
use support::streams::Beside;

/// The highest address of a program on x86-64 (five-level page tables must be requested explicitly).
const END_OF_USER_SPACE: u64 = 1 << 47;

/// Checks a recording; returns the number of compared keyframes.
#[track_caller]
fn sound_keyframes(place: &Place, name: &str) -> u64 {
    let check = place.run(["check", name, "--json"]);
    let report: Value = serde_json::from_str(&check.stdout).unwrap();
    assert_eq!((check.code, &report["violations"]), (0, &serde_json::json!([])), "{name}: {}", check.stdout);
    report["keyframes"].as_u64().unwrap()
}

/// No live block of any instant has an impossible address, and no two have the same address unless one of them is just moving away.
#[track_caller]
fn addresses_are_possible(place: &Place, name: &str, threads: usize) {
    for at in ["5%", "17%", "42%", "63%", "88%", "end"] {
        let document: Value =
            serde_json::from_str(&place.run(["export", name, "--to", "json", "-o", "-", "--at", at]).stdout).unwrap();
        let mut addresses: Vec<u64> = document["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| u64::from_str_radix(block["address"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap())
            .collect();
        assert!(addresses.iter().all(|address| *address < END_OF_USER_SPACE), "{name} at {at}: {addresses:x?}");
        let blocks = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();
        assert!(
            blocks - addresses.len() <= 2 * threads,
            "{name} at {at}: {blocks} blocks at {} places",
            addresses.len()
        );
    }
}

#[test]
fn threads_that_reallocate_at_once_give_a_sound_recording() {
    let place = Place::new();
    let threads = 4;
    let said =
        run(record(&place, &[], programs::c("reallocs")).args([&threads.to_string(), "600000"])).succeeded().json();
    assert!(sound_keyframes(&place, "recording.hw") > 1, "too few keyframes to compare");
    addresses_are_possible(&place, "recording.hw", threads);
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    let left = recording.of_function("turn");
    assert_eq!(left.live_bytes, said["bytes"].as_u64().unwrap() + said["mapped"].as_u64().unwrap());
    assert_eq!(left.live_blocks, said["blocks"].as_u64().unwrap() + threads as u64);
    assert_eq!(recording.heap(&place, "mmap")["live_bytes"], said["mapped"]);
}

#[test]
fn a_stream_of_threads_that_reallocate_at_once_is_sound() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 127.0.0.1:0 --once -o received.hw");
    let address = format!("127.0.0.1:{}", listener.port());
    run(record(&place, &["--stream", &address], programs::c("reallocs")).args(["4", "900000"])).succeeded();
    listener.ended().succeeded();
    // A stream that falls behind starts again, and has fewer.
    for (name, least) in [("recording.hw", 2), ("received.hw", 1)] {
        assert!(sound_keyframes(&place, name) >= least, "{name}: too few keyframes to compare");
        addresses_are_possible(&place, name, 4);
    }
}

#[test]
fn recordings_of_all_test_programs_are_sound() {
    let place = Place::new();
    let lines = place.write("lines", format!("short\n{}\n", "x".repeat(999)));
    let lines = lines.to_str().unwrap();
    let plugins = ["plugin_a", "plugin_b"]
        .map(|name| programs::library("plugin", name, &[&format!("-DNAME={name}"), "-DPADDING=64"]));
    let plugins = plugins.each_ref().map(|path| path.to_str().unwrap());
    let stacks = programs::c_as("stacks", "stacks-sound", &["-rdynamic"]);
    let cases: &[(PathBuf, &[&str])] = &[
        (programs::c("counting"), &[lines]),
        (programs::cpp("counting", &[]), &[]),
        (programs::rust("counting"), &[]),
        (programs::c("threads"), &["many", "400"]),
        (programs::c("threads"), &["together", "16", "5000"]),
        (programs::c("mapping"), &[lines]),
        (programs::c("firstcalls"), &[]),
        (programs::c("forks"), &["fork"]),
        (programs::c("sampled"), &[]),
        (programs::c("finisher"), &["200000"]),
        (programs::c("busy"), &["1", "20000", "0"]),
        (programs::c("reallocs"), &["8", "20000"]),
        (stacks, &plugins),
    ];
    for options in [&[][..], &["--sample", "4KiB"]] {
        for (program, arguments) in cases {
            run(record(&place, options, program).args(*arguments));
            assert!(sound_keyframes(&place, "recording.hw") > 0, "{} {options:?}", program.display());
            std::fs::remove_file(place.file("recording.hw")).unwrap();
        }
    }
}
