//! Limits on programs while they are recorded: exit codes, children, measures of C programs, test suites of ctest and pytest, and our own memory.

mod support;

use highwater_model::{Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, ThreadId};
use highwater_store::Writer;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::recorded::{Ended, record, run};
use support::{HIGHWATER, Place, programs};

/// The code that a recorder gives for a verdict, and what it says.
fn judged(place: &Place, options: &[&str], program: &Path, arguments: &[&str]) -> (i32, String) {
    let ended = run(record(place, options, program).args(arguments));
    (ended.shell_status(), ended.stderr_text())
}

#[test]
fn a_program_that_breaks_a_limit_ends_with_1_and_its_own_failure_comes_first() {
    let place = Place::new();
    let toucher = programs::c("toucher");
    let limits = ["--max-peak", "4MiB"];
    let (code, said) = judged(&place, &limits, &toucher, &["3", "1", "1"]);
    assert!(code == 0 && said.ends_with("The limit is kept.\n"), "{said}");
    let (code, said) = judged(&place, &limits, &toucher, &["5", "1", "1"]);
    assert_eq!(code, 1, "{said}");
    let expected = [
        "broken  5.0 MiB  4.0 MiB  +1.0 MiB  peak\n",
        "main  ",
        "toucher.c:12",
        "peak: highwater view recording.hw --at peak\n",
    ];
    for text in expected {
        assert!(said.contains(text), "{text}: {said}");
    }
    // Without arguments the program fails by itself.
    let (code, said) = judged(&place, &["--max-allocations", "0"], &toucher, &[]);
    assert_eq!(code, 98, "{said}");
    // A signal does, too.
    let (code, said) = judged(&place, &["--max-peak", "1"], Path::new("/bin/sh"), &["-c", "kill -9 $$"]);
    assert!(code == 137 && said.contains("1 of 1 limit is not kept."), "{said}");
}

#[test]
fn each_child_is_judged_by_the_budget_of_its_name() {
    let place = Place::new();
    let (busy, toucher) = (programs::c("busy"), programs::c("toucher"));
    let script = format!("{} 0 10 0; {} 3 1 1; {} 2 1 1; exit 0", busy.display(), toucher.display(), toucher.display());
    let judge = |budget: &str| {
        place.write("highwater.toml", budget);
        judged(&place, &["--budget", "highwater.toml"], Path::new("/bin/sh"), &["-c", &script])
    };
    // Small children have limits as well: all of them are kept.
    let (code, said) = judge("[budget]\nmax-peak = \"1 MiB\"\n[budget.programs.toucher]\nmax-peak = \"3100 KiB\"\n");
    assert!(code == 0 && said.contains("All 4 limits are kept."), "{said}");
    let (code, said) = judge("[budget]\nmax-peak = \"2100 KiB\"\n");
    assert!(code == 1 && said.contains("1 of 4 limits is not kept."), "{said}");
    let (code, said) =
        judge("[budget.programs.toucher]\nmax-peak = \"1 MiB\"\n[budget.programs.absent]\nmax-peak = 1\n");
    assert!(code == 1 && said.contains("2 of 2 limits are not kept."), "{said}");
    assert!(said.contains("limits for 'absent', and no recorded process has this name; there are "), "{said}");
    // A name that no process has is a failure by itself.
    let (code, said) = judge("[budget]\nmax-peak = \"1 GiB\"\n[budget.programs.absent]\nmax-peak = 1\n");
    assert!(code == 1 && said.ends_with("but that is incomplete.\n"), "{said}");
    place.write("highwater.toml", "[budget.programs.toucher]\nmax-peak = \"1 MiB\"\n");
    let (code, said) = judged(&place, &["--budget", "highwater.toml"], Path::new("/bin/sh"), &["-c", &script]);
    assert!(code == 1 && said.contains("2 of 2 limits are not kept."), "{said}");
    // A file of the same name is judged again, with its children.
    let again = place.highwater("check recording.hw --budget highwater.toml");
    assert!(again.code == 1 && again.stdout.contains("2 of 2 limits are not kept."), "{again:?}");
}

/// What is broken is not lost among hundreds of children that keep their limits.
#[test]
fn many_children_that_keep_their_limits_are_summed_up() {
    let place = Place::new();
    let (busy, toucher) = (programs::c("busy"), programs::c("toucher"));
    let script =
        format!("for i in 1 2 3 4 5 6; do {} 0 10 0; done; {} 3 1 1; exit 0", busy.display(), toucher.display());
    let said = |limits: &[&str]| judged(&place, limits, Path::new("/bin/sh"), &["-c", &script]);
    let (code, all) = said(&["--max-peak", "1MiB"]);
    assert!(code == 1 && all.contains("1 of 8 limits is not kept."), "{all}");
    assert!(all.contains("\n6 more children keep all limits: busy (6)\n"), "{all}");
    let titles = |program: &str| all.lines().filter(|line| line.starts_with(&format!("{program} (pid "))).count();
    assert_eq!((titles("sh"), titles("toucher"), titles("busy")), (1, 1, 0), "{all}");
}

#[test]
fn children_that_are_not_recorded_are_in_the_verdict() {
    let place = Place::new();
    place.write("one.c", "#include <stdlib.h>\nint main(void) { return malloc(5000000) == 0; }\n");
    let mut compiler = Command::new("cc");
    run(compiler.args(["-static", "one.c", "-o", "all-in-one"]).current_dir(place.path())).succeeded();
    let script = format!("{}; exit 0", place.file("all-in-one").display());
    let judge = |options: &[&str]| judged(&place, options, Path::new("/bin/sh"), &["-c", &script]);
    let (code, said) = judge(&["--max-peak", "1MiB"]);
    let note = "not judged: 1 child not recorded: statically linked (all-in-one)\n";
    assert!(code == 0 && said.contains(note), "{said}");
    assert!(said.ends_with("The limit is kept by what was judged.\n"), "{said}");
    for format in ["text", "junit", "github", "gitlab", "json"] {
        let run = place.highwater(&format!("check recording.hw --max-peak 1MiB --format {format}"));
        assert!(
            run.code == 0 && run.stdout.contains("1 child not recorded: statically linked (all-in-one)"),
            "{run:?}"
        );
    }
    // One that has limits by name is not kept.
    place.write(
        "highwater.toml",
        "[budget]\nmax-peak = \"1 MiB\"\n[budget.programs.all-in-one]\nmax-peak = \"1 MiB\"\n",
    );
    let (code, said) = judge(&["--budget", "highwater.toml"]);
    assert!(code == 1 && said.contains("a process of this name was not recorded"), "{said}");
    let again = place.highwater("check recording.hw --budget highwater.toml");
    assert!(again.code == 1 && again.stdout.contains("a process of this name was not recorded"), "{again:?}");
    // Small children whose recordings are not kept.
    let (code, said) = judged(
        &place,
        &["--max-peak", "1GiB", "--keep-children", "1GiB"],
        Path::new("/bin/sh"),
        &["-c", "cat /dev/null; exit 0"],
    );
    assert!(
        code == 0 && said.contains("not judged: 1 child held less than 1.0 GiB at their peak and were not kept"),
        "{said}"
    );
}

#[test]
fn limits_need_a_recording_that_can_be_read() {
    let place = Place::new();
    for (line, code, part) in [
        ("record --max-peak 1G --stream 127.0.0.1:1 true", 2, "-o names it"),
        ("record --max-peak 1G -o /dev/null true", 1, "cannot be read again"),
    ] {
        let run = place.highwater(line);
        assert!(run.code == code && run.stderr.contains(part), "{line}: {run:?}");
    }
}

/// A folder with an example of the C library, copied so that what it builds is removed with it.
fn example(place: &Place, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clib/examples").join(name);
    let target = place.file(name);
    std::fs::create_dir(&target).unwrap();
    for entry in std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&entry, target.join(entry.file_name().unwrap())).unwrap();
    }
    target
}

/// The folder of the command, first in PATH.
fn path_with_command() -> String {
    let folder = Path::new(HIGHWATER).parent().unwrap().display();
    format!("{folder}:{}", std::env::var("PATH").unwrap())
}

fn output(command: &mut Command) -> Ended {
    Ended::of(command.env("PATH", path_with_command()).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn ctest_runs_the_example_with_its_budget() {
    let place = Place::new();
    let folder = example(&place, "ctest");
    let cmake = |arguments: &[&str]| {
        let mut command = Command::new("cmake");
        let description = support::c_library::prefix().join("lib/pkgconfig");
        command.args(arguments).current_dir(&folder).env("PKG_CONFIG_PATH", description);
        output(&mut command).succeeded()
    };
    cmake(&["-B", "build"]);
    cmake(&["--build", "build"]);
    let ctest = |leaks: bool| {
        let mut command = Command::new("ctest");
        command.args(["--test-dir", "build", "--output-on-failure"]).current_dir(&folder).env_remove("WORDS_LEAK");
        if leaks {
            command.env("WORDS_LEAK", "1");
        }
        output(&mut command)
    };
    let kept = ctest(false).succeeded().stdout_text();
    assert!(kept.contains("100% tests passed, 0 tests failed out of 2"), "{kept}");
    let broken = ctest(true);
    let said = broken.stdout_text();
    assert!(broken.shell_status() != 0 && said.contains("50% tests passed, 1 tests failed out of 2"), "{said}");
    for text in [
        "words_memory",
        "growth per iteration, from 'round' to 'round', 3 times",
        "blocks live at the end",
        "add  ",
        "words_test.c:",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
}

#[test]
fn pytest_runs_the_example_with_its_budget() {
    let place = Place::new();
    let folder = example(&place, "pytest");
    let pytest = |program: &[&str], leaks: bool| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        command
            .current_dir(&folder)
            .env_remove("LEAK")
            .envs([("PYTHONMALLOC", "malloc"), ("PYTHONDONTWRITEBYTECODE", "1")]);
        if leaks {
            command.env("LEAK", "1");
        }
        output(&mut command)
    };
    // Without a recorder nothing is measured.
    pytest(&["env"], true).succeeded();
    let recorded = [HIGHWATER, "record", "--force", "-o", "tests.hw", "--budget", "highwater.toml", "--"];
    let kept = pytest(&recorded, false).succeeded();
    assert!(kept.stdout_text().contains("2 passed") && kept.stderr_text().contains("All 3 limits are kept."));
    let broken = pytest(&recorded, true);
    let said = broken.stderr_text();
    assert!(broken.shell_status() == 1 && broken.stdout_text().contains("2 passed"), "{said}");
    assert!(said.contains("1 of 3 limits is not kept."), "{said}");
    assert!(said.contains("live at the end, in each 'test_parse'"), "{said}");
}

#[test]
fn the_headers_measures_need_no_library_and_do_nothing_without_a_recorder() {
    let place = Place::new();
    let source = place.write(
        "measure.c",
        "#define HIGHWATER_OPTIONAL\n#include <highwater.h>\n#include <stdlib.h>\n\
         int main(void) {\n  highwater_measure_begin(\"inner\"); free(malloc(1000)); highwater_measure_end(\"inner\");\n\
         \x20 highwater_measure_begin(NULL);\n  return 0;\n}\n",
    );
    let program = place.file("measure");
    let include = format!("-I{}", support::c_library::prefix().join("include").display());
    let mut compiler = Command::new("cc");
    let built = run(compiler.args(["-O2", "-g", "-fno-builtin"]).arg(include).arg(source).arg("-o").arg(&program));
    built.succeeded();
    run(&mut Command::new(&program)).succeeded();
    place.write(
        "highwater.toml",
        "[[budget.part]]\nmeasure = \"inner\"\nmax-peak = 1000\nmax-leaked-blocks = 0\nmax-allocations = 1\n",
    );
    let (code, said) = judged(&place, &["--budget", "highwater.toml"], &program, &[]);
    assert!(code == 0 && said.contains("All 3 limits are kept."), "{said}");
    place.write("highwater.toml", "[[budget.part]]\nmeasure = \"inner\"\nmax-peak = 999\nmax-allocations = 0\n");
    let (code, said) = judged(&place, &["--budget", "highwater.toml"], &program, &[]);
    assert!(code == 1 && said.contains("2 of 2 limits are not kept."), "{said}");
}

/// Writes a recording of blocks that 1,000 sites allocate and free, with 10,000 live at once.
fn long_recording(path: &Path, events: u64) {
    const SITES: u64 = 1_000;
    const LIVE: u64 = 10_000;
    const BATCH: u64 = 50_000;
    let mut catalog = Catalog::default();
    let stack = |site: u64, catalog: &mut Catalog| {
        let names = [format!("site_{site}"), format!("caller_{}", site % 40), "main".to_owned()];
        let frame = |name| FrameText {
            function: name,
            file: "/src/long.rs",
            line: 7,
            module: "/bin/long",
            ..FrameText::default()
        };
        catalog.intern_stack(&names.each_ref().map(|name| frame(name)))
    };
    let stacks: Vec<_> = (0..SITES).map(|site| stack(site, &mut catalog)).collect();
    let source = Source { program: "long".to_owned(), duration: Nanos(events), ..Source::default() };
    let mut writer = Writer::new(File::create(path).unwrap(), &source).unwrap();
    let address = |block: u64| (block % (2 * LIVE) + 1) << 12;
    let event = |at: u64| {
        let block = at / 2;
        let kind = match (at % 2, block.checked_sub(LIVE)) {
            (1, Some(old)) => EventKind::free(address(old), None),
            (1, None) => return None,
            _ => {
                let stack = stacks[(block % SITES) as usize];
                EventKind::Allocate(Placement {
                    address: address(block),
                    size: 64 + block % 512,
                    stack,
                    ..Placement::default()
                })
            }
        };
        Some(Event { time: Nanos(at), thread: ThreadId(1), kind })
    };
    for first in (0..events).step_by(BATCH as usize) {
        let batch: Vec<Event> = (first..(first + BATCH).min(events)).filter_map(event).collect();
        writer.append(&batch, &catalog).unwrap();
    }
    writer.finish(&catalog, &source).unwrap();
}

/// Our own commands keep a budget.
#[test]
fn reports_and_the_viewers_index_keep_their_own_budget() {
    let place = Place::new();
    long_recording(&place.file("long.hw"), 10_000_000);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/budgets");
    let judge = |budget: &str, arguments: &[&str]| {
        let mut command = Command::new(HIGHWATER);
        command
            .args(["record", "--force", "-o", "own.hw", "--no-mmap", "--rss-every", "off", "--budget"])
            .arg(folder.join(budget));
        command.arg("--").arg(HIGHWATER).args(arguments).current_dir(place.path()).stdin(Stdio::null());
        let ended = run(&mut command);
        assert_eq!(ended.shell_status(), 0, "{arguments:?}: {}", ended.stderr_text());
        println!("{arguments:?}: {}", ended.stderr_text());
    };
    judge("own-end.toml", &["report", "long.hw"]);
    judge("own.toml", &["report", "long.hw", "--at", "50%"]);
    long_recording(&place.file("shorter.hw"), 2_000_000);
    judge("own-index.toml", &["view", "shorter.hw", "--save", "page.html"]);
}
