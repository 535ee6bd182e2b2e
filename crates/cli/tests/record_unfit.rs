//! Programs that cannot be recorded, or that recording would harm: refused before they start. As children they are started without us, counted and
//! named.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::live::Collector;
use support::recorded::{Ended, Recording, plain, record, run};
use support::{HIGHWATER, Place, copy_program, programs};

/// The sanitizers of the compiler, and their names. A statically linked LeakSanitizer fails by itself.
const SANITIZED: [(&str, &[&str], &str); 5] = [
    ("address", &[], "AddressSanitizer"),
    ("leak", &[], "LeakSanitizer"),
    ("thread", &[], "ThreadSanitizer"),
    ("address", &["-static-libasan"], "AddressSanitizer"),
    ("thread", &["-static-libtsan"], "ThreadSanitizer"),
];

fn sanitized(place: &Place) -> Vec<(PathBuf, &'static str)> {
    let source = place.write(
        "sanitized.c",
        "#include <stdio.h>\n#include <stdlib.h>\n\
         int main(void) { char *p = malloc(100); p[0] = 1; printf(\"ran\\n\"); free(p); return 7; }\n",
    );
    let build = |(sanitizer, flags, name): (&str, &[&str], &'static str)| {
        let output = place.file(&format!("with-{sanitizer}{}", flags.len()));
        let mut compiler = Command::new("cc");
        compiler.arg(format!("-fsanitize={sanitizer}")).args(flags).arg(&source).arg("-o").arg(&output);
        assert!(compiler.status().unwrap().success(), "cc -fsanitize={sanitizer}");
        (output, name)
    };
    SANITIZED.into_iter().map(build).collect()
}

/// A script that runs these programs one after the other, and prints how each ended.
fn script(place: &Place, programs: &[PathBuf]) -> PathBuf {
    let lines: String =
        programs.iter().map(|program| format!("{}; echo \"ended with $?\"\n", program.display())).collect();
    place.write("all.sh", format!("{lines}exit 3\n"))
}

#[test]
fn sanitized_programs_are_refused_before_they_start() {
    let place = Place::new();
    for (program, sanitizer) in sanitized(&place) {
        let ended = run(&mut record(&place, &[], &program));
        assert_eq!((ended.shell_status(), ended.stdout_text().as_str()), (1, ""), "{}", program.display());
        assert!(ended.stderr_text().contains(&format!("is built with {sanitizer}")), "{}", ended.stderr_text());
        let live = Ended::of(place.command(["run".as_ref(), program.as_os_str()]).output().unwrap());
        assert!(live.stderr_text().contains(&format!("is built with {sanitizer}")), "{}", live.stderr_text());
    }
    assert!(!place.names().iter().any(|name| name.ends_with(".hw")), "{:?}", place.names());
}

/// A library can be built with a sanitizer, and the runtime loaded by hand.
#[test]
fn a_sanitizers_runtime_that_is_to_be_loaded_first_is_refused() {
    let place = Place::new();
    let mut command = record(&place, &[], "/bin/true");
    let ended = run(command.env("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libasan.so.8"));
    assert_eq!(ended.shell_status(), 1);
    assert!(ended.stderr_text().contains("AddressSanitizer"), "{}", ended.stderr_text());
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn sanitized_children_run_as_without_us_and_are_counted() {
    let place = Place::new();
    let programs: Vec<PathBuf> = sanitized(&place).into_iter().map(|(program, _)| program).collect();
    let script = script(&place, &programs);
    let bare = run(plain(&place, Path::new("/bin/sh")).arg(&script));
    let recorded = run(record(&place, &[], "/bin/sh").arg(&script));
    assert_eq!(recorded.stdout_text(), bare.stdout_text());
    assert_eq!(bare.stdout_text().matches("ran\nended with 7\n").count(), SANITIZED.len(), "{}", bare.stdout_text());
    assert_eq!((bare.stderr_text().as_str(), recorded.shell_status()), ("", 3));
    let said = recorded.stderr_text();
    for expected in [
        "2 children not recorded: AddressSanitizer (with-address0, with-address1)",
        "1 child not recorded: LeakSanitizer (with-leak0)",
        "2 children not recorded: ThreadSanitizer (with-thread0, with-thread1)",
    ] {
        assert!(said.contains(expected), "{said}");
        let report = place.highwater("report recording.hw");
        report.stdout_has(&[expected]);
        let notes = Recording::read(&place).report["source"]["notes"].to_string();
        assert!(notes.contains(expected), "{notes}");
    }
    assert!(!said.contains("Sanitizer:") && !said.contains("ld.so"), "{said}");
}

/// `cargo test` builds the examples; with `--test` it does not.
fn example(name: &str) -> PathBuf {
    let path = Path::new(HIGHWATER).parent().unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build -p highwater-cli --examples", path.display());
    path
}

fn stripped(place: &Place, program: &Path) -> PathBuf {
    let copy = place.file(&format!("{}-stripped", program.file_name().unwrap().to_str().unwrap()));
    assert!(Command::new("strip").arg("-o").arg(&copy).arg(program).status().unwrap().success());
    copy
}

#[test]
fn programs_with_an_allocator_linked_in_are_refused_with_its_name() {
    let place = Place::new();
    for allocator in ["jemalloc", "mimalloc"] {
        let program = example(&format!("on_{allocator}"));
        for program in [stripped(&place, &program), program] {
            for how in ["record", "run"] {
                let ended = Ended::of(place.command([how.as_ref(), program.as_os_str()]).output().unwrap());
                assert_eq!(
                    (ended.shell_status(), ended.stdout_text().as_str()),
                    (1, ""),
                    "{how} {}",
                    program.display()
                );
                let said = ended.stderr_text();
                assert!(said.contains(&format!("has {allocator} linked into it")), "{said}");
            }
        }
    }
}

#[test]
fn children_with_an_allocator_linked_in_are_counted_not_shown() {
    let place = Place::new();
    let jemalloc = stripped(&place, &example("on_jemalloc"));
    let script = script(&place, &[jemalloc, example("on_mimalloc"), "/bin/true".into()]);
    let recorded = run(record(&place, &["--keep-children", "0"], "/bin/sh").arg(&script));
    assert_eq!(recorded.stdout_text(), "100000\nended with 0\n100000\nended with 0\nended with 0\n");
    let said = recorded.stderr_text();
    assert!(said.contains("2 children not recorded: own allocator (on_jemalloc-stripped, on_mimalloc)"), "{said}");
    let children = place.file("recording.children");
    let kept: Vec<_> = fs::read_dir(children).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(kept.len() == 1 && kept[0].to_str().unwrap().ends_with("-true.hw"), "{kept:?}");
}

/// Every way in which a program starts another one, from C and from common languages and tools.
#[test]
fn all_ways_to_start_a_program_lead_past_us() {
    let place = Place::new();
    let sanitized = sanitized(&place);
    let (harmed, _) = &sanitized[0];
    let starter = programs::c("starter");
    let ways = [
        "execve",
        "execv",
        "execvp",
        "execvpe",
        "execl",
        "execlp",
        "execle",
        "fexecve",
        "posix_spawn",
        "posix_spawnp",
        "vfork",
        "system",
    ];
    for way in ways {
        let mut command = record(&place, &["-o", &format!("{way}.hw")], &starter);
        let path = format!("{}:/usr/bin:/bin", place.path().display());
        let ended = run(command.arg(way).arg(harmed).env("PATH", path));
        let (out, said) = (ended.stdout_text(), ended.stderr_text());
        assert_eq!(out, "ran\nchild ended with 7\n", "{way}: {said}");
        assert!(said.contains("1 child not recorded: AddressSanitizer (with-address0)"), "{way}: {said}");
        assert!(!said.contains("ASan"), "{way}: {said}");
    }
    // A program that can be recorded is recorded, with all its arguments and its environment.
    for way in ways {
        let mut command = record(&place, &["-o", &format!("{way}-env.hw"), "--keep-children", "0"], &starter);
        let ended = run(command.args([way, "/usr/bin/env"]));
        let (out, said) = (ended.stdout_text(), ended.stderr_text());
        assert!(out.contains("STARTER=is here\n") && out.ends_with("child ended with 0\n"), "{way}: {out}{said}");
        assert!(said.contains(" env ") && !said.contains("not recorded"), "{way}: {said}");
    }
}

#[test]
fn other_kinds_of_children_are_counted_too() {
    let place = Place::new();
    let source = place.write("nothing.c", "int main(void) { return 0; }\n");
    let static_one = place.file("all-in-one");
    assert!(Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&static_one).status().unwrap().success());
    // An ELF file for another processor, and one for another C library: the kernel cannot run the first, and the second's loader is not installed
    // here.
    let mut bytes = fs::read(&static_one).unwrap();
    bytes[18] = 183;
    let other = place.write("for-arm", &bytes);
    let make_executable = |path: &Path| {
        assert!(Command::new("chmod").arg("755").arg(path).status().unwrap().success());
    };
    make_executable(&other);
    let musl = place.file("with-musl");
    let loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    assert!(Command::new("cc").arg(loader).arg(&source).arg("-o").arg(&musl).status().unwrap().success());
    let script = script(&place, &[static_one.clone(), static_one, other, musl]);
    let recorded = run(record(&place, &[], "/bin/sh").arg(&script));
    let said = recorded.stderr_text();
    for expected in [
        "2 children not recorded: statically linked (all-in-one)",
        "1 child not recorded: for another processor (for-arm)",
        "1 child not recorded: for another C library than the GNU one (with-musl)",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn children_with_other_rights_or_another_root_print_nothing_of_ours() {
    let place = Place::new();
    if !rustix_is_root() {
        return eprintln!("skipped: only root can give up rights and change the root directory");
    }
    let jail = place.file("jail");
    copy_with_libraries(Path::new("/bin/true"), &jail);
    let script = place.write(
        "rights.sh",
        format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups /bin/ls -d /; echo $?\n\
             chroot {} /bin/true; echo $?\n\
             unshare --mount sh -c 'mount -t tmpfs none /tmp && exec /bin/ls -d /usr'; echo $?\n",
            jail.display()
        ),
    );
    let bare = run(plain(&place, Path::new("/bin/sh")).arg(&script));
    let recorded = run(record(&place, &["--keep-children", "0"], "/bin/sh").arg(&script));
    assert_eq!(bare.stdout_text(), "/\n0\n0\n/usr\n0\n", "{}", bare.stderr_text());
    assert_eq!(recorded.stdout_text(), bare.stdout_text());
    let said = recorded.stderr_text();
    assert!(!said.contains("ld.so"), "{said}");
    // A process that gave up rights can still reach us; a process with another root directory cannot.
    assert!(
        said.contains("2 children not recorded: run with other rights or another root directory (ls, true)"),
        "{said}"
    );
    assert!(said.lines().any(|line| line.contains(" ls ") && line.contains("-ls.hw")), "{said}");
}

fn rustix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Copies a program into another root directory, with the libraries that it needs.
fn copy_with_libraries(program: &Path, root: &Path) {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    for file in libraries.chain([program]) {
        let copy = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        copy_program(file, &copy);
    }
}

/// A live program's snapshot reports the programs that it started in the same way.
#[test]
fn a_snapshot_names_children_that_are_not_followed() {
    let collector = Collector::new();
    let place = Place::new();
    let (harmed, _) = &sanitized(&place)[0];
    let script = place.write(
        "stays.py",
        format!("import subprocess, sys\nsubprocess.run(['{}'])\nsys.stdin.read()\n", harmed.display()),
    );
    let mut command = collector.command(["run", "--quiet", "--", "/usr/bin/python3"]);
    let mut staying = command.arg(&script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(staying.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ran\n");
    let expected = "1 child not recorded: AddressSanitizer (with-address0)";
    let report = collector.json("snapshot --name python3");
    assert_eq!(report["source"]["notes"], serde_json::json!([expected]));
    let text = collector.highwater("snapshot --name python3").succeeded().stdout_text();
    assert!(text.contains(expected), "{text}");
    drop(staying.stdin.take());
    assert!(staying.wait().unwrap().success());
}
