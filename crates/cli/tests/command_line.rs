//! The arguments that the command line accepts, and its messages for those that it does not accept.
#![allow(missing_docs)]

mod support;

use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;
use support::{Place, Run, in_the_kitchen};

#[track_caller]
fn is_wrong_usage(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    for word in words {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
}

#[test]
fn an_unknown_option_is_not_taken_for_the_program() {
    let place = Place::new();
    for command in ["record", "run"] {
        is_wrong_usage(
            &place.highwater(&format!("{command} --allowance x")),
            &["unexpected argument '--allowance'", "Usage:"],
        );
        is_wrong_usage(&place.highwater(&format!("{command} -Z x")), &["unexpected argument '-Z'"]);
        let near = place.highwater(&format!("{command} --sampel 512KiB true"));
        is_wrong_usage(&near, &["unexpected argument '--sampel'", "'--sample'"]);
        // A program may really have this name.
        place
            .highwater(&format!("{command} -- --allowance x"))
            .is_one_clear_line_about(&["--allowance", "no such program"]);
    }
}

#[test]
fn what_follows_the_program_is_its_own() {
    let place = Place::new();
    for line in
        ["record --force -o echo.hw echo --budget -Z --help", "record --force -o echo.hw -- echo --budget -Z --help"]
    {
        let run = place.highwater(line);
        assert_eq!((run.code, run.stdout.as_str()), (0, "--budget -Z --help\n"), "{}", run.stderr);
    }
}

#[test]
fn durations_are_taken_as_the_help_writes_them() {
    let place = Place::new();
    for duration in ["500ms", "10s", "10m", "2h", "1h30m", "1.5s"] {
        let run = place.highwater(&format!("record --force -o true.hw --duration {duration} -- true"));
        assert_eq!(run.code, 0, "{duration}: {}", run.stderr);
        // Nothing listens at port 1: the duration was accepted.
        place.highwater(&format!("connect 1 --duration {duration}")).is_one_clear_line_about(&["cannot connect"]);
    }
    for wrong in ["10", "0s", "30m1h", "1x", "m"] {
        is_wrong_usage(&place.highwater(&format!("record --duration {wrong} -- true")), &["not a time", "10m"]);
    }
    let kitchen = in_the_kitchen();
    let at = |when: &str| kitchen.json(&format!("report kitchen.hw --at {when}"))["at_ns"].clone();
    assert_eq!(at("0m4s"), at("4s"));
}

#[test]
fn a_size_in_kb_is_in_thousands_and_one_in_kib_is_not() {
    let place = Place::new();
    for (size, rate) in [("80KB", 80_000), ("80KiB", 81_920), ("80K", 81_920), ("81920", 81_920), ("1MB", 1_000_000)] {
        let run = place.highwater(&format!("record --force -o true.hw --sample {size} -- true"));
        assert_eq!(run.code, 0, "{size}: {}", run.stderr);
        assert_eq!(place.json("info true.hw")["source"]["sample_rate"], rate, "{size}");
    }
    is_wrong_usage(&place.highwater("record --sample 80kibs -- true"), &["not a size", "512KiB", "80KB"]);
}

#[test]
fn help_is_a_command_as_well() {
    let place = Place::new();
    for command in ["report", "record", "image", "image heap", "snapshots get"] {
        let (asked, option) =
            (place.highwater(&format!("help {command}")), place.highwater(&format!("{command} --help")));
        assert_eq!((asked.code, &asked.stdout), (0, &option.stdout), "{command}: {}", asked.stderr);
        assert!(asked.stdout.contains(&format!("Usage: highwater {command}")), "{}", asked.stdout);
    }
    assert_eq!(place.highwater("image help heap").stdout, place.highwater("image heap --help").stdout);
    assert_eq!(place.highwater("help").stdout, place.highwater("--help").stdout);
    is_wrong_usage(&place.highwater("help gossip"), &["gossip"]);
}

#[test]
fn help_lists_the_commands_in_groups() {
    let help = Place::new().highwater("--help").stdout;
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in help.lines().take_while(|line| *line != "Options:").skip_while(|line| *line != "Record:") {
        if let Some(group) = line.strip_suffix(':') {
            groups.push((group, Vec::new()));
        } else if let Some(command) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
            groups.last_mut().unwrap().1.push(command.split_whitespace().next().unwrap());
        }
    }
    let names: Vec<&str> = groups.iter().map(|(group, _)| *group).collect();
    assert_eq!(names, ["Record", "Live", "Analyse", "Fleet", "Convert", "Images", "Shell"], "{help}");
    let commands = |name: &str| groups.iter().find(|(group, _)| *group == name).unwrap().1.clone();
    assert!(commands("Record").contains(&"record") && commands("Live").contains(&"watch"), "{help}");
    assert!(commands("Analyse").contains(&"report") && commands("Convert").contains(&"export"), "{help}");
    assert_eq!(commands("Images"), ["image"]);
    assert!(help.contains("Usage: highwater") && help.contains("Examples:") && help.contains("--version"), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn the_manual_has_no_page_for_help() {
    let place = Place::new();
    assert_eq!(place.highwater("man pages").code, 0);
    let pages = std::fs::read_dir(place.file("pages")).unwrap();
    let names: Vec<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name == "highwater-image-heap.1"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("help")), "{names:?}");
}

#[test]
fn a_file_that_cannot_be_viewed_is_told_in_the_terminal() {
    let place = in_the_kitchen();
    place.highwater("view --no-open nope.hw").is_one_clear_line_about(&["nope.hw", "cannot read: No such file"]);
    place.write("empty.hw", "");
    let none = place.highwater("view --no-open nope.hw empty.hw");
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.lines().count()), (1, "", 2), "{none:?}");
    let saved = place.highwater("view nope.hw --save page.html");
    saved.is_one_clear_line_about(&["nope.hw", "No such file"]);
    // A readable file is shown, and the unreadable ones are named.
    let mut command = place.command(["view", "--no-open", "--socket", "nowhere", "kitchen.hw", "nope.hw"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut address = [0; 7];
    child.stdout.as_mut().unwrap().read_exact(&mut address).unwrap();
    assert_eq!(&address, b"http://");
    child.kill().unwrap();
    let told = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(
        told.contains("warning: nope.hw: cannot read: No such file") && told.contains("the rest is shown"),
        "{told}"
    );
}

#[test]
fn an_error_of_the_system_names_the_file_and_what_was_done_once() {
    let place = in_the_kitchen();
    std::fs::create_dir(place.file("folder")).unwrap();
    let lines = [
        ("report /proc/self/mem", "/proc/self/mem: cannot read: "),
        ("import /proc/self/mem -o x.hw", "/proc/self/mem: cannot read: "),
        ("export kitchen.hw --to memtrace -o /dev/full", "cannot write /dev/full: No space left"),
        ("export kitchen.hw --to memtrace -o nowhere/x.ctf", "cannot write nowhere/x.ctf: No such file"),
        ("export kitchen.hw --to json -o folder", "cannot write folder: Is a directory"),
        ("view kitchen.hw --save nowhere/page.html", "cannot write nowhere/page.html: No such file"),
    ];
    for (line, words) in lines {
        let run = place.highwater(line);
        run.is_one_clear_line_about(&[words]);
        assert_eq!(run.stderr.matches("cannot").count(), 1, "{}", run.stderr);
        assert!(!run.stderr.contains("the file:"), "{}", run.stderr);
    }
}

/// A server that sends these bytes and closes.
fn says(words: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        // In two pieces, as networks may deliver them.
        let (first, rest) = words.split_at(words.len().min(7));
        let _ = connection.set_nodelay(true);
        let _ = connection.write_all(first);
        std::thread::sleep(std::time::Duration::from_millis(100));
        let _ = connection.write_all(rest);
    });
    port
}

#[test]
fn why_a_server_refuses_is_shown() {
    let place = Place::new();
    let port = says(b"highwater: another client is being served; come back later\n");
    let run = place.highwater(&format!("connect {port}"));
    run.is_one_clear_line_about(&["refused: another client is being served; come back later"]);
    let port = says(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    place.highwater(&format!("connect {port}")).is_one_clear_line_about(&["it says: HTTP/1.1 400 Bad Request"]);
    let port = says(b"");
    place.highwater(&format!("connect {port}")).is_one_clear_line_about(&["nothing was sent"]);
}

const DECEIVING: &str = "tick\u{202e}cod.exe\u{2028}\u{200b}\u{1b}[2J\u{85}";

fn with_deceiving_names() -> Place {
    let place = Place::new();
    let frame = json!({"function": DECEIVING, "file": DECEIVING, "line": 1, "module": DECEIVING});
    let wide = json!({"function": "解析", "file": "源.c", "line": 2});
    let lines = [
        json!({"event": "thread_name", "thread": 1, "name": DECEIVING}),
        json!({"event": "thread_name", "thread": 2, "name": "工作线程"}),
        json!({"event": "allocate", "address": 1, "size": 9, "thread": 1, "time_ns": 1, "stack": [frame]}),
        json!({"event": "allocate", "address": 64, "size": 5, "thread": 2, "time_ns": 2, "stack": [wide]}),
        json!({"event": "mark", "name": DECEIVING, "time_ns": 3}),
    ];
    place.write("names.jsonl", support::as_lines(&lines));
    let run = place.highwater("import names.jsonl -o names.hw");
    assert_eq!(run.code, 0, "{}", run.stderr);
    place
}

#[track_caller]
fn is_harmless(text: &str, what: &str) {
    let bad = text.chars().find(|c| *c != '\n' && highwater_model::disturbs_text(*c));
    assert_eq!(bad, None, "{what}: {text:?}");
}

#[test]
fn names_reach_the_output_without_what_disturbs_it() {
    let place = with_deceiving_names();
    let lines = [
        "report names.hw --stacks full",
        "report names.hw --by thread",
        "report names.hw --by function",
        "report names.hw --by module",
        "report names.hw --json",
        "leaks names.hw",
        "diff names.hw@start names.hw",
        "timeline names.hw",
        "info names.hw",
        "info names.hw --json",
        "check names.hw",
        "export names.hw --to folded -o -",
        "export names.hw --to flamegraph -o -",
        "export names.hw --to json -o -",
    ];
    for line in lines {
        let run = place.highwater(line);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
        is_harmless(&run.stdout, line);
        is_harmless(&run.stderr, line);
    }
    // A program that reads the JSON still gets every name unchanged.
    let report = place.json("report names.hw");
    assert_eq!(report["sites"][0]["stack"][0]["function"], DECEIVING);
    // File names may contain such characters, too.
    let file = format!("{DECEIVING}.hw");
    std::fs::copy(place.file("names.hw"), place.file(&file)).unwrap();
    let typed = place.run(["report", "names.hw", "--by", DECEIVING]);
    assert_eq!(typed.code, 2, "{}", typed.stderr);
    is_harmless(&typed.stderr, "what was typed");
    for arguments in [["check", &file], ["info", &file], ["report", &file], ["report", &format!("no{file}")]] {
        let run = place.run(arguments);
        is_harmless(&run.stdout, arguments[0]);
        is_harmless(&run.stderr, arguments[0]);
    }
}
