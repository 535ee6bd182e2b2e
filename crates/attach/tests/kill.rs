//! The attacher is killed at every step and at random moments. The target must neither die nor hang, and can be attached to and detached from again.
//!
//! `HIGHWATER_ATTACH_KILLS=1000` makes that many random kills.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;
use support::{
    Target, attach, attacher, attacher_command, births_and_deaths, changed_bytes, complaint, detach, our_mappings,
    step_file,
};

#[test]
fn attacher_process() {
    support::attacher_process();
}

fn last_step(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().last().unwrap_or("before the first").to_owned()
}

/// The target goes on, and takes part in an attach and a detach as if nothing had been.
fn is_unharmed(target: &mut Target, when: &str) {
    target.check(when);
    let attached = attach(target.pid());
    target.check(&format!("attached again {when}"));
    assert!(births_and_deaths(&attached).0 > 0, "nothing was counted {when}");
    detach(target.pid());
    target.check(&format!("detached {when}"));
    assert_eq!(changed_bytes(target.pid()), 0, "{when}");
}

/// Kills at step 1, 2, 3 … until the attacher comes to its end.
fn at_every_step(what: &str, whom: &str) {
    let least = if what == "walk" { 5 } else { 10 };
    let (mut step, mut ended_early) = (1, 0);
    while step < 200 {
        let mut target = Target::churn(1 + step % 3, step % 2);
        if what != "attach" {
            attach(target.pid());
        }
        let steps = step_file();
        let mut child = attacher(what, target.pid(), &steps, Some((step, whom)));
        let status = child.wait().unwrap();
        let when = format!("after {what} was killed ({whom}) at step {step}, {}", last_step(&steps));
        let taken = fs::read_to_string(&steps).unwrap_or_default().lines().count();
        if taken < step && whom == "all" {
            assert!(status.success(), "{when}: {}", complaint(child.stderr.take()));
        }
        is_unharmed(&mut target, &when);
        let _ = fs::remove_file(&steps);
        if taken >= step {
            step += 1;
        } else if step > least {
            return;
        } else {
            // On a busy machine threads may not stop in time, and it gives up.
            ended_early += 1;
            assert!(ended_early < 20, "it has more steps: {step}");
        }
    }
    panic!("an attacher without end");
}

/// There is room for a few scripts only.
#[test]
fn scripts_of_many_attachers_that_were_killed_do_not_fill_all_places() {
    let mut target = Target::churn(1, 1);
    let steps = step_file();
    assert!(attacher("attach", target.pid(), &steps, None).wait().unwrap().success());
    detach(target.pid());
    let taken = fs::read_to_string(&steps).unwrap();
    let step = 1 + taken.lines().position(|line| line == "the script is written").unwrap();
    for _ in 0..7 {
        let _ = fs::remove_file(&steps);
        let mut child = attacher("attach", target.pid(), &steps, Some((step, "all")));
        assert!(!child.wait().unwrap().success());
        assert!(fs::read_to_string(&steps).unwrap().lines().count() >= step, "{}", complaint(child.stderr.take()));
    }
    let _ = fs::remove_file(&steps);
    is_unharmed(&mut target, "after many attachers were killed");
}

#[test]
fn attacher_killed_at_every_step() {
    at_every_step("attach", "all");
}

#[test]
fn detacher_killed_at_every_step() {
    at_every_step("detach", "all");
}

#[test]
fn worker_killed_at_every_step() {
    at_every_step("attach", "itself");
}

#[test]
fn detaching_worker_killed_at_every_step() {
    at_every_step("detach", "itself");
}

#[test]
fn walker_killed_at_every_step() {
    at_every_step("walk", "all");
    at_every_step("walk", "itself");
}

/// As a shell's or a job scheduler's SIGSTOP does it, while all threads are stopped.
#[test]
fn threads_go_on_while_the_attacher_its_worker_or_its_group_is_stopped() {
    let stopped_for = Duration::from_secs(5);
    std::thread::scope(|scope| {
        for (whom, what) in [("parent", "attach"), ("worker", "attach"), ("group", "attach"), ("group", "detach")] {
            scope.spawn(move || {
                let mut target = Target::churn(2, 1);
                if what == "detach" {
                    attach(target.pid());
                }
                let steps = step_file();
                let mut command = attacher_command(what, target.pid(), &steps, None);
                let mut child =
                    command.env("ATTACHER_STOPS", format!("{whom} all threads are stopped")).spawn().unwrap();
                while !fs::read_to_string(&steps).unwrap_or_default().contains("all threads are stopped") {
                    assert!(child.try_wait().unwrap().is_none(), "{}", complaint(child.stderr.take()));
                    std::thread::sleep(Duration::from_millis(1));
                }
                let when = format!("while the {whom} is stopped ({what})");
                target.check(&when);
                std::thread::sleep(stopped_for);
                target.check(&when);
                let state = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
                assert!(whom == "worker" || state.contains(") T "), "it was to be stopped: {state}");
                support::send(-(child.id() as i32), libc::SIGCONT);
                assert!(child.wait().unwrap().success(), "{}", complaint(child.stderr.take()));
                let _ = fs::remove_file(&steps);
                is_unharmed(&mut target, &format!("after the {whom} was stopped ({what})"));
            });
        }
    });
}

#[test]
fn attachers_killed_at_random_moments() {
    let kills: u64 = std::env::var("HIGHWATER_ATTACH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(24);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut killed = 0;
    for round in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut target = Target::churn(1 + (round % 3) as usize, 0);
        let what = if round % 4 == 3 { "detach" } else { "attach" };
        if what == "detach" {
            attach(target.pid());
        }
        let steps = step_file();
        let mut child = attacher(what, target.pid(), &steps, None);
        // From its first step on: the start of the process takes longer than all of them.
        while !steps.exists() && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_micros(random % 12_000));
        support::send(-(child.id() as i32), libc::SIGKILL);
        killed += u64::from(!child.wait().unwrap().success());
        let when = format!("after {what} was killed at a random moment after {}", last_step(&steps));
        is_unharmed(&mut target, &when);
        let _ = fs::remove_file(&steps);
    }
    println!("{kills} attachers, {killed} killed before their end: 0 dead, 0 stuck");
    assert!(killed > 0);
}

#[test]
fn a_stopped_attacher_delays_only_as_long_as_it_is_stopped() {
    let mut target = Target::churn(2, 1);
    let steps = step_file();
    let mut child = attacher("attach", target.pid(), &steps, None);
    while !steps.exists() {
        std::hint::spin_loop();
    }
    std::thread::sleep(Duration::from_millis(3));
    let group = -(child.id() as i32);
    support::send(group, libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(300));
    support::send(group, libc::SIGKILL);
    child.wait().unwrap();
    let _ = fs::remove_file(&steps);
    is_unharmed(&mut target, "after a stopped attacher was killed");
}

#[test]
fn nothing_is_left_after_a_detach() {
    let mut target = Target::churn(3, 3);
    let before = our_mappings(target.pid());
    for _ in 0..5 {
        let attached = attach(target.pid());
        assert_eq!(attached.stop.threads, 6);
        target.check("attached");
        let detached = detach(target.pid());
        target.check("detached");
        assert_eq!(detached.stop.changed, attached.header.hook_count as usize);
        assert_eq!(changed_bytes(target.pid()), 0);
        if detached.is_unmapped {
            assert_eq!(our_mappings(target.pid()), before);
        }
    }
}
