//! The commands that ask a collector, tested with a fake collector whose answers the test defines.

mod support;

use highwater_collector::protocol::{
    CollectorRequest, CutInfo, Detail, KeptInfo, ProcessInfo, ProcessState, Retention,
};
use highwater_model::When;
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use support::fake_collector::{FakeCollector, Reply, cut, list, process, snapshot_file};
use support::{HIGHWATER, Place, Run, in_the_kitchen};

fn kept(id: u64, name: &str) -> KeptInfo {
    KeptInfo {
        id,
        name: name.into(),
        pid: 7,
        program: "kitchen".into(),
        taken_unix_ns: process(0, "", ProcessState::Live).since_unix_ns,
        live_bytes: 5500,
        live_blocks: 3,
        is_estimate: false,
        file_bytes: 2048,
    }
}

fn contents_file(blocks: &[(u64, &[u8])]) -> Vec<u8> {
    let part = |(address, bytes): &(u64, &[u8])| {
        [&address.to_le_bytes()[..], &(bytes.len() as u64).to_le_bytes(), bytes].concat()
    };
    blocks.iter().flat_map(part).collect()
}

/// A collected kitchen: its state is that of the peak, 5500 bytes in three blocks.
struct Kitchen {
    place: Place,
    collector: FakeCollector,
}

impl Kitchen {
    fn with(processes: Vec<ProcessInfo>, cut: CutInfo) -> Self {
        let place = in_the_kitchen();
        let file = snapshot_file(&place.file("kitchen.hw"), &When::Peak);
        let contents = contents_file(&[(0x1000, b"flour"), (0x3000, b"dough and\n")]);
        let collector = FakeCollector::new(&place.file("socket"), move |request| match request {
            CollectorRequest::Processes(_) => Reply::done(json!({})).with(list(&processes, ProcessInfo::to_json)),
            // As collectors before there were timelines.
            CollectorRequest::Timelines { .. } => {
                Reply::failed("the collector does not know the request \"timelines\"")
            }
            CollectorRequest::Gauges { .. } => Reply::failed("the collector does not know the request \"gauges\""),
            CollectorRequest::Snapshot { contents: Some(_), .. } => {
                Reply::done(cut.to_json()).with(file.clone()).with(contents.clone())
            }
            CollectorRequest::Snapshot { .. } => Reply::done(cut.to_json()).with(file.clone()),
            CollectorRequest::Set { sample_bytes, .. } => {
                Reply::done(json!({"before": 0, "applied": *sample_bytes != 4096}))
            }
            // As collectors before there was attaching.
            CollectorRequest::Attach { .. } => Reply::failed("the collector does not know the request \"attach\""),
            CollectorRequest::Detach { .. } => Reply::failed("the collector does not know the request \"detach\""),
            CollectorRequest::Older { .. } => Reply::failed("the collector does not know the request \"older\""),
            CollectorRequest::Snapshots => {
                let most = Retention { count: 20, bytes: 64 << 20 };
                let all = [kept(2, "served"), kept(1, "loaded")];
                Reply::done(most.to_json()).with(list(&all, KeptInfo::to_json))
            }
            CollectorRequest::Get { id: 1 } => Reply::done(kept(1, "loaded").to_json()).with(file.clone()),
            CollectorRequest::Get { id } => Reply::failed(&format!("there is no snapshot {id}")),
            CollectorRequest::Remove { ids } => {
                Reply::done(json!({"removed": if ids.is_empty() { 2 } else { ids.len() }}))
            }
        });
        Self { place, collector }
    }

    fn new() -> Self {
        Self::with(vec![process(7, "kitchen", ProcessState::Live)], cut())
    }

    fn highwater(&self, line: &str) -> Run {
        self.place.highwater(&format!("{line} --socket socket"))
    }

    fn json(&self, line: &str) -> Value {
        self.place.json(&format!("{line} --socket socket"))
    }
}

#[track_caller]
fn is_wrong_usage(run: &Run, word: &str) {
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains(word), "{}", run.stderr);
}

const ASKING: [&str; 7] = [
    "ps",
    "snapshot",
    "watch --pid 7",
    "set --pid 7 --sample off",
    "snapshots",
    "snapshots get 1",
    "diff kitchen.hw --pid 7",
];

#[test]
fn where_nobody_listens_every_command_says_so_in_one_line() {
    let place = in_the_kitchen();
    place.write("plain", "no socket");
    let long = "x".repeat(200);
    for line in ASKING {
        for socket in ["nowhere", "plain", "plain/below"] {
            let run = place.highwater(&format!("{line} --socket {socket}"));
            run.is_one_clear_line_about(&["no collector listens at", socket, "highwater collector", "highwater run"]);
        }
        place.highwater(&format!("{line} --socket {long}")).is_one_clear_line_about(&["107 bytes"]);
    }
    let mut command = place.command(["ps"]);
    let run = Run::of(command.env("HIGHWATER_SOCKET", place.file("elsewhere")).output().unwrap());
    run.is_one_clear_line_about(&["no collector listens", "elsewhere"]);
    let run = Run::of(place.command(["ps"]).env("HIGHWATER_SOCKET", "relative").output().unwrap());
    run.is_one_clear_line_about(&["HIGHWATER_SOCKET", "absolute"]);
}

#[test]
fn a_socket_of_others_says_so() {
    let kitchen = Kitchen::new();
    std::fs::set_permissions(&kitchen.collector.socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    let run = kitchen.highwater("ps");
    // The superuser may do everything.
    if !rustix::process::geteuid().is_root() {
        run.is_one_clear_line_about(&["permission denied"]);
    }
}

#[test]
fn wrong_usage_has_exit_code_2_whether_or_not_anybody_listens() {
    let place = in_the_kitchen();
    is_wrong_usage(
        &place.highwater("snapshot --pid 7 -o out.png"),
        ".hw, .pb.gz, .otlp.pb, .folded, .svg, .speedscope.json, .firefox.json, .dhat.json, .json, .csv, .parquet",
    );
    is_wrong_usage(&place.highwater("snapshot --pid 7 -o out"), ".hw, .pb.gz");
    is_wrong_usage(&place.highwater("snapshot --pid 7 -o out.hw --contents"), ".json");
    is_wrong_usage(&place.highwater("snapshot --pid 7 -o out.svg --contents 8"), ".json");
    is_wrong_usage(&place.highwater("snapshot --pid 7 -o out.svg --by thread"), "-o");
    is_wrong_usage(&place.highwater("snapshot --pid 7 -o out.hw --filter x"), "--filter");
    is_wrong_usage(&place.highwater("snapshot --pid 7 --contents 0"), "0");
    is_wrong_usage(&place.highwater("snapshot --pid 7 --name kitchen"), "--name");
    is_wrong_usage(&place.highwater("snapshot --pid kitchen"), "kitchen");
    is_wrong_usage(&place.highwater("snapshots get"), "ID");
    is_wrong_usage(&place.highwater("snapshots get 1 -o out.png"), ".hw, .pb.gz");
    is_wrong_usage(&place.highwater("snapshots rm"), "ID");
    is_wrong_usage(&place.highwater("snapshots rm 1 --all"), "--all");
    is_wrong_usage(&place.highwater("snapshots --json rm 1"), "--json");
    is_wrong_usage(&place.highwater("attach"), "--pid or --name");
    is_wrong_usage(&place.highwater("detach"), "--pid or --name");
    is_wrong_usage(&place.highwater("attach --pid 7 --sample often"), "512KiB");
    is_wrong_usage(&place.highwater("set --pid 7"), "--sample");
    is_wrong_usage(&place.highwater("set --pid 7 --sample often"), "512KiB");
    is_wrong_usage(&place.highwater("watch --pid 7 --interval 0"), "not a time");
    is_wrong_usage(&place.highwater("watch --pid 7 --count 0"), "0");
    is_wrong_usage(&place.highwater("run"), "PROGRAM");
    is_wrong_usage(&place.highwater("run --sample often true"), "512KiB");
    is_wrong_usage(&place.highwater("run --max-blocks 0 true"), "0");
    is_wrong_usage(&place.highwater("collector --keep-bytes plenty"), "not a size");
    is_wrong_usage(&place.highwater("diff kitchen.hw"), "FILE");
    is_wrong_usage(&place.highwater("diff kitchen.hw kitchen.hw --pid 7"), "--pid");
}

#[test]
fn a_process_that_the_collector_does_not_take_is_detached_again() {
    struct Sleeper(std::process::Child);
    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = (self.0.kill(), self.0.wait());
        }
    }
    let sleeper = Sleeper(std::process::Command::new("sleep").arg("1000").spawn().unwrap());
    let sleeper = &sleeper.0;
    let maps = || std::fs::read_to_string(format!("/proc/{}/maps", sleeper.id())).unwrap();
    // In clock_nanosleep: it has begun, and calls nothing more.
    let path = format!("/proc/{}/syscall", sleeper.id());
    support::live::wait_for("its sleep", || std::fs::read_to_string(&path).unwrap().starts_with("230 "));
    let run = Kitchen::new().highwater(&format!("attach --pid {}", sleeper.id()));
    assert!(run.code == 1 && run.stderr.contains("was detached again: the collector does not know"), "{}", run.stderr);
    assert!(run.stdout.is_empty() && !maps().contains("highwater"), "{}", maps());
}

#[test]
fn ps_shows_every_process_with_its_mode() {
    let sampled =
        ProcessInfo { sample_bytes: 512 << 10, is_estimate: true, ..process(9, "server", ProcessState::Live) };
    let refused = ProcessInfo { problem: "speaks version 2".into(), ..process(10, "odd", ProcessState::Refused) };
    let all =
        vec![process(8, "gone", ProcessState::Exited), process(7, "kitchen", ProcessState::Live), sampled, refused];
    let kitchen = Kitchen::with(all, cut());
    let run = kitchen.highwater("ps");
    run.stdout_has(&[
        "PID  NAME",
        "STATE",
        "exited",
        "3 min",
        "~5.4 KiB",
        "~3",
        "1 in 512 KiB",
        "exact",
        "speaks version 2",
    ]);
    assert!(run.stdout.lines().nth(1).unwrap().contains("kitchen"), "the living come first: {}", run.stdout);
    let document = kitchen.json("ps");
    assert_eq!(document["command"], "ps");
    assert_eq!(document["processes"].as_array().unwrap().len(), 4);
    assert_eq!(document["processes"][0]["live_bytes"], 5500);

    let gone = |pid: u32| ProcessInfo { exited_unix_ns: u64::from(pid), ..process(pid, "gone", ProcessState::Exited) };
    let many = Kitchen::with((0..9).map(gone).chain([process(100, "kitchen", ProcessState::Live)]).collect(), cut());
    let run = many.highwater("ps");
    run.stdout_has(&["\n100  kitchen", "\n  8  gone", "\n  4  gone", "… 4 more that ended before"]);
    assert!(!run.stdout.contains("\n  3  gone"), "{}", run.stdout);
    assert_eq!(many.highwater("ps --all").stdout.matches("gone").count(), 9);
    assert_eq!(many.json("ps")["processes"].as_array().unwrap().len(), 10);

    assert!(!Kitchen::new().highwater("ps").stdout.contains("STATE"), "nobody is told that all live");
    let none = Kitchen::with(Vec::new(), cut());
    none.highwater("ps").stdout_has(&["No process is registered", "highwater run PROGRAM"]);
    assert_eq!(none.json("ps")["processes"], json!([]));
}

#[test]
fn a_process_is_chosen_by_number_by_name_or_by_being_the_only_one() {
    let kitchen = Kitchen::new();
    for line in ["snapshot", "snapshot --pid 7", "snapshot --name kitchen", "snapshot --name itch"] {
        kitchen.highwater(line).stdout_has(&["bake", "5.4 KiB"]);
    }
    let nobody = u32::MAX.to_string();
    let no_such = kitchen.highwater(&format!("snapshot --pid {nobody}"));
    no_such.is_one_clear_line_about(&[&nobody, "there is no process"]);
    let own = format!("snapshot --pid {}", std::process::id());
    kitchen.highwater(&own).is_one_clear_line_about(&["not live", "highwater attach", "highwater run"]);
    kitchen.highwater("snapshot --name cellar").is_one_clear_line_about(&["cellar", "highwater ps"]);
    let two = Kitchen::with(
        vec![process(7, "kitchen", ProcessState::Live), process(8, "kitchen", ProcessState::Live)],
        cut(),
    );
    two.highwater("snapshot").is_one_clear_line_about(&["7 kitchen, 8 kitchen", "--pid"]);
    two.highwater("watch --name kitchen").is_one_clear_line_about(&["7 kitchen, 8 kitchen", "--pid"]);
    assert_eq!(two.highwater("snapshot --pid 8").code, 0);
    let asked = CollectorRequest::Snapshot { pid: 8, detail: Detail::Sites, contents: None, pages: None };
    assert_eq!(two.collector.asked(), [asked]);
}

#[test]
fn a_snapshot_is_the_report_of_the_same_instant() {
    let kitchen = Kitchen::new();
    let run = kitchen.highwater("snapshot");
    run.stdout_has(&["bake", "chop", "4.9 KiB"]);
    let told = "highwater: snapshot of kitchen (pid 7): 3 blocks, 5.4 KiB; exact, verified against the process's own counts; \
                cut in 400ns, read in 3.0ms\n";
    assert_eq!(run.stderr, told);
    let (snapshot, report) = (kitchen.json("snapshot"), kitchen.place.json("report kitchen.hw --at peak"));
    assert_eq!(snapshot["command"], "snapshot");
    assert_eq!(snapshot["cut"], cut().to_json());
    for row in 0..2 {
        assert_eq!(snapshot["sites"][row]["live_bytes"], report["sites"][row]["live_bytes"]);
        assert_eq!(snapshot["sites"][row]["stack"], report["sites"][row]["stack"]);
    }
    kitchen.highwater("snapshot --by thread --top 1").stdout_has(&["main", "1 more thread"]);
    kitchen.highwater("snapshot --filter chop").stdout_has(&["chop"]);
}

#[test]
fn what_a_cut_is_not_is_a_warning_of_its_own() {
    let flawed = CutInfo { exact: false, verified: false, exited: true, untracked: 5, unknown_frees: 2, ..cut() };
    let kitchen = Kitchen::with(vec![process(7, "kitchen", ProcessState::Live)], flawed);
    let run = kitchen.highwater("snapshot");
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("not exact, not verified"), "{}", run.stderr);
    let warnings: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("highwater: warning: ")).collect();
    assert_eq!(warnings.len(), 5, "{}", run.stderr);
    assert!(run.stderr.contains("has exited") && run.stderr.contains("5 blocks"), "{}", run.stderr);
}

#[test]
fn the_ending_says_what_is_written() {
    let kitchen = Kitchen::new();
    let write = |name: &str| {
        let run = kitchen.highwater(&format!("snapshot -o {name}"));
        assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
        std::fs::read(kitchen.place.file(name)).unwrap()
    };
    write("out.hw");
    let report = kitchen.place.json("report out.hw");
    assert_eq!(report["totals"]["live_bytes"], 5500);
    assert_eq!(kitchen.place.highwater("check out.hw").code, 0);
    let json: Value = serde_json::from_slice(&write("out.json")).unwrap();
    assert_eq!(json["blocks"].as_array().unwrap().len(), 3);
    assert!(json["blocks"][0]["contents"].is_null());
    let mut folded: Vec<String> = String::from_utf8(write("out.folded")).unwrap().lines().map(str::to_owned).collect();
    folded.sort();
    assert_eq!(folded, ["main;cook;bake 5000", "main;cook;chop 500"]);
    assert!(String::from_utf8(write("out.svg")).unwrap().contains("<svg"));
    assert_eq!(write("out.pb.gz")[..2], [0x1f, 0x8b]);
    let details: Vec<Detail> = kitchen
        .collector
        .asked()
        .iter()
        .map(|request| match request {
            CollectorRequest::Snapshot { detail, .. } => *detail,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(details, [Detail::Blocks, Detail::Blocks, Detail::Sites, Detail::Sites, Detail::Blocks]);
    kitchen.highwater("snapshot -o nowhere/out.hw").is_one_clear_line_about(&["nowhere/out.hw", "No such file"]);
    kitchen.highwater("snapshot -o nowhere/out.json").is_one_clear_line_about(&["nowhere/out.json", "No such file"]);
}

#[test]
fn contents_are_shown_of_the_largest_blocks_and_written_of_all() {
    let kitchen = Kitchen::new();
    let run = kitchen.highwater("snapshot --contents");
    run.stdout_has(&["0x3000", "64 6f 75 67 68 20 61 6e 64 0a  |dough and.|", "|flour|", "(not known)"]);
    assert_eq!(kitchen.highwater("snapshot --contents 8 -o out.json").code, 0);
    let document: Value = serde_json::from_slice(&std::fs::read(kitchen.place.file("out.json")).unwrap()).unwrap();
    assert_eq!(document["blocks"][0]["contents"], "666c6f7572");
    assert_eq!(document["blocks"][1]["contents"], Value::Null);
    let document = kitchen.json("snapshot --contents 8");
    assert_eq!(document["largest_blocks"][0]["contents"], "646f75676820616e640a");
    let asked =
        |bytes| CollectorRequest::Snapshot { pid: 7, detail: Detail::Blocks, contents: Some(bytes), pages: None };
    assert_eq!(kitchen.collector.asked(), [asked(64), asked(8), asked(8)]);

    let closed = ProcessInfo { allows_contents: false, ..process(7, "kitchen", ProcessState::Live) };
    let kitchen = Kitchen::with(vec![closed], cut());
    kitchen.highwater("snapshot --contents").is_one_clear_line_about(&["kitchen", "--allow-contents"]);
}

#[test]
fn a_live_process_is_compared_with_a_file() {
    let kitchen = Kitchen::new();
    let run = kitchen.highwater("diff kitchen.hw@mark:loaded --pid 7");
    run.stdout_has(&["kitchen (pid 7) now", "+3.9 KiB", "bake"]);
    let document = kitchen.json("diff kitchen.hw@mark:loaded --name kitchen");
    assert_eq!(document["after"]["process"], json!({"pid": 7, "name": "kitchen"}));
    assert_eq!((&document["after"]["file"], &document["after"]["when"]), (&Value::Null, &json!("now")));
}

#[test]
fn watch_looks_again_and_tells_what_grew() {
    let place = in_the_kitchen();
    let files = [When::Mark("loaded".into()), When::Peak].map(|when| snapshot_file(&place.file("kitchen.hw"), &when));
    let mut looks = 0;
    FakeCollector::new(&place.file("socket"), move |request| match request {
        CollectorRequest::Processes(_) => {
            looks = 0;
            Reply::done(json!({})).with(list(&[process(7, "kitchen", ProcessState::Live)], ProcessInfo::to_json))
        }
        _ => {
            looks += 1;
            let now = CutInfo { exited: looks == 3, ..cut() };
            Reply::done(now.to_json()).with(files[usize::from(looks > 1)].clone())
        }
    });
    let run = place.highwater("watch --socket socket --pid 7 --interval 0.05 --count 2");
    run.stdout_has(&["kitchen (pid 7)", "1.5 KiB in 2 blocks", "5.4 KiB in 3 blocks", "+3.9 KiB", "bake", "chop"]);
    assert_eq!(run.stdout.matches("growth").count(), 2, "{}", run.stdout);
    assert!(!run.stdout.contains('\x1b'), "no terminal, no commands to it");
    let run = place.highwater("watch --socket socket --interval 0.05 --sort growth --json");
    let looks: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 3, "it ends with the process");
    assert_eq!((&looks[1]["schema"], &looks[1]["growth_bytes"]), (&json!(2), &json!(4000)));
    assert_eq!(looks[1]["sites"][0]["growth_bytes"], 4000);
    assert_eq!((&looks[2]["sites"][0]["growth_bytes_lately"], &looks[2]["cut"]["exited"]), (&json!(0), &json!(true)));
    let run = place.highwater("watch --socket socket --interval 0.05");
    assert!(run.stdout.contains("exited"), "{}", run.stdout);
}

#[test]
fn watch_fills_a_terminal_and_gives_it_back() {
    let kitchen = Kitchen::new();
    let line = format!("stty cols 90 rows 12; {HIGHWATER} watch --socket socket --interval 0.05 --count 3");
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(kitchen.place.path()).env("TERM", "xterm");
    let output = script.stdin(Stdio::null()).output().expect("'script' of the package bsdutils");
    let shown = String::from_utf8(output.stdout).unwrap();
    let (drawn, left) = shown.split_once("\x1b[?25h\x1b[?1049l").unwrap();
    assert!(drawn.contains("\x1b[?1049h\x1b[?25l") && drawn.contains("? help"), "{shown:?}");
    assert!(left.contains("bake"), "what was seen last stays: {left:?}");
}

#[test]
fn an_interrupted_watch_ends_in_order() {
    let kitchen = Kitchen::new();
    let line = ["watch", "--socket", "socket", "--interval", "60"];
    let mut child = kitchen.place.command(line).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_program_that_is_run_ends_as_without_us() {
    let kitchen = Kitchen::new();
    let run = |line: &[&str]| kitchen.place.run([&["run", "--socket", "socket"], line].concat());
    let loud = run(&["sh", "-c", "echo said; exit 7"]);
    assert_eq!((loud.code, loud.stdout.as_str()), (7, "said\n"));
    assert!(loud.stderr.starts_with("highwater: sh is pid "), "{}", loud.stderr);
    assert!(
        loud.stderr.contains("'highwater snapshot --pid ") && loud.stderr.contains(" --socket socket'"),
        "{}",
        loud.stderr
    );
    let quiet = run(&["--quiet", "--", "true"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    let told =
        run(&["-q", "--sample", "4KiB", "--max-blocks", "9", "--allow-contents", "sh", "-c", "echo $HIGHWATER_AGENT"]);
    let (fields, path) = told.stdout.trim().split_once(";/").unwrap();
    let fields: Vec<&str> = fields.split(';').collect();
    assert_eq!((fields[0], fields[2], fields[3]), ("v2", "4096", "9"), "{}", told.stdout);
    assert!("tfr".chars().all(|flag| fields[1].contains(flag)), "{}", told.stdout);
    assert!(path.ends_with("/socket"), "{path}");
    run(&["no-such-program"]).is_one_clear_line_about(&["no-such-program", "no such program"]);
}

#[test]
fn set_says_what_was_and_what_is_in_force() {
    let kitchen = Kitchen::new();
    let said = |sample: &str| kitchen.highwater(&format!("set --name kitchen --sample {sample}")).stdout;
    assert_eq!(said("512KiB"), "kitchen (pid 7): was exact, now 1 in 512 KiB\n");
    assert_eq!(said("off"), "kitchen (pid 7): was exact, now exact\n");
    assert!(said("4KiB").contains("will be 1 in 4 KiB"));
    let asked = |sample_bytes| CollectorRequest::Set { pid: 7, sample_bytes };
    assert_eq!(kitchen.collector.asked(), [asked(512 << 10), asked(0), asked(4096)]);
}

#[test]
fn kept_snapshots_are_listed_shown_written_and_removed() {
    let kitchen = Kitchen::new();
    for line in ["snapshots", "snapshots list"] {
        let run = kitchen.highwater(line);
        run.stdout_has(&["loaded", "served", "2 snapshots, 4.0 KiB; at most 20 snapshots with 64.0 MiB"]);
        assert!(run.stdout.find("loaded") < run.stdout.find("served"), "the oldest first: {}", run.stdout);
    }
    for line in ["snapshots", "snapshots list"] {
        let document = kitchen.json(line);
        assert_eq!(document["snapshots"][0]["name"], "loaded");
        assert_eq!(document["retention"], json!({"count": 20, "bytes": 64 << 20}));
    }
    kitchen.highwater("snapshots get 1").stdout_has(&["bake", "5.4 KiB"]);
    assert_eq!(kitchen.json("snapshots get 1")["snapshot"]["name"], "loaded");
    assert_eq!(kitchen.highwater("snapshots get 1 -o loaded.hw").code, 0);
    assert_eq!(kitchen.place.json("report loaded.hw")["totals"]["live_blocks"], 3);
    kitchen.highwater("snapshots get 9").is_one_clear_line_about(&["there is no snapshot 9"]);
    assert_eq!(kitchen.highwater("snapshots rm 1").stdout, "1 snapshot removed\n");
    assert_eq!(kitchen.highwater("snapshots rm --all").stdout, "2 snapshots removed\n");
    let removals: Vec<CollectorRequest> = kitchen
        .collector
        .asked()
        .into_iter()
        .filter(|request| matches!(request, CollectorRequest::Remove { .. }))
        .collect();
    assert_eq!(removals, [CollectorRequest::Remove { ids: vec![1] }, CollectorRequest::Remove { ids: Vec::new() }]);
}

#[test]
fn nonsense_from_a_collector_is_one_clear_line() {
    type Answer = fn() -> Reply;
    let cases: [(Answer, &str); 7] = [
        (|| Reply { message: String::new(), files: Vec::new() }, "closed the connection"),
        (|| Reply { message: "certainly".into(), files: Vec::new() }, "no JSON"),
        (|| Reply { message: json!({"perhaps": 1}).to_string(), files: Vec::new() }, "neither done nor failed"),
        (|| Reply::done(json!({})), "nothing is attached"),
        (|| Reply::done(json!({})).with("a list"), "no JSON"),
        (|| Reply::done(json!({})).with("[{\"pid\": 7}]"), "something is missing"),
        (|| Reply::failed("speaks version 2, you speak version 1: update this command"), "update this command"),
    ];
    for (answer, problem) in cases {
        let place = Place::new();
        FakeCollector::new(&place.file("socket"), move |_| answer());
        place.highwater("ps --socket socket").is_one_clear_line_about(&[problem]);
    }
    let place = Place::new();
    FakeCollector::new(&place.file("socket"), |request| match request {
        CollectorRequest::Processes(_) => {
            Reply::done(json!({})).with(list(&[process(7, "kitchen", ProcessState::Live)], ProcessInfo::to_json))
        }
        _ => Reply::done(cut().to_json()).with("no snapshot at all"),
    });
    place.highwater("snapshot --socket socket").is_one_clear_line_about(&["cannot be read"]);
    assert_eq!(place.highwater("snapshot --socket socket -o out.hw").code, 1);
    assert!(!place.file("out.hw").exists());
}
