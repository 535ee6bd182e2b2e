//! Sending a recording while it is made: `record --stream` and `record --serve`, to our own commands, to netcat, and to misbehaving clients.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::streams::{Beside, entries_of, free_port, private_memory, record, wait_until};
use support::{Place, programs};

/// The exit code of `busy`.
const EXIT: i32 = 7;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn what_arrives_is_what_would_have_been_written() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --once -o arrived.hw");
    let port = listener.port();
    let recorder = record(&place, &format!("--stream {port} -o written.hw"), &programs::c("busy"), &["0.3", "500"]);
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), EXIT, "{}", ended.stderr_text());
    assert!(ended.stderr_text().contains("sent "), "{}", ended.stderr_text());
    assert_eq!(listener.ended().shell_status(), 0);
    let (arrived, written) = (place.sound_report("arrived.hw", ""), place.sound_report("written.hw", ""));
    for part in ["totals", "sites", "anomalies", "program"] {
        assert_eq!(arrived[part], written[part], "{part}");
    }
    let allocated: u64 = ended.stdout_text().trim().parse().unwrap();
    assert!(number(&arrived["totals"]["allocations"]) >= allocated);
    // Names were sent with it.
    assert!(arrived["sites"].to_string().contains("\"take\""), "{}", arrived["sites"]);
}

#[test]
fn netcat_is_enough_at_the_other_end() {
    let place = Place::new();
    let port = free_port();
    let mut netcat = Command::new("nc")
        .args(["-l", "127.0.0.1", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(File::create(place.file("caught.hw")).unwrap())
        .spawn()
        .unwrap();
    let recorder = record(&place, &format!("--stream {port} --wait"), &programs::c("busy"), &["0.2", "500"]);
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), EXIT, "{}", ended.stderr_text());
    netcat.wait().unwrap();
    let report = place.sound_report("caught.hw", "");
    // The blocks that it kept, and its list.
    assert!(number(&report["totals"]["live_blocks"]) >= 501);
}

#[test]
fn netcat_and_the_memtrace_format_go_together() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0 --wire memtrace", &programs::c("busy"), &["30", "500", "1000"]);
    let port = recorder.port();
    let mut netcat = Command::new("nc")
        .args(["127.0.0.1", &port.to_string()])
        .stdin(Stdio::piped())
        .stdout(File::create(place.file("caught.ctf")).unwrap())
        .spawn()
        .unwrap();
    wait_until("something arrives", || std::fs::metadata(place.file("caught.ctf")).unwrap().len() > 100_000);
    // A byte requests the end.
    netcat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    netcat.wait().unwrap();
    let report = place.sound_report("caught.ctf", "");
    assert!((490..=510).contains(&number(&report["totals"]["live_blocks"])), "{}", report["totals"]);
    assert!(report["sites"].to_string().contains("\"take\""), "{}", report["sites"]);
    assert!(recorder.is_running(), "the program goes on");
}

#[test]
fn a_client_that_takes_nothing_costs_events_and_not_memory() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let recorder = record(&place, &format!("--stream {port}"), &programs::c("busy"), &["8", "2000"]);
    let (mut connection, _) = listener.accept().unwrap();
    // Long enough for the outbox and the system's buffers to be full.
    let mut most = 0;
    for _ in 0..70 {
        std::thread::sleep(Duration::from_millis(100));
        most = most.max(private_memory(recorder.id()));
    }
    assert!(most > 0 && most < 192 << 20, "the recorder took {} MiB", most >> 20);
    let mut caught = Vec::new();
    connection.read_to_end(&mut caught).unwrap();
    std::fs::write(place.file("caught.hw"), caught).unwrap();
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), EXIT, "{}", ended.stderr_text());
    let report = place.sound_report("caught.hw", "");
    // Dropped events are counted in the stream, and the figures are exact all the same.
    assert!(number(&report["anomalies"]["dropped_events"]) > 100_000, "{}", report["anomalies"]);
    let allocated: u64 = ended.stdout_text().trim().parse().unwrap();
    let totals = &report["totals"];
    let others = number(&totals["allocations"]) - allocated;
    assert!(others < 20, "{totals}");
    assert!((2000..2020).contains(&number(&totals["live_blocks"])), "{totals}");
    assert_eq!(number(&report["anomalies"]["unmatched_frees"]), 0);
}

#[test]
fn a_listener_that_is_killed_harms_nobody_and_the_next_one_knows_what_is_live() {
    let place = Place::new();
    let mut first = Beside::highwater(&place, "listen 0 -o first.hw");
    let port = first.port();
    let recorder = record(&place, &format!("--stream {port}"), &programs::c("busy"), &["5", "3000", "500"]);
    // Waits for a whole block: it may be killed while it writes one.
    wait_until("the first one gets something", || {
        let report: Value = serde_json::from_str(&place.highwater("report first.hw --json").stdout).unwrap_or_default();
        report["totals"]["live_blocks"].as_u64().is_some_and(|blocks| blocks >= 2990)
    });
    first.kill();
    let mut second = Beside::highwater(&place, &format!("listen {port} --once -o second.hw"));
    second.line();
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), EXIT, "{}", ended.stderr_text());
    assert!(ended.stderr_text().contains("2 connections"), "{}", ended.stderr_text());
    assert_eq!(second.ended().shell_status(), 0);
    // The first part can be read, though it was interrupted.
    assert!(number(&place.sound_report("first.hw", "")["totals"]["live_blocks"]) >= 2990);
    // The second begins with the blocks that were live then.
    let start = place.sound_report("second.hw", "--at start");
    assert!((2990..3020).contains(&number(&start["totals"]["live_blocks"])), "{}", start["totals"]);
    let end = place.sound_report("second.hw", "");
    let allocated: u64 = ended.stdout_text().trim().parse().unwrap();
    assert!(number(&end["totals"]["allocations"]) - allocated < 20, "{}", end["totals"]);
    for line in [
        "leaks second.hw",
        "timeline second.hw",
        "info second.hw",
        "diff second.hw@start second.hw",
        "report second.hw --filter heap:malloc",
        "export second.hw --to folded -o -",
        "report second.hw --at 50%",
    ] {
        let run = place.highwater(line);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}");
    }
    place.highwater("report second.hw --at 1ms").is_one_clear_line_about(&["second.hw", "begins at"]);
    let exported = place.highwater("export second.hw --to memtrace -o second.ctf");
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    let live = number(&place.sound_report("second.ctf", "")["totals"]["live_blocks"]);
    assert_eq!(live, number(&end["totals"]["live_blocks"]));
}

#[test]
fn nothing_is_recorded_before_a_client_comes_and_after_it_left() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0", &programs::c("busy"), &["6", "1000", "1000"]);
    let port = recorder.port();
    std::thread::sleep(Duration::from_millis(500));
    for name in ["one.hw", "two.hw"] {
        let run = place.highwater(&format!("connect {port} -o {name} --duration 700ms"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        let report = place.sound_report(name, "");
        // Blocks from before are neither leaks nor anomalies.
        assert!((900..1100).contains(&number(&report["totals"]["live_blocks"])), "{}", report["totals"]);
        assert_eq!(number(&report["anomalies"]["unmatched_frees"]), 0);
        assert_eq!(number(&place.json(&format!("report {name} --at start"))["totals"]["live_blocks"]), 0);
        assert!(report["sites"].to_string().contains("\"take\""));
    }
    let started = place.json("info two.hw");
    assert!(number(&started["source"]["duration_ns"]) > 1_000_000_000, "{started}");
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), EXIT);
    assert!(ended.stderr_text().contains("to 2 clients"), "{}", ended.stderr_text());
}

#[test]
fn a_script_that_becomes_the_program_is_no_obstacle() {
    let place = Place::new();
    let busy = programs::c("busy");
    let script = format!("/bin/true; exec {} 3 1000 1000", busy.display());
    let mut recorder = record(&place, "--serve 0", std::path::Path::new("/bin/sh"), &["-c", &script]);
    let port = recorder.port();
    std::thread::sleep(Duration::from_millis(700));
    let run = place.highwater(&format!("connect {port} -o busy.hw --duration 500ms"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = place.sound_report("busy.hw", "");
    assert!((900..1100).contains(&number(&report["totals"]["live_blocks"])), "{}", report["totals"]);
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), EXIT);
    assert!(ended.stderr_text().contains("busy (pid") && !ended.stderr_text().contains("true (pid"));
}

#[test]
fn the_stream_of_a_program_that_ends_is_complete() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0", &programs::c("busy"), &["1.5", "1000", "1000"]);
    let port = recorder.port();
    let run = place.highwater(&format!("connect {port} -o whole.hw"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(recorder.ended().shell_status(), EXIT);
    assert_eq!(place.json("info whole.hw")["file"]["complete"], true);
    assert!(number(&place.sound_report("whole.hw", "")["totals"]["live_blocks"]) >= 1000);
}

#[test]
fn a_hundred_clients_come_and_go() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0", &programs::c("busy"), &["60", "1000", "1000"]);
    let port = recorder.port();
    for round in 0..100 {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut first = [0; 6];
        client.read_exact(&mut first).unwrap_or_else(|error| panic!("client {round}: {error}"));
        assert_eq!(&first, b"\x89HW\r\n\x1a", "client {round}");
        match round % 3 {
            // Some clients send a goodbye, some close their side, some just disconnect.
            0 => client.write_all(b"bye").unwrap(),
            1 => client.shutdown(Shutdown::Write).unwrap(),
            _ => {}
        }
    }
    let run = place.highwater(&format!("connect {port} -o last.hw --duration 500ms"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(number(&place.sound_report("last.hw", "")["totals"]["live_blocks"]) > 900);
    wait_until("threads of those that left end", || entries_of(recorder.id(), "task") < 12);
    assert!(entries_of(recorder.id(), "fd") < 32, "descriptors are left open");
    assert!(recorder.is_running());
}

#[test]
fn clients_that_are_not_welcome_are_told_why() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve [::1]:0 --token sesame", &programs::c("busy"), &["60", "1000", "1000"]);
    let port = recorder.port();
    // Over IPv6, with the token.
    let first = Beside::highwater(&place, &format!("connect [::1]:{port} --token sesame -o first.hw"));
    wait_until("the first one gets something", || {
        std::fs::metadata(place.file("first.hw")).is_ok_and(|about| about.len() > 10_000)
    });
    let wrong = place.highwater(&format!("connect [::1]:{port} --token wrong -o wrong.hw"));
    wrong.is_one_clear_line_about(&["[::1]", "needs a token"]);
    let second = place.highwater(&format!("connect [::1]:{port} --token sesame -o second.hw"));
    second.is_one_clear_line_about(&["another client is being served", "--clients"]);
    let mut garbage = TcpStream::connect(("::1", port)).unwrap();
    let _ = garbage.write_all(&[0xff; 100_000]);
    let mut words = String::new();
    let _ = garbage.read_to_string(&mut words);
    assert!(words.is_empty() || words.starts_with("highwater: this stream needs a token"), "{words}");
    assert_eq!(place.names(), ["first.hw"]);
    // An orderly end.
    first.interrupt();
    let ended = first.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    assert_eq!(place.json("info first.hw")["file"]["complete"], true);
    assert!(first_line_of(&place, "check first.hw").contains("sound"));
    assert!(recorder.is_running());
}

fn first_line_of(place: &Place, line: &str) -> String {
    place.highwater(line).stdout.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn several_clients_are_served_where_that_is_allowed() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0 --clients 2", &programs::c("busy"), &["60", "1000", "1000"]);
    let port = recorder.port();
    let early = Beside::highwater(&place, &format!("connect {port} -o early.hw --duration 2s"));
    std::thread::sleep(Duration::from_millis(900));
    let late = place.highwater(&format!("connect {port} -o late.hw --duration 500ms"));
    assert_eq!((late.code, early.ended().shell_status()), (0, 0), "{}", late.stderr);
    // The late client has from its start the blocks whose births the early one received.
    let start = place.sound_report("late.hw", "--at start");
    assert!(number(&start["totals"]["live_blocks"]) > 900, "{}", start["totals"]);
    place.sound_report("early.hw", "");
}

#[test]
fn children_have_streams_of_their_own() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --max 3");
    let port = listener.port();
    let busy = programs::c("busy");
    let line = format!("{0} 0.2 100; {0} 0.2 100; exit 3", busy.display());
    let mut command = place.command(["record", "--stream", &port.to_string(), "--", "/bin/sh", "-c", &line]);
    let recorder = Beside::start(&mut command);
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), 3, "{}", ended.stderr_text());
    assert_eq!(listener.ended().shell_status(), 0);
    let names = place.names();
    assert_eq!(names.iter().filter(|name| name.contains("-busy-")).count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.contains("-sh-")).count(), 1, "{names:?}");
    names.iter().for_each(|name| drop(place.sound_report(name, "")));
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    let place = Place::new();
    let busy = programs::c("busy");
    let busy = busy.display();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let nobody = free_port();
    for line in [format!("listen {port}"), format!("record --serve {port} -- {busy}")] {
        place.highwater(&line).is_one_clear_line_about(&["cannot listen at", &port.to_string(), "in use"]);
    }
    for line in [format!("connect {nobody}"), format!("record --stream {nobody} -o never.hw -- {busy}")] {
        place.highwater(&line).is_one_clear_line_about(&["cannot connect to", "refused", "--wait"]);
    }
    for line in ["connect nobody.invalid:1", "listen nobody.invalid:1", "record --stream nobody.invalid:1 -- /bin/true"]
    {
        place.highwater(line).is_one_clear_line_about(&["nobody.invalid:1", "cannot be found"]);
    }
    assert_eq!(place.names(), Vec::<String>::new());
    let wrong = place.highwater("listen nonsense");
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("is no address"), "{}", wrong.stderr);
}
