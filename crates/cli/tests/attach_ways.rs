//! Attaching by name, by users without rights, for streams and viewers, to allocators under other names, and beside agents of other versions.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::live::{Collector, Holder, wait_for};
use support::recorded::run;
use support::streams::Beside;
use support::viewer::Viewer;
use support::{HIGHWATER, Place, copy_program, programs};

#[test]
fn a_process_is_named_by_its_program() {
    let collector = Collector::new();
    let mut holder = Holder::start(Command::new(programs::c_as("holder", "holder-by-name", &[])));
    let said = collector.highwater("attach --name holder-by-name --pause 10s").succeeded().stdout_text();
    assert!(said.contains(&format!("({})", holder.pid)), "{said}");
    holder.tell("keep 10 10");
    assert_eq!(collector.function(holder.pid, "keep_blocks"), (10, 100));
    let said = collector.highwater("detach --name holder-by-name").succeeded().stdout_text();
    assert!(said.contains("detached"), "{said}");
    assert_eq!(collector.process(holder.pid), Value::Null);
}

#[test]
fn a_viewer_shows_a_process_that_was_attached_to() {
    let mut collector = Collector::new();
    let mut holder = Holder::start(Command::new(programs::c("holder")));
    collector.highwater(&format!("attach --pid {} --pause 10s", holder.pid)).succeeded();
    let viewer = Viewer::start(&mut collector.command(["view", "--live", "--no-open"]));
    holder.tell("keep 1000 100");
    let live = |viewer: &Viewer| {
        let live = viewer.ask("live");
        let processes = live["processes"].as_array().unwrap().clone();
        processes.into_iter().find(|process| process["pid"] == holder.pid).unwrap_or_default()
    };
    wait_for("its figures", || live(&viewer)["live_blocks"].as_u64() >= Some(1000));
    let source = viewer.post(&format!("live/snapshot?pid={}", holder.pid))["source"].clone();
    let rows = viewer.ask(&format!("rows?by=function&source={}", source["id"]));
    let row = rows["rows"].as_array().unwrap().iter().find(|row| row["key"] == "keep_blocks").cloned();
    assert_eq!(row.map(|row| row["value"].clone()), Some(100_000.into()), "{rows}");
    drop(viewer);
    collector.child.kill().unwrap();
}

#[test]
fn a_recording_of_a_running_process_is_streamed() {
    let place = Place::new();
    let mut holder = Holder::start(Command::new(programs::c("holder")));
    let mut listener = Beside::highwater(&place, "listen 0 --once -o arrived.hw");
    let port = listener.port().to_string();
    let pid = holder.pid.to_string();
    let words = ["record", "--pid", &pid, "--pause", "10s", "--stream", &port, "-o", "written.hw"];
    let mut command = place.command(words);
    let mut recorder = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the agent", || {
        std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().contains("highwater-attach")
    });
    wait_for("the recording", || {
        holder.tell("keep 1 1000");
        place.file("written.hw").metadata().is_ok_and(|file| file.len() > 1000)
    });
    let process = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    assert_eq!(listener.ended().shell_status(), 0);
    let (arrived, written) = (place.sound_report("arrived.hw", ""), place.sound_report("written.hw", ""));
    for part in ["totals", "sites"] {
        assert_eq!(arrived[part], written[part], "{part}");
    }
    assert!(written["sites"].to_string().contains("keep_blocks"), "{written}");
}

/// Their own processes need no rights.
#[test]
fn users_attach_to_their_own_processes() {
    if !rustix::process::geteuid().is_root() {
        println!("short: only the superuser can become another user; all other tests run as an ordinary one");
        return;
    }
    let place = Place::public();
    let (highwater, program) = (place.file("highwater"), place.file("holder"));
    copy_program(Path::new(HIGHWATER), &highwater);
    copy_program(&programs::c("holder"), &program);
    let other = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).current_dir(place.path());
        command
    };
    let mut holder = Holder::start(other(&program));
    let pid = holder.pid.to_string();
    let file = place.file("own.hw");
    let mut command = other(&highwater);
    command
        .args(["record", "--pid", &pid, "--pause", "10s", "-o"])
        .arg(&file)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut recorder = command.spawn().unwrap();
    let mut lines = BufReader::new(recorder.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("from before")));
    // Its answer says that it has kept them.
    assert_eq!(holder.holds("keep 100 100"), (100, 10_000));
    let process = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    let report = place.run(["report", "own.hw"]).stdout;
    assert!(report.contains("keep_blocks"), "{report}");
    assert_eq!(holder.holds("keep 1 1"), (101, 10_001));
    // Another user's process.
    let mut command = other(&highwater);
    command.args(["attach", "--dry-run", "--pid", &std::process::id().to_string()]).stdin(Stdio::null());
    let ended = run(&mut command);
    let text = ended.stderr_text();
    assert!(ended.shell_status() == 1 && text.contains("belongs to user 0, you are user 65534"), "{text}");
}

#[test]
fn an_agent_of_another_version_is_left_alone() {
    let collector = Collector::new();
    let mut holder = Holder::start(Command::new(programs::c("holder")));
    let pid = holder.pid;
    collector.highwater(&format!("attach --pid {pid} --pause 10s")).succeeded();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let object = maps.lines().find(|line| line.contains("highwater-attach")).unwrap();
    let object = u64::from_str_radix(object.split('-').next().unwrap(), 16).unwrap();
    let memory = std::fs::OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
    let mut word = [0; 8];
    // The eighth word of the shared page is the address of the header, whose second word is its version.
    memory.read_exact_at(&mut word, object + 56).unwrap();
    let version = u64::from_le_bytes(word) + 8;
    memory.read_exact_at(&mut word, version).unwrap();
    memory.write_all_at(&99_u64.to_le_bytes(), version).unwrap();
    let ended = collector.highwater(&format!("attach --pid {pid} --dry-run"));
    let text = ended.stderr_text();
    assert!(
        ended.shell_status() == 1 && text.contains("an agent of version 99, this command knows version 1"),
        "{text}"
    );
    // Its hooks are listed in the same way in all versions.
    collector.highwater(&format!("detach --pid {pid}")).succeeded();
    assert_eq!(holder.holds("keep 1 1"), (1, 1));
}

/// folly and Rust's `tikv-jemallocator` free by `sdallocx`.
#[test]
fn blocks_of_jemallocs_own_interface_are_seen() {
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    let linked = ["-Wl,--no-as-needed", library];
    let mut ways: Vec<(&str, &[&str])> = vec![("allocx-prefixed", &["-DPREFIX=_rjem_", "-fcf-protection=branch"])];
    match Path::new(library).exists() {
        true => ways.push(("allocx", &linked)),
        false => println!("short: {library} is not installed"),
    }
    let collector = Collector::new();
    for (name, flags) in ways {
        let program = programs::c_as("allocx", name, flags);
        let mut holder = Holder::start(Command::new(program));
        let pid = holder.pid;
        collector.highwater(&format!("attach --pid {pid}")).succeeded();
        assert_eq!(holder.tell("a"), "100");
        assert_eq!(collector.function(pid, "take_by_mallocx"), (100, 100_000), "{name}");
        assert_eq!(holder.tell("r"), "100");
        assert_eq!(collector.function(pid, "grow_by_rallocx"), (100, 200_000), "{name}");
        assert_eq!(collector.function(pid, "take_by_mallocx"), (0, 0), "{name}");
        assert_eq!(holder.tell("f"), "0");
        assert_eq!(collector.function(pid, "grow_by_rallocx"), (0, 0), "{name}");
        // Blocks that `malloc` gave.
        assert_eq!(holder.tell("m"), "50");
        assert_eq!(collector.function(pid, "take_plainly"), (50, 5000), "{name}");
        assert_eq!(holder.tell("s"), "0");
        assert_eq!(collector.function(pid, "take_plainly"), (0, 0), "{name}");
        collector.highwater(&format!("detach --pid {pid}")).succeeded();
        assert_eq!(holder.tell("a"), "100");
    }
}

#[test]
fn an_allocator_under_names_of_its_own_is_refused() {
    let collector = Collector::new();
    let program = programs::c_as("allocx", "allocx-other", &["-DPREFIX=mi_"]);
    let holder = Holder::start(Command::new(program));
    let ended = collector.highwater(&format!("attach --pid {}", holder.pid));
    let text = ended.stderr_text();
    assert!(ended.shell_status() == 1 && text.contains("calls mimalloc"), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
}
