//! probes
use highwater_model::*;
use highwater_store::{Recording, Spacing, Writer};

fn src() -> Source { Source::default() }
fn ev(time: u64, kind: EventKind) -> Event { Event { time: Nanos(time), thread: ThreadId(1), kind } }
fn al(address: u64) -> EventKind { EventKind::Allocate(Placement { address, size: 10, ..Placement::default() }) }

#[test]
fn probe_dropped_then_note() {
    let c = Catalog::default();
    let mut w = Writer::new(Vec::new(), &src()).unwrap();
    w.append(&[ev(10, al(16)), ev(100, EventKind::Dropped { count: 1 })], &c).unwrap();
    w.note(Anomaly::OutOfOrder, 1);
    let f = w.finish(&c, &src()).unwrap().1;
    println!("{:?}", Recording::from_bytes(f).unwrap().check(&mut |_| {}));
}
#[test]
fn probe_dropped_then_earlier_event() {
    let c = Catalog::default();
    let mut w = Writer::new(Vec::new(), &src()).unwrap();
    w.append(&[ev(10, al(16)), ev(100, EventKind::Dropped { count: 1 }), ev(50, al(32))], &c).unwrap();
    w.finish(&c, &src()).unwrap();
}
#[test]
fn probe_many_notes() {
    let c = Catalog::default();
    let mut w = Writer::new(Vec::new(), &src()).unwrap();
    w.append(&vec![ev(10, EventKind::Mark { name: StringId(0) }); (1 << 17) - 8], &c).unwrap();
    for _ in 0..9 { w.note(Anomaly::OutOfOrder, 1); }
    let f = w.finish(&c, &src()).unwrap().1;
    let r = Recording::from_bytes(f).unwrap();
    println!("{:?} {:?} {:?}", r.check(&mut |_| {}), r.damage(), r.stats());
}
#[test]
fn probe_identical_sites() {
    let mut c = Catalog::default();
    let mut evs = Vec::new();
    for i in 0..200_000u64 {
        let n = format!("f{i}");
        let stack = c.intern_stack(&[FrameText { function: &n, ..FrameText::default() }]);
        evs.push(ev(i, EventKind::Allocate(Placement { address: 16 * (i + 1), size: 10, stack, tag: TagId(0) })));
    }
    let mut w = Writer::new(Vec::new(), &src()).unwrap();
    w.append(&evs, &c).unwrap();
    let f = w.finish(&c, &src()).unwrap().1;
    let r = Recording::from_bytes(f).unwrap();
    println!("{:?} {:?} {:?}", r.check(&mut |_| {}), r.damage(), r.stats());
}
#[test]
fn probe_unknown_kind_and_cut() {
    let c = Catalog::default();
    let mut w = Writer::new(Vec::new(), &src()).unwrap();
    w.append(&[ev(10, al(16))], &c).unwrap();
    w.flush(&c).unwrap();
    w.append(&[ev(11, al(32))], &c).unwrap();
    let f = w.finish(&c, &src()).unwrap().1;
    let (mut at, mut n, mut out) = (16, 0u32, f[..16].to_vec());
    while at < f.len() {
        let len = u32::from_le_bytes(f[at + 8..at + 12].try_into().unwrap()) as usize;
        if f[at + 4] >= 6 { break; }
        let mut put = |kind: u8, payload: &[u8]| {
            let mut h = b"HWB1".to_vec();
            h.extend([kind, 0, 0, 0]);
            h.extend((payload.len() as u32).to_le_bytes());
            h.extend(n.to_le_bytes());
            h.extend(crc32fast::hash(payload).to_le_bytes());
            h.extend(crc32fast::hash(&h).to_le_bytes());
            out.extend(h);
            out.extend(payload);
            n += 1;
        };
        put(f[at + 4], &f[at + 24..at + 24 + len]);
        if f[at + 4] == 3 { put(99, b"hello"); }
        at += 24 + len;
    }
    let r = Recording::from_bytes(out).unwrap();
    println!("{:?} {:?} {:?}", r.check(&mut |_| {}), r.damage(), r.stats());
}
#[test]
fn probe_frames_first() {
    let mut c = Catalog::default();
    for i in 0..70_000u64 { c.stacks.intern_frame(Frame { address: i + 1, ..Frame::default() }); }
    let stack = c.stacks.intern_child(StackId(0), FrameId(69_999));
    let mut w = Writer::new(Vec::new(), &src()).unwrap();
    w.append(&[ev(1, EventKind::Allocate(Placement { address: 16, size: 1, stack, tag: TagId(0) }))], &c).unwrap();
    let f = w.finish(&c, &src()).unwrap().1;
    let r = Recording::from_bytes(f).unwrap();
    println!("{:?} {:?} {:?}", r.check(&mut |_| {}), r.damage(), r.stats());
}
#[test]
fn probe_lost_last_catalog() {
    let mut c = Catalog::default();
    let stack = c.intern_stack(&[FrameText { function: "f", ..FrameText::default() }]);
    let mut w = Writer::new(Vec::new(), &src()).unwrap();
    w.set_spacing(Spacing::every(1));
    w.append(&[ev(1, EventKind::Allocate(Placement { address: 16, size: 1, stack, tag: TagId(0) }))], &c).unwrap();
    let mut f = w.finish(&c, &src()).unwrap().1;
    let mut at = 16;
    while f[at + 4] != 2 { at += 24 + f[at + 8] as usize; }
    f[at + 30] ^= 1;
    let r = Recording::from_bytes(f).unwrap();
    println!("{:?} {:?} {:?}", r.check(&mut |_| {}), r.damage(), r.stats());
}
