//! The output and memory use of a command are bounded by the size of the file: deep recursions, many threads, files that shrink.
//!
//! The kernel enforces it: commands run with a data limit, and a command that needs more aborts.

mod support;

use highwater_model::{Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, StackId, ThreadId};
use highwater_store::Writer;
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use support::viewer::Viewer;
use support::{Place, Run, document};

/// The data limit of a command, in KiB: about twenty times the use of the same command for a small recording.
const MOST_DATA_KIB: u64 = 256 << 10;

/// Writes a recording of functions that call themselves `depth` times, and allocate in each call.
fn recursions(path: &Path, functions: u64, depth: u64, size: u64) {
    let mut catalog = Catalog::default();
    let (mut events, mut time) = (Vec::new(), 0);
    for function in 0..functions {
        let name = format!("descend_{function}");
        let text = FrameText {
            function: &name,
            file: "/src/descend.rs",
            line: 7,
            module: "/bin/deep",
            ..FrameText::default()
        };
        let frame = catalog.intern_frame(&text);
        let frame = catalog.stacks.intern_frame(frame);
        let mut stack = StackId::UNKNOWN;
        for _ in 0..depth {
            stack = catalog.stacks.intern_child(stack, frame);
            time += 1;
            let place = Placement { address: time << 8, size, stack, ..Placement::default() };
            events.push(Event { time: Nanos(time), thread: ThreadId(1), kind: EventKind::Allocate(place) });
        }
    }
    let source = Source { program: "deep".to_owned(), duration: Nanos(time), ..Source::default() };
    let mut writer = Writer::new(File::create(path).unwrap(), &source).unwrap();
    writer.append(&events, &catalog).unwrap();
    writer.finish(&catalog, &source).unwrap();
}

/// Runs a command with the data limit.
fn bounded(place: &Place, line: &str) -> Run {
    limited(place, &format!("ulimit -d {MOST_DATA_KIB}"), line)
}

/// Runs a command after a line of the shell.
fn limited(place: &Place, limit: &str, line: &str) -> Run {
    // Shown if the command is killed.
    println!("{line}");
    let script = format!("{limit}; exec \"$0\" {line}");
    let output =
        std::process::Command::new("sh").args(["-c", &script, support::HIGHWATER]).current_dir(place.path()).output();
    Run::of(output.unwrap())
}

#[test]
fn json_of_a_deep_recursion_is_as_large_as_the_recording_and_not_as_all_stacks_together() {
    let place = Place::new();
    recursions(&place.file("deep.hw"), 1, 3000, 16);
    assert!(std::fs::metadata(place.file("deep.hw")).unwrap().len() < 64 << 10);
    recursions(&place.file("before.hw"), 1, 10, 16);
    for line in [
        "report deep.hw --json",
        "report deep.hw --from start --to end --json",
        "leaks deep.hw --json",
        "diff before.hw deep.hw --json",
        "export deep.hw --to json -o -",
    ] {
        let run = bounded(&place, line);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
        // All stacks have 4.5 million frames; as lists that is more than 500 MB.
        assert!(run.stdout.len() < 8 << 20, "{line}: {} bytes", run.stdout.len());
        let plain: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(
            (plain["frames"].as_array().unwrap().len(), plain["stacks"].as_array().unwrap().len()),
            (1, 3000),
            "{line}"
        );
        assert!(plain["sites"].as_array().unwrap().len() > 2900, "{line}");
    }
    // Nothing is missing: each site has the stack of its depth.
    recursions(&place.file("small.hw"), 1, 50, 16);
    let report = document(&place.highwater("report small.hw --json").stdout);
    let mut depths: Vec<usize> =
        report["sites"].as_array().unwrap().iter().map(|site| site["stack"].as_array().unwrap().len()).collect();
    depths.sort_unstable();
    assert_eq!(depths, (1..=50).collect::<Vec<_>>());
    assert_eq!(report["sites"][0]["stack"][0]["function"], "descend_0");
}

#[test]
fn diff_and_exports_of_many_deep_recursions_hold_no_whole_stacks() {
    let place = Place::new();
    recursions(&place.file("old.hw"), 10, 3000, 16);
    recursions(&place.file("new.hw"), 10, 3000, 24);
    assert!(std::fs::metadata(place.file("old.hw")).unwrap().len() < 512 << 10);
    for line in [
        "diff old.hw new.hw",
        "diff old.hw new.hw --json",
        "diff old.hw new.hw --by function",
        "report old.hw",
        "report old.hw --by function",
        "report old.hw --filter descend_7",
        "leaks old.hw",
        "leaks old.hw --stacks full --top 0",
        "export old.hw --to pprof -o old.pb.gz",
        "export old.hw --to memtrace -o old.ctf",
    ] {
        let run = bounded(&place, line);
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
    }
    let diff = document(&place.highwater("diff old.hw new.hw --json --top 3").stdout);
    assert_eq!((&diff["live_bytes_delta"], diff["sites"].as_array().unwrap().len()), (&(30_000 * 8).into(), 3));
    assert_eq!(diff["sites"][0]["live_bytes_delta"], 8);
}

#[test]
fn folded_stacks_are_written_one_at_a_time_and_a_flame_graph_of_too_many_is_refused() {
    let place = Place::new();
    // Names of 660 MB in total.
    recursions(&place.file("deep.hw"), 2, 8000, 16);
    let run = bounded(&place, "export deep.hw --to folded -o - | tail -c 30");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.ends_with(";descend_1;descend_1 16\n"), "{}", run.stdout);
    let run = bounded(&place, "export deep.hw --to flamegraph -o deep.svg");
    run.is_one_clear_line_about(&["bytes of names", "268,435,456", "--filter", "folded"]);
    assert!(!place.file("deep.svg").exists());
    recursions(&place.file("less.hw"), 1, 500, 16);
    assert_eq!(bounded(&place, "export less.hw --to flamegraph -o less.svg").code, 0);
}

#[test]
fn every_answer_of_the_viewer_to_a_deep_recording_is_bounded_or_an_error() {
    let place = Place::new();
    recursions(&place.file("old.hw"), 4, 3000, 16);
    recursions(&place.file("new.hw"), 4, 3000, 24);
    let viewer = Viewer::new(&place, "old.hw new.hw");
    for question in [
        "rows?limit=10000&stacks=table",
        "rows?by=function&limit=10000",
        "rows?limit=10000&search=descend_3&stacks=table",
        "tree?least=0",
        "tree?least=0&direction=up",
        "tree?least=0&merge_recursion=1",
        "tree?least=0&focus=descend_2",
        "callers?function=descend_1",
        "overview",
        "blocks?limit=1000&stacks=table",
        "leaks?limit=1000&points=1000&stacks=table",
        "compare?a=0@end&b=1@end&limit=10000&stacks=table",
        "peak",
        "histograms",
    ] {
        let answer = viewer.request("GET", question);
        assert_eq!((answer.status, answer.problem()), (200, None), "{question}");
        assert!(answer.body.len() < 64 << 20, "{question}: {} bytes", answer.body.len());
    }
    // As lists these would take gigabytes.
    for (question, words) in [
        ("rows?limit=10000", "more than 262,144 frames"),
        ("blocks?limit=1000", "stacks=table"),
        ("compare?a=0@end&b=1@end&limit=10000", "more than 262,144 frames"),
        ("leaks?limit=10000&points=1000", "the limit is 1,000,000"),
    ] {
        let answer = viewer.request("GET", question);
        assert_eq!(answer.value()["error"]["kind"], "too_large", "{question}: {}", answer.body);
        assert!(answer.problem().is_some_and(|problem| problem.contains(words)), "{question}: {:?}", answer.problem());
    }
    assert_eq!(
        viewer.ask("rows?limit=1&order=asc")["rows"][0]["stack"].as_array().unwrap().len(),
        2048,
        "the innermost frames"
    );
    let most = high_water_mark_kib(viewer.child.id());
    assert!(most < 3 * MOST_DATA_KIB, "the viewer held {most} KiB");
}

/// The highest memory use of a process so far.
fn high_water_mark_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_saved_page_of_a_deep_recording_has_each_call_once() {
    let place = Place::new();
    recursions(&place.file("deep.hw"), 1, 3000, 16);
    let run = place.highwater("view deep.hw --save page.html");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let bytes = std::fs::metadata(place.file("page.html")).unwrap().len();
    assert!(bytes < 8 << 20, "{bytes} bytes");
}

#[test]
fn event_lines_of_as_many_threads_as_lines_take_time_by_the_line() {
    let place = Place::new();
    let line = |thread: u64| {
        format!(
            "{{\"event\":\"allocate\",\"address\":{},\"size\":8,\"thread\":{thread},\"time_ns\":{thread}}}\n",
            thread << 4
        )
    };
    place.write("threads.jsonl", (1..=1 << 18).map(line).collect::<String>());
    // Limits processor time, which does not depend on other processes. An earlier version searched the threads of a block for each event, which takes
    // half a minute.
    let run = limited(&place, "ulimit -t 15", "import threads.jsonl -o threads.hw");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = place.json("report threads.hw --by thread");
    assert_eq!(report["threads"].as_array().unwrap().len(), 1 << 18);
}

#[test]
fn an_image_that_is_shortened_while_it_is_read_is_an_error_and_never_a_signal() {
    let place = Place::new();
    let image = support::viewed::fixture("image/tests/fixtures/wasm/leaky_rs.mem1.gz");
    place.write("whole.img", &image);
    let right = place.highwater("image heap whole.img");
    assert_eq!(right.code, 0, "{}", right.stderr);
    let mut ends = Vec::new();
    for delay in 0..40 {
        place.write("image.img", &image);
        let child = place
            .command(["image", "heap", "image.img"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // At some point between opening and completion: each run must end well.
        std::thread::sleep(Duration::from_micros(delay * 500));
        File::options().write(true).open(place.file("image.img")).unwrap().set_len(70_000).unwrap();
        let run = Run::of(child.wait_with_output().unwrap());
        match run.code {
            0 => assert_eq!(run.stdout.replace("image.img", "whole.img"), right.stdout),
            _ => run.is_one_clear_line_about(&["image.img"]),
        }
        ends.push(run.code);
    }
    assert!(ends.iter().all(|code| [0, 1].contains(code)), "{ends:?}");
}

/// A recording whose first block claims `claimed` bytes, all of them holes.
fn hollow_recording(path: &Path, claimed: u32) {
    let checksum = |bytes: &[u8]| {
        let mut sum = flate2::Crc::new();
        sum.update(bytes);
        sum.sum().to_le_bytes()
    };
    let mut bytes = b"\x89HW\r\n\x1a\x01\x00".to_vec();
    bytes.extend(checksum(&bytes));
    bytes.extend([0; 4]);
    let mut header = b"HWB1".to_vec();
    header.extend([1, 0, 0, 0]);
    for number in [claimed, 0, 0] {
        header.extend(number.to_le_bytes());
    }
    header.extend(checksum(&header));
    bytes.extend(header);
    std::fs::write(path, bytes).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(u64::from(claimed) + (1 << 20)).unwrap();
}

#[test]
fn a_file_that_asks_for_more_memory_than_there_is_gets_an_error_with_that_reason() {
    let place = Place::new();
    hollow_recording(&place.file("hollow.hw"), 3 << 30);
    for command in ["report", "info", "check", "leaks"] {
        bounded(&place, &format!("{command} hollow.hw")).is_one_clear_line_about(&["hollow.hw", "memory"]);
    }
    let mut image = std::fs::File::options().write(true).create_new(true).open(place.file("hollow.img")).unwrap();
    std::io::Write::write_all(&mut image, &[7; 4096]).unwrap();
    image.set_len(4 << 30).unwrap();
    bounded(&place, "image heap hollow.img").is_one_clear_line_about(&["hollow.img", "memory"]);
}

#[test]
fn many_gauges_and_marks_are_written_one_at_a_time_and_thinned_for_the_screen() {
    let place = Place::new();
    let mut catalog = Catalog::default();
    let names = ["rss", "step"].map(|name| catalog.strings.intern(name));
    let event = |time: u64| {
        let kind = match time % 5 {
            0 => EventKind::Mark { name: names[1] },
            _ => EventKind::Gauge { name: names[0], value: if time == 250_001 { 1 << 30 } else { 4096 } },
        };
        Event { time: Nanos(time), thread: ThreadId(1), kind }
    };
    let source = Source { duration: Nanos(500_000), ..Source::default() };
    let mut writer = Writer::new(File::create(place.file("gauges.hw")).unwrap(), &source).unwrap();
    let events: Vec<Event> = (1..=500_000).map(event).collect();
    writer.append(&events, &catalog).unwrap();
    writer.finish(&catalog, &source).unwrap();

    let run = bounded(&place, "timeline gauges.hw --json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let timeline = document(&run.stdout);
    let count = |name: &str| timeline[name].as_array().unwrap().len();
    assert_eq!((count("gauges"), count("marks"), count("points")), (400_000, 100_000, 500));

    let answer = Viewer::new(&place, "gauges.hw").ask("timeline?points=600");
    let values = answer["gauges"][0]["value"].as_array().unwrap();
    assert!(values.len() <= 2 * 600 + 1 && values.iter().any(|value| *value == 1 << 30), "{}", values.len());
    assert_eq!((answer["marks"].as_array().unwrap().len(), &answer["marks_left_out"]), (10_000, &90_000.into()));
}
