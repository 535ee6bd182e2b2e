//! Programs that check themselves, attached to and detached from while they do what is hardest.

mod support;

use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use support::{Target, attach, births_and_deaths, changed_bytes, detach, our_mappings, program, variant};

fn cycles(target: &Target, count: usize) -> u32 {
    let mut mended = 0;
    for _ in 0..count {
        mended += attach(target.pid()).stop.mended;
        mended += detach(target.pid()).stop.mended;
    }
    mended
}

#[test]
fn every_kind_of_waiting_goes_on() {
    let mut target = Target::ready(Command::new(program("waits")).current_dir(std::env::temp_dir()));
    let mended = cycles(&target, 6);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(target.said(), Vec::<String>::new(), "nothing comes back although nothing has happened");
    assert!(mended > 50, "only {mended} system calls were begun again");
    assert!(target.child.try_wait().unwrap().is_none());
}

#[test]
fn a_stop_that_does_not_succeed_is_not_noticed() {
    let target = Target::ready(Command::new(program("waits")).current_dir(std::env::temp_dir()));
    let plan = highwater_attach::plan(target.pid()).unwrap();
    target.signal("USR1");
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap();
    while !state().contains(") D ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = plan.attach(&support::image(), &support::options(), |_, object| object.set_len(support::SHARED_BYTES));
    println!("{error:?}");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(target.said(), Vec::<String>::new(), "{error:?}");
    if error.is_ok() {
        detach(target.pid());
    }
    attach(target.pid());
    detach(target.pid());
    assert_eq!(changed_bytes(target.pid()), 0);
}

#[test]
fn a_thread_is_borrowed_in_every_kind_of_waiting() {
    let mut kind = 0;
    loop {
        let mut target = Target::start(Command::new(program("waits")).arg(kind.to_string()));
        let kinds: usize = target.wait_for("ready").split_once(' ').unwrap().1.parse().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        cycles(&target, 1);
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(target.said(), Vec::<String>::new(), "kind {kind}");
        assert!(target.child.try_wait().unwrap().is_none(), "kind {kind}");
        kind += 1;
        if kind == kinds {
            break;
        }
    }
    assert!(kind > 30);
}

#[test]
fn no_signal_is_lost_or_doubled() {
    let mut target = Target::ready(Command::new(program("signals")).arg("4000"));
    let mut rounds = 0;
    while target.child.try_wait().unwrap().is_none() {
        // It may end at any instant.
        let image = support::image();
        if let Ok(plan) = highwater_attach::plan(target.pid()) {
            let _ = plan.attach(&image, &support::options(), |_, object| object.set_len(support::SHARED_BYTES));
        }
        let _ = highwater_attach::detach(target.pid(), &support::detach_options());
        rounds += 1;
    }
    assert!(target.wait_for("done").contains("done 4000"));
    assert!(target.child.wait().unwrap().success());
    assert!(rounds > 0, "{rounds}");
}

#[test]
fn children_of_all_kinds_go_on() {
    for kind in ["0", "1", "2", "3"] {
        let mut target = Target::ready(Command::new(program("children")).arg(kind));
        for _ in 0..4 {
            let attached = attach(target.pid());
            // What it said before the attach is no sign of calls since.
            drop(target.said());
            target.wait_for("");
            target.wait_for("");
            wait_for_calls(&attached, 1);
            detach(target.pid());
            target.wait_for("");
        }
        assert_eq!(changed_bytes(target.pid()), 0, "kind {kind}");
    }
}

#[test]
fn a_program_that_ends_is_an_ordinary_answer() {
    for lifetime in 0..12_u64 {
        let mut target = Target::churn(2, 0);
        let pid = target.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(lifetime * 700));
            support::run("kill", &["-9", &pid.to_string()]);
        });
        let image = support::image();
        let began = std::time::Instant::now();
        if let Ok(plan) = highwater_attach::plan(pid) {
            let _ = plan.attach(&image, &support::options(), |_, object| object.set_len(support::SHARED_BYTES));
        }
        assert!(began.elapsed() < support::PATIENCE);
        killer.join().unwrap();
        target.child.wait().unwrap();
    }
}

#[test]
fn two_attachers_at_once_are_kept_apart() {
    let mut target = Target::churn(2, 2);
    let pid = target.pid();
    let other = std::thread::spawn(move || {
        for _ in 0..6 {
            support::attach(pid);
            let _ = highwater_attach::detach(pid, &support::detach_options());
        }
    });
    for _ in 0..6 {
        attach(pid);
        let _ = highwater_attach::detach(pid, &support::detach_options());
    }
    other.join().unwrap();
    target.check("after two attachers");
    while highwater_attach::detach(pid, &support::detach_options()).is_ok_and(|detached| !detached.is_unmapped) {}
    target.check("after the last detach");
    assert_eq!(changed_bytes(pid), 0);
}

#[test]
fn many_threads_are_stopped_and_released() {
    for threads in [50, 500] {
        let mut target = Target::churn(1, threads - 1);
        let attached = attach(target.pid());
        assert_eq!(attached.stop.threads, threads);
        println!("{threads} threads stopped for {:?}", attached.stop.pause);
        target.check("attached");
        let detached = detach(target.pid());
        println!("{threads} threads stopped for {:?} to detach", detached.stop.pause);
        target.check("detached");
    }
}

#[test]
fn descriptors_masks_and_folder_are_as_before() {
    let target = Target::churn(1, 2);
    let state = || {
        let mut descriptors: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", target.pid()))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        descriptors.sort();
        let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
        let masks: Vec<String> = status
            .lines()
            .filter(|line| {
                line.starts_with("Sig") && !line.starts_with("SigQ")
                    || line.starts_with("TracerPid")
                    || line.starts_with("Threads")
            })
            .map(str::to_owned)
            .collect();
        (descriptors, masks, std::fs::read_link(format!("/proc/{}/cwd", target.pid())).unwrap())
    };
    let before = state();
    attach(target.pid());
    assert_eq!(state(), before, "attached");
    detach(target.pid());
    assert_eq!(state(), before, "detached");
}

/// A `special` of this kind that is ready.
fn special(words: &[&str]) -> Target {
    Target::ready(Command::new(program("special")).args(words))
}

/// Waits until hooks have counted blocks.
fn wait_for_calls(attached: &highwater_attach::Attached, births: u64) {
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while births_and_deaths(attached).0 < births {
        assert!(std::time::Instant::now() < deadline, "its calls are not counted");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Who gets a signal at each stop.
static SIGNALLED: AtomicI32 = AtomicI32::new(0);

#[test]
fn a_signal_during_a_stop_ends_a_wait_as_it_would_without_us() {
    let mut target = special(&["epoll"]);
    std::thread::sleep(Duration::from_millis(50));
    SIGNALLED.store(target.pid(), Ordering::Relaxed);
    // Its program is within epoll_pwait, which is the only call that lets the signal come.
    let steps = highwater_attach::Steps::new(|name| {
        if name == "no thread is at a wrong place" {
            support::send(SIGNALLED.load(Ordering::Relaxed), libc::SIGUSR1);
        }
    });
    for _ in 0..5 {
        support::attach_with(target.pid(), &highwater_attach::AttachOptions { steps, ..support::options() }).unwrap();
        target.wait_for("interrupted");
        detach(target.pid());
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(target.said(), Vec::<String>::new());
    }
}

#[test]
fn a_signal_that_the_program_ignores_ends_no_wait() {
    let target = special(&["epoll"]);
    std::thread::sleep(Duration::from_millis(50));
    let pid = target.pid();
    let sender = std::thread::spawn(move || {
        for _ in 0..4000 {
            support::send(pid, libc::SIGWINCH);
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    while !sender.is_finished() {
        cycles(&target, 1);
    }
    sender.join().unwrap();
    assert_eq!(target.said(), Vec::<String>::new());
}

#[test]
fn the_object_is_not_inherited_and_in_no_core_dump() {
    let mut target = Target::churn(1, 0);
    let options = highwater_attach::AttachOptions { shared_bytes: 8 << 30, ..support::options() };
    let attached = highwater_attach::plan(target.pid()).unwrap().attach(&support::image(), &options, |_, _| Ok(()));
    let attached = attached.unwrap();
    let text = std::fs::read_to_string(format!("/proc/{}/smaps", target.pid())).unwrap();
    let (_, object) = text.split_once("/memfd:highwater").unwrap();
    let flags: Vec<&str> = object.split_once("VmFlags:").unwrap().1.lines().next().unwrap().split(' ').collect();
    assert!(flags.contains(&"dd") && flags.contains(&"dc"), "{flags:?}");
    let held = || std::os::unix::fs::MetadataExt::blocks(&attached.object.metadata().unwrap()) * 512;
    let before = held();
    support::run("prlimit", &["--pid", &target.pid().to_string(), "--core=unlimited"]);
    let folder = std::fs::read_link(format!("/proc/{}/cwd", target.pid())).unwrap();
    target.signal("ABRT");
    target.child.wait().unwrap();
    assert!(held() < before + (64 << 20), "the dump filled holes: {} bytes, then {}", before, held());
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let dump = ["core".to_owned(), format!("core.{}", target.pid())].map(|name| folder.join(name));
    match dump.iter().find(|path| path.exists()) {
        Some(path) if pattern.trim() == "core" => {
            let bytes = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap()) * 512;
            std::fs::remove_file(path).unwrap();
            assert!(bytes < 1 << 30, "a core of {bytes} bytes");
        }
        _ => println!("short: cores are not in the folder here ({})", pattern.trim()),
    }
}

#[test]
fn threads_of_io_uring_are_not_borrowed() {
    let mut target = Target::start(Command::new(program("special")).arg("uring"));
    if target.wait_for("") == "none" {
        println!("short: no io_uring here");
        return;
    }
    for round in 0..5 {
        let attached = attach(target.pid());
        assert!(attached.stop.threads >= 3, "the kernel's threads are threads of the process");
        target.signal("USR1");
        target.wait_for("done");
        assert!(births_and_deaths(&attached).0 > 0, "round {round}");
        detach(target.pid());
    }
    assert_eq!(changed_bytes(target.pid()), 0);
    target.signal("USR1");
    target.wait_for("done");
}

#[test]
fn a_process_whose_first_thread_has_ended() {
    let mut target = special(&["leader"]);
    let pid = target.pid();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !state().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..3 {
        let attached = attach(pid);
        wait_for_calls(&attached, 1);
        assert!(support::until_it_works(|| highwater_attach::has_leftover(pid)).unwrap());
        assert!(detach(pid).stop.changed > 0);
    }
    assert!(highwater_attach::walk_heap(pid, Duration::from_secs(2)).is_ok());
    support::send(pid, libc::SIGKILL);
    target.child.wait().unwrap();
}

#[test]
fn a_program_that_locks_its_memory() {
    let target = special(&["locked"]);
    let locked = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let before = locked();
    let options = highwater_attach::AttachOptions { shared_bytes: 1 << 30, ..support::options() };
    let attached =
        highwater_attach::plan(target.pid()).unwrap().attach(&support::image(), &options, |_, _| Ok(())).unwrap();
    wait_for_calls(&attached, 1000);
    assert!(locked() < before + 16 * 1024, "{before} KiB before, {} KiB attached", locked());
    detach(target.pid());
    assert_eq!(changed_bytes(target.pid()), 0);
}

#[test]
fn a_program_without_address_space_is_told_so_and_goes_on() {
    let mut target = Target::churn(1, 0);
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let bytes = size.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024 + (8 << 20);
    support::run("prlimit", &["--pid", &target.pid().to_string(), &format!("--as={bytes}")]);
    let options = highwater_attach::AttachOptions { shared_bytes: 1 << 40, ..support::options() };
    let error = support::attach_with(target.pid(), &options).unwrap_err().to_string();
    assert!(error.contains("mmap failed") && error.contains("ulimit -v"), "{error}");
    assert_eq!(our_mappings(target.pid()), Vec::<String>::new());
    target.check("after an attach that failed");
}

#[test]
fn a_program_in_a_root_of_its_own() {
    if !rustix::process::geteuid().is_root() {
        println!("short: only root can change the root");
        return;
    }
    let root = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("root");
    std::fs::create_dir_all(&root).unwrap();
    // With the libraries that it needs, which have other names from here.
    let text = Command::new("ldd").arg(program("special")).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(std::path::Path::new);
    for library in libraries {
        let copy = root.join(library.strip_prefix("/").unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        assert!(Command::new("cp").arg("-L").arg(library).arg(copy).status().unwrap().success());
    }
    assert!(Command::new("cp").arg(program("special")).arg(root.join("special")).status().unwrap().success());
    let mut target = Target::ready(Command::new("chroot").arg(&root).args(["/special", "threads"]));
    let attached = attach(target.pid());
    wait_for_calls(&attached, 1000);
    detach(target.pid());
    assert!(target.child.try_wait().unwrap().is_none());
}

#[test]
fn a_program_that_executes_itself_meanwhile() {
    let mut target = special(&["exec", "150"]);
    let image = support::image();
    let (mut attached, mut rounds) = (0, 0);
    while target.child.try_wait().unwrap().is_none() {
        rounds += 1;
        if let Ok(plan) = highwater_attach::plan(target.pid()) {
            let options = support::options();
            attached +=
                u32::from(plan.attach(&image, &options, |_, object| object.set_len(support::SHARED_BYTES)).is_ok());
        }
        let _ = highwater_attach::detach(target.pid(), &support::detach_options());
    }
    println!("{attached} of {rounds} rounds came to an end before an exec");
    target.wait_for("done");
    assert!(target.child.wait().unwrap().success());
}

#[test]
fn libraries_that_are_unloaded_all_the_time() {
    let library = variant("late.so", "late", &["-shared", "-fPIC"]);
    let mut target = special(&["unloads", library.to_str().unwrap()]);
    for _ in 0..20 {
        attach(target.pid());
        drop(target.said());
        target.wait_for("went on");
        detach(target.pid());
        target.wait_for("went on");
    }
    assert_eq!(changed_bytes(target.pid()), 0);
}

#[test]
fn what_another_version_left_is_restored_and_stays_mapped() {
    use std::os::unix::fs::FileExt;
    let mut target = Target::churn(2, 0);
    let attached = attach(target.pid());
    let memory = std::fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", target.pid())).unwrap();
    let image = attached.header.image;
    let read = std::fs::File::open(format!("/proc/{}/mem", target.pid())).unwrap();
    let mut word = [0; 8];
    // The header's offset in the head of the image, and the version in the header.
    read.read_exact_at(&mut word, image + 48).unwrap();
    let version = image + u64::from_le_bytes(word) + 8;
    memory.write_all_at(&2_u64.to_le_bytes(), version).unwrap();
    let refusal = support::until_it_works(|| Ok(highwater_attach::plan(target.pid())?)).unwrap_err();
    let is_named = matches!(
        refusal,
        highwater_attach::AttachError::Refused(highwater_attach::Refusal::OtherVersion { version: 2, .. })
    );
    assert!(is_named, "{refusal}");
    let detached = detach(target.pid());
    assert!(detached.stop.changed > 0 && !detached.is_unmapped, "its functions are restored, its memory is not known");
    assert_eq!(changed_bytes(target.pid()), 0);
    target.check("after another version was detached");
}
