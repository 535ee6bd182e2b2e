//! Programs with more rights than the user who started them, and listeners of other users: no file is written, and no other user receives data.
//!
//! Needs root: a copy of this program is made setuid, and started as another user.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use std::alloc::System;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can make a program setuid for this test");
    }
    root
}

/// A directory that every user can enter, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("highwater-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
        Self(path)
    }

    /// A copy of this program, with these permissions.
    ///
    /// `cp` makes it: while this process had it open for writing, a test on another thread could start a process, and
    /// that would hold the file open too ("Text file busy").
    fn program(&self, mode: u32) -> PathBuf {
        let copy = self.0.join(format!("program-{mode:o}"));
        let this = std::env::current_exe().expect("this program has a file");
        assert!(Command::new("cp").arg(this).arg(&copy).status().expect("cp runs").success());
        fs::set_permissions(&copy, Permissions::from_mode(mode)).expect("ours");
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs one of the parts below in a separate process.
fn part(program: &Path, name: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", name, "--ignored", "--nocapture"]).current_dir("/");
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Becomes live, and allocates, with all its rights: a setuid program may make them its own.
#[test]
#[ignore = "runs in a process of its own"]
fn lives() {
    let begun = highwater::live();
    std::hint::black_box(vec![1u8; 1000]);
    println!("runs as {}, live: {}", rustix::process::geteuid().as_raw(), begun.is_ok());
}

/// Listens at `LISTEN` as long as its standard input is open, and prints what it receives.
#[test]
#[ignore = "runs in a process of its own"]
fn listens() {
    use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let path = std::env::var_os("LISTEN").expect("a path");
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).expect("a socket");
    bind(&socket, &SocketAddrUnix::new(Path::new(&path)).expect("short enough")).expect("bound");
    listen(&socket, 8).expect("listening");
    fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("ours");
    println!("listening");
    let mut input = std::io::stdin();
    let ends = std::thread::spawn(move || std::io::copy(&mut input, &mut std::io::sink()));
    let mut heard = 0;
    loop {
        let ended = ends.is_finished();
        while let Ok(connection) = rustix::net::accept(&socket) {
            println!("connected");
            let mut message = [0; 64];
            if let Ok((bytes @ 1.., _)) = rustix::net::recv(&connection, &mut message[..], RecvFlags::empty()) {
                heard += 1;
                println!("heard {bytes} bytes");
            }
        }
        if ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("heard {heard} messages");
}

/// Runs `program` while a listener of this user is at the socket that `HIGHWATER_SOCKET` names. Returns the output of both.
fn with_listener(folder: &Folder, user: u32, program: &mut Command) -> (String, String) {
    let place = folder.0.join(format!("of-{user}"));
    fs::create_dir_all(&place).expect("a folder");
    chown(&place, Some(user), Some(user)).expect("given away");
    let socket = place.join("socket");
    let mut listener = part(&folder.program(0o755), "listens");
    listener.env("LISTEN", &socket).stdin(Stdio::piped()).stdout(Stdio::piped()).uid(user).gid(user);
    let mut listener = listener.spawn().expect("the listener runs");
    let began = Instant::now();
    while fs::symlink_metadata(&socket).map_or(true, |about| about.permissions().mode() & 0o777 != 0o777) {
        assert!(began.elapsed() < Duration::from_secs(30), "the listener does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ran = program.env("HIGHWATER_SOCKET", &socket).output().expect("the program runs");
    drop(listener.stdin.take());
    let heard = listener.wait_with_output().expect("the listener ends");
    let _ = fs::remove_file(&socket);
    (text(&ran), text(&heard))
}

#[test]
fn a_setuid_program_writes_no_file_that_its_environment_names() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("setuid-record");
    let secret = folder.0.join("secret");
    fs::write(&secret, "of root").expect("written");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("ours");
    let new = folder.0.join("new");
    for variable in ["HIGHWATER_RECORD", "HIGHWATER_OBJECTS"] {
        for path in [&secret, &new] {
            let mut command = part(&folder.program(0o4755), "lives");
            let ran = command.env(variable, path).uid(NOBODY).gid(NOBODY).output().expect("it runs");
            assert!(text(&ran).contains("runs as 0"), "the copy is not setuid here: {}", text(&ran));
            assert_eq!(fs::read(&secret).expect("still there"), b"of root", "{variable}");
            assert!(!new.exists(), "{variable}");
        }
    }
}

#[test]
fn a_setuid_program_does_not_go_where_its_environment_says() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("setuid-socket");
    let mut program = part(&folder.program(0o4755), "lives");
    let (ran, heard) = with_listener(&folder, NOBODY, program.uid(NOBODY).gid(NOBODY));
    assert!(ran.contains("runs as 0, live: true"), "{ran}");
    assert!(heard.contains("heard 0 messages") && !heard.contains("connected"), "{heard}");
}

#[test]
fn only_a_listener_of_the_same_user_or_of_root_gets_anything() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("listeners");
    // A listener of another user: the program may connect to it, but sends nothing.
    let (ran, heard) = with_listener(&folder, NOBODY, &mut part(&folder.program(0o755), "lives"));
    assert!(ran.contains("runs as 0, live: true") && heard.contains("heard 0 messages"), "{ran}{heard}");
    // A listener of its own user, and one of root.
    for listens_as in [0, NOBODY] {
        let mut program = part(&folder.program(0o755), "lives");
        let (ran, heard) = with_listener(&folder, listens_as, program.uid(NOBODY).gid(NOBODY));
        assert!(ran.contains("runs as 65534, live: true") && heard.contains("heard 1 messages"), "{ran}{heard}");
    }
}

#[test]
fn no_file_is_made_where_recording_cannot_begin() {
    let folder = std::env::temp_dir().join(format!("highwater-uncertain-{}", std::process::id()));
    fs::create_dir(&folder).expect("a new folder");
    let missing = folder.join("missing/file.hw");
    assert_eq!(highwater::record_to(&missing).map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    highwater::live().expect("it can be live");
    // A live program cannot be recorded as well.
    let kept = folder.join("kept.hw");
    fs::write(&kept, "what was there before").expect("written");
    assert!(highwater::record_to(&kept).is_err());
    assert!(highwater::record_to(folder.join("new.hw")).is_err());
    assert_eq!(fs::read(&kept).expect("still there"), b"what was there before");
    assert!(!folder.join("new.hw").exists());
    fs::remove_dir_all(&folder).expect("ours");
}
