//! Children of processes that are attached to: those that are forked and those that execute a program.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use support::live::{Collector, Holder, wait_for};
use support::{HIGHWATER, Place, programs};

/// A program that nothing was loaded into.
fn plain() -> Holder {
    Holder::start(Command::new(programs::c("holder")))
}

fn is_live(process: &Value) -> bool {
    process["state"] == "live"
}

/// The executable bytes of the C library as a process has them.
fn code_of_libc(pid: u32) -> Vec<u8> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.contains("libc.so.6") && line.contains("r-xp")).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
    let mut bytes = vec![0; (end - start) as usize];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start).unwrap();
    bytes
}

/// Whether a process has hooks in the C library, or copies of them: its code is not that of this process.
fn has_hooks(pid: u32) -> bool {
    code_of_libc(pid) != code_of_libc(std::process::id())
}

#[test]
fn forked_children_are_attached_to_and_detached_from() {
    let collector = Collector::new();
    let mut holder = plain();
    let parent = holder.pid;
    holder.tell("keep 100 1000");
    collector.highwater(&format!("attach --pid {parent} --pause 10s")).succeeded();
    holder.tell("keep 50 500");
    let child = holder.fork();
    wait_for("the child", || is_live(&collector.process(child)));
    // Its figures are those of its own calls, and its heap from before, in which the parent's blocks are.
    assert_eq!(holder.holds("keep 30 300"), (30, 9000));
    assert_eq!(collector.function(child, "keep_blocks"), (30, 9000));
    wait_for("its older blocks", || collector.process(child)["live_blocks"].as_u64().unwrap() >= 180);
    assert!(collector.process(child)["live_bytes"].as_u64().unwrap() >= 134_000);
    assert_eq!(collector.function(parent, "keep_blocks"), (50, 25_000));
    // A child of the child.
    let grandchild = holder.fork();
    wait_for("the child's child", || is_live(&collector.process(grandchild)));
    holder.tell("keep 7 70");
    assert_eq!(collector.function(grandchild, "keep_blocks"), (7, 490));
    let said = collector.highwater(&format!("detach --pid {parent}")).succeeded().stdout_text();
    assert!(said.contains("; 2 children too"), "{said}");
    for pid in [parent, child, grandchild] {
        assert_eq!(collector.process(pid), Value::Null);
    }
    assert_eq!(holder.holds("keep 3 10"), (10, 520));
    assert!(![parent, child, grandchild].into_iter().any(has_hooks));
    // No child is attached to any more.
    let last = holder.fork();
    assert_eq!(holder.holds("keep 3 10"), (3, 30));
    assert_eq!((collector.process(last), has_hooks(last)), (Value::Null, false));
}

#[test]
fn children_that_execute_a_program_are_attached_to_as_that() {
    let collector = Collector::new();
    let mut holder = plain();
    let parent = holder.pid;
    collector.highwater(&format!("attach --pid {parent} --pause 10s")).succeeded();
    let child = holder.fork();
    wait_for("the child", || is_live(&collector.process(child)));
    assert_eq!(holder.tell(&format!("exec {}", programs::c("holder").display())), format!("pid {child}"));
    wait_for("its agent", || {
        holder.tell("keep 1 4321");
        is_live(&collector.process(child)) && collector.function(child, "keep_blocks").0 > 0
    });
    collector.highwater(&format!("detach --pid {parent}")).succeeded();
    assert!(!has_hooks(child));
}

#[test]
fn children_are_left_alone_on_request_and_detached_from_with_their_parent() {
    let collector = Collector::new();
    let mut holder = plain();
    let parent = holder.pid;
    collector.highwater(&format!("attach --pid {parent} --pause 10s --no-children")).succeeded();
    let child = holder.fork();
    // Its copies of the hooks pass calls on.
    assert_eq!(holder.holds("keep 5 100"), (5, 500));
    assert!(has_hooks(child));
    assert_eq!(collector.process(child), Value::Null);
    let said = collector.highwater(&format!("detach --pid {parent}")).succeeded().stdout_text();
    assert!(said.contains("; 1 child too"), "{said}");
    assert!(!has_hooks(child));
    assert_eq!(holder.holds("keep 5 100"), (10, 1000));
}

/// `highwater record --pid`.
struct Recording {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Recording {
    fn of(place: &Place, pid: u32, options: &[&str]) -> Self {
        let mut command = Command::new(HIGHWATER);
        command.args(["record", "-o", "app.hw", "--pause", "10s", "--pid", &pid.to_string()]).args(options);
        command.current_dir(place.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("from before (") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it has ended");
        }
        Self { child, said }
    }

    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        said
    }
}

fn live(place: &Place, file: &Path, function: &str) -> (u64, u64) {
    let report = place.run(["report", file.to_str().unwrap(), "--json", "--by", "function", "--top", "0"]);
    assert_eq!(report.code, 0, "{}", report.stderr);
    support::live::function_in(&support::document(&report.stdout), function)
}

fn recordings_of_children(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.file("app.children")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn children_of_a_recorded_process_have_recordings_of_their_own() {
    let place = Place::new();
    let mut holder = plain();
    holder.tell("keep 200 1000");
    let recording = Recording::of(&place, holder.pid, &["--keep-children", "0"]);
    holder.tell("keep 20 200");
    let child = holder.fork();
    let file = place.file(&format!("app.children/{child}-holder-fork.hw"));
    wait_for("the child's recording", || file.exists());
    holder.tell("keep 40 400");
    // Another program in its place has another recording.
    assert_eq!(holder.tell(&format!("exec {}", programs::c("holder").display())), format!("pid {child}"));
    let file = place.file(&format!("app.children/{child}-holder.hw"));
    wait_for("the recording of the program that it executes", || file.exists());
    holder.tell("keep 60 600");
    let said = recording.end();
    assert!(said.contains("children: 1 recorded") && said.contains("1 fork that only began another program"), "{said}");
    assert_eq!(live(&place, &place.file("app.hw"), "keep_blocks"), (20, 4000), "{said}");
    assert_eq!(live(&place, &file, "keep_blocks"), (60, 36_000), "{said}");
    assert!(!has_hooks(holder.pid) && !has_hooks(child));
    assert_eq!(holder.holds("keep 1 1"), (61, 36_001));
}

#[test]
fn small_children_are_not_kept_and_none_is_recorded_on_request() {
    let place = Place::new();
    let mut holder = plain();
    let recording = Recording::of(&place, holder.pid, &["--keep-children", "1GiB"]);
    let child = holder.fork();
    let file = place.file(&format!("app.children/{child}-holder-fork.hw"));
    wait_for("the child's recording", || file.exists());
    let said = recording.end();
    assert!(said.contains("1 not kept"), "{said}");
    assert_eq!(recordings_of_children(&place), Vec::<PathBuf>::new());

    let place = Place::new();
    let mut holder = plain();
    let recording = Recording::of(&place, holder.pid, &["--no-children"]);
    let child = holder.fork();
    assert!(has_hooks(child));
    let said = recording.end();
    assert!(!said.contains("children"), "{said}");
    assert_eq!(recordings_of_children(&place), Vec::<PathBuf>::new());
    // Copies of hooks do not stay.
    assert!(!has_hooks(child));
    assert_eq!(holder.holds("keep 1 1"), (1, 1));
}
