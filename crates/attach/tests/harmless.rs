//! Programs that check themselves, attached to and detached from while they do what is hardest.

mod support;

use std::process::Command;
use std::time::Duration;
use support::{Target, attach, births_and_deaths, changed_bytes, detach, program};

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
            assert!(births_and_deaths(&attached).0 > 0, "kind {kind}");
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
