//! A live-profiled program behaves as it does by itself: its output and its exit status, whatever happens to the collector.

mod support;

use std::path::PathBuf;
use std::process::Command;
use support::live::{Collector, wait_for};
use support::programs;
use support::recorded::{Ended, plain, run};

/// Programs with their arguments.
fn programs() -> Vec<(PathBuf, Vec<&'static str>)> {
    let mut all = vec![
        (programs::c("finisher"), vec!["300000"]),
        (programs::c("threads"), vec!["many", "5000"]),
        (programs::c("threads"), vec!["together", "64", "5000"]),
        (programs::c("firstcalls"), vec![]),
        (programs::c("counting"), vec![]),
        (programs::cpp("counting", &[]), vec![]),
        (programs::rust("counting"), vec![]),
        (programs::c("mapping"), vec![]),
    ];
    for how in ["return", "exit", "_exit", "abort", "segv", "term", "exec"] {
        all.push((programs::c("dying"), vec![how, "5000", "500"]));
    }
    for how in ["fork", "raw", "vfork", "spawn", "threads"] {
        all.push((programs::c("forks"), vec![how]));
    }
    all
}

/// The exit status and output of a program, without the lines with its process number and its threads' numbers.
fn seen(ended: Ended) -> (i32, Vec<String>) {
    let is_number = |line: &&str| line.bytes().all(|byte| byte.is_ascii_digit());
    let text = ended.stdout_text();
    let lines = text.lines().filter(|line| !is_number(line)).filter_map(|line| line.split("\"threads\"").next());
    (ended.shell_status(), lines.map(str::to_owned).collect())
}

#[test]
fn programs_do_what_they_would() {
    let collector = Collector::new();
    for (program, arguments) in programs() {
        let native = seen(run(plain(&collector.place, &program).args(&arguments)));
        for options in [&[][..], &["--sample", "2KiB"], &["--max-blocks", "1000"], &["--no-children", "--no-mmap"]] {
            let mut command = collector.command(["run", "-q"]);
            command.args(options).arg("--").arg(&program).args(&arguments);
            let live = seen(run(&mut command));
            assert_eq!(live, native, "{} {arguments:?} {options:?}", program.display());
        }
    }
}

#[test]
fn what_becomes_of_the_collector_does_not_matter() {
    let mut collector = Collector::new();
    let program = programs::c("finisher");
    let right = seen(run(plain(&collector.place, &program).arg("1000000")));
    for signal in ["-STOP", "-KILL"] {
        let mut command = collector.command(["run", "-q", "--"]);
        let child = command.arg(&program).arg("1000000").stdout(std::process::Stdio::piped()).spawn().unwrap();
        wait_for("it to register", || {
            let processes = collector.json("ps");
            processes["processes"].as_array().unwrap().iter().any(|process| process["name"] == "finisher")
        });
        let pid = collector.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(seen(Ended::of(child.wait_with_output().unwrap())), right, "{signal}");
        let _ = Command::new("kill").args(["-CONT", &pid]).status();
    }
    collector.restart();
}

#[test]
fn limits_of_the_system_are_no_harm() {
    let collector = Collector::new();
    let program = programs::c("counting");
    let native = seen(run(&mut plain(&collector.place, &program)));
    // Limits of descriptors, files and address space, from enough for everything to too little for the agent.
    for limit in ["-n 24", "-n 6", "-f 0", "-v 50000000", "-v 2000000", "-v 400000", "-v 60000"] {
        let line = format!("ulimit {limit} && exec {}", program.display());
        let mut command = collector.command(["run", "-q", "--", "/bin/bash", "-c"]);
        assert_eq!(seen(run(command.arg(&line))), native, "{limit}");
    }
}

#[test]
fn a_live_program_reserves_little_address_space() {
    let collector = Collector::new();
    let status =
        Ended::of(collector.command(["run", "--quiet", "cat", "/proc/self/status"]).output().unwrap()).succeeded();
    let status = status.stdout_text();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(peak.is_some_and(|kilobytes| kilobytes < 6_000_000), "{peak:?} kB");
}
