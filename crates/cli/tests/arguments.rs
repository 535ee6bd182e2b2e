//! The arguments of a program: kept by default, and stored nowhere with --no-args.

mod support;

use serde_json::json;
use std::fs;
use std::process::Command;
use support::live::Collector;
use support::recorded::run;
use support::streams::Beside;
use support::{HIGHWATER, Place, programs};

const SECRET: &str = "open-sesame-4711";

/// Whether any file below the test's directory contains the word, in its bytes or in its export as JSON.
fn is_anywhere(place: &Place, word: &str) -> bool {
    let mut folders = vec![place.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_in = |bytes: &[u8]| bytes.windows(word.len()).any(|window| window == word.as_bytes());
            let json = Command::new(HIGHWATER).args(["export", "--to", "json", "-o", "-"]).arg(&path).output().unwrap();
            if is_in(&fs::read(&path).unwrap()) || is_in(&json.stdout) {
                return true;
            }
        }
    }
    false
}

#[test]
fn arguments_are_in_a_recording_unless_they_are_left_out() {
    for (options, expected) in [(&[][..], true), (&["--no-args"], false)] {
        let place = Place::new();
        // A child has arguments, too.
        let script = format!("/bin/echo {SECRET} >/dev/null; exit 3");
        let mut command = Command::new(HIGHWATER);
        command.args(["record", "--keep-children", "0", "-o", "app.hw"]).args(options);
        command.args(["--", "/bin/sh", "-c", &script]).current_dir(place.path());
        assert_eq!(run(&mut command).status.code(), Some(3));
        assert_eq!(is_anywhere(&place, SECRET), expected, "{options:?}");
        let report = place.json("report app.hw");
        assert_eq!(report["source"]["program"], "sh");
        let all = if expected { json!(["/bin/sh", "-c", script]) } else { json!(["/bin/sh"]) };
        assert_eq!(report["source"]["command"], all);
        let info = place.highwater("info app.hw").stdout;
        assert_eq!(info.contains(SECRET), expected, "{info}");
    }
}

#[test]
fn a_title_that_a_program_gave_itself_is_no_name() {
    let place = Place::new();
    let mut command = Command::new("bash");
    let line = format!(
        "exec {HIGHWATER} record --no-args -o app.hw -- /bin/bash -c \"exec -a 'app: {SECRET} now' /bin/true\""
    );
    run(command.args(["-c", &line]).current_dir(place.path())).succeeded();
    assert!(!is_anywhere(&place, SECRET));
    assert_eq!(place.json("report app.hw")["source"]["program"], "true");
}

#[test]
fn arguments_are_in_a_stream_unless_they_are_left_out() {
    for (option, expected) in [("", true), ("--no-args", false)] {
        let place = Place::new();
        let mut listener = Beside::highwater(&place, "listen 0 --once -o arrived.hw");
        let port = listener.port();
        let sent = place.highwater(&format!("record {option} --stream {port} -- /bin/echo {SECRET}"));
        assert_eq!(sent.code, 0, "{}", sent.stderr);
        listener.ended().succeeded();
        assert_eq!(is_anywhere(&place, SECRET), expected, "{option}");
    }
}

#[test]
fn a_live_programs_arguments_are_shown_unless_they_are_left_out() {
    for (options, expected) in [(&["run", "-q"][..], true), (&["run", "-q", "--no-args"], false)] {
        let mut collector = Collector::new();
        let mut command = collector.command(options);
        command.arg("--").arg(programs::c("holder")).arg(SECRET);
        let holder = support::live::Holder::start(command);
        for is_new_collector in [false, true] {
            if is_new_collector {
                // It finds the program, and could read the arguments itself.
                collector.restart();
                support::streams::wait_until("it is found", || collector.process(holder.pid)["state"] == "live");
            }
            let process = collector.process(holder.pid);
            assert_eq!(process.to_string().contains(SECRET), expected, "{process}");
            assert_eq!(process["name"], "holder");
            let name = format!("held-{is_new_collector}.hw");
            collector.highwater(&format!("snapshot --pid {} -o {name}", holder.pid)).succeeded();
            let info = collector.highwater(&format!("info {name}")).succeeded().stdout_text();
            assert_eq!(info.contains(SECRET), expected, "{info}");
        }
    }
}

/// docs/what-a-recording-contains.md: the contents of a recording, and data that is never in it.
#[test]
fn a_recording_has_names_and_paths_but_neither_memory_nor_environment() {
    let place = Place::new();
    let mut command = Command::new(HIGHWATER);
    // Assembled in the program's memory: no argument contains it.
    let script = "held=$(printf '%s%s' held-in- memory-4711); held=$held$held; test ${#held} -gt 20";
    command.args(["record", "--keep-children", "0", "-o", "app.hw", "--", "/bin/sh", "-c", script]);
    command.env("SECRET", "environment-4711").current_dir(place.path());
    run(&mut command).succeeded();
    for word in ["held-in-memory-4711", "environment-4711", "SECRET", "LD_PRELOAD"] {
        assert!(!is_anywhere(&place, word), "{word}");
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let executable = fs::canonicalize("/bin/sh").unwrap().to_string_lossy().into_owned();
    for word in [host.as_str(), executable.as_str(), "libc.so.6"] {
        assert!(is_anywhere(&place, word), "{word}");
    }
}
