//! Figures for docs/attach.md, printed: `bench/attach` runs this.

mod support;

use std::process::Command;
use std::time::Duration;
use support::{Target, attach, detach, program};

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
