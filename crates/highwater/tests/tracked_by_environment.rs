//! An unchanged program: the environment says where its objects are reported.

use highwater::{Track, objects};
use std::process::Command;

/// The part that runs in a separate process.
#[test]
fn child() {
    if std::env::var_os("TRACKED_CHILD").is_some() {
        let kept = vec![0u8; 50].tracked();
        drop(String::from("gone").tracked());
        objects::mark("end");
        std::mem::forget(kept);
    }
}

fn run(wanted: &str) -> (bool, String) {
    let program = std::env::current_exe().expect("this program has a file");
    let mut command = Command::new(program);
    command.args(["--exact", "child", "--nocapture"]).env("TRACKED_CHILD", "1").env("HIGHWATER_OBJECTS", wanted);
    let output = command.output().expect("this program runs");
    (output.status.success(), String::from_utf8(output.stderr).expect("text"))
}

fn births_drops_and_marks(log: &str) -> [usize; 3] {
    ["@ ALLOCATE ", "@ DROP ", "@ MARK end"].map(|verb| log.lines().filter(|line| line.starts_with(verb)).count())
}

#[test]
fn the_environment_names_a_file_or_standard_error() {
    let path = std::env::temp_dir().join(format!("highwater-environment-{}.log", std::process::id()));
    let (succeeded, _) = run(path.to_str().expect("text"));
    let log = std::fs::read_to_string(&path).expect("the log is written");
    std::fs::remove_file(&path).expect("the log is there");
    assert!(succeeded);
    assert_eq!(births_drops_and_marks(&log), [2, 1, 1], "{log}");
    assert!(log.lines().next().is_some_and(|line| line.ends_with(" 0")), "ids start at 0: {log}");
    let (succeeded, log) = run("stderr");
    assert!(succeeded);
    assert_eq!(births_drops_and_marks(&log), [2, 1, 1], "{log}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_and_the_program_runs() {
    let (succeeded, said) = run("/nowhere/at/all.log");
    assert!(succeeded);
    assert!(said.contains("highwater: HIGHWATER_OBJECTS=/nowhere/at/all.log: "), "{said}");
    assert_eq!(births_drops_and_marks(&said), [0, 0, 0]);
}

/// The allocator of this program is not [`highwater::Alloc`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_program_without_our_allocator_leaves_no_file() {
    let path = std::env::temp_dir().join(format!("highwater-not-ours-{}.hw", std::process::id()));
    let mut command = Command::new(std::env::current_exe().expect("this program has a file"));
    let ran = command.args(["--exact", "child"]).env("HIGHWATER_RECORD", &path).output().expect("this program runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("highwater::Alloc is not the global allocator"), "{said}");
    assert!(!path.exists());
}
