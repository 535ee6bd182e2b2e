//! The file of a program that records itself: its owner, and what it says about the program. The test runs itself, since a program can be recorded
//! once.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater_store::Recording;
use std::alloc::System;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

const CHILD: &str = "OWN_FILE_CHILD";
const SECRET: &str = "open-sesame-4711";

#[test]
fn the_file_is_its_owners_and_leaves_arguments_out_if_asked() {
    if let Some(path) = std::env::var_os(CHILD) {
        if std::env::var_os("BY_CALL").is_some() {
            highwater::leave_out_arguments();
        }
        highwater::record_to(path).unwrap();
        drop(std::hint::black_box(vec![0u8; 100]));
        return highwater::stop_recording().unwrap();
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("own-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (precious, path) = (folder.join("precious"), folder.join("app.hw"));
    std::fs::write(&precious, "precious").unwrap();
    for (variable, value, leaves_out) in [
        ("UNUSED", "1", false),
        ("HIGHWATER_NO_ARGS", "", false),
        ("HIGHWATER_NO_ARGS", "1", true),
        ("BY_CALL", "1", true),
    ] {
        let _ = std::fs::remove_file(&path);
        symlink(&precious, &path).unwrap();
        let name = "the_file_is_its_owners_and_leaves_arguments_out_if_asked";
        let mut child = Command::new(std::env::current_exe().unwrap());
        // Names of tests: one that exists, and one that does not.
        child.args([name, SECRET]).env(CHILD, &path).env(variable, value);
        assert!(child.output().unwrap().status.success());
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        assert!(!path.is_symlink());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0);
        let source = Recording::open(&path).unwrap().source().clone();
        assert!(!source.program.is_empty() && source.command.len() == if leaves_out { 1 } else { 3 }, "{source:?}");
        assert_eq!(source.command.iter().any(|word| word == SECRET), !leaves_out, "{variable}: {source:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
