//! probes
use highwater_model::*;
use highwater_store::{Recording, Spacing, Writer};

fn example() -> Vec<u8> {
    let mut catalog = Catalog::default();
    let frame = |function, line| FrameText { function, file: "a.c", line, ..FrameText::default() };
    let stack = catalog.intern_stack(&[frame("load", 9), frame("main", 3)]);
    let done = catalog.strings.intern("done");
    let place = |address, size| Placement { address, size, stack, tag: TagId::NONE };
    let event = |time, thread, kind| Event { time: Nanos(time), thread: ThreadId(thread), kind };
    let free = |address| EventKind::Deallocate { address, claimed_size: None };
    let grow = EventKind::Reallocate { old_address: 0x1070, claimed_old_size: None, new: place(0x1150, 200) };
    let events = [
        event(1000, 5, EventKind::Allocate(place(0x1000, 100))),
        event(1010, 5, EventKind::Allocate(place(0x1070, 100))),
        event(1020, 5, free(0x1000)),
        event(1030, 5, EventKind::Allocate(place(0x1000, 100))),
        event(1040, 5, grow),
        event(1050, 6, free(0x9990)),
        event(1060, 5, EventKind::Mark { name: done }),
    ];
    let source = Source { program: "demo".to_owned(), pid: 7, host: "box".to_owned(), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.append(&events, &catalog).unwrap();
    writer.finish(&catalog, &source).unwrap().1
}

#[test]
fn dump() {
    std::fs::write("/tmp/example.hw", example()).unwrap();
}
#[test]
fn probe_lost_middle_catalog() {
    let mut c = Catalog::default();
    let mut w = Writer::new(Vec::new(), &Source::default()).unwrap();
    w.set_spacing(Spacing::every(1000));
    let mut st = vec![];
    for n in ["a", "b", "c"] {
        let stack = c.intern_stack(&[FrameText { function: n, ..FrameText::default() }]);
        st.push(stack);
        let e = Event {
            time: Nanos(1),
            thread: ThreadId(1),
            kind: EventKind::Allocate(Placement { address: 16 * st.len() as u64, size: 1, stack, tag: TagId(0) }),
        };
        w.append(&[e], &c).unwrap();
        w.flush(&c).unwrap();
    }
    let mut f = w.finish(&c, &Source::default()).unwrap().1;
    let mut at = 16;
    let mut n = 0;
    loop {
        if f[at + 4] == 2 {
            n += 1;
            if n == 2 {
                break;
            }
        }
        at += 24 + f[at + 8] as usize;
    }
    f[at + 30] ^= 1;
    let r = Recording::from_bytes(f).unwrap();
    for s in st {
        println!("{:?}", r.catalog().frame_texts(s).collect::<Vec<_>>());
    }
}
