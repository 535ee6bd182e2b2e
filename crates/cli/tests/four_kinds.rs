//! Heap, mappings, reservations and files are four figures, and none of them is part of another. They are compared with the kernel's list of mappings and with its
//! figures for real programs.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::c_library::Linked;
use support::live::Collector;
use support::recorded::{record, run};
use support::{HIGHWATER, Place, programs};

const MIB: u64 = 1 << 20;

/// The four figures that are no blocks of malloc.
#[derive(Debug, PartialEq, Eq)]
struct Kinds {
    memory: u64,
    reserved: u64,
    files: u64,
    returned: u64,
}

impl Kinds {
    /// What `kinds.c` read from the kernel.
    fn said(said: &Value) -> Self {
        let figure = |name: &str| said[name].as_u64().unwrap_or_else(|| panic!("{said}"));
        Self {
            memory: figure("memory"),
            reserved: figure("reserved"),
            files: figure("files"),
            returned: figure("returned"),
        }
    }

    /// From the output of `report --by heap` or `snapshot --by heap`.
    fn shown(report: &Value) -> Self {
        let heaps = report["heaps"].as_array().unwrap_or_else(|| panic!("{report}"));
        let mapped = heaps.iter().find(|heap| heap["name"] == "mmap");
        let source = |name: &str| report["source"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {report}"));
        Self {
            memory: mapped.map_or(0, |heap| heap["live_bytes"].as_u64().unwrap()),
            reserved: source("reserved_bytes"),
            files: source("mapped_file_bytes"),
            returned: source("returned_bytes"),
        }
    }
}

/// A program that prints a line and waits for the end of its input.
struct Waiting {
    child: Child,
    line: Value,
}

impl Waiting {
    #[track_caller]
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: '{line}'"));
        Self { child, line }
    }

    fn pid(&self) -> u64 {
        self.line["pid"].as_u64().unwrap()
    }

    /// Closes its input, and waits until it has ended.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// A file of sixteen pages and a bit.
fn some_file(place: &Place) -> std::path::PathBuf {
    place.write("some file", vec![7; 150_000])
}

#[test]
fn a_recordings_kinds_are_the_kernels_after_random_calls() {
    let program = programs::c("kinds");
    for seed in 1..5 {
        let (said, shown) = recorded_kinds(&program, seed);
        assert_eq!(shown, said, "seed {seed}");
    }
}

#[test]
fn they_are_so_in_programs_that_are_linked_with_the_library() {
    for linked in Linked::ALL {
        let (said, shown) = recorded_kinds(&linked.c("kinds"), 77);
        // What is given back before the recorder has said that it reads such records is not counted.
        assert!(shown.returned <= said.returned, "{linked:?}: {shown:?} {said:?}");
        assert_eq!(Kinds { returned: 0, ..shown }, Kinds { returned: 0, ..said }, "{linked:?}");
    }
}

fn recorded_kinds(program: &Path, seed: u64) -> (Kinds, Kinds) {
    let place = Place::new();
    let file = some_file(&place);
    let said = run(record(&place, &[], program).arg(seed.to_string()).arg("1000").arg(file)).succeeded().json();
    (Kinds::said(&said), Kinds::shown(&place.json("report recording.hw --by heap")))
}

#[test]
fn a_live_tables_kinds_are_the_kernels_after_random_calls() {
    let collector = Collector::new();
    let file = some_file(&collector.place);
    for seed in 1..5u64 {
        let mut command = collector.command(["run", "-q", "--"]);
        command.arg(programs::c("kinds")).arg(seed.to_string()).arg("1000").arg(&file).arg("wait");
        let program = Waiting::start(&mut command);
        let snapshot = collector.json(&format!("snapshot --pid {} --by heap", program.pid()));
        assert_eq!(Kinds::shown(&snapshot), Kinds::said(&program.line), "seed {seed}");
        program.end();
    }
}

#[test]
fn memory_that_was_given_back_stays_live_and_is_shown_beside() {
    let expected = |kinds: &Kinds| {
        // Half of it was given back. Of that, 8 MiB were made accessible anew, and 8 MiB are a reservation now.
        assert_eq!((kinds.memory, kinds.reserved, kinds.returned), (56 * MIB, 8 * MIB, 16 * MIB), "{kinds:?}");
    };
    let line = "up to 16.0 MiB of mappings (madvise), still counted";

    let place = Place::new();
    let summary = run(&mut record(&place, &[], programs::c("giver"))).succeeded().stderr_text();
    assert!(summary.contains("64.0 MiB at") && summary.contains(line), "{summary}");
    expected(&Kinds::shown(&place.json("report recording.hw --by heap")));
    place.highwater("report recording.hw").stdout_has(&["given back", line]);
    let timeline = place.json("timeline recording.hw");
    let gauges: Vec<&Value> = timeline["gauges"].as_array().unwrap().iter().collect();
    assert!(gauges.iter().any(|gauge| gauge["name"] == "returned bytes"), "{timeline}");

    let collector = Collector::new();
    let mut command = collector.command(["run", "-q", "--"]);
    let program = Waiting::start(command.arg(programs::c("giver")));
    let pid = program.pid();
    expected(&Kinds::shown(&collector.json(&format!("snapshot --pid {pid} --by heap"))));
    let shown = collector.highwater(&format!("snapshot --pid {pid}")).succeeded().stdout_text();
    assert!(shown.contains("given back") && shown.contains(line), "{shown}");
    // A file of the snapshot has it too.
    collector.highwater(&format!("snapshot --pid {pid} -o held.hw")).succeeded();
    expected(&Kinds::shown(&collector.place.json("report held.hw --by heap")));
    program.end();
}

#[test]
fn a_filter_chooses_between_blocks_and_mappings() {
    let place = Place::new();
    run(&mut record(&place, &[], programs::c("giver"))).succeeded();
    let live = |filter: &str| {
        place.json(&format!("report recording.hw --filter {filter}"))["totals"]["live_bytes"].as_u64().unwrap()
    };
    assert_eq!(live("heap:mmap"), 56 * MIB);
    let both = place.json("report recording.hw")["totals"]["live_bytes"].as_u64().unwrap();
    assert_eq!(live("heap:malloc") + live("heap:mmap"), both);
}

/// A line of `/proc/PID/status`, in bytes.
fn status(pid: u64, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Compares a program's live figures with the kernel's. `VmData` has what the program can write to and shares with no other: blocks, mappings, and also stacks, data of
/// libraries, the agent's memory and what malloc has free. `RssAnon` is the part of that which is resident.
#[track_caller]
fn compare_with_kernel(collector: &Collector, program: &Waiting) -> Value {
    const OTHERS: u64 = 32 * MIB;
    let pid = program.pid();
    let snapshot = collector.json(&format!("snapshot --pid {pid} --by heap"));
    let kernel = |name: &str| status(pid, name).unwrap();
    let live = snapshot["totals"]["live_bytes"].as_u64().unwrap();
    let Kinds { reserved, files, returned, .. } = Kinds::shown(&snapshot);
    let (data, resident) = (kernel("VmData"), kernel("RssAnon"));
    let about = format!("live {live}, VmData {data}, RssAnon {resident}, returned {returned}, reserved {reserved}");
    assert!(live <= data + data / 20 + MIB, "{about}");
    assert!(live + OTHERS >= resident, "{about}");
    assert!(live + reserved + files <= kernel("VmSize"), "{about}");
    assert!(returned <= live, "{about}");
    snapshot
}

/// Starts a program live, compares, and lets it end.
#[track_caller]
fn compare(arguments: &[&str], files: &[(&str, &str)], prepare: impl FnOnce(&Place)) -> Value {
    let collector = Collector::new();
    files.iter().for_each(|(name, text)| drop(collector.place.write(name, text)));
    prepare(&collector.place);
    let mut command = collector.command(["run", "-q", "--"]);
    let program = Waiting::start(command.args(arguments));
    let snapshot = compare_with_kernel(&collector, &program);
    program.end();
    snapshot
}

#[test]
fn a_java_programs_figures_are_near_the_kernels() {
    const CLASS: &str = r#"
public class Main {
    public static void main(String[] arguments) throws Exception {
        byte[][] kept = new byte[64][];
        for (int i = 0; i < kept.length; i++) kept[i] = new byte[1 << 20];
        System.out.println("{\"pid\":" + ProcessHandle.current().pid() + "}");
        while (System.in.read() >= 0) {}
        if (kept[63] == null) System.exit(1);
    }
}"#;
    let snapshot = compare(&["java", "-Xmx1g", "-cp", ".", "Main"], &[("Main.java", CLASS)], |place| {
        run(Command::new("javac").arg("Main.java").current_dir(place.path())).succeeded();
    });
    // The heap's address space is reserved, and 64 MiB of objects are in what is not.
    let kinds = Kinds::shown(&snapshot);
    assert!(kinds.reserved >= 512 * MIB && kinds.memory >= 64 * MIB, "{kinds:?}");
}

#[test]
fn a_node_programs_figures_are_near_the_kernels() {
    const SCRIPT: &str = r#"
const kept = [];
for (let i = 0; i < 64; i++) kept.push(Buffer.alloc(1 << 20, 1));
console.log(JSON.stringify({pid: process.pid}));
process.stdin.on("end", () => process.exit(kept.length === 64 ? 0 : 1)).resume();
"#;
    let snapshot = compare(&["node", "main.js"], &[("main.js", SCRIPT)], |_| {});
    let live = snapshot["totals"]["live_bytes"].as_u64().unwrap();
    // Not hundreds of MiB, as the reservations of its heaps are.
    assert!((64 * MIB..200 * MIB).contains(&live), "{live}");
    assert!(Kinds::shown(&snapshot).reserved >= 256 * MIB, "{}", snapshot["source"]);
}

#[test]
fn a_go_programs_figures_are_near_the_kernels() {
    const PROGRAM: &str = r#"package main

// #include <stdlib.h>
// #include <string.h>
// static void *grab(size_t size) { return memset(malloc(size), 1, size); }
import "C"
import (
	"fmt"
	"io"
	"os"
)

func main() {
	block := C.grab(20 << 20)
	kept := make([][]byte, 64)
	for i := range kept {
		kept[i] = make([]byte, 1<<20)
		for j := range kept[i] {
			kept[i][j] = 1
		}
	}
	fmt.Printf("{\"pid\":%d}\n", os.Getpid())
	io.Copy(io.Discard, os.Stdin)
	if block == nil || len(kept) != 64 {
		os.Exit(1)
	}
}
"#;
    let snapshot = compare(&["./main"], &[("main.go", PROGRAM)], |place| {
        let mut build = Command::new("go");
        build.args(["build", "-o", "main", "main.go"]).current_dir(place.path());
        build.env("CGO_ENABLED", "1").env("GOFLAGS", "-mod=mod").env("GOCACHE", place.file("cache"));
        run(&mut build).succeeded();
    });
    let kinds = Kinds::shown(&snapshot);
    // Its heap lies in arenas of 64 MiB, which it maps into reservations.
    assert!(kinds.memory >= 64 * MIB && kinds.memory < 256 * MIB && kinds.reserved > 0, "{kinds:?}");
}

/// It runs for too short a time to take a snapshot of it. Its memory grows until it ends, so the largest of many readings is close to the last.
/// A reader that got no processor near the end knows too little, and tries again.
#[test]
fn java_that_prints_its_version_has_the_kernels_peak() {
    const TRIES: usize = 8;
    let mut about = String::new();
    for _ in 0..TRIES {
        let place = Place::new();
        let mut command = record(&place, &["--no-children"], "java");
        let mut recorder = command.arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut data = 0;
        while recorder.try_wait().unwrap().is_none() {
            data = data.max(child_of(recorder.id()).and_then(|pid| status(pid, "VmData")).unwrap_or(0));
        }
        let peak = place.json("report recording.hw --at peak");
        let live = peak["totals"]["live_bytes"].as_u64().unwrap();
        about = format!("live {live}, VmData {data}, {}", peak["source"]);
        // Reserved: several GiB on a machine with some.
        assert!(peak["source"]["reserved_bytes"].as_u64().unwrap() > live, "{about}");
        assert!(live >= data / 2, "{about}");
        if live <= data + data / 20 + MIB {
            return;
        }
    }
    panic!("{about}");
}

/// The child of a process that runs java.
fn child_of(parent: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let children: Vec<u64> = children
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    children
        .into_iter()
        .find(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "java"))
}

/// Chromium has an allocator of its own, whose memory would be counted as mappings of the whole size. So there are no figures at all, and that is said.
#[test]
fn chromium_is_refused_rather_than_shown_with_figures_that_are_not_true() {
    let place = Place::new();
    let executable = Path::new("/usr/lib/chromium/chromium");
    let program = if executable.exists() { executable } else { Path::new("chromium") };
    let mut command = Command::new(HIGHWATER);
    command.args(["record", "-o", "browser.hw", "--"]).arg(program).arg("--version").current_dir(place.path());
    let refused = run(&mut command);
    assert_ne!(refused.shell_status(), 0);
    let text = refused.stderr_text();
    assert!(text.contains("has an allocator of its own"), "{text}");
    assert_eq!(place.names(), Vec::<String>::new());
}
