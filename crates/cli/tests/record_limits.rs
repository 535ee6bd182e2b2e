//! Containers with little memory: recording costs the program none. Uses real memory cgroups, of the version that the machine has; without a writable
//! one the tests say so and do nothing.

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::live::Holder;
use support::recorded::{Ended, Recording, plain, run};
use support::{HIGHWATER, Place, programs};

/// A memory cgroup of our own, removed at the end.
struct Group(PathBuf);

impl Group {
    /// A group with this limit; `None`, with a message, if none can be made.
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

    /// Puts the processes that this command starts into the group.
    fn hold(&self, command: &mut Command) {
        let processes = self.0.join("cgroup.procs");
        // SAFETY: runs between fork and exec; only makes system calls.
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

/// The kernel kills the recorder. In one of some dozens of tries it also kills a second process, before it has reclaimed the memory of the first. The
/// program is by far the larger one: if the recorder did not offer itself, the kernel would kill the program in every try.
#[test]
fn where_memory_runs_out_the_recorder_goes_and_the_program_stays() {
    const TRIES: usize = 4;
    let place = Place::new();
    let program = programs::c("crowded");
    let expected = run(plain(&place, &program).arg("170")).stdout_text();
    let mut statuses = Vec::new();
    for _ in 0..TRIES {
        // Less than both need.
        let Some(group) = Group::new("full", 178 * MIB) else { return };
        let (status, result) = record_to_the_limit(&place, &program, &group);
        if result == expected {
            // The kernel killed us, or there was just enough.
            assert!([137, 7].contains(&status), "{status}");
            return;
        }
        statuses.push(status);
    }
    panic!("the program was ended each time: {statuses:?}");
}

/// The exit status of the recorder, and the program's output when it had ended, too.
fn record_to_the_limit(place: &Place, program: &Path, group: &Group) -> (i32, String) {
    let result = place.file("result");
    let mut command = Command::new(HIGHWATER);
    let line = format!("exec {} 170 >{}", program.display(), result.display());
    command.args(["record", "--force", "-o"]).arg(place.file("recording.hw")).args(["--", "/bin/sh", "-c", &line]);
    group.hold(&mut command);
    let ended = Ended::of(command.current_dir(place.path()).output().unwrap());
    support::live::wait_for("the program to end", || {
        fs::read_to_string(group.0.join("cgroup.procs")).unwrap().is_empty()
    });
    (ended.shell_status(), fs::read_to_string(&result).unwrap())
}

/// A killed recorder provides no more memory for rings, and the program allocates none itself: the rest of its limit stays available to it.
#[test]
fn a_program_whose_recorder_was_killed_takes_no_more_memory_for_it() {
    let place = Place::new();
    let mut command = Command::new(HIGHWATER);
    command.args(["record", "-o"]).arg(place.file("recording.hw")).arg("--").arg(programs::c("holder"));
    let mut holder = Holder::start(command);
    holder.holds("keep 1000 16");
    support::live::wait_for("the recorder", || {
        fs::metadata(place.file("recording.hw")).is_ok_and(|file| file.len() > 0)
    });
    holder.child.kill().unwrap();
    holder.child.wait().unwrap();
    let before = shared_memory_of(holder.pid);
    // Enough to fill a ring of 1 MiB.
    assert_eq!(holder.holds("keep 100000 16").0, 101_000);
    let grown = shared_memory_of(holder.pid).saturating_sub(before);
    assert!(grown <= MIB / 4, "{before} bytes of shared memory grew by {grown}");
}

fn shared_memory_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A recorder outside of the group is charged for the memory that it shares with the program inside.
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
    // The agent's own memory: tables for unwinding, cached stacks.
    assert!(recorded < by_itself + 6 * MIB, "{by_itself} by itself, {recorded} recorded");
}
