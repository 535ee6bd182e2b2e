//! The C library: what it installs, and programs that are linked with it in every way. `record_exact.rs` compares their recordings with their own counts.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::c_library::{Linked, prefix};
use support::live::{Collector, function_in, wait_for};
use support::recorded::{Ended, Recording, plain, record, run};
use support::{HIGHWATER, Place, programs};

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn all_files_are_installed_below_another_root_too() {
    let place = Place::new();
    place.run(["c-library", "--prefix", "/opt/hw", "--root", "package"]).stdout_has(&["package/opt/hw/lib"]);
    let base = place.file("package/opt/hw");
    for file in ["include/highwater.h", "lib/libhighwater.a", "lib/libhighwater.so", "lib/libhighwater.so.0"] {
        assert!(base.join(file).is_file(), "{file}");
    }
    let description = std::fs::read_to_string(base.join("lib/pkgconfig/highwater.pc")).unwrap();
    assert!(description.starts_with("prefix=/opt/hw\n"), "{description}");
    let again = place.run(["c-library", "--prefix", "/opt/hw", "--root", "package"]);
    assert_eq!(again.code, 0, "files are replaced: {}", again.stderr);
    assert_eq!(std::fs::read_dir(base.join("lib")).unwrap().count(), 4, "nothing is left beside them");
}

#[test]
fn a_prefix_that_cannot_be_used_is_refused() {
    let place = Place::new();
    let refused = place.run(["c-library", "--prefix", "/with a blank"]);
    refused.is_one_clear_line_about(&["/with a blank", "pkg-config"]);
    let file = place.write("file", "");
    let refused = place.run(["c-library".as_ref(), "--prefix".as_ref(), file.as_os_str()]);
    refused.is_one_clear_line_about(&["cannot be installed"]);
}

#[test]
fn the_header_is_c99_and_every_cpp() {
    let place = Place::new();
    let include = format!("-I{}", prefix().join("include").display());
    let source = "#include <highwater.h>\nint main(void) { return highwater_state(); }\n";
    place.write("header.c", source);
    place.write("header.cpp", source);
    for (compiler, standard, file) in
        [("cc", "-std=c99", "header.c"), ("c++", "-std=c++98", "header.cpp"), ("c++", "-std=c++20", "header.cpp")]
    {
        // The standard of 1998 has no 64-bit numbers; every compiler has.
        let strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-long-long", "-fsyntax-only"];
        output_of(Command::new(compiler).arg(standard).args(strict).arg(&include).arg(file).current_dir(place.path()));
    }
}

/// The names that a program gets from a library.
fn names(library: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let listed = output_of(Command::new("nm").args(arguments).arg(library));
    let name = |line: &str| line.split_whitespace().last().map(|name| name.split('@').next().unwrap().to_owned());
    listed.lines().filter(|line| line.split_whitespace().count() >= 3).filter_map(name).collect()
}

/// Functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(prefix().join("include/highwater.h")).unwrap();
    let declarations = header.lines().filter(|line| line.ends_with(");"));
    let name = |line: &str| line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned();
    declarations.map(name).collect()
}

#[test]
fn the_libraries_define_the_headers_functions_and_what_they_replace_and_nothing_else() {
    let hooks = "malloc free calloc realloc reallocarray memalign aligned_alloc posix_memalign valloc pvalloc free_sized \
                 free_aligned_sized mmap mmap64 munmap mremap mprotect pkey_mprotect madvise brk sbrk \
                 prctl syscall";
    let hooks: BTreeSet<String> = hooks.split_whitespace().map(str::to_owned).collect();
    let lib = prefix().join("lib");

    let mut shared: BTreeSet<String> = declared().union(&hooks).cloned().collect();
    shared.extend(["dlclose", "pthread_setname_np"].map(str::to_owned));
    assert!(declared().len() > 8, "{:?}", declared());
    assert_eq!(names(&lib.join("libhighwater.so"), &["-D", "--defined-only"]), shared);

    let mut defined = names(&lib.join("libhighwater.a"), &["--extern-only", "--defined-only"]);
    // Rust's names have a hash.
    defined.retain(|name| !name.starts_with("_ZN"));
    // Words of each thread, which are hidden in what is linked.
    let hidden = ["highwater_thread", "highwater_countdown", "highwater_looking_up", "highwater_current_task"]
        .map(str::to_owned);
    let archive: BTreeSet<String> = declared()
        .into_iter()
        .chain(hooks.iter().map(|name| format!("__wrap_{name}")))
        .chain(hooks.iter().cloned())
        .chain(hidden)
        .collect();
    assert_eq!(defined, archive);
}

#[test]
fn without_a_collector_or_a_recorder_programs_run_as_always() {
    for linked in Linked::ALL {
        let place = Place::new();
        let program = linked.c("linked");
        for arguments in [&["off"][..], &["live"], &["record", "never.hw"]] {
            let nobody = place.file("nobody.sock");
            let mut command = plain(&place, &program);
            command.args(arguments).env("HIGHWATER_SOCKET", nobody).env("PATH", place.path());
            let ended = run(&mut command).succeeded();
            assert_eq!(ended.stderr_text(), "", "{linked:?} {arguments:?}");
        }
        assert_eq!(place.names(), Vec::<String>::new(), "{linked:?}");
    }
}

/// A program whose input stays open, and the first line that it prints.
struct Waiting {
    child: Child,
    line: serde_json::Value,
}

impl Waiting {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: '{line}'"));
        Self { child, line }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn live_programs_register_and_their_snapshots_have_every_block() {
    let collector = Collector::new();
    for linked in Linked::ALL {
        let place = Place::new();
        let mut command = plain(&place, &linked.c("linked"));
        let waiting =
            Waiting::start(command.args(["live", "with-collector"]).env("HIGHWATER_SOCKET", collector.socket()));
        let (blocks, bytes) = (waiting.line["blocks"].as_u64().unwrap(), waiting.line["bytes"].as_u64().unwrap());
        let pid = waiting.child.id();
        assert_eq!(collector.process(pid)["state"], "live", "{linked:?}");
        assert_eq!(collector.function(pid, "hold"), (blocks, bytes), "{linked:?}");
        let kept = collector.json("snapshots");
        let kept: Vec<_> =
            kept["snapshots"].as_array().unwrap().iter().filter(|snapshot| snapshot["pid"] == pid).collect();
        let names: Vec<_> = kept.iter().map(|snapshot| snapshot["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["ten held", "more held"], "{linked:?}");
        let first = place.file("first.hw");
        let id = kept[0]["id"].as_u64().unwrap();
        collector.highwater(&format!("snapshots get {id} -o {}", first.display())).succeeded();
        let report = place.json("report first.hw --by function");
        assert_eq!(function_in(&report, "hold"), (10, 50_000), "{linked:?}");
        waiting.end();
    }
}

#[test]
fn a_collector_that_starts_later_finds_a_static_program() {
    let mut collector = Collector::new();
    let place = Place::new();
    let mut command = plain(&place, &Linked::Static.c("linked"));
    let waiting = Waiting::start(command.args(["live", "with-collector"]).env("HIGHWATER_SOCKET", collector.socket()));
    collector.restart();
    let pid = waiting.child.id();
    wait_for("the program", || collector.process(pid)["state"] == "live");
    assert_eq!(collector.function(pid, "hold").0, waiting.line["blocks"].as_u64().unwrap());
    waiting.end();
}

#[test]
fn run_keeps_a_table_of_a_static_program_from_its_first_block() {
    let collector = Collector::new();
    let mut command = collector.command(["run", "-q"]);
    command.arg(Linked::Static.c("holder"));
    let mut holder = support::live::Holder::start(command);
    let pid = holder.pid;
    assert_eq!(holder.holds("keep 1000 100"), (1000, 100_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (1000, 100_000));
    assert_eq!(holder.holds("grow"), (1000, 200_000));
    assert_eq!(holder.holds("drop 400"), (600, 120_000));
    assert_eq!(collector.function(pid, "grow_blocks"), (600, 120_000));
    // The C library allocates before main: those blocks are known, so no free is of an unknown one.
    collector.highwater(&format!("set --pid {pid} --sample 2KiB")).succeeded();
    assert_eq!(holder.holds("drop 600"), (0, 0));
    assert_eq!(collector.function(pid, "grow_blocks"), (0, 0));
    holder.kill();
}

/// The linker must not drop the library because the program's own objects do not need it.
#[test]
fn a_program_that_calls_neither_malloc_nor_us_is_recorded() {
    for linked in [Linked::Shared, Linked::Static] {
        let place = Place::new();
        let mut flags = linked.flags();
        flags.insert(0, "-Wl,--as-needed".to_owned());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let program = programs::cpp_as("strings", &format!("strings-{linked:?}"), &flags);
        let wanted = b"highwater_version";
        let bytes = std::fs::read(&program).unwrap();
        assert!(bytes.windows(wanted.len()).any(|part| part == wanted), "{linked:?}: the library is in it");
        let run = place.run(["record".as_ref(), "-o".as_ref(), "strings.hw".as_ref(), program.as_os_str()]);
        assert_eq!(run.code, 0, "{linked:?} {}", run.stderr);
        let report =
            place.json("report strings.hw --metric allocations --filter size:101..107 --filter inside:equal:main");
        assert_eq!(report["totals"]["allocations"], 1000, "{linked:?}");
    }
}

#[test]
fn a_program_that_records_itself_has_a_whole_file_at_its_end() {
    for linked in Linked::ALL {
        let place = Place::new();
        place.write("self.hw", "replaced");
        let mut command = plain(&place, &linked.c("linked"));
        let ended = run(command.args(["record", "self.hw"]).env("HIGHWATER_COMMAND", HIGHWATER)).succeeded();
        assert_eq!(ended.stderr_text(), "", "{linked:?}");
        assert_eq!(ended.json()["allocations"], 10);
        // Complete as soon as the program has ended: nothing has to be waited for.
        place.highwater("check self.hw").stdout_has(&["sound"]);
        let recording = Recording::read_file(&place, "self.hw");
        recording.has_no_oddities();
        let hold = recording.of_function("hold");
        assert_eq!((hold.allocations, hold.live_blocks), (11, 8), "{linked:?}");
        for (mark, live) in [("ten held", 10), ("eight held", 8)] {
            let then = Recording::read_at(&place, "self.hw", &format!("mark:{mark}"));
            assert_eq!(then.of_function("hold").live_blocks, live, "{linked:?} {mark}");
        }
        let tasks = place.json("report self.hw --by task");
        let four = tasks["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "first four").unwrap();
        assert_eq!([&four["allocations"], &four["live_bytes"]], [4, 2 * 5000], "{linked:?}");
        assert_eq!(place.names(), ["self.hw"], "{linked:?}");
    }
}

/// The processes whose parent is not the program but whose command line names it.
fn recorders_of(pid: u32) -> Vec<i32> {
    let is_recorder = |process: &i32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        words.contains(&&b"recorder"[..]) && words.contains(&pid.to_string().as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_recorder).collect()
}

#[test]
fn a_program_goes_on_when_its_recorder_is_killed() {
    for linked in Linked::ALL {
        let place = Place::new();
        let mut command = plain(&place, &linked.c("linked"));
        let waiting = Waiting::start(command.args(["record", "self.hw"]).env("HIGHWATER_COMMAND", HIGHWATER));
        let recorders = recorders_of(waiting.child.id());
        assert_eq!(recorders.len(), 1, "{linked:?}");
        output_of(Command::new("kill").arg("-9").arg(recorders[0].to_string()));
        wait_for("the end of the recorder", || recorders_of(waiting.child.id()).is_empty());
        waiting.end();
    }
}

#[test]
fn a_program_that_is_killed_leaves_a_whole_recording() {
    let place = Place::new();
    let mut command = plain(&place, &Linked::Static.c("linked"));
    let mut waiting = Waiting::start(command.args(["record", "self.hw"]).env("HIGHWATER_COMMAND", HIGHWATER));
    let pid = waiting.child.id();
    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    wait_for("the recorder", || recorders_of(pid).is_empty());
    place.highwater("check self.hw").stdout_has(&["sound"]);
    assert_eq!(Recording::read_file(&place, "self.hw").of_function("hold").live_blocks, 8);
}

#[test]
fn what_cannot_be_recorded_is_an_error_number_and_nothing_else() {
    const NO_SUCH_FILE: i32 = 2;
    const IS_A_DIRECTORY: i32 = 21;
    let place = Place::new();
    std::fs::create_dir(place.file("folder")).unwrap();
    let program = Linked::Static.c("linked");
    for (file, command, number) in [
        ("self.hw", "/nowhere/highwater", NO_SUCH_FILE),
        ("/nowhere/self.hw", HIGHWATER, NO_SUCH_FILE),
        ("folder", HIGHWATER, IS_A_DIRECTORY),
        ("self.hw", "/bin/true", NO_SUCH_FILE),
    ] {
        let ended = run(plain(&place, &program).args(["record", file]).env("HIGHWATER_COMMAND", command)).succeeded();
        assert_eq!(ended.json()["error"], number, "{file} {command}");
        assert_eq!(ended.stderr_text(), "", "{file} {command}");
    }
    assert_eq!(place.names(), ["folder"]);
}

#[test]
fn the_examples_do_what_they_say() {
    let collector = Collector::new();
    for linked in Linked::ALL {
        let place = Place::new();
        let cache = linked.example("cache.c", place.path());
        let alone = run(plain(&place, &cache).env("HIGHWATER_SOCKET", place.file("nobody.sock"))).succeeded();
        let kept = run(plain(&place, &cache).env("HIGHWATER_SOCKET", collector.socket())).succeeded();
        let said = "2000 blocks allocated, 1000 freed, ";
        assert!(alone.stdout_text().starts_with(said), "{linked:?}: {}", alone.stdout_text());
        assert_eq!(alone.stdout_text(), kept.stdout_text(), "{linked:?}");
        assert!(alone.stderr_text().contains("no snapshot 'filled': Transport endpoint is not connected"));
        assert_eq!(kept.stderr_text(), "");

        let phases = linked.example("phases.cpp", place.path());
        let ended = run(plain(&place, &phases).env("HIGHWATER_COMMAND", HIGHWATER)).succeeded();
        assert_eq!((ended.stdout_text().as_str(), ended.stderr_text().as_str()), ("134 documents\n", ""), "{linked:?}");
        let live = |mark: &str| Recording::read_at(&place, "phases.hw", mark).totals().live_blocks;
        // Each document has a node in the map with a title, a title of its own, its weights, and itself.
        assert_eq!(live("mark:loaded") - live("mark:reduced"), 66 * 5, "{linked:?}");
    }
    let snapshots = collector.json("snapshots");
    let names: Vec<_> = snapshots["snapshots"].as_array().unwrap().iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("filled"), Some("half forgotten")].repeat(3));
}

/// Under `highwater record` the functions of the header act on that recording, whichever library does the work.
#[test]
fn marks_reach_the_recording_of_the_command() {
    for linked in Linked::ALL {
        let place = Place::new();
        let phases = linked.example("phases.cpp", place.path());
        let ended = run(&mut record(&place, &[], &phases)).succeeded();
        assert!(ended.stderr_text().contains("not recorded: Device or resource busy"), "{}", ended.stderr_text());
        place.highwater("info recording.hw").stdout_has(&["loaded", "reduced"]);
        Recording::read(&place).has_no_oddities();
    }
}

/// A program that can do without the library, in C and in C++: without it, and linked with it in each way.
fn optional_programs(linked: Option<Linked>) -> [PathBuf; 2] {
    let mut flags = linked.map_or_else(|| vec![format!("-I{}", prefix().join("include").display())], Linked::flags);
    if let Some(Linked::Archive) = linked {
        // Compilers drop a block that nothing needs, and with it the last call that the linker would need the archive for.
        flags.insert(0, "-Wl,-u,highwater_version".to_owned());
    }
    let flags: Vec<&str> =
        ["-Wall", "-Wextra", "-Werror"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let name = linked.map_or_else(|| "alone".to_owned(), |linked| format!("{linked:?}"));
    [
        programs::c_as("optional", &format!("optional-{name}"), &flags),
        programs::cpp_as("optional", &format!("optional-cpp-{name}"), &flags),
    ]
}

#[test]
fn optional_functions_do_nothing_without_the_library_and_a_recorder() {
    const ENOSYS: i32 = 38;
    let place = Place::new();
    for program in optional_programs(None) {
        let said = run(plain(&place, &program).arg("self.hw").env("HIGHWATER_COMMAND", HIGHWATER)).succeeded().json();
        for (key, nothing) in [("in_program", 0), ("state", 0), ("task", 0)] {
            assert_eq!(said[key], nothing, "{key}: {said}");
        }
        assert_eq!(said["version"], "");
        for key in ["record", "live", "live_with", "snapshot", "stats", "thread_stats", "stop"] {
            assert_eq!(said[key], ENOSYS, "{key}: {said}");
        }
        assert_eq!(place.names(), Vec::<String>::new());
    }
}

#[test]
fn optional_functions_are_the_librarys_if_it_is_linked() {
    const EBUSY: i32 = 16;
    for linked in Linked::ALL {
        for program in optional_programs(Some(linked)) {
            let place = Place::new();
            let without = run(plain(&place, &program).arg("self.hw").env("HIGHWATER_COMMAND", "/nowhere/highwater"));
            let said = without.succeeded().json();
            assert_eq!([&said["in_program"], &said["state"], &said["record"]], [1, 0, 2], "no command: {said}");
            let said =
                run(plain(&place, &program).arg("self.hw").env("HIGHWATER_COMMAND", HIGHWATER)).succeeded().json();
            assert_eq!([&said["record"], &said["live"], &said["stop"]], [0, EBUSY, 0], "{linked:?}: {said}");
            assert_eq!(said["version"], env!("CARGO_PKG_VERSION"), "{linked:?}");
            let info = place.highwater("info self.hw");
            info.stdout_has(&["inner:begin", "inner:end", "after"]);
        }
    }
}

#[test]
fn optional_functions_reach_the_recording_of_the_command() {
    const EBUSY: i32 = 16;
    for linked in [None].into_iter().chain(Linked::ALL.map(Some)) {
        for program in optional_programs(linked) {
            let place = Place::new();
            let said = run(record(&place, &[], &program).arg("self.hw")).succeeded().json();
            assert_eq!([&said["in_program"], &said["state"], &said["task"]], [1, 1, 1], "{linked:?}: {said}");
            assert_eq!(said["record"], EBUSY, "{linked:?}: {said}");
            place.highwater("info recording.hw").stdout_has(&["inner:begin", "inner:end", "after"]);
            assert!(!place.file("self.hw").exists());
        }
    }
}

#[test]
fn forked_children_of_linked_programs_are_recorded_apart() {
    for (linked, how) in Linked::ALL.iter().flat_map(|linked| ["fork", "raw"].map(|how| (linked, how))) {
        let place = Place::new();
        run(record(&place, &["--keep-children", "0"], linked.c("forks")).arg(how)).succeeded();
        let parent = Recording::read(&place);
        assert_eq!(parent.of_function("allocate_in_child").allocations, 0, "{linked:?} {how}");
        parent.has_no_oddities();
        let children = Recording::read_children(&place);
        assert_eq!(children.len(), 5, "{linked:?} {how}: {:?}", place.names());
        for child in &children {
            let counts = child.of_function("allocate_in_child");
            assert_eq!((counts.allocations, counts.frees, counts.live_bytes), (100, 90, 10_000), "{linked:?} {how}");
        }
    }
}

#[test]
fn linked_programs_that_a_linked_program_starts_are_recorded_apart() {
    for (linked, how) in Linked::ALL.iter().flat_map(|linked| ["vfork", "spawn", "exec"].map(|how| (linked, how))) {
        let place = Place::new();
        let program = linked.c("forks");
        run(record(&place, &["--keep-children", "0"], &program).arg(how)).succeeded();
        let children = Recording::read_children(&place);
        let counts: Vec<u64> = children.iter().map(|child| child.of_function("be_a_child").allocations).collect();
        assert_eq!(counts.iter().filter(|&&count| count == 100).count(), 5, "{linked:?} {how}: {counts:?}");
        run(record(&place, &["--no-children", "-o", "one.hw"], &program).arg(how)).succeeded();
        assert!(!place.file("one.children").exists(), "{linked:?} {how}");
    }
}

/// The exit status and output of a program, without numbers of processes and threads.
fn seen(ended: Ended) -> (i32, Vec<String>) {
    let is_number = |line: &&str| line.bytes().all(|byte| byte.is_ascii_digit());
    let text = ended.stdout_text();
    let lines = text.lines().filter(|line| !is_number(line)).filter_map(|line| line.split("\"threads\"").next());
    (ended.shell_status(), lines.map(str::to_owned).collect())
}

#[test]
fn linked_programs_do_what_they_would() {
    let place = Place::new();
    let lines = place.write("lines", format!("short\n{}\n", "x".repeat(999)));
    let lines = lines.to_str().unwrap();
    let mut all = vec![
        ("finisher", vec!["100000"]),
        ("threads", vec!["many", "2000"]),
        ("threads", vec!["together", "64", "2000"]),
        ("firstcalls", vec![]),
        ("counting", vec![lines]),
        ("mapping", vec![lines]),
    ];
    all.extend(
        ["return", "exit", "_exit", "abort", "segv", "term", "exec"].map(|how| ("dying", vec![how, "5000", "500"])),
    );
    all.extend(["fork", "raw", "vfork", "spawn", "threads"].map(|how| ("forks", vec![how])));
    for (name, arguments) in all {
        let native = seen(run(plain(&place, &programs::c(name)).args(&arguments)));
        for linked in [Linked::Archive, Linked::Static] {
            let program = linked.c(name);
            let alone = seen(run(plain(&place, &program).args(&arguments)));
            assert_eq!(alone, native, "{linked:?} {name} {arguments:?}");
            for options in [&[][..], &["--sample", "2KiB"], &["--no-children", "--no-mmap"]] {
                let recorded = seen(run(record(&place, options, &program).args(&arguments)));
                assert_eq!(recorded, native, "{linked:?} {name} {arguments:?} {options:?}");
            }
        }
    }
}

/// A filter that kills for any system call which the program did not foresee.
#[test]
fn a_static_program_may_install_a_seccomp_filter() {
    let place = Place::new();
    for how in ["prctl", "together", "busy", "strict", "vfork"] {
        let native = run(plain(&place, &programs::c("sandboxed")).arg(how));
        assert!(native.stdout_text().contains(if how == "strict" { "strict 4950" } else { "filtered" }), "{how}");
        for command in [
            &mut record(&place, &[], Linked::Static.c("sandboxed")),
            &mut plain(&place, &Linked::Static.c("sandboxed")),
        ] {
            let linked = run(command.arg(how));
            assert_eq!((linked.shell_status(), linked.stdout), (native.shell_status(), native.stdout.clone()), "{how}");
        }
    }
}

/// A program that is preloaded starts one that contains the library: it is recorded by its own, once.
#[test]
fn linked_children_of_other_programs_are_recorded() {
    for linked in Linked::ALL {
        let place = Place::new();
        let lines = place.write("lines", format!("short\n{}\n", "x".repeat(999)));
        let program = linked.c("counting");
        let line = format!("{} {}; true", program.display(), lines.display());
        let ended =
            run(record(&place, &["--keep-children", "0", "--no-mmap"], "/bin/sh").args(["-c", &line])).succeeded();
        let told = ended.json()["totals"]["allocations"].as_u64().unwrap();
        let children = Recording::read_children(&place);
        let named: Vec<&Recording> =
            children.iter().filter(|child| child.of_function("leave_behind").allocations == 25).collect();
        assert_eq!(named.len(), 1, "{linked:?}: {}", ended.stderr_text());
        named[0].has_no_oddities();
        let seen = named[0].totals().allocations;
        assert!((told..told + 40).contains(&seen), "{linked:?}: {seen} of {told}");
    }
}

/// A static program that was linked without the options runs as always, and says why nothing is seen.
#[test]
fn a_static_program_without_the_linkers_options_is_told_about() {
    let place = Place::new();
    let lib = format!("-L{}", prefix().join("lib").display());
    let include = format!("-I{}", prefix().join("include").display());
    let program = programs::c_as("linked", "linked-without", &["-static", &include, &lib, "-lhighwater"]);
    run(plain(&place, &program).arg("off")).stdout_text();
    let ended = run(&mut record(&place, &[], &program));
    assert!(ended.stderr_text().contains("the program itself is not recorded"), "{}", ended.stderr_text());
    let live = run(plain(&place, &program).arg("live"));
    assert!(live.stderr_text().contains("highwater_live()) == 0"), "{}", live.stderr_text());
}
