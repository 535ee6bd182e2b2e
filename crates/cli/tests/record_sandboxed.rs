//! Programs that install a seccomp filter: a system call of the agent could kill them, so recording ends before, and says so.

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use support::live::Collector;
use support::recorded::{Ended, Recording, plain, record, run};
use support::{Place, programs};

#[test]
fn a_filter_ends_the_recording_and_not_the_program() {
    let place = Place::new();
    let program = programs::c("sandboxed");
    for how in ["prctl", "together", "busy", "strict", "vfork"] {
        for sampling in [&[][..], &["--sample", "4KiB"]] {
            let bare = run(plain(&place, &program).arg(how));
            let file = format!("{how}{}.hw", sampling.len());
            let options = [&["-o", &file], sampling].concat();
            let recorded = run(record(&place, &options, &program).arg(how));
            let said = recorded.stderr_text();
            assert!(bare.stdout_text().contains(if how == "strict" { "strict 4950" } else { "filtered" }), "{how}");
            let status = (recorded.status.code(), recorded.stdout_text());
            assert_eq!(status, (bare.status.code(), bare.stdout_text()), "{how} {sampling:?}: {said}");
            assert!(said.contains("installed a seccomp filter"), "{how} {sampling:?}: {said}");
            let recording = Recording::read_file(&place, &file);
            let notes = recording.report["source"]["notes"].to_string();
            assert!(notes.contains("when the program installed a seccomp filter"), "{notes}");
            if sampling.is_empty() {
                // Blocks allocated before are recorded, also after a call that only queried.
                let main = recording.of_function("main");
                assert!(main.allocations >= 2 && main.allocated_bytes >= 11_000, "{how}: {main:?}");
            }
        }
    }
}

#[test]
fn a_live_program_with_a_filter_is_reported_as_such() {
    let collector = Collector::new();
    let place = Place::new();
    let bare = run(plain(&place, &programs::c("sandboxed")).arg("prctl"));
    let mut command = collector.command(["run", "--quiet", "--"]);
    command.arg(programs::c("sandboxed")).arg("prctl");
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(
        (ended.status.code(), ended.stdout_text()),
        (bare.status.code(), bare.stdout_text()),
        "{}",
        ended.stderr_text()
    );
    // A program that keeps running: its table no longer shows what it holds.
    let script =
        place.write("stays.py", format!("{FILTER}import sys\nprint('filtered', flush=True)\nsys.stdin.read()\n"));
    let mut command = collector.command(["run", "--quiet", "--", "/usr/bin/python3"]);
    let mut staying = command.arg(&script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(staying.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "filtered\n");
    let snapshot = collector.highwater("snapshot --name python3");
    assert_ne!(snapshot.shell_status(), 0);
    assert!(snapshot.stderr_text().contains("it installed a seccomp filter"), "{}", snapshot.stderr_text());
    let listed = collector.highwater("ps").stdout_text();
    assert!(listed.contains("refused") && listed.contains("it installed a seccomp filter"), "{listed}");
    drop(staying.stdin.take());
    assert!(staying.wait().unwrap().success());
}

/// Python that installs a filter which allows everything.
const FILTER: &str = "import ctypes\n\
    libc = ctypes.CDLL(None)\n\
    text = ctypes.create_string_buffer(bytes([0x06,0,0,0,0,0,0xff,0x7f]), 8)\n\
    class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]\n\
    program = Program(1, ctypes.cast(text, ctypes.c_void_p))\n\
    assert libc.prctl(38, 1, 0, 0, 0) == 0\n\
    assert libc.prctl(22, 2, ctypes.byref(program)) == 0\n";

/// Programs started under a filter start without the agent: it would make calls that the filter does not foresee.
#[test]
fn programs_that_are_started_under_a_filter_begin_without_us() {
    let place = Place::new();
    let start = "import subprocess\n\
        print(subprocess.run(['/bin/sh', '-c', 'echo ${LD_PRELOAD:-none}'], stdout=subprocess.PIPE).stdout.decode().strip())\n";
    let script = place.write("filtered.py", format!("{FILTER}{start}"));
    let recorded = run(record(&place, &["--keep-children", "0"], "/usr/bin/python3").arg(&script));
    assert_eq!(recorded.stdout_text(), "none\n", "{}", recorded.stderr_text());
    let said = recorded.stderr_text();
    assert!(said.contains("1 child not recorded: under a seccomp filter (sh)"), "{said}");
}
