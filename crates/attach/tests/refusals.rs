//! What cannot be attached to without harm is refused, in words, and goes on.

mod support;

use highwater_attach::{AttachError, Refusal, plan};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{PATIENCE, Target, attach, attach_with, changed_bytes, detach, options, our_mappings, program, variant};

fn refused(pid: i32) -> Refusal {
    let refusal = plan(pid).expect_err("it cannot be attached to");
    let text = refusal.to_string();
    println!("{text}");
    assert!(!text.contains('\n') && text.len() < 300, "{text}");
    refusal
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn processes_that_are_none() {
    assert!(matches!(refused(i32::MAX - 1), Refusal::NoSuchProcess(_)));
    assert!(matches!(refused(std::process::id() as i32), Refusal::Myself(_)));
    assert!(matches!(refused(2), Refusal::KernelThread(2) | Refusal::NoSuchProcess(2)));
    let mut zombie = Command::new("true").spawn().unwrap();
    let pid = zombie.id() as i32;
    let deadline = std::time::Instant::now() + PATIENCE;
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(matches!(refused(pid), Refusal::Zombie(_)));
    zombie.wait().unwrap();
}

#[test]
fn stopped_and_traced_processes() {
    let mut target = Target::churn(1, 1);
    target.signal("STOP");
    std::thread::sleep(Duration::from_millis(50));
    assert!(matches!(refused(target.pid()), Refusal::StoppedBySignal(_)));
    target.signal("CONT");
    target.check("continued");

    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok() {
        let mut tracer = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-e", "trace=none", "-p", &target.pid().to_string()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            match plan(target.pid()) {
                Err(Refusal::Traced { tracer_name, .. }) => {
                    assert_eq!(tracer_name, "strace");
                    break;
                }
                _ => assert!(std::time::Instant::now() < deadline),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        tracer.kill().unwrap();
        tracer.wait().unwrap();
    }
    attach(target.pid());
    detach(target.pid());
    target.check("in the end");
}

#[test]
fn programs_without_an_allocator_that_can_be_found() {
    let stripped = variant("kinds_stripped", "kinds", &["-static", "-s"]);
    let target = Target::ready(&mut Command::new(stripped));
    assert!(matches!(refused(target.pid()), Refusal::NoAllocator(_)));

    if Command::new("go").arg("version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join("main.go"),
            "package main\nimport (\"fmt\"; \"time\")\nfunc main() { fmt.Println(\"ready\"); time.Sleep(time.Hour) }\n",
        )
        .unwrap();
        let built = Command::new("go")
            .args(["build", "-o", "pure", "main.go"])
            .current_dir(&folder)
            .env("CGO_ENABLED", "0")
            .env("GO111MODULE", "off")
            .status()
            .unwrap();
        assert!(built.success());
        let target = Target::ready(&mut Command::new(folder.join("pure")));
        assert!(matches!(refused(target.pid()), Refusal::Go(_)));
    }
}

#[test]
fn filters_are_asked_before_a_call_is_made() {
    if !is_root() {
        println!("short: only root can read filters");
        return;
    }
    for (kind, call) in [("1", Some("memfd_create")), ("2", Some("memfd_create")), ("3", Some("mmap")), ("4", None)] {
        let mut target = Target::ready(Command::new(program("sandbox")).arg(kind));
        std::thread::sleep(Duration::from_millis(50));
        match (attach_with(target.pid(), &options()), call) {
            (Ok(_), None) => drop(detach(target.pid())),
            (Err(AttachError::Refused(Refusal::Seccomp { call: refused, .. })), Some(call)) => {
                assert_eq!(refused, call)
            }
            (other, _) => panic!("kind {kind}: {other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(target.child.try_wait().unwrap().is_none(), "kind {kind}");
    }
    // A thread that is not the one that maps the agent.
    let mut target = Target::ready(Command::new(program("sandbox")).arg("6"));
    match attach_with(target.pid(), &options()) {
        Err(AttachError::Refused(Refusal::Seccomp { call: "gettid", .. })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!((changed_bytes(target.pid()), our_mappings(target.pid())), (0, Vec::new()));
    assert!(target.child.try_wait().unwrap().is_none());
    // A thread that was stopped to ask its filter does not notice.
    let target = Target::ready(Command::new(program("sandbox")).arg("7"));
    std::thread::sleep(Duration::from_millis(50));
    assert!(attach_with(target.pid(), &options()).is_err());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(target.said(), Vec::<String>::new());
    let target = Target::ready(Command::new(program("sandbox")).arg("5"));
    std::thread::sleep(Duration::from_millis(100));
    assert!(matches!(refused(target.pid()), Refusal::StrictSeccomp(_)));
}

#[test]
fn a_process_that_shares_its_memory_with_another() {
    for kind in ["0", "1"] {
        let mut target = Target::start(Command::new(program("shared")).arg(kind));
        let other: i32 = target.wait_for("ready").split_once(' ').unwrap().1.parse().unwrap();
        for (pid, its) in [(target.pid(), other), (other, target.pid())] {
            match refused(pid) {
                Refusal::SharedMemory { other, .. } => assert_eq!(other, its, "kind {kind}"),
                refusal => panic!("kind {kind}: {refusal}"),
            }
        }
        support::send(other, libc::SIGKILL);
    }
}

#[test]
fn a_sanitizer_that_is_linked_into_the_program() {
    let source = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("sanitizer.c");
    std::fs::write(&source, "int main() { return 0; }").unwrap();
    let words = ["-fsanitize=address", "-static-libasan", "-o", "/dev/null", source.to_str().unwrap()];
    if !Command::new("cc").args(words).stderr(Stdio::null()).status().unwrap().success() {
        println!("short: no sanitizer here");
        return;
    }
    let target = Target::ready(&mut Command::new(variant("kinds_asan", "kinds", &[words[0], words[1]])));
    assert!(matches!(refused(target.pid()), Refusal::OtherTool { .. }));
}

#[test]
fn limits_of_the_target_are_named() {
    let mut target = Target::ready(&mut Command::new(program("kinds")));
    support::run("prlimit", &["--pid", &target.pid().to_string(), "--nofile=3:3"]);
    let error = attach_with(target.pid(), &options()).unwrap_err();
    assert!(error.to_string().contains("memfd_create"), "{error}");
    assert_eq!(our_mappings(target.pid()), Vec::<String>::new(), "what the script had mapped stays");
    assert!(target.child.try_wait().unwrap().is_none());
    target.signal("USR1");
    target.wait_for("begin");
    target.signal("USR1");
    target.wait_for("end");
}

#[test]
fn a_process_of_32_bits() {
    let source = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("narrow.s");
    // A program that sleeps: `pause` for ever.
    std::fs::write(&source, ".globl _start\n_start: mov $29, %eax\n int $0x80\n jmp _start\n").unwrap();
    let (object, linked) = (source.with_extension("o"), source.with_extension("elf"));
    support::run("as", &["--32", "-o", object.to_str().unwrap(), source.to_str().unwrap()]);
    support::run("ld", &["-m", "elf_i386", "-o", linked.to_str().unwrap(), object.to_str().unwrap()]);
    match Command::new(&linked).spawn() {
        Ok(mut child) => {
            std::thread::sleep(Duration::from_millis(50));
            assert!(matches!(refused(child.id() as i32), Refusal::Bits32(_)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        Err(error) => println!("short: this kernel runs no programs of 32 bits ({error})"),
    }
}

#[test]
fn processes_in_namespaces_of_their_own() {
    let works = Command::new("unshare").args(["-Urpfmni", "true"]).status().is_ok_and(|status| status.success());
    if !works {
        println!("short: no namespaces here");
        return;
    }
    let mut outer = Target::ready(Command::new("unshare").args(["-Urpfmni", "--kill-child"]).arg(program("kinds")));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.pid())).unwrap();
    let inner: i32 = children.trim().parse().unwrap();
    let attached = attach(inner);
    assert_eq!(attached.header.process, 1, "its number in its own namespace");
    support::run("kill", &["-USR1", &inner.to_string()]);
    outer.wait_for("begin");
    support::run("kill", &["-USR1", &inner.to_string()]);
    outer.wait_for("end");
    assert!(support::births_and_deaths(&attached).0 > 9000);
    detach(inner);
}

/// Runs this test binary as another user, and says what it answers.
#[test]
fn a_process_of_another_user_and_one_that_is_not_dumpable() {
    if !is_root() {
        println!("short: only root can become another user");
        return;
    }
    let target = Target::churn(1, 0);
    let copy = std::env::temp_dir().join(format!("highwater-refusals-{}", std::process::id()));
    // Not by this process: another test may start a program while it is open for writing, which would keep it busy.
    assert!(Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status().unwrap().success());
    let output = Command::new(&copy)
        .args(["says", "--exact", "--nocapture", "--ignored"])
        .env("SAYS", target.pid().to_string())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    std::fs::remove_file(&copy).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("belongs to user 0, you are user 65534"),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "a part of the test above"]
fn says() {
    let Ok(pid) = std::env::var("SAYS") else { return };
    println!("{}", plan(pid.parse().unwrap()).unwrap_err());
}
