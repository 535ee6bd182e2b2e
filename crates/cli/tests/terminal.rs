//! Pipes, terminals, colours, help.

mod support;

use serde_json::json;
use std::fs::File;
use std::process::{Command, Stdio};
use support::{HIGHWATER, Place, Run, in_the_kitchen};

const COMMANDS: &[&str] = &[
    "lake",
    "fleet",
    "block",
    "processes",
    "image",
    "listen",
    "connect",
    "run",
    "ps",
    "snapshot",
    "watch",
    "set",
    "snapshots",
    "collector",
    "ship",
    "report",
    "leaks",
    "diff",
    "objects",
    "timeline",
    "view",
    "export",
    "import",
    "info",
    "check",
    "completions",
    "man",
];

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let place = in_the_kitchen();
    let commands = [
        "report kitchen.hw",
        "report kitchen.hw --json",
        "timeline kitchen.hw",
        "leaks kitchen.hw",
        "diff kitchen.hw@start kitchen.hw",
        "info kitchen.hw",
        "check kitchen.hw",
        "completions bash",
        "man",
        "export kitchen.hw --to json -o -",
        "export kitchen.hw --to pprof -o -",
        "export kitchen.hw --to flamegraph -o -",
    ];
    for line in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = Run::of(place.command(line.split_whitespace()).stdout(writer).output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}");
    }
}

#[test]
fn a_full_disk_behind_standard_output_is_one_clear_line() {
    let place = in_the_kitchen();
    for line in ["report kitchen.hw", "report kitchen.hw --json", "export kitchen.hw --to pprof -o -", "man"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = place.command(line.split_whitespace()).stdout(full).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert_eq!(complaint, "highwater: cannot write to standard output: No space left on device\n", "{line}");
    }
}

/// Runs a command line on a pseudo-terminal and returns the output.
fn on_a_terminal(place: &Place, line: &str, no_color: Option<&str>) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("stty cols 70 rows 24; {HIGHWATER} {line}"), "/dev/null"]);
    script.current_dir(place.path()).stdin(Stdio::null()).env("TERM", "xterm").env_remove("NO_COLOR");
    if let Some(value) = no_color {
        script.env("NO_COLOR", value);
    }
    let output = script.output().expect("'script' of the package bsdutils");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn colour_is_shown_on_a_terminal_only_and_not_with_no_color() {
    let place = in_the_kitchen();
    let escape = '\x1b';
    for line in ["report kitchen.hw", "diff kitchen.hw@start kitchen.hw", "timeline kitchen.hw", "check kitchen.hw"] {
        assert!(on_a_terminal(&place, line, None).contains(escape), "{line}");
        assert!(on_a_terminal(&place, line, Some("")).contains(escape), "{line}: an empty NO_COLOR counts for nothing");
        assert!(!on_a_terminal(&place, line, Some("1")).contains(escape), "{line}");
        assert!(!place.highwater(line).stdout.contains(escape), "{line}");
    }
    let diff = on_a_terminal(&place, "diff kitchen.hw@mark:loaded kitchen.hw", None);
    assert!(diff.contains("\x1b[31m+300 B") && diff.contains("\x1b[32m-1000 B"), "{diff}");
}

#[test]
fn lines_fit_the_terminal() {
    let place = in_the_kitchen();
    let name = "a::very::long::name::".repeat(8);
    let innermost = json!({"function": name, "file": "long.rs", "line": 1});
    let event = json!({"event": "allocate", "address": 1, "size": 9, "stack": [innermost, name]});
    place.import("long.hw", &[event]);
    for line in ["report long.hw", "leaks long.hw", "diff long.hw@start long.hw", "timeline long.hw", "info kitchen.hw"]
    {
        let shown = on_a_terminal(&place, line, Some("1"));
        let too_wide = shown.lines().find(|line| line.trim_end().chars().count() > 70);
        assert_eq!(too_wide, None, "{line}");
    }
    assert!(place.highwater("report long.hw").stdout.contains(&name), "a pipe gets everything");
}

#[test]
fn a_heading_goes_on_in_the_next_line() {
    let place = in_the_kitchen();
    let piped = place.highwater("report kitchen.hw --at end").stdout;
    let shown = on_a_terminal(&place, "report kitchen.hw --at end", Some("1"));
    let heading = |text: &str| -> Vec<String> {
        text.lines()
            .take_while(|line| !line.trim().is_empty())
            .flat_map(str::split_whitespace)
            .map(str::to_owned)
            .collect()
    };
    assert!(piped.lines().next().is_some() && heading(&shown) == heading(&piped), "{shown}\n{piped}");
    assert!(piped.lines().any(|line| line.chars().count() > 70), "the heading is wider than the terminal: {piped}");
}

#[test]
fn pprof_is_never_written_to_a_terminal() {
    let place = in_the_kitchen();
    let shown = on_a_terminal(&place, "export kitchen.hw --to pprof -o -", None);
    assert!(shown.contains("highwater: pprof is binary"), "{shown}");
}

#[test]
fn highwater_alone_prints_help() {
    let place = Place::new();
    let run = place.run::<&str>([]);
    run.stdout_has(&["Usage: highwater", "report", "timeline", "Examples:"]);
    assert_eq!(run.stderr, "");
}

#[test]
fn the_help_of_every_command_has_examples_that_fit() {
    let place = Place::new();
    for command in COMMANDS {
        let run = place.highwater(&format!("{command} --help"));
        run.stdout_has(&["Usage: highwater", "Examples:\n", &format!("  highwater {command}")]);
        let examples = run.stdout.split("Examples:").nth(1).unwrap();
        let examples = examples.lines().filter(|line| line.starts_with("  highwater"));
        for line in examples {
            assert!(line.chars().count() <= 83, "{line}");
        }
    }
}

#[test]
fn completions_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        place.highwater(&format!("completions {shell}")).stdout_has(&["timeline", "--filter"].map(|word| {
            // fish writes options without their dashes.
            if shell == "fish" { word.trim_start_matches('-') } else { word }
        }));
    }
    assert_eq!(place.highwater("completions tcsh").code, 2);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let place = Place::new();
    place.highwater("man").stdout_has(&[".TH highwater 1", "highwater\\-report(1)"]);
    assert_eq!(place.highwater("man pages/man1").code, 0);
    let pages: Vec<String> = std::fs::read_dir(place.file("pages/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in COMMANDS {
        assert!(pages.contains(&format!("highwater-{command}.1")), "{command}: {pages:?}");
    }
    let cargo = std::fs::read_to_string(place.file("pages/man1/cargo-highwater.1")).unwrap();
    assert!(cargo.starts_with(".TH cargo-highwater 1 ") && cargo.contains("\\-\\-budget FILE"), "{cargo}");
    let report = std::fs::read_to_string(place.file("pages/man1/highwater-report.1")).unwrap();
    assert!(report.contains("Examples:"), "{report}");
    place.write("file", "");
    place.highwater("man file").is_one_clear_line_about(&["file", "cannot write the pages"]);
}
