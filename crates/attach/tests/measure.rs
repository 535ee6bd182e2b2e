//! Figures for docs/attach.md, printed: `bench/attach` runs this.

mod support;

use std::time::Duration;
use support::{Target, attach, detach};

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
