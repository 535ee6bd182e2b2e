//! A recorded program gets the same signal state as without us, whatever its parent ignores or blocks.

mod support;

use std::io::Read;
use std::process::{Command, Stdio};
use support::live::{Collector, wait_for};
use support::recorded::Ended;
use support::{HIGHWATER, Place};

/// The lines about signals of `/proc/PID/status`: pending, blocked, ignored, caught.
fn signals(status: &str) -> Vec<&str> {
    // Signals that wait (`SigQ`) are counted for the user, not for the process.
    let is_own = |line: &&str| (line.starts_with("Sig") || line.starts_with("ShdPnd")) && !line.starts_with("SigQ");
    status.lines().filter(is_own).collect()
}

/// `env`, which starts a program with the requested signal state.
fn with_signals(options: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.args(options);
    command
}

#[test]
fn what_was_ignored_or_blocked_is_so_for_the_program() {
    let place = Place::new();
    let cases: [&[&str]; 5] = [
        &[],
        &["--ignore-signal=HUP"],
        &["--ignore-signal=CHLD", "--ignore-signal=PIPE"],
        &["--block-signal=USR1", "--block-signal=TERM", "--ignore-signal=INT", "--ignore-signal=QUIT"],
        &["--ignore-signal=USR2", "--ignore-signal=RTMIN", "--block-signal=RTMAX", "--default-signal=PIPE"],
    ];
    for options in cases {
        let bare = Ended::of(with_signals(options).args(["/bin/cat", "/proc/self/status"]).output().unwrap());
        let file = place.file("cat.hw");
        let mut recorded = with_signals(options);
        recorded.args([HIGHWATER, "record", "-o"]).arg(&file).args(["/bin/cat", "/proc/self/status"]);
        let recorded = Ended::of(recorded.output().unwrap());
        assert_eq!(recorded.shell_status(), 0, "{options:?}: {}", recorded.stderr_text());
        assert_eq!(signals(&recorded.stdout_text()), signals(&bare.stdout_text()), "{options:?}");
        assert_eq!(signals(&bare.stdout_text()).len(), 5, "{}", bare.stdout_text());
        std::fs::remove_file(&file).expect("a recording");
    }
}

#[test]
fn an_exit_code_is_kept_where_the_end_of_children_is_ignored() {
    let place = Place::new();
    let mut command = with_signals(&["--ignore-signal=CHLD"]);
    command.args([HIGHWATER, "record", "-o"]).arg(place.file("sh.hw")).args(["--", "/bin/sh", "-c", "exit 7"]);
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(ended.shell_status(), 7, "{}", ended.stderr_text());
    let read = place.highwater("report sh.hw");
    assert_eq!(read.code, 0, "{}", read.stderr);
}

#[test]
fn a_program_under_nohup_outlives_the_hang_up() {
    let collector = Collector::new();
    for how in ["record", "run"] {
        let place = Place::new();
        let mut command = Command::new("/usr/bin/nohup");
        command.arg(HIGHWATER).arg(how).env("HIGHWATER_SOCKET", collector.socket());
        if how == "record" {
            command.arg("-o").arg(place.file("server.hw"));
        }
        // Prints its own process number, waits for a hang-up of both, and then for the end of its input.
        command.args(["--", "/bin/sh", "-c", "echo $$; cat; echo done"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut us = command.spawn().unwrap();
        let mut output = us.stdout.take().unwrap();
        let mut first = Vec::new();
        while first.last() != Some(&b'\n') {
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{how}: the program did not begin");
            first.push(byte[0]);
        }
        let program = String::from_utf8(first).unwrap().trim().to_owned();
        let kill = Command::new("sh").args(["-c", &format!("kill -HUP {} {program}", us.id())]).status().unwrap();
        assert!(kill.success());
        wait_for("the signal to arrive", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", us.id())).unwrap_or_default();
            status.lines().any(|line| line == "ShdPnd:\t0000000000000000")
        });
        drop(us.stdin.take());
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "done\n", "{how}");
        assert!(us.wait().unwrap().success(), "{how}");
    }
}
