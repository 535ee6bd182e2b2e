//! Files of other tools on the command line: what they are, what they answer, and what they refuse.

mod support;

use serde_json::Value;
use std::path::Path;
use support::Place;

/// A folder with one file of each tool that has a profile or a history.
fn files() -> Place {
    let place = Place::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../input/tests/fixtures");
    for (path, name) in [
        ("heaptrack/nodes.zst", "heaptrack.zst"),
        ("heaptrack/nodes.raw.zst", "heaptrack.raw.zst"),
        ("memray/plain.bin", "memray.bin"),
        ("massif/instructions.out", "massif.out"),
        ("dhat/valgrind.json", "dhat.json"),
        ("pprof/go-exact.pb.gz", "heap.pb.gz"),
        ("pprof/gperftools.heap", "gperftools.heap"),
        ("v8-sampling/node.heapprofile", "node.heapprofile"),
    ] {
        std::fs::copy(fixtures.join(path), place.file(name)).expect("the fixture is there");
    }
    place
}

#[test]
fn a_file_without_a_command_is_described_and_reported() {
    let place = files();
    for (file, title) in [
        ("heaptrack.zst", "heaptrack file"),
        ("heaptrack.raw.zst", "heaptrack file"),
        ("memray.bin", "memray capture"),
        ("massif.out", "massif profile"),
        ("dhat.json", "DHAT profile"),
        ("heap.pb.gz", "pprof profile"),
        ("node.heapprofile", "V8 sampling heap profile"),
    ] {
        let shown = place.highwater(file);
        let is_history = ["heaptrack", "memray", "massif", "dhat"].iter().any(|tool| file.starts_with(tool));
        let instant = if is_history { "at peak (" } else { "profile " };
        shown.stdout_has(&[&format!("{file}: {title}"), instant, "share ", &format!("highwater view {file}")]);
    }
}

#[test]
fn what_is_no_file_is_still_a_command_that_does_not_exist() {
    let place = files();
    let missing = place.highwater("missing.hw");
    assert!(missing.stderr.contains("missing.hw: cannot read: No such file"), "{}", missing.stderr);
    let typo = place.highwater("reprot massif.out");
    assert!(typo.stderr.contains("unrecognized subcommand 'reprot'"), "{}", typo.stderr);
}

#[test]
fn questions_that_a_file_cannot_answer_are_refused_in_one_line() {
    let place = files();
    for (line, why) in [
        ("report massif.out --metric allocated", "a massif profile does not have allocated bytes"),
        ("report massif.out --metric temporary", "a massif profile does not have temporary allocations"),
        ("report massif.out --by thread", "does not say which thread"),
        ("report massif.out --from 10%", "not what happened between them"),
        ("report massif.out --filter size:10..", "not single blocks"),
        ("report dhat.json --at peak --metric allocated", "a DHAT profile does not have allocated bytes here"),
        ("report heap.pb.gz --at peak", "knows one instant only"),
        ("timeline heap.pb.gz", "knows one instant only"),
        ("growth heap.pb.gz", "knows one instant only"),
        ("report node.heapprofile --metric allocations", "does not have allocations"),
        ("export massif.out --to dhat -o x.json", "a DHAT profile counts blocks"),
    ] {
        let refused = place.highwater(line);
        assert!(refused.stderr.contains(why) && refused.stderr.lines().count() == 1, "{line}: {}", refused.stderr);
    }
}

fn number(document: &Value, path: &str) -> u64 {
    document.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} is a number"))
}

#[test]
fn figures_that_a_file_lacks_are_null() {
    let place = files();
    let massif = place.json("report massif.out --at peak");
    assert_eq!(number(&massif, "/totals/live_bytes"), 36_696);
    for name in ["live_blocks", "allocated_bytes", "allocations", "frees", "temporary_allocations", "peak_blocks"] {
        assert!(massif["totals"][name].is_null(), "{name}");
        assert!(massif["sites"][0][name].is_null(), "{name}");
    }
    assert_eq!(massif["source"]["clock"], "instructions");
    assert!(massif["at_ns"].is_null() && massif["at_instruction"] == 191_302);
    let dhat = place.json("report dhat.json");
    assert_eq!((number(&dhat, "/totals/allocated_bytes"), number(&dhat, "/totals/allocations")), (76_770, 368));
    assert!(place.json("report dhat.json --at peak")["totals"]["allocated_bytes"].is_null());
}

#[test]
fn states_have_a_timeline_and_growth() {
    let place = files();
    let points = place.json("timeline massif.out --points 400")["points"].clone();
    let highest = points.as_array().unwrap().iter().map(|point| point["highest_bytes"].as_u64().unwrap()).max();
    assert_eq!(highest, Some(36_696));
    let growth = place.json("growth massif.out");
    // Four states have call stacks, and at the first nothing is live.
    assert_eq!(growth["t"].as_array().map(Vec::len), Some(5));
    place.highwater("timeline massif.out").stdout_has(&["15 states in 201,794 instructions", "instruction 191,302"]);
}

#[test]
fn imported_profiles_answer_as_their_files_do() {
    let place = files();
    for file in ["massif.out", "dhat.json", "heap.pb.gz", "node.heapprofile", "gperftools.heap"] {
        place.highwater(&format!("import {file} -o {file}.hw")).stdout_has(&[": a profile of "]);
        place.highwater(&format!("check {file}.hw")).stdout_has(&["sound"]);
        let (original, imported) = (place.json(&format!("report {file}")), place.json(&format!("report {file}.hw")));
        assert_eq!((&original["totals"], &original["sites"]), (&imported["totals"], &imported["sites"]), "{file}");
    }
}

#[test]
fn files_of_different_tools_are_compared_by_function() {
    let place = files();
    let same = place.json("diff massif.out@50% massif.out");
    assert_eq!(same["by"], "site");
    // Both files are of the same program: at the peak they differ by massif's overhead of the allocator alone.
    let diff = place.json("diff dhat.json@peak massif.out@peak --top 0");
    assert_eq!(diff["by"], "function");
    let rows = diff["functions"].as_array().unwrap();
    let changed: Vec<(&str, i64)> = rows
        .iter()
        .map(|row| (row["name"].as_str().unwrap_or_default(), row["live_bytes_delta"].as_i64().unwrap()))
        .filter(|(_, change)| *change != 0)
        .collect();
    assert_eq!(changed, [("[extra heap: allocator overhead]", 406)]);
}
