//! Whatever happens to the program, to the recorder or to the disk, the program behaves as without us, and the recorded part can be read. Every test
//! uses real processes.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use support::recorded::{Ended, Recording, plain, record, run};
use support::{HIGHWATER, Place, copy_program, programs};

const STEPS: &str = "3000000";

fn signal(name: &str, process: u32) {
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().unwrap();
    assert!(status.success(), "kill -{name} {process}");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The last line of `finisher` when nothing disturbs it.
fn right_result(place: &Place) -> String {
    let ended = run(plain(place, &programs::c("finisher")).arg(STEPS));
    assert_eq!(ended.status.code(), Some(42));
    ended.stdout_text().lines().last().unwrap().to_owned()
}

/// A `finisher` under the recorder that has started and waits for a line.
struct Waiting {
    recorder: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    program: u32,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        command.args([STEPS, "line"]);
        Self::start_as_it_is(command)
    }

    /// Any program that prints its process id and then waits for a line.
    fn start_as_it_is(mut command: Command) -> Self {
        let mut recorder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = recorder.stdin.take();
        let mut output = BufReader::new(recorder.stdout.take().unwrap());
        let mut first = String::new();
        output.read_line(&mut first).unwrap();
        let program = first.trim().parse().unwrap_or_else(|_| panic!("'{first}' is not a process id"));
        Self { recorder, input, output, program }
    }

    /// Lets the program continue.
    fn go_on(&mut self) {
        self.input.take().unwrap().write_all(b"go\n").unwrap();
    }

    /// The next line that the program prints. The recorder shares its output: the output ends when both have exited.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// The rest of the program's output.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest.trim().to_owned()
    }

    fn end(mut self) -> Ended {
        let rest = self.rest();
        let mut errors = Vec::new();
        self.recorder.stderr.take().unwrap().read_to_end(&mut errors).unwrap();
        Ended { status: self.recorder.wait().unwrap(), stdout: rest.into_bytes(), stderr: errors }
    }

    /// Waits until the kernel reports a process in this state.
    fn wait_for_state(process: u32, state: char) {
        loop {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let line = status.lines().find(|line| line.starts_with("State:")).unwrap();
            if line.contains(&format!("\t{state} ")) {
                return;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_program_finishes_when_the_recorder_is_killed() {
    let place = Place::new();
    let expected = right_result(&place);
    let mut waiting = Waiting::start(record(&place, &[], programs::c("finisher")));
    let program = waiting.program;
    // The recorder writes its data regularly, even if nothing more happens.
    while fs::metadata(place.file("recording.hw")).map_or(0, |file| file.len()) < 500 {
        assert!(waiting.recorder.try_wait().unwrap().is_none(), "the recorder has ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    signal("KILL", waiting.recorder.id());
    waiting.recorder.wait().unwrap();
    assert!(Path::new(&format!("/proc/{program}")).exists(), "the program lives on");
    waiting.go_on();
    assert_eq!(waiting.rest(), expected);
    // The part that the recorder had written is a valid recording.
    let report = place.highwater("report recording.hw --json");
    assert_eq!(report.code, 0, "{}", report.stderr);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert!(report["totals"]["allocations"].as_u64().unwrap() > 500, "{}", report["totals"]);
}

#[test]
fn the_program_finishes_when_the_recorder_is_killed_in_the_middle_of_the_work() {
    let place = Place::new();
    let expected = right_result(&place);
    for _ in 0..5 {
        let mut waiting = Waiting::start(record(&place, &[], programs::c("finisher")));
        waiting.go_on();
        std::thread::yield_now();
        signal("KILL", waiting.recorder.id());
        assert_eq!(waiting.rest(), expected);
        waiting.recorder.wait().unwrap();
    }
}

#[test]
fn a_program_that_is_stopped_and_continued_is_recorded_as_if_nothing_had_been() {
    let place = Place::new();
    let expected = right_result(&place);
    let mut waiting = Waiting::start(record(&place, &[], programs::c("finisher")));
    let program = waiting.program;
    signal("STOP", program);
    Waiting::wait_for_state(program, 'T');
    signal("CONT", program);
    waiting.go_on();
    let ended = waiting.end();
    assert_eq!((ended.stdout_text(), ended.status.code()), (expected, Some(42)), "{}", ended.stderr_text());
    Recording::read(&place).has_no_oddities();
}

/// The figures that do not depend on the times of events.
fn sums(recording: &Recording) -> support::recorded::Counts {
    recording.totals()
}

#[test]
fn a_recorder_that_is_stopped_makes_the_program_wait_and_loses_nothing() {
    let place = Place::new();
    let expected = right_result(&place);
    run(record(&place, &[], programs::c("finisher")).arg(STEPS));
    let undisturbed = sums(&Recording::read(&place));

    let mut waiting = Waiting::start(record(&place, &[], programs::c("finisher")));
    let (recorder, program) = (waiting.recorder.id(), waiting.program);
    signal("STOP", recorder);
    Waiting::wait_for_state(recorder, 'T');
    waiting.go_on();
    // When it sleeps, its ring is full: it has nothing else to wait for.
    Waiting::wait_for_state(program, 'S');
    signal("CONT", recorder);
    let ended = waiting.end();
    assert_eq!((ended.stdout_text(), ended.status.code()), (expected, Some(42)), "{}", ended.stderr_text());
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    let disturbed = sums(&recording);
    // With a line to read, standard input allocates a buffer.
    assert_eq!(disturbed.allocations, undisturbed.allocations + 1);
    assert_eq!((disturbed.frees, disturbed.reallocations), (undisturbed.frees, undisturbed.reallocations));
}

#[test]
fn a_lossy_recorder_that_is_stopped_lets_the_program_run_and_counts_what_is_missing() {
    let place = Place::new();
    let expected = right_result(&place);
    let mut waiting = Waiting::start(record(&place, &["--lossy"], programs::c("finisher")));
    let recorder = waiting.recorder.id();
    signal("STOP", recorder);
    Waiting::wait_for_state(recorder, 'T');
    waiting.go_on();
    assert_eq!(waiting.line(), expected, "it did not wait for the recorder");
    signal("CONT", recorder);
    let ended = waiting.end();
    assert_eq!(ended.status.code(), Some(42));
    let recording = Recording::read(&place);
    assert!(recording.report["anomalies"]["dropped_events"].as_u64().unwrap() > 1_000_000);
    assert!(place.highwater("report recording.hw").stdout.contains("events that the source could not keep"));
    assert!(
        ended.stderr_text().contains("dropped") || ended.stderr_text().contains("could not keep"),
        "{}",
        ended.stderr_text()
    );
}

/// All kinds of exit, with the status that a shell sees.
const ENDS: [(&str, i32); 8] = [
    ("return", 3),
    ("exit", 3),
    ("_exit", 3),
    ("quick", 3),
    ("abort", 134),
    ("kill", 137),
    ("term", 143),
    ("segv", 139),
];

#[test]
fn however_a_program_ends_its_status_is_passed_on_and_the_recording_is_whole() {
    let place = Place::new();
    let program = programs::c("dying");
    for (how, status) in ENDS {
        let ended = run(record(&place, &[], &program).args([how, "20000", "5000"]));
        assert_eq!(ended.stdout_text(), "allocated 20000 and 5000\n", "{how}");
        assert_eq!(ended.shell_status(), status, "{how}: {}", ended.stderr_text());
        let recording = Recording::read(&place);
        recording.has_no_oddities();
        assert_eq!(recording.of_function("allocate_early").allocations, 20000, "{how}");
        // Nothing is missing, not even the last events: they are in memory that outlives the program.
        assert_eq!(recording.of_function("allocate_late").allocations, 5000, "{how}");
        assert_eq!(recording.of_function("allocate_late").live_bytes, 500_000, "{how}");
    }
}

#[test]
fn a_signal_that_ended_the_program_ends_the_recorder_as_well() {
    let place = Place::new();
    let ended = run(record(&place, &[], programs::c("dying")).args(["term", "10", "10"]));
    assert_eq!(ended.status.signal(), Some(15), "{}", ended.stderr_text());
}

#[test]
fn a_program_that_runs_another_in_its_place_is_recorded_before_and_after() {
    let place = Place::new();
    let ended = run(record(&place, &["--keep-children", "0"], programs::c("dying")).args(["exec", "2000", "500"]));
    assert_eq!(ended.shell_status(), 5, "{}", ended.stderr_text());
    let recordings: Vec<Recording> = recordings_in(&place);
    let of =
        |function: &str| recordings.iter().map(|recording| recording.of_function(function).allocations).sum::<u64>();
    assert_eq!((of("allocate_early"), of("allocate_late")), (2000, 500));
    assert!(of("main") > 2500 || of("allocate_in_the_next_program") == 1, "the next program is recorded too");
}

#[test]
fn a_program_that_is_replaced_and_ends_before_the_recorder_looks_loses_nothing() {
    let place = Place::new();
    let mut command = record(&place, &["--keep-children", "0"], "sh");
    command.args(["-c", "echo $$; read line; exec \"$0\" return 2000 500"]).arg(programs::c("dying"));
    let mut waiting = Waiting::start_as_it_is(command);
    let (recorder, program) = (waiting.recorder.id(), waiting.program);
    signal("STOP", recorder);
    Waiting::wait_for_state(recorder, 'T');
    waiting.go_on();
    Waiting::wait_for_state(program, 'Z');
    signal("CONT", recorder);
    let ended = waiting.end();
    assert_eq!(ended.shell_status(), 3, "{}", ended.stderr_text());
    let recordings: Vec<Recording> = recordings_in(&place);
    assert_eq!(recordings.len(), 2, "the shell and what it became: {:?}", place.names());
    let allocations = Recording::read(&place).of_function("allocate_early").allocations;
    assert_eq!(allocations, 2000, "the program that was meant is the last one");
}

/// The recording and those of children, each checked.
fn recordings_in(place: &Place) -> Vec<Recording> {
    std::iter::once(Recording::read(place)).chain(Recording::read_children(place)).collect()
}

#[test]
fn children_that_are_forked_while_threads_allocate_are_recorded_apart() {
    for how in ["fork", "raw"] {
        let place = Place::new();
        let ended = run(record(&place, &["--keep-children", "0"], programs::c("forks")).arg(how)).succeeded();
        assert_eq!(ended.stdout_text(), "children done, result 0\n", "{how}");
        let parent = Recording::read(&place);
        assert_eq!(parent.of_function("allocate_in_child").allocations, 0, "{how}: the child's are not the parent's");
        assert!(parent.of_function("allocate_in_parent").allocations >= 5);
        parent.has_no_oddities();
        let pid = parent.report["source"]["pid"].as_u64().unwrap();

        let children = Recording::read_children(&place);
        assert_eq!(children.len(), 5, "{how}: {:?}", place.names());
        for child in &children {
            let counts = child.of_function("allocate_in_child");
            assert_eq!((counts.allocations, counts.frees, counts.live_bytes), (100, 90, 10_000), "{how}");
            assert_eq!(child.report["source"]["parent_pid"], pid, "{how}: {}", child.report["source"]);
        }
    }
}

#[test]
fn children_that_run_another_program_are_recorded_apart() {
    for how in ["vfork", "spawn", "exec"] {
        let place = Place::new();
        run(record(&place, &["--keep-children", "0"], programs::c("forks")).arg(how)).succeeded();
        let children = Recording::read_children(&place);
        let counts: Vec<u64> = children.iter().map(|child| child.of_function("be_a_child").allocations).collect();
        assert_eq!(counts.iter().filter(|&&count| count == 100).count(), 5, "{how}: {counts:?} {:?}", place.names());
        for child in children {
            let name = child.path.file_name().unwrap().to_str().unwrap().to_owned();
            let pid = child.report["source"]["pid"].as_u64().unwrap();
            assert!(name.starts_with(&format!("{pid}-forks")), "{name}");
        }
    }
}

#[test]
fn children_are_left_alone_when_asked_for() {
    for how in ["fork", "raw", "vfork", "spawn", "exec"] {
        let place = Place::new();
        run(record(&place, &["--no-children"], programs::c("forks")).arg(how)).succeeded();
        assert_eq!(place.names(), ["recording.hw"], "{how}");
        let recording = Recording::read(&place);
        assert_eq!(recording.of_function("be_a_child").allocations, 0, "{how}");
        recording.has_no_oddities();
    }
}

#[test]
fn the_environment_of_children_that_are_not_followed_is_what_it_would_be() {
    let place = Place::new();
    let program = programs::c("spawner");
    let sorted = |ended: Ended| {
        let mut lines: Vec<String> = ended.succeeded().stdout_text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for how in ["system", "fork", "spawn", "explicit", "cleared"] {
        for own in [None, Some(programs::library("ownpreload", "ownpreload", &[]))] {
            let prepare = |mut command: Command| {
                command.arg(how);
                if let Some(library) = &own {
                    command.env("LD_PRELOAD", library);
                }
                sorted(run(&mut command))
            };
            let alone = prepare(plain(&place, &program));
            let recorded = prepare(record(&place, &["--no-children"], &program));
            assert_eq!(recorded, alone, "{how}");
        }
    }
}

#[test]
fn followed_children_with_an_environment_of_their_own_run_as_they_would() {
    let place = Place::new();
    let program = programs::c("spawner");
    for how in ["explicit", "cleared"] {
        let ended = run(record(&place, &[], &program).arg(how)).succeeded();
        let said = ended.stdout_text();
        let own: Vec<&str> =
            said.lines().filter(|line| !line.starts_with("LD_PRELOAD=") && !line.starts_with("HIGHWATER")).collect();
        assert_eq!(own, if how == "explicit" { vec!["A=1", "LD_BIND_NOW=1", "B=2"] } else { vec![] }, "{how}");
    }
}

#[test]
fn two_hundred_thousand_threads_come_and_go() {
    let place = Place::new();
    let ended = run(record(&place, &[], programs::c("threads")).args(["many", "200000"])).succeeded();
    assert_eq!(ended.stdout_text(), "done\n");
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    let counts = recording.of_function("allocate_in_thread");
    assert_eq!((counts.allocations, counts.frees, counts.live_blocks), (400_000, 400_000, 0));
    assert_eq!(counts.allocated_bytes, 200_000 * 30);
    assert_eq!(counts.cross_thread_frees, 50_000);
}

#[test]
fn sixty_four_threads_at_once() {
    let place = Place::new();
    run(record(&place, &[], programs::c("threads")).args(["together", "64", "20000"])).succeeded();
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    let counts = recording.of_function("allocate_in_thread");
    assert_eq!((counts.allocations, counts.frees, counts.live_blocks), (1_280_000, 1_152_000, 128_000));
    let each: Vec<u64> = recording.report["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["allocations"].as_u64().unwrap())
        .filter(|&allocations| allocations == 20_000)
        .collect();
    assert_eq!(each.len(), 64);
}

#[test]
fn functions_that_several_threads_call_first_at_the_same_moment_do_not_fail() {
    let place = Place::new();
    let program = programs::c("firstcalls");
    for _ in 0..40 {
        let ended = run(&mut record(&place, &[], &program)).succeeded();
        assert_eq!(ended.stdout_text(), "done\n");
        let recording = Recording::read(&place);
        recording.has_no_oddities();
        let counts = recording.of_function("run");
        assert_eq!((counts.allocations, counts.frees), (9 * 4, 9 * 4), "eight blocks and a mapping each");
    }
}

#[test]
fn a_program_sees_and_closes_no_descriptors_but_its_own() {
    let place = Place::new();
    let program = programs::c("closefds");
    for how in ["one by one", "range"] {
        let alone = run(plain(&place, &program).arg(how)).succeeded().stdout_text();
        let recorded = run(record(&place, &[], &program).arg(how)).succeeded().stdout_text();
        assert_eq!(recorded, alone, "{how}");
        let recording = Recording::read(&place);
        recording.has_no_oddities();
        assert_eq!(recording.of_function("allocate_afterwards").allocations, 20_000, "{how}");
    }
}

#[test]
fn a_program_with_a_preload_of_its_own_keeps_it() {
    let place = Place::new();
    let own = programs::library("ownpreload", "ownpreload", &[]);
    let program = programs::c("preloaded");
    let alone = run(plain(&place, &program).env("LD_PRELOAD", &own)).succeeded().stdout_text();
    let recorded = run(record(&place, &[], &program).env("LD_PRELOAD", &own)).succeeded().stdout_text();
    assert_eq!((alone.as_str(), recorded.as_str()), ("1000\n", "1000\n"));
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    assert_eq!(recording.of_function("allocate_with_company").allocations, 1000);
    let early = recording.sites.iter().filter(|site| site.counts.allocated_bytes == 5555).count();
    assert_eq!(early, 1, "what it allocates before everything else");
}

#[test]
fn standard_input_output_and_arguments_are_the_programs_own() {
    let place = Place::new();
    let mut command = record(&place, &[], "sh");
    command.args(["-c", "cat; echo \"$0|$1|$2\" >&2; pwd", "--at", "peak", "two words"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through and\0through").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap()).succeeded();
    let expected = format!("through and\0through{}\n", fs::canonicalize(place.path()).unwrap().display());
    assert_eq!(ended.stdout_text(), expected);
    assert!(ended.stderr_text().starts_with("--at|peak|two words\n"), "{}", ended.stderr_text());
}

/// A file system with very little space, or `None` if none can be made.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Place) -> Option<Self> {
        let folder = place.file("small");
        fs::create_dir(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(&folder).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_but_not_the_program() {
    let place = Place::new();
    let expected = right_result(&place);
    let Some(disk) = SmallDisk::mount(&place) else {
        eprintln!("not tested: mounting a small file system needs root; the limit of a file's size is tested instead");
        return;
    };
    let ended = run(record(&place, &["-o", "small/full.hw"], programs::c("finisher")).arg(STEPS));
    assert_eq!(ended.stdout_text().lines().last(), Some(expected.as_str()), "{}", ended.stderr_text());
    assert_eq!(ended.status.code(), Some(42));
    assert!(ended.stderr_text().contains("No space left"), "{}", ended.stderr_text());
    let report = place.highwater("report small/full.hw --json");
    assert_eq!(report.code, 0, "what was written can be read: {}", report.stderr);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert!(report["recording"]["events"].as_u64().unwrap() > 10_000, "{}", report["recording"]);
    drop(disk);
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_recording_but_not_the_program() {
    let place = Place::new();
    let expected = right_result(&place);
    // The limit is inherited by the recorder and by the program, which writes no file.
    let line = format!(
        "ulimit -f 256; exec {HIGHWATER} record -o limited.hw -- {} {STEPS}",
        programs::c("finisher").display()
    );
    let ended = run(Command::new("sh").args(["-c", &line]).current_dir(place.path()));
    assert_eq!(ended.stdout_text().lines().last(), Some(expected.as_str()), "{}", ended.stderr_text());
    assert_eq!(ended.status.code(), Some(42), "{}", ended.stderr_text());
    // Only root can create shared memory in spite of the limit; other users get an error message.
    if !ended.stderr_text().contains("no memory to share") {
        let report = place.highwater("report limited.hw");
        assert_eq!(report.code, 0, "what was written can be read: {}", report.stderr);
    }
}

#[test]
fn a_static_program_is_refused_with_what_to_do() {
    let place = Place::new();
    let program = programs::c_as("dying", "dying-static", &["-static"]);
    let ended = run(record(&place, &[], &program).args(["return", "1", "1"]));
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(ended.stdout_text(), "", "it was not run");
    let said = ended.stderr_text();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.starts_with("highwater: ") && said.contains("statically linked") && said.contains("allocator"),
        "{said}"
    );
    assert!(!place.file("recording.hw").exists());
}

#[test]
fn a_program_that_is_not_there_or_is_no_program_is_said_in_a_line() {
    let place = Place::new();
    place.write("text", "just a text");
    let mut permissions = fs::metadata(place.file("text")).unwrap().permissions();
    permissions.set_mode(0o755);
    fs::set_permissions(place.file("text"), permissions).unwrap();
    place.write("not-executable", "#!/bin/sh\n");
    for (program, word) in [("no-such-program", "no-such-program"), ("./not-executable", "executable"), (".", ".")] {
        let ended = run(&mut record(&place, &[], program));
        assert!([1, 126, 127].contains(&ended.shell_status()), "{program}: {ended:?}");
        let said = ended.stderr_text();
        assert!(said.starts_with("highwater: ") && said.contains(word), "{program}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!place.file("recording.hw").exists(), "{program}");
    }
}

/// A copy of a program that belongs to the superuser.
fn put(place: &Place, file: &Path, mode: u32) -> PathBuf {
    let copy = place.file(file.file_name().unwrap().to_str().unwrap());
    copy_program(file, &copy);
    chown(&copy, Some(0), Some(0)).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).unwrap();
    copy
}

#[test]
fn a_program_that_changes_its_user_is_refused_with_what_to_do() {
    if !is_root() {
        eprintln!("not tested: only root can make a program that runs as root");
        return;
    }
    let public = Place::public();
    let highwater = put(&public, Path::new(HIGHWATER), 0o755);
    let program = put(&public, &programs::c("dying"), 0o4755);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(highwater);
    command
        .args(["record", "-o", "recording.hw", "--"])
        .arg(program)
        .args(["return", "1", "1"])
        .current_dir(public.path());
    let ended = run(&mut command);
    let said = ended.stderr_text();
    assert_eq!((ended.status.code(), ended.stdout_text().as_str()), (Some(1), ""), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("highwater: ") && said.contains("setuid"), "{said}");
}

#[test]
fn a_recorder_that_is_interrupted_passes_it_on_and_writes_what_it_has() {
    let place = Place::new();
    let waiting = Waiting::start(record(&place, &[], programs::c("finisher")));
    signal("TERM", waiting.recorder.id());
    let ended = waiting.end();
    assert_eq!(ended.shell_status(), 143, "{}", ended.stderr_text());
    let recording = Recording::read(&place);
    assert!(recording.totals().allocations > 500);
}

#[test]
fn a_recording_that_ends_before_its_program_does_leaves_it_running() {
    let place = Place::new();
    let expected = right_result(&place);
    let mut waiting = Waiting::start(record(&place, &["--duration", "100ms"], programs::c("finisher")));
    // The program waits for us, so the recording time is over before it continues.
    std::thread::sleep(std::time::Duration::from_millis(400));
    waiting.go_on();
    let ended = waiting.end();
    assert_eq!((ended.stdout_text(), ended.status.code()), (expected, Some(42)), "{}", ended.stderr_text());
    let recording = Recording::read(&place);
    let allocations = recording.totals().allocations;
    assert!((500..10_000).contains(&allocations), "{allocations}: the first bit of work, and not the rest");
}

#[test]
fn a_recording_that_cannot_be_written_or_read_changes_nothing_for_the_program() {
    let place = Place::new();
    for device in ["/dev/full", "/dev/null"] {
        let ended = run(record(&place, &["-o", device], programs::c("finisher")).arg(STEPS));
        assert_eq!(ended.status.code(), Some(42), "{device}: {}", ended.stderr_text());
        assert!(Path::new(device).exists(), "{device}");
    }
}
