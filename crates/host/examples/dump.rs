#![allow(missing_docs)]
use highwater_host::{canister::*, engine::Limits, module::Module, plain::Plain};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let m = Module::new("x", &std::fs::read(&a[1]).unwrap()).unwrap();
    let mut b;
    if m.is_canister {
        let mut c = Canister::new(m, Limits::default(), World::default(), b"DIDL\0\0").unwrap();
        let t = std::time::Instant::now();
        let r = c.call(&a[3], b"DIDL\0\x01\x7d\xe4\x00").unwrap();
        eprintln!("{r:?} {:?}", t.elapsed());
        if let Some(n) = a.get(4) {
            for _ in 0..n.parse().unwrap() {
                let t = std::time::Instant::now();
                let r = c.call(&a[3], b"DIDL\0\x01\x7d\xdc\x0b").unwrap();
                eprintln!("{r:?} {:?}", t.elapsed());
            }
        }
        b = vec![0; c.machine().memory_bytes() as usize];
        c.machine().memory().read(0, &mut b).unwrap();
    } else {
        let mut p = Plain::new(m, Limits::default()).unwrap();
        p.call("step", &[400]).unwrap();
        p.call("ledger_ptr", &[]).unwrap();
        p.call("step", &[400]).unwrap();
        b = vec![0; p.machine().memory_bytes() as usize];
        p.machine().memory().read(0, &mut b).unwrap();
    }
    std::fs::write(&a[2], b).unwrap();
}
