//! `highwater record --pid`: processes that run already, recorded from now on, and left as they were.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use support::attachable::{Target, own};
use support::recorded::{Counts, Recording, plain, run};
use support::{HIGHWATER, Place, programs};

/// `highwater record --pid`, as it goes.
struct Attached {
    child: Child,
    said: BufReader<ChildStderr>,
    all: String,
}

impl Attached {
    fn to(place: &Place, pid: u32, options: &[&str]) -> Self {
        let mut command = Command::new(HIGHWATER);
        command.args(["record", "-o", "recording.hw", "--force", "--pid", &pid.to_string()]);
        if !options.contains(&"--pause") {
            // On a busy machine the heap is not copied in 50 ms.
            command.args(["--pause", "10s"]);
        }
        command.args(options);
        command.current_dir(place.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self { child, said, all: String::new() }
    }

    /// Waits until it says something.
    #[track_caller]
    fn until(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it never said {words:?}: {}", self.all);
            self.all += &line;
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Asks it to end. Not by Ctrl-C's signal, which a shell may have set to be ignored.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.finish()
    }

    fn finish(&mut self) -> String {
        while self.said.read_line(&mut self.all).unwrap() > 0 {}
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.all);
        std::mem::take(&mut self.all)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is live at the end of blocks of some sizes.
#[track_caller]
fn live(place: &Place, filters: &[&str]) -> (u64, u64) {
    let mut words = vec!["report", "recording.hw", "--json", "--top", "0"];
    filters.iter().for_each(|filter| words.extend(["--filter", filter]));
    let report = place.run(words);
    assert_eq!(report.code, 0, "{}", report.stderr);
    let totals = &support::document(&report.stdout)["totals"];
    (totals["live_blocks"].as_u64().unwrap(), totals["live_bytes"].as_u64().unwrap())
}

fn figures_of(tally: &Value, function: &str) -> Value {
    tally["functions"][function].clone()
}

#[test]
fn a_running_process_is_recorded_to_the_block_and_left_as_it_was() {
    let place = Place::new();
    let mut target = Target::start(&place);
    let (code, descriptors) = (target.code(), target.descriptors());
    let mut attached = Attached::to(&place, target.pid(), &[]);
    attached.until("attached to attachable");
    attached.until("from before (");
    assert!(target.code() != code, "it has hooks");
    assert_eq!(target.order("w"), "worked\n");
    assert_eq!(target.order("w"), "worked\n");
    let said = attached.end();
    assert!(said.contains("detached; threads were stopped for"), "{said}");
    assert!(target.code() == code, "its code is as it was");
    assert_eq!(target.descriptors(), descriptors);
    let tally = target.figures("p");
    assert_eq!(target.order("w"), "worked\n");
    target.ends();

    let recording = Recording::read(&place);
    recording.has_no_oddities();
    for function in ["allocated_after", "resized_after"] {
        let (found, expected) = (recording.of_function(function), Counts::of(&figures_of(&tally, function)));
        let comparable = |counts: Counts| Counts { temporary_allocations: 0, ..counts };
        assert_eq!(comparable(found), comparable(expected), "{function}");
    }
    // What is older has no function, and the same sizes.
    let before = own(&figures_of(&tally, "allocated_before"));
    assert_eq!(live(&place, &["inside:equal:[allocated before attach]", "size:1000.."]), before);
    let info = place.run(["report", "recording.hw"]).stdout;
    assert!(info.contains("Recording began when Highwater attached"), "{info}");
}

#[test]
fn live_totals_are_the_processs_own_if_it_is_attached_to_while_all_threads_allocate() {
    let place = Place::new();
    let mut target = Target::start(&place);
    let older = own(&figures_of(&target.figures("p"), "allocated_before"));
    for round in 0..3 {
        assert_eq!(target.order("c"), "churning\n");
        let mut attached = Attached::to(&place, target.pid(), &[]);
        attached.until("attached to");
        attached.until("from before (");
        let figures = target.figures("s");
        let said = attached.end();
        let recording = Recording::read(&place);
        recording.has_no_oddities();
        let (blocks, least) = own(&figures);
        let (found, bytes) = live(&place, &["size:1000.."]);
        assert_eq!(found, older.0 + blocks, "round {round}: {said}");
        // A block that was there before shows its usable size, another one what was requested.
        let most = figures["usable_bytes"].as_u64().unwrap();
        assert!((older.1 + least..=older.1 + most).contains(&bytes), "round {round}: {figures} {bytes} {said}");
    }
    target.ends();
}

#[test]
fn it_ends_after_the_duration_or_with_the_process() {
    let place = Place::new();
    let mut target = Target::start(&place);
    let said = Attached::to(&place, target.pid(), &["--duration", "300ms"]).finish();
    assert!(said.contains("detached"), "{said}");
    assert_eq!(target.order("w"), "worked\n");

    let mut attached = Attached::to(&place, target.pid(), &[]);
    attached.until("from before (");
    assert_eq!(target.order("w"), "worked\n");
    target.ends();
    let said = attached.finish();
    assert!(said.contains("the process has ended"), "{said}");
    let recording = Recording::read(&place);
    assert!(recording.of_function("allocated_after").allocations > 0);
}

#[test]
fn a_sample_does_not_know_older_blocks_and_says_so() {
    let place = Place::new();
    let mut target = Target::start(&place);
    let mut attached = Attached::to(&place, target.pid(), &["--sample", "64KiB"]);
    attached.until("attached to");
    assert_eq!(target.order("w"), "worked\n");
    let said = attached.end();
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    assert_eq!(recording.of_function("[allocated before attach]"), Counts::default(), "{said}");
    let report = place.run(["report", "recording.hw"]).stdout;
    assert!(report.contains("Blocks from before are in no figure"), "{report}");
}

#[test]
fn unknown_older_blocks_are_counted_and_never_leaks() {
    let place = Place::new();
    let mut target = Target::start(&place);
    let mut attached = Attached::to(&place, target.pid(), &["--pause", "0"]);
    attached.until("attached to");
    assert_eq!(target.order("w"), "worked\n");
    let said = attached.end();
    assert!(said.contains("of blocks from before that were not known"), "{said}");
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    assert_eq!(recording.of_function("[allocated before attach]"), Counts::default());
}

/// Nothing in a static program says where its modules are: the attacher does.
#[test]
fn stacks_of_static_programs_have_all_their_frames() {
    let place = Place::new();
    // Without position independence the linker leaves out the table by which stacks are unwound.
    // The code that maps the agent needs the unused end of a page of code: with one of these there is one.
    let ways = [("attachable-static", "-DPADDING=0"), ("attachable-static-padded", "-DPADDING=2000")];
    let fits = |pid: u32| place.run(["attach", "--dry-run", "--pid", &pid.to_string()]).code == 0;
    let start = |(name, padding): (&str, &str)| {
        let program = programs::c_as("attachable", name, &["-static-pie", padding]);
        Some(Target::of(plain(&place, &program))).filter(|target| fits(target.pid()))
    };
    let mut target = ways.into_iter().find_map(start).expect("one of them can be attached to");
    let mut attached = Attached::to(&place, target.pid(), &[]);
    attached.until("blocks from before");
    assert_eq!(target.order("w"), "worked\n");
    attached.end();
    target.ends();
    let report =
        place.run(["report", "recording.hw", "--json", "--by", "site", "--filter", "inside:equal:allocated_after"]);
    assert_eq!(report.code, 0, "{}", report.stderr);
    let callers = ["allocated_after", "worker"];
    assert!(callers.iter().all(|name| report.stdout.contains(&format!("\"{name}\""))), "{}", report.stdout);
}

/// The program is at a path that only its container has.
#[test]
fn names_are_found_in_containers() {
    if !rustix::process::geteuid().is_root() {
        println!("short: only root can mount a file system");
        return;
    }
    let place = Place::new();
    let inside = place.file("inside");
    std::fs::create_dir(&inside).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs none inside && cp \"$1\" inside/program && exec inside/program";
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(programs::c("attachable")).current_dir(place.path());
    let mut target = Target::of(command);
    assert!(!inside.join("program").exists());
    let mut attached = Attached::to(&place, target.pid(), &[]);
    attached.until("from before (");
    assert_eq!(target.order("w"), "worked\n");
    // It is gone before its names are looked for.
    target.ends();
    attached.finish();
    let recording = Recording::read(&place);
    assert!(recording.of_function("allocated_after").allocations > 0);
}

/// A recorder that is killed leaves a process that works, and that can be recorded again.
#[test]
fn a_killed_recorder_does_no_harm() {
    let place = Place::new();
    let mut target = Target::start(&place);
    for _ in 0..3 {
        let mut attached = Attached::to(&place, target.pid(), &[]);
        attached.until("attached to");
        assert_eq!(target.order("c"), "churning\n");
        attached.child.kill().unwrap();
        attached.child.wait().unwrap();
        target.order("s");
    }
    let mut attached = Attached::to(&place, target.pid(), &[]);
    attached.until("from before (");
    assert_eq!(target.order("w"), "worked\n");
    attached.end();
    Recording::read(&place).has_no_oddities();
    target.ends();
}

#[test]
fn what_cannot_be_recorded_is_refused_in_one_line_and_makes_no_file() {
    let place = Place::new();
    let refused = |pid: u32, why: &str| {
        let mut command = place.command(["record", "-o", "none.hw", "--pid", &pid.to_string()]);
        let ended = run(command.stdin(Stdio::null()));
        let said = ended.stderr_text();
        assert_ne!(ended.shell_status(), 0, "{said}");
        assert!(said.contains(why) && said.trim_end().lines().count() == 1, "{said}");
        assert!(!place.file("none.hw").exists());
    };
    refused(4_194_304, "no process");
    let mut dead = Command::new("true").spawn().unwrap();
    let status = format!("/proc/{}/stat", dead.id());
    while !std::fs::read_to_string(&status).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    refused(dead.id(), "has ended");
    dead.wait().unwrap();
    let fixed = programs::c_as("holder", "holder-stripped", &["-static", "-s"]);
    let mut fixed = plain(&place, Path::new(&fixed)).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    refused(fixed.id(), "no malloc was found");
    fixed.kill().unwrap();
    fixed.wait().unwrap();
}
