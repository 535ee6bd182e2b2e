//! Every kind of bad input gives one clear line and the right exit code.

mod support;

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use support::{Place, Run, as_lines, in_the_kitchen, kitchen};

const READING: [&str; 6] = ["report", "leaks", "timeline", "info", "check", "export --to folded -o -"];

#[test]
fn a_missing_empty_foreign_file_or_a_directory_is_one_clear_line() {
    let place = Place::new();
    place.write("empty", "");
    place.write("foreign", b"\x7fELF\x02\x01\x01 and more of that");
    place.write("prose", "It was a dark and stormy night.\n");
    std::fs::create_dir(place.file("directory")).unwrap();
    let cases = [
        ("missing", "No such file"),
        ("empty", "empty"),
        ("foreign", "of no known format"),
        ("prose", "of no known format"),
        ("directory", "is a folder, and no canister snapshot"),
    ];
    for (file, problem) in cases {
        for command in READING {
            place.highwater(&format!("{command} {file}")).is_one_clear_line_about(&[file, problem]);
        }
        place.highwater(&format!("diff {file} {file}")).is_one_clear_line_about(&[file, problem]);
    }
    place.highwater("import missing -o out.hw").is_one_clear_line_about(&["missing", "No such file"]);
    place.highwater("import directory -o out.hw").is_one_clear_line_about(&["directory"]);
    place.highwater("import empty -o out.hw").is_one_clear_line_about(&["empty", "the file is empty"]);
}

#[test]
fn an_unreadable_file_is_one_clear_line() {
    let place = in_the_kitchen();
    // Nothing is mapped at address 0.
    place.highwater("report /proc/self/mem").is_one_clear_line_about(&["/proc/self/mem", "cannot read"]);
    std::fs::set_permissions(place.file("kitchen.hw"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let run = place.highwater("report kitchen.hw");
    // The superuser may read everything.
    if std::fs::File::open(place.file("kitchen.hw")).is_ok() {
        assert_eq!(run.code, 0);
    } else {
        run.is_one_clear_line_about(&["kitchen.hw", "Permission denied"]);
    }
}

#[test]
fn a_time_outside_and_an_unknown_mark_are_told_with_what_there_is() {
    let place = in_the_kitchen();
    place.highwater("report kitchen.hw --at 11s").is_one_clear_line_about(&["11.00s", "outside", "10.00s"]);
    let unknown = place.highwater("report kitchen.hw --at mark:nowhere");
    unknown.is_one_clear_line_about(&["'nowhere'", "loaded", "all done"]);
    place.highwater("diff kitchen.hw@99s kitchen.hw").is_one_clear_line_about(&["99.00s", "outside"]);
    place.highwater("export kitchen.hw --to json --at 11s -o out").is_one_clear_line_about(&["11.00s"]);
    assert!(!place.file("out").exists());
}

#[track_caller]
fn is_wrong_usage(run: &Run, word: &str) {
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains(word), "{}", run.stderr);
}

#[test]
fn wrong_usage_has_exit_code_2() {
    let place = in_the_kitchen();
    is_wrong_usage(&place.highwater("report kitchen.hw --at soon"), "names no instant");
    is_wrong_usage(&place.highwater("diff kitchen.hw@soon kitchen.hw"), "names no instant");
    is_wrong_usage(&place.highwater("report kitchen.hw --filter ("), "not a regular expression: unclosed group");
    is_wrong_usage(&place.highwater("report kitchen.hw --by colour"), "colour");
    is_wrong_usage(&place.highwater("report"), "FILE");
    is_wrong_usage(&place.highwater("export kitchen.hw --to png -o x"), "png");
    is_wrong_usage(&place.highwater("export kitchen.hw --to pprof"), "--output");
    is_wrong_usage(
        &place.highwater("report kitchen.hw --filter heap:stack"),
        "there is no such heap; there are: malloc, mmap",
    );
    is_wrong_usage(&place.highwater("report kitchen.hw --filter colour:red"), "there is no such filter");
    is_wrong_usage(&place.highwater("report kitchen.hw --metric peak --at 3s"), "leave out --at");
    is_wrong_usage(&place.highwater("gossip"), "gossip");
}

#[test]
fn bad_lines_are_named_and_skipped_or_stop_a_strict_import() {
    let place = Place::new();
    let mut lines: Vec<String> = kitchen().iter().map(Value::to_string).collect();
    lines.insert(3, "{\"event\":\"allocate\",".to_owned());
    lines.insert(5, json!({"event": "explode"}).to_string());
    lines.insert(7, json!({"event": "allocate", "address": 1}).to_string());
    place.write("bad.jsonl", lines.join("\n"));

    let run = place.highwater("import bad.jsonl -o bad.hw");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("9 events") && run.stdout.contains("3 bad lines skipped"), "{}", run.stdout);
    let told: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(told.len(), 3);
    for (line, words) in told.iter().zip([["line 4", "JSON"], ["line 6", "explode"], ["line 8", "size"]]) {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    assert_eq!(place.json("report bad.hw")["totals"]["live_bytes"], 800);

    place.highwater("import bad.jsonl -o strict.hw --strict").is_one_clear_line_about(&["bad.jsonl", "line 4"]);
    assert_eq!(place.names(), ["bad.hw", "bad.jsonl"], "nothing is left behind");

    place.highwater("report bad.jsonl --strict").is_one_clear_line_about(&["line 4"]);
    assert_eq!(place.highwater("report bad.jsonl").code, 0);
    assert_eq!(place.highwater("check bad.jsonl").code, 1);
}

#[test]
fn after_ten_bad_lines_the_rest_is_counted() {
    let place = Place::new();
    let text = format!("{}{}", as_lines(&kitchen()), "nonsense\n".repeat(25));
    place.write("bad.jsonl", text);
    let run = place.highwater("import bad.jsonl -o bad.hw");
    assert_eq!(run.code, 0);
    assert_eq!(run.stderr.lines().count(), 11);
    assert!(run.stderr.lines().last().unwrap().contains("15 more bad lines"), "{}", run.stderr);
}

#[test]
fn import_does_not_replace_a_file_unless_told_to() {
    let place = in_the_kitchen();
    place.write("few.jsonl", as_lines(&kitchen()[..4]));
    place.highwater("import few.jsonl -o kitchen.hw").is_one_clear_line_about(&["kitchen.hw", "--force"]);
    assert_eq!(place.json("info kitchen.hw")["file"]["events"], 9);
    assert_eq!(place.highwater("import few.jsonl -o kitchen.hw --force").code, 0);
    assert_eq!(place.json("info kitchen.hw")["file"]["events"], 1);
}

#[test]
fn a_failed_write_is_one_clear_line_and_leaves_nothing_behind() {
    let place = in_the_kitchen();
    let before = place.names();
    for format in ["pprof", "folded", "flamegraph", "json"] {
        let run = place.highwater(&format!("export kitchen.hw --to {format} -o /dev/full"));
        run.is_one_clear_line_about(&["/dev/full", "No space left"]);
        let run = place.highwater(&format!("export kitchen.hw --to {format} -o nowhere/out"));
        run.is_one_clear_line_about(&["nowhere/out", "No such file"]);
    }
    place.highwater("import imported.jsonl -o /dev/full").is_one_clear_line_about(&["/dev/full", "No space left"]);
    place.highwater("import imported.jsonl -o nowhere/x.hw").is_one_clear_line_about(&["nowhere/x.hw"]);
    let empty = place.highwater("export kitchen.hw --to flamegraph --filter nobody -o out.svg");
    empty.is_one_clear_line_about(&["nothing to draw"]);
    assert_eq!(place.names(), before);
}
