//! tmp: real traces
use highwater_model::*;
use highwater_store::*;
use std::collections::HashMap;
use std::time::Duration;
fn cpu() -> Duration {
    let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(s.split(' ').next().unwrap().parse().unwrap())
}
fn main() {
    for f in std::env::args().skip(1) {
        let b = std::fs::read(&f).unwrap();
        let mut c = Catalog::default();
        let mut sites: HashMap<u64, StackId> = HashMap::new();
        let mut events = Vec::new();
        let w = |r: &[u8], i: usize| u64::from_le_bytes(r[i * 8..i * 8 + 8].try_into().unwrap());
        let mut t0 = 0;
        for r in b.chunks_exact(48) {
            let (t, a, old, s, site, x) = (w(r, 0), w(r, 1), w(r, 2), w(r, 3), w(r, 4), w(r, 5));
            let n = sites.len();
            let stack = *sites
                .entry(site)
                .or_insert_with(|| c.intern_stack(&[FrameText { function: &format!("f{n}"), ..Default::default() }]));
            if t0 == 0 {
                t0 = t;
            }
            let place = Placement { address: a, size: s, stack, tag: TagId::NONE };
            let kind = match x >> 32 {
                0 => EventKind::Allocate(place),
                1 => EventKind::Deallocate { address: a, claimed_size: None },
                _ => EventKind::Reallocate { old_address: old, claimed_old_size: None, new: place },
            };
            events.push(Event { time: Nanos(t - t0), thread: ThreadId(x & 0xffffffff), kind });
        }
        let mut wr = Writer::new(Vec::new(), &Source::default()).unwrap();
        let t = cpu();
        wr.append(&events, &c).unwrap();
        let (written, bytes) = wr.finish(&c, &Source::default()).unwrap();
        let e = cpu() - t;
        let r = Recording::from_bytes(bytes).unwrap();
        let t = cpu();
        let ck = r.check(&mut |_| {}).unwrap();
        let e2 = cpu() - t;
        let st = r.stats();
        println!(
            "{f}: {} events {} sites live {} | {:.2} B/event (events {:.2}, keyframes {:.2}) append {:.1} ns check {:.1} ns {:?}",
            events.len(),
            sites.len(),
            r.snapshot(&When::End).unwrap().accounts.totals().figures.live_blocks(),
            written.bytes as f64 / events.len() as f64,
            st.event_bytes as f64 / events.len() as f64,
            st.keyframe_bytes as f64 / events.len() as f64,
            e.as_nanos() as f64 / events.len() as f64,
            e2.as_nanos() as f64 / events.len() as f64,
            ck.violations
        );
    }
}
