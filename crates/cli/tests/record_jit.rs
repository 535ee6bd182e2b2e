//! Stacks through code that a program makes while it runs: all their frames, and the names that the program's runtime gives it.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

mod support;

use std::process::Command;
use support::Place;
use support::programs;
use support::recorded::{Ended, Recording, Site, record, run};

/// The map that a runtime left for a process; removed when the test ends.
struct LeftMap(String);

impl LeftMap {
    fn of(recording: &Recording) -> Self {
        Self(format!("/tmp/perf-{}.map", recording.report["source"]["pid"]))
    }
}

impl Drop for LeftMap {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn recorded(place: &Place, how: &str) -> (Recording, Ended) {
    let ended = run(record(place, &["--no-mmap"], programs::c("jit")).arg(how)).succeeded();
    (Recording::read(place), ended)
}

/// The functions of the stacks that allocated blocks of this size. Code without a name is `?`.
fn stacks_of(recording: &Recording, size: u64) -> Vec<Vec<&str>> {
    let is_of_size = |site: &&Site| site.counts.allocated_bytes == size * site.counts.allocations;
    let name = |frame: &'_ support::recorded::Frame| frame.module == "[JIT]" && frame.full_name.is_none();
    recording
        .sites
        .iter()
        .filter(is_of_size)
        .map(|site| site.frames.iter().map(|frame| if name(frame) { "?" } else { &frame.function }).collect())
        .collect()
}

fn truncated(recording: &Recording) -> u64 {
    recording.report["anomalies"]["truncated_stacks"].as_u64().unwrap()
}

/// Less than one stack in a hundred is truncated.
#[track_caller]
fn is_nearly_whole(recording: &Recording) {
    let totals = recording.totals();
    let stacks = totals.allocations + totals.reallocations;
    assert!(truncated(recording) * 100 < stacks, "{} of {stacks} stacks are truncated", truncated(recording));
}

#[test]
fn a_stack_through_code_without_tables_is_whole() {
    let place = Place::new();
    let (recording, _) = recorded(&place, "sound");
    recording.has_no_oddities();
    let to_main = ["sound", "main"];
    for (size, inner) in [
        (4001, &["allocate", "?", "through_code"][..]),
        (4002, &["allocate", "?", "?", "through_two"]),
        (4003, &["allocate", "?", "through_code"]),
        (4004, &["allocate", "?", "through_code"]),
        (4007, &["allocate", "?", "through_code"]),
    ] {
        let stacks = stacks_of(&recording, size);
        assert!(!stacks.is_empty(), "{size}");
        for stack in stacks {
            assert_eq!(stack[..inner.len() + 2], [inner, &to_main].concat(), "{size}");
            assert!(stack.last().is_some_and(|outermost| outermost.contains("start")), "{size}: {stack:?}");
        }
    }
    assert_eq!(stacks_of(&recording, 4005)[0][..4], ["allocate", "?", "through_code", "begin_coroutine"]);
    assert_eq!(stacks_of(&recording, 4006)[0][..4], ["allocate", "?", "through_code", "in_thread"]);
}

/// A frame pointer that is none leads nowhere: the stack ends with the code that had it.
#[test]
fn code_that_uses_the_frame_pointer_otherwise_gives_a_truncated_stack_and_no_invented_frames() {
    let place = Place::new();
    let (recording, _) = recorded(&place, "garbage");
    let sites: Vec<&Site> = recording.sites.iter().filter(|site| site.has("allocate")).collect();
    let [site] = sites[..] else { panic!("{sites:?}") };
    assert_eq!((site.frames.len(), site.frames[1].module.as_str()), (3, "[JIT]"));
    assert_eq!(site.frames[2].full_name.as_deref(), Some("[callers unknown]"));
    assert_eq!((site.counts.allocations, truncated(&recording)), (15, 15));
}

#[test]
fn code_is_named_by_the_map_that_the_program_writes() {
    let place = Place::new();
    let (recording, _) = recorded(&place, "named");
    let _map = LeftMap::of(&recording);
    assert_eq!(stacks_of(&recording, 4001)[0][..4], ["allocate", "render", "through_code", "named"]);
    let site = recording.sites.iter().find(|site| site.has("render")).unwrap();
    let frame = &site.frames[1];
    assert_eq!((frame.module.as_str(), frame.line), ("[JIT]", Some(10)));
    let report = place.json("report recording.hw").to_string();
    assert!(report.contains(r#""/srv/app.js""#), "{report}");
}

#[test]
fn a_recording_is_named_later_by_a_map_that_was_kept() {
    let place = Place::new();
    let (recording, _) = recorded(&place, "sound");
    let address = recording.sites.iter().find(|site| site.counts.allocated_bytes == 4004).unwrap().frames[1].address;
    place.write("kept.map", format!("{:x} 1000 py::fill:/srv/app.py\nnonsense\n", address.unwrap() & !0xfff));
    let run = place.highwater("symbolize recording.hw --perf-map kept.map -o named.hw");
    run.stdout_has(&["named.hw: ", "have a name"]);
    let named = Recording::read_file(&place, "named.hw");
    assert_eq!(stacks_of(&named, 4004)[0][..3], ["allocate", "fill", "through_code"]);
    assert_eq!(stacks_of(&recording, 4004)[0][..3], ["allocate", "?", "through_code"]);

    place.write("empty.map", "nonsense\n");
    place
        .highwater("symbolize recording.hw --perf-map empty.map")
        .is_one_clear_line_about(&["empty.map", "START SIZE"]);
    place.highwater("symbolize recording.hw --perf-map none.map").is_one_clear_line_about(&["none.map"]);
}

const SCRIPT: &str = r"
function fillBuffers(count) {
  const buffers = [];
  for (let index = 0; index < count; index++) buffers.push(Buffer.allocUnsafeSlow(1000));
  return buffers;
}
const kept = [];
for (let turn = 0; turn < 50; turn++) kept.push(fillBuffers(100));
console.log(kept.length);
";

#[test]
fn node_shows_the_functions_of_a_script() {
    let place = Place::new();
    place.write("script.js", SCRIPT);
    let mut command = record(&place, &[], "node");
    run(command.args(["--perf-basic-prof", "--interpreted-frames-native-stack", "script.js"])).succeeded();
    let recording = Recording::read(&place);
    let _map = LeftMap::of(&recording);
    is_nearly_whole(&recording);
    let filled = recording.of_function("fillBuffers");
    assert!(filled.allocated_bytes >= 5000 * 1000, "{filled:?}");
    let site = recording.sites.iter().filter(|site| site.has("fillBuffers")).max_by_key(|site| site.counts.allocations);
    let frames = &site.unwrap().frames;
    let named = frames.iter().find(|frame| frame.function == "fillBuffers").unwrap();
    assert_eq!(named.line, Some(2));
    assert!(frames.iter().any(|frame| frame.full_name.as_deref() == Some("Module._compile")), "{frames:?}");
    assert!(frames.iter().any(|frame| frame.function == "__libc_start_call_main"), "{frames:?}");
}

/// Without a map the stacks are whole all the same.
#[test]
fn node_without_a_map_has_whole_stacks() {
    let place = Place::new();
    place.write("script.js", SCRIPT);
    run(record(&place, &[], "node").arg("script.js")).succeeded();
    is_nearly_whole(&Recording::read(&place));
}

const CLASS: &str = r#"
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

public class Main {
    static ByteBuffer keepBuffer(int bytes) {
        return ByteBuffer.allocateDirect(bytes);
    }

    public static void main(String[] arguments) throws Exception {
        List<ByteBuffer> kept = new ArrayList<>();
        for (int turn = 0; turn < 20000; turn++) kept.add(keepBuffer(100));
        String own = Long.toString(ProcessHandle.current().pid());
        new ProcessBuilder("jcmd", own, "Compiler.perfmap").inheritIO().start().waitFor();
        System.out.println(kept.size());
    }
}
"#;

#[test]
fn java_shows_compiled_methods() {
    let place = Place::new();
    place.write("Main.java", CLASS);
    run(Command::new("javac").arg("Main.java").current_dir(place.path())).succeeded();
    let flags =
        ["-XX:+PreserveFramePointer", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Main.keepBuffer"];
    run(record(&place, &["--no-children"], "java").args(flags).args(["-cp", ".", "Main"])).succeeded();
    let recording = Recording::read(&place);
    let _map = LeftMap::of(&recording);
    is_nearly_whole(&recording);
    let has_method =
        |site: &&Site| site.frames.iter().any(|frame| frame.full_name.as_deref() == Some("Main.keepBuffer(int)"));
    let in_method: u64 = recording.sites.iter().filter(has_method).map(|site| site.counts.allocations).sum();
    assert!(in_method > 10_000, "{in_method} allocations in the method");
}
