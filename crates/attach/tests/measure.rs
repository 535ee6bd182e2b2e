//! Figures for docs/attach.md, printed: `bench/attach` runs this.

mod support;

use highwater_shm::attach_v1::{FUNCTION_COUNT, FunctionIndex};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{Target, attach, calls, changed_bytes, detach, program, variant};

fn row(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let show = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
    println!(
        "{name:>28}  {:>8} {:>8} {:>8} ms",
        show(times[0]),
        show(times[times.len() / 2]),
        show(times[times.len() - 1])
    );
}

#[test]
#[ignore = "measures; see bench/attach"]
fn copies_of_the_heap() {
    for mebibytes in ["64", "256"] {
        let target = Target::ready(Command::new(program("special")).args(["heap", mebibytes]));
        let mut stops: Vec<Duration> =
            (0..9).map(|_| highwater_attach::walk_heap(target.pid(), Duration::from_secs(5)).unwrap().pause).collect();
        stops.sort_unstable();
        let per_mebibyte = stops[4].as_secs_f64() * 1e3 / mebibytes.parse::<f64>().unwrap();
        println!("{mebibytes} MiB of older blocks: {per_mebibyte:.3} ms for each");
        row(&format!("{mebibytes} MiB of older blocks"), stops);
    }
}

#[test]
#[ignore = "measures; see bench/attach"]
fn pauses() {
    println!("{:>28}  {:>8} {:>8} {:>8}", "", "least", "median", "most");
    for (threads, idle) in [(1, 0), (0, 1), (1, 49), (4, 46), (0, 500), (1, 499), (0, 2000)] {
        let target = Target::churn(threads, idle);
        let (mut stops, mut restores, mut borrowed) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..15 {
            let attached = attach(target.pid());
            stops.push(attached.stop.pause);
            borrowed.push(attached.borrowed);
            restores.push(detach(target.pid()).stop.pause);
        }
        row(&format!("{threads} busy, {idle} idle: attach"), stops);
        row("detach", restores);
        row("one thread borrowed", borrowed);
    }
}

/// One round of `kinds` without a library that it loads: it makes these calls of `malloc` and `free`, and seven thousand of others.
const MALLOCS: u64 = 4000;
const FREES: u64 = 9000;

#[test]
#[ignore = "measures; see bench/attach"]
fn coverage() {
    const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
    println!("calls of malloc and free, {MALLOCS} + {FREES} made each time: seen before, while attached, after");
    let mut ways = vec![("glibc".to_owned(), Command::new(program("kinds")))];
    ways.push(("glibc, static".to_owned(), Command::new(variant("kinds_static", "kinds", &["-static"]))));
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"] {
        let path = format!("{LIBRARIES}/{library}");
        if Path::new(&path).exists() {
            let mut command = Command::new(program("kinds"));
            command.env("LD_PRELOAD", path);
            ways.push((library.to_owned(), command));
        } else {
            println!("{library:>28}  is not installed");
        }
    }
    for (name, mut command) in ways {
        let mut target = Target::ready(&mut command);
        let round = |target: &mut Target| {
            target.signal("USR1");
            target.wait_for("end");
        };
        let seen =
            |calls: [u64; FUNCTION_COUNT]| calls[FunctionIndex::Malloc as usize] + calls[FunctionIndex::Free as usize];
        target.signal("USR1");
        target.wait_for("begin");
        round(&mut target);
        let attached = attach(target.pid());
        let before = seen(calls(&attached));
        target.signal("USR1");
        target.wait_for("begin");
        let begun = seen(calls(&attached));
        round(&mut target);
        let during = seen(calls(&attached)) - begun;
        detach(target.pid());
        let last = seen(calls(&attached));
        target.signal("USR1");
        target.wait_for("begin");
        round(&mut target);
        let after = seen(calls(&attached)) - last;
        println!(
            "{name:>28}  {before:>8} {during:>8} {after:>8}, {} bytes of code differ",
            changed_bytes(target.pid())
        );
    }
}
