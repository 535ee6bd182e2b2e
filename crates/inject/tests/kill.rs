//! The attacher of the product's image, killed at every step and at random moments; and a program that installs a filter while it is attached to.
//!
//! The targets and the helper process are those of crate `attach`, whose own tests kill attachers of a smaller image. `HIGHWATER_ATTACH_KILLS=1000` makes that many random
//! kills.

#[path = "../../attach/tests/support/mod.rs"]
mod support;

use highwater_attach::{AttachError, AttachOptions, Attached, DetachOptions, Steps, plan};
use highwater_clock::Counter;
use highwater_inject::IMAGE;
use highwater_session::AttachedMemory;
use highwater_shm::attach_v1::{AttachLayout, FLAG_LIVE};
use highwater_shm::session_v1::Capacity;
use highwater_shm::table_v1::TableCapacity;
use std::fs;
use std::process::Command;
use std::time::Duration;
use support::{Target, attacher, changed_bytes, complaint, program, step_file, until_it_works};

fn attach(pid: i32, is_live: bool, steps: Steps) -> Result<(Attached, AttachedMemory), AttachError> {
    let layout = if is_live {
        AttachLayout::for_live(Capacity::LIVE_CHOICES[2], TableCapacity::CHOICES[2])
    } else {
        AttachLayout::for_recording(Capacity::CHOICES[2])
    };
    let options = AttachOptions {
        stop_budget: Duration::from_millis(500),
        replace: true,
        steps,
        ..AttachOptions::new(layout.bytes())
    };
    until_it_works(|| {
        let mut memory = None;
        let attached = plan(pid)?.attach(IMAGE, &options, |header, object| {
            let opened = AttachedMemory::open(object, layout).map_err(std::io::Error::other)?;
            header.flags |= if is_live { FLAG_LIVE } else { 0 };
            opened.prepare(header, pid as u32, Counter::trusted()).map_err(std::io::Error::other)?;
            memory = Some(opened);
            Ok(())
        })?;
        Ok((attached, memory.expect("filled in")))
    })
}

fn detach(pid: i32, steps: Steps) -> highwater_attach::Detached {
    let options = DetachOptions { steps, ..support::detach_options() };
    until_it_works(|| highwater_attach::detach(pid, &options)).unwrap_or_else(|error| panic!("detach: {error}"))
}

#[test]
fn attacher_process() {
    support::attacher_process_by(|what, pid, steps| match what {
        "attach" => drop(attach(pid, true, steps).unwrap()),
        "record" => drop(attach(pid, false, steps).unwrap()),
        _ => drop(detach(pid, steps)),
    });
}

/// The target goes on, is recorded once more, and is as it was after that.
fn is_unharmed(target: &mut Target, when: &str) {
    target.check(when);
    let (_, memory) = attach(target.pid(), false, Steps::NONE).unwrap_or_else(|error| panic!("attach {when}: {error}"));
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while !memory.has_begun() {
        assert!(std::time::Instant::now() < deadline, "nothing is recorded {when}");
        std::thread::sleep(Duration::from_millis(1));
    }
    target.check(&format!("attached again {when}"));
    detach(target.pid(), Steps::NONE);
    target.check(&format!("detached {when}"));
    assert_eq!(changed_bytes(target.pid()), 0, "{when}");
}

fn at_every_step(what: &str, whom: &str) {
    for step in 1..200 {
        let mut target = Target::churn(1 + step % 3, step % 2);
        let attached = (what == "detach").then(|| attach(target.pid(), step % 2 == 0, Steps::NONE).unwrap());
        let steps = step_file();
        let mut child = attacher(what, target.pid(), &steps, Some((step, whom)));
        let status = child.wait().unwrap();
        let taken = fs::read_to_string(&steps).unwrap_or_default();
        let when = format!("after {what} was killed ({whom}) at step {step}, {:?}", taken.lines().last());
        let taken = taken.lines().count();
        assert!(taken >= step || status.success() || whom != "all", "{when}: {}", complaint(child.stderr.take()));
        drop(attached);
        is_unharmed(&mut target, &when);
        let _ = fs::remove_file(&steps);
        if taken < step {
            assert!(step > 10, "an attacher has more steps: {step}");
            return;
        }
    }
    panic!("an attacher without end");
}

#[test]
fn attacher_killed_at_every_step() {
    at_every_step("attach", "all");
}

#[test]
fn recorder_killed_at_every_step() {
    at_every_step("record", "all");
}

#[test]
fn worker_killed_at_every_step() {
    at_every_step("attach", "itself");
}

#[test]
fn detacher_killed_at_every_step() {
    at_every_step("detach", "all");
}

#[test]
fn detaching_worker_killed_at_every_step() {
    at_every_step("detach", "itself");
}

#[test]
fn attachers_killed_at_random_moments() {
    let kills: u64 = std::env::var("HIGHWATER_ATTACH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut killed = 0;
    for round in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut target = Target::churn(1 + (round % 3) as usize, (round % 2) as usize);
        let what = ["attach", "record", "detach"][(round % 3) as usize];
        let attached = (what == "detach").then(|| attach(target.pid(), round % 2 == 0, Steps::NONE).unwrap());
        let steps = step_file();
        let mut child = attacher(what, target.pid(), &steps, None);
        // From its first step on: the start of the process takes longer than all of them.
        while !steps.exists() && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_micros(random % 12_000));
        support::send(-(child.id() as i32), 9);
        killed += u64::from(!child.wait().unwrap().success());
        drop(attached);
        let last = fs::read_to_string(&steps).unwrap_or_default().lines().last().unwrap_or("none").to_owned();
        is_unharmed(&mut target, &format!("after {what} was killed at a random moment, its last step: {last}"));
        let _ = fs::remove_file(&steps);
    }
    println!("{kills} attachers of the product's image, {killed} killed before their end: 0 dead, 0 stuck");
    assert!(killed > 0);
}

#[test]
fn a_filter_that_is_installed_later_meets_no_call_of_the_agent() {
    for by_syscall in [false, true] {
        for is_live in [false, true] {
            let mut command = Command::new(program("special"));
            command.arg("sandboxed");
            if by_syscall {
                command.env("BY_SYSCALL", "1");
            }
            let mut target = Target::ready(&mut command);
            let (attached, memory) = attach(target.pid(), is_live, Steps::NONE).unwrap();
            while !memory.has_begun() {
                std::thread::sleep(Duration::from_millis(1));
            }
            target.signal("USR1");
            target.wait_for("done");
            assert!(matches!(memory.ended(), Some(highwater_session::AttachedEnd::Filter)), "{:?}", memory.ended());
            assert!(target.child.try_wait().unwrap().is_none());
            drop(attached);
            // Its filter says what may be mapped; taking the hooks out needs no call of its own.
            detach(target.pid(), Steps::NONE);
            assert_eq!(changed_bytes(target.pid()), 0);
        }
    }
}

#[test]
fn libraries_are_unloaded_while_it_is_attached_and_detached() {
    let library = support::variant("late.so", "late", &["-shared", "-fPIC"]);
    let mut target = Target::ready(Command::new(program("special")).args(["unloads", library.to_str().unwrap()]));
    for round in 0..12 {
        let (_, memory) = attach(target.pid(), round % 2 == 0, Steps::NONE).unwrap();
        drop(target.said());
        target.wait_for("went on");
        assert!(memory.has_begun());
        detach(target.pid(), Steps::NONE);
        target.wait_for("went on");
    }
    assert_eq!(changed_bytes(target.pid()), 0);
}

#[test]
fn threads_that_come_and_go_do_not_keep_the_image() {
    let mut target = Target::ready(Command::new(program("special")).arg("threads"));
    let mut unmapped = 0;
    for round in 0..10 {
        let (_, memory) = attach(target.pid(), round % 2 == 0, Steps::NONE).unwrap();
        while !memory.has_begun() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        unmapped += u32::from(detach(target.pid(), Steps::NONE).is_unmapped);
        assert!(target.child.try_wait().unwrap().is_none());
    }
    assert!(unmapped > 0, "the image was never unmapped");
}
