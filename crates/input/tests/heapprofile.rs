//! Profiles of V8's sampling heap profiler, compared with sums that `sums.py` makes of them.
#![allow(missing_docs)]

mod support;

use highwater_input::{InputFile, open};
use highwater_model::{Snapshot, When};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::process::Command;
use support::{any_changes, fixture, frames, is_refused_or_sound, opened, text_of};

fn profile(name: &str) -> InputFile {
    open(&fixture("v8-sampling", &format!("{name}.heapprofile"))).unwrap()
}

fn end(file: &InputFile) -> Snapshot {
    file.recording(&mut |_, _| true).unwrap().snapshot(&When::End).unwrap()
}

/// The bytes of each function: name, file and line.
fn by_function(snapshot: &Snapshot) -> BTreeMap<(String, String, u32, u16), u64> {
    let mut functions = BTreeMap::new();
    for (stack, site) in snapshot.accounts.sites().iter().filter(|(_, site)| site.live_bytes() > 0) {
        let frame = frames(snapshot, stack)[0];
        let place = (frame.function.to_owned(), frame.file.to_owned(), frame.line, frame.columns.start);
        *functions.entry(place).or_default() += site.live_bytes();
    }
    functions
}

/// The same in the output of `sums.py`.
fn summed(text: &str) -> BTreeMap<(String, String, u32, u16), u64> {
    let function = |line: &str| {
        let [bytes, name, url, script, line, column] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let name = if name.is_empty() { "(anonymous)" } else { name };
        let file = match url.strip_prefix("file://") {
            Some(path) => path.to_owned(),
            None if url.is_empty() && script != "0" => format!("VM{script}"),
            None => url.to_owned(),
        };
        let line = line.parse::<i64>().unwrap() + 1;
        let column = column.parse::<i64>().unwrap() + 1;
        ((name.to_owned(), file, line as u32, column as u16), bytes.parse().unwrap())
    };
    text.lines().skip(1).map(function).collect()
}

#[test]
fn bytes_of_all_and_of_each_function_are_those_of_the_file() {
    for name in ["node", "chrome"] {
        let text = text_of("v8-sampling", &format!("{name}.txt"));
        let first: Vec<u64> = text.lines().next().unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
        let [total, samples, smallest] = first[..] else { panic!("{first:?}") };
        let file = profile(name);
        let end = end(&file);
        assert_eq!(end.violations(), Vec::<String>::new());
        assert_eq!(end.accounts.totals().figures.live_bytes(), total);
        assert_eq!(by_function(&end), summed(&text));
        // An interval of 2,048 and 4,096 bytes; the smallest sample is of a small object.
        assert_eq!(file.source().sample_rate, Some(smallest));
        assert!(file.source().notes[0].starts_with(&format!("V8 sampled {samples} of the objects")), "{name}");
    }
}

#[test]
fn the_sums_are_those_that_python_makes() {
    for name in ["node", "chrome"] {
        let mut command = Command::new("python3");
        command.arg(fixture("v8-sampling", "sums.py")).arg(fixture("v8-sampling", &format!("{name}.heapprofile")));
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text_of("v8-sampling", &format!("{name}.txt")));
    }
}

#[test]
fn a_profile_is_an_estimate_of_what_is_live_at_one_instant() {
    let file = profile("node");
    let source = file.source();
    assert!(source.snapshot && end(&file).is_estimate());
    assert!(!source.knows_live_blocks() && !source.knows_allocated() && !source.knows_own_peaks());
    assert!(!source.knows_samples());
}

#[test]
fn stacks_are_as_deep_as_the_file_has_them() {
    for name in ["node", "chrome"] {
        let end = end(&profile(name));
        let deepest = end.accounts.sites().iter().map(|(stack, _)| frames(&end, stack).len()).max();
        assert_eq!(deepest, Some(128), "{name}");
    }
}

#[test]
fn any_depth_and_any_order_of_keys_is_read() {
    let depth = 200_000;
    let text = format!(
        "{{\"head\": {{\"id\": 1, {}{}, \"samples\": []}}",
        "\"selfSize\": 1, \"children\": [{".repeat(depth),
        "}], \"callFrame\": {\"functionName\": \"f\"}".repeat(depth) + "}"
    );
    let end = end(&opened(text).unwrap());
    assert_eq!(end.accounts.totals().figures.live_bytes(), depth as u64);
}

#[test]
fn a_profile_without_samples_holds_nothing() {
    let end = end(&opened(r#"{"head":{"id":1,"children":[]},"samples":[]}"#).unwrap());
    assert_eq!((end.accounts.totals().figures.live_bytes(), end.source.notes.len()), (0, 0));
}

#[test]
fn damaged_files_are_refused_with_the_byte() {
    let node = text_of("v8-sampling", "node.heapprofile");
    let why = |text: &str| opened(text).map(drop).unwrap_err().to_string();
    for (text, expected) in [
        (&node[..1000], "byte 1000: the string has no end"),
        (r#"{"head":{"id":1,"children":[5]}}"#, "byte 29: a node is expected"),
        (r#"{"head":{"id":1,"selfSize":-5}}"#, "byte 29: a number of bytes is expected"),
        (r#"{"head":{"id":1},"samples":{}}"#, "byte 28: an array is expected"),
        (r#"{"head":{"id":1}} {"#, "byte 18: the end is expected"),
    ] {
        assert!(why(text).contains(expected), "{}", why(text));
    }
}

proptest! {
    #[test]
    fn changed_files_are_refused_or_sound((changes, cut) in any_changes(), is_node: bool, is_cut: bool) {
        let content = text_of("v8-sampling", if is_node { "node.heapprofile" } else { "chrome.heapprofile" });
        is_refused_or_sound(content.as_bytes(), &changes, cut, is_cut);
    }
}
