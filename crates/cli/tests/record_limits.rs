//! Containers with little room: the program does not pay for being recorded. Real memory groups, of the version that the machine has; without one that can
//! be written the tests say so and do nothing.

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::recorded::{Ended, Recording, plain, run};
use support::{HIGHWATER, Place, programs};

/// A memory group of our own, removed at the end.
struct Group(PathBuf);

impl Group {
    /// A group with this limit; `None`, said aloud, where there can be none.
    fn new(name: &str, limit: u64) -> Option<Self> {
        let name = format!("highwater-{name}-{}", std::process::id());
        let found = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].into_iter().find_map(|mount| {
            let folder = Path::new(mount).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            let limit = limit.to_string();
            ["memory.limit_in_bytes", "memory.max"]
                .iter()
                .any(|file| fs::write(group.0.join(file), &limit).is_ok())
                .then_some(group)
        });
        if found.is_none() {
            eprintln!("skipped: no memory group can be made here");
        }
        found
    }

    /// Processes that this command starts are in the group.
    fn hold(&self, command: &mut Command) {
        let processes = self.0.join("cgroup.procs");
        // SAFETY: between fork and exec; only makes system calls.
        unsafe { command.pre_exec(move || fs::write(&processes, "0")) };
    }

    fn highest(&self) -> u64 {
        let files = ["memory.max_usage_in_bytes", "memory.peak"];
        files.iter().find_map(|file| fs::read_to_string(self.0.join(file)).ok()?.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_program_close_to_its_containers_limit_is_recorded_and_lives() {
    let place = Place::new();
    let program = programs::c("crowded");
    let Some(group) = Group::new("close", 300 * MIB) else { return };
    let expected = run(plain(&place, &program).arg("170")).stdout_text();
    let mut command = Command::new(HIGHWATER);
    command.args(["record", "-o"]).arg(place.file("recording.hw")).arg("--").arg(&program).arg("170");
    group.hold(&mut command);
    let ended = Ended::of(command.current_dir(place.path()).output().unwrap());
    assert_eq!((ended.shell_status(), ended.stdout_text()), (7, expected), "{}", ended.stderr_text());
    let recording = Recording::read(&place);
    assert!(recording.totals().allocations >= 12_000_000, "{:?}", recording.totals());
    assert!(group.highest() <= 300 * MIB);
}

#[test]
fn where_memory_runs_out_the_recorder_goes_and_the_program_stays() {
    let place = Place::new();
    let program = programs::c("crowded");
    // Less than both need.
    let Some(group) = Group::new("full", 178 * MIB) else { return };
    let expected = run(plain(&place, &program).arg("170")).stdout_text();
    let result = place.file("result");
    let mut command = Command::new(HIGHWATER);
    let line = format!("exec {} 170 >{}", program.display(), result.display());
    command.args(["record", "-o"]).arg(place.file("recording.hw")).args(["--", "/bin/sh", "-c", &line]);
    group.hold(&mut command);
    let ended = Ended::of(command.current_dir(place.path()).output().unwrap());
    support::live::wait_for("the program to end well", || {
        fs::read_to_string(&result).is_ok_and(|text| text == expected)
    });
    // Whether the kernel ended us or there was just enough.
    assert!([137, 7].contains(&ended.shell_status()), "{}", ended.stderr_text());
}

/// A recorder outside of the group pays for what it shares with the program inside.
#[test]
fn shared_memory_is_charged_to_the_recorder() {
    let place = Place::new();
    let program = programs::c("crowded");
    let Some(group) = Group::new("alone", 400 * MIB) else { return };
    let mut bare = plain(&place, &program);
    group.hold(bare.arg("20"));
    run(&mut bare);
    let by_itself = group.highest();
    drop(group);
    let Some(group) = Group::new("inside", 400 * MIB) else { return };
    let enter = format!("echo $$ >{}/cgroup.procs; exec {} 20", group.0.display(), program.display());
    let mut command = Command::new(HIGHWATER);
    command.args(["record", "-o"]).arg(place.file("recording.hw")).args(["--", "/bin/sh", "-c", &enter]);
    let ended = Ended::of(command.current_dir(place.path()).output().unwrap());
    assert_eq!(ended.shell_status(), 7, "{}", ended.stderr_text());
    let recorded = group.highest();
    // What the agent has for itself: tables for unwinding, remembered stacks.
    assert!(recorded < by_itself + 6 * MIB, "{by_itself} by itself, {recorded} recorded");
}
