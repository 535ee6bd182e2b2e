//! The collector as a process: its start, its end, and its automatic start.

mod support;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::Place;

/// The process that listens at the socket.
fn listener(place: &Place) -> Option<Pid> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(place.file("socket")).unwrap()).ok()?;
    Some(rustix::net::sockopt::socket_peercred(&socket).unwrap().pid)
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(place: &Place, options: &str) -> Child {
    let line = format!("collector --socket socket --store kept {options}");
    let child = place.command(line.split_whitespace()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it listens", || listener(place).is_some());
    child
}

fn end(child: Child, signal: Signal) -> (Option<i32>, String) {
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_collector_says_where_it_listens_and_ends_in_order() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let collector = start(&place, "");
        // It may find other processes of this machine.
        assert_eq!(place.highwater("ps --socket socket").code, 0);
        place.highwater("snapshots --socket socket").stdout_has(&["No snapshot is kept; at most 100 snapshots"]);
        let (code, said) = end(collector, signal);
        assert_eq!(code, Some(0));
        assert!(said.starts_with("highwater: collector listens at /") && said.contains("/socket;"), "{said}");
        assert!(!place.file("socket").exists());
    }
}

#[test]
fn what_is_kept_can_be_said_and_quiet_is_quiet() {
    let place = Place::new();
    let collector = start(&place, "--quiet --keep 3 --keep-bytes 2MiB --keep-exited 1 --keep-exited-bytes 1MiB");
    place.highwater("snapshots --socket socket").stdout_has(&["at most 3 snapshots with 2.0 MiB"]);
    assert_eq!(end(collector, Signal::TERM), (Some(0), String::new()));
}

#[test]
fn there_is_one_collector_at_a_place_and_it_may_end_when_nobody_needs_it() {
    let place = Place::new();
    let collector = start(&place, "--quiet");
    let second = place.highwater("collector --socket socket --store kept");
    second.is_one_clear_line_about(&["already listens", "socket"]);
    end(collector, Signal::TERM);
    place.write("plain", "");
    place.highwater("collector --socket plain --store kept").is_one_clear_line_about(&["plain", "not a socket"]);
    let run = place.highwater("collector --socket socket --store kept --quiet --exit-when-idle 0");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn a_program_that_is_run_gets_a_collector() {
    let place = Place::new();
    let mut command = place.command(["run", "--socket", "socket", "sh", "-c", "exit 3"]);
    // The kept snapshots lie below.
    let output = command.env("XDG_STATE_HOME", place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{said}");
    let collector = listener(&place).expect("it goes on");
    let pid = said.split_whitespace().find_map(|word| word.strip_suffix(';')?.parse::<u32>().ok()).unwrap();
    place.highwater("ps --socket socket").stdout_has(&[&pid.to_string(), "exited"]);
    let run = place.highwater(&format!("snapshot --pid {pid} --socket socket"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("has exited"), "{}", run.stderr);
    kill_process(collector, Signal::TERM).unwrap();
    wait_until("it ends", || !place.file("socket").exists());
}

#[test]
fn a_program_runs_even_where_no_collector_can() {
    let place = Place::new();
    place.write("file", "");
    let run = place.run(["run", "--socket", "file/socket", "--quiet", "sh", "-c", "exit 4"]);
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("warning: no collector could be started"), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}
