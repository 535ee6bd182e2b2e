//! The usable part of a recording whose recorder is killed, or whose disk is full.

mod support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use support::recorded::run;
use support::{HIGHWATER, Place, programs};

/// Far above the usual loss of about half a second: test machines have other work to do.
const BOUND: Duration = Duration::from_secs(20);

#[test]
fn a_recorder_that_is_killed_while_the_program_is_busy_leaves_all_but_the_last_moments() {
    let place = Place::new();
    for round in 0..3 {
        let name = format!("killed-{round}.hw");
        let mut recorder = Command::new(HIGHWATER)
            .args(["record", "--no-children", "-o", &name, "--"])
            .arg(programs::c("crowd"))
            .args(["4", "60"])
            .current_dir(place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", recorder.id());
        std::thread::sleep(Duration::from_millis(2000 + 137 * round));
        let program = fs::read_to_string(&children).unwrap().trim().to_owned();
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        recorder.kill().unwrap();
        assert_eq!(recorder.wait().unwrap().signal(), Some(9));
        Command::new("kill").args(["-9", &program]).status().unwrap();
        let check = place.highwater(&format!("check {name}"));
        assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
        let report = place.json(&format!("report {name}"));
        let start = report["source"]["start_unix_ns"].as_u64().unwrap();
        let end = Duration::from_nanos(start + report["at_ns"].as_u64().unwrap());
        let lost = before.saturating_sub(end);
        assert!(lost < BOUND, "{lost:?} are lost of {:?}", before - Duration::from_nanos(start));
        assert!(report["totals"]["allocations"].as_u64().unwrap() > 10_000, "{}", report["totals"]);
    }
}

#[test]
fn a_disk_that_is_full_keeps_what_fits() {
    let can_mount = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    if !can_mount.is_ok_and(|tried| tried.status.success()) {
        return eprintln!("skipped: this test needs 'unshare -rm' and a tmpfs, which are not allowed here");
    }
    for (size, least) in [("64k", 5_000), ("1m", 100_000)] {
        let place = Place::new();
        fs::create_dir(place.file("disk")).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs disk && \
             $highwater record --no-children -o disk/app.hw -- $program 2 1; code=$?; cp disk/app.hw kept.hw; exit $code"
        );
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script]).env("highwater", HIGHWATER).env("program", programs::c("crowd"));
        let ended = run(command.current_dir(place.path()).stdin(Stdio::null())).succeeded();
        let said = ended.stderr_text();
        assert!(
            said.contains("recording stopped: No space left on device; what was written until then can be read"),
            "{said}"
        );
        assert!(said.contains("at its end") && !said.contains("at exit"), "{said}");
        let check = place.highwater("check kept.hw");
        assert_eq!(check.code, 0, "{size}: {}{}", check.stdout, check.stderr);
        check.stdout_has(&["sound", "cut before its end"]);
        let report = place.json("report kept.hw --by function");
        let events = report["recording"]["events"].as_u64().unwrap();
        assert!(events >= least, "{size}: {events} events");
        // It has names of functions: these are resolved when the disk is already full.
        assert!(report.to_string().contains("\"take_a_block\""), "{size}: {report}");
    }
}
