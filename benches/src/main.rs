//! tmp
mod workload;
use highwater_model::*;
use highwater_store::*;
use std::time::Duration;
fn cpu() -> Duration {
    let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(s.split(' ').next().unwrap().parse().unwrap())
}
#[derive(Clone, Copy)]
struct Instant(Duration);
impl Instant {
    fn now() -> Self {
        Self(cpu())
    }
    fn elapsed(self) -> Duration {
        cpu() - self.0
    }
}
fn main() {
    let n: usize = std::env::args().nth(1).map_or(10_000_000, |s| s.parse().unwrap());
    let live: usize = std::env::args().nth(2).map_or(100_000, |s| s.parse().unwrap());
    let mut catalog = Catalog::default();
    let mut w = workload::Workload::new(1, live, &mut catalog);
    let path = std::env::temp_dir().join("bench.hw");
    let mut writer = Writer::create(&path, &Source::default()).unwrap();
    let mut spent = 0f64;
    let mut batch = Vec::new();
    let mut done = 0;
    while done < n {
        batch.clear();
        for _ in 0..1_000_000.min(n - done) {
            batch.push(w.next_event());
        }
        done += batch.len();
        let t = Instant::now();
        writer.append(&batch, &catalog).unwrap();
        spent += t.elapsed().as_secs_f64();
    }
    let t = Instant::now();
    let (written, _) = writer.finish(&catalog, &Source::default()).unwrap();
    spent += t.elapsed().as_secs_f64();
    if std::env::var("ONLY").is_ok() {
        println!("append {:.1}", spent * 1e9 / n as f64);
        return;
    }
    println!("append {:.1} ns/event, {:.3} bytes/event", spent * 1e9 / n as f64, written.bytes as f64 / n as f64);
    let r = Recording::open(&path).unwrap();
    println!("{:?} dur {}", r.stats(), r.source().duration);
    let t = Instant::now();
    let e = r.snapshot(&When::End).unwrap();
    println!("end {:?} live {}", t.elapsed(), e.accounts.totals().figures.live_blocks());
    for p in [13.0, 37.0, 66.0, 99.9] {
        let t = Instant::now();
        let r = Recording::open(&path).unwrap();
        let e = r.snapshot(&When::Percent(p)).unwrap();
        println!("{p}% {:?} live {}", t.elapsed(), e.accounts.totals().figures.live_blocks());
    }
    if n <= 20_000_000 {
        let t = Instant::now();
        let c = r.check(&mut |_| {}).unwrap();
        println!("check {:?} {} {:?} damage {:?}", t.elapsed(), c.events, c.violations, r.damage());
    }
}
