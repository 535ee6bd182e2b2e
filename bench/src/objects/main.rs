//! What object logs and tracked objects cost: `bench/objects`.
//!
//! `write OBJECTS LIVE FILE` writes a log of so many objects, about so many of which live at a time, one in five hundred for ever. `memory FILE` reads it, and
//! prints the most memory that this took, in MiB, and for each object that was live at the peak, in bytes. `off`, `store`, `file
//! PATH` make and drop objects while no sink is set, into an event store, into a file; they print nanoseconds of CPU time per object.

use highwater::event_store::EventStore;
use highwater::{Tracked, objects};
use highwater_formats::objlog::ObjectLogReader;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::sync::Arc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().expect("a number");
    match arguments[..] {
        ["write", count, live, file] => write(number(count), number(live), file).expect("room for the log"),
        ["memory", file] => memory(file),
        ["off"] => {
            objects::off();
            let per_object = measure(200_000_000);
            println!("{:.2}", per_object - bare(200_000_000));
        }
        ["store"] => {
            objects::to_store(Arc::new(EventStore::with_limit(1 << 30)));
            println!("{:.1}", measure(10_000_000));
        }
        ["file", path] => {
            objects::to_file(path).expect("a file to write");
            println!("{:.1}", measure(1_000_000));
        }
        _ => eprintln!("objects-bench: see bench/objects"),
    }
}

/// CPU time of this process, in nanoseconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The most memory that this process ever had, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0) * 1024
}

fn memory(file: &str) {
    let mut reader = ObjectLogReader::default();
    // An empty log takes the buffer.
    reader.read_all(std::io::empty(), &mut ()).expect("nothing to read");
    let before = peak_memory();
    reader.read_all(File::open(file).expect("the log"), &mut ()).expect("the log");
    let taken = peak_memory() - before;
    println!("{:.1} {:.1}", taken as f64 / 1048576.0, taken as f64 / reader.matcher().peak_live.max(1) as f64);
}

/// CPU time of an object, from its birth to its drop.
fn measure(count: u64) -> f64 {
    let before = cpu_time();
    for number in 0..count {
        drop(black_box(Tracked::new(black_box(number))));
    }
    (cpu_time() - before) / count as f64
}

/// The same of a value that is not tracked.
fn bare(count: u64) -> f64 {
    let before = cpu_time();
    for number in 0..count {
        // As large as a tracked one, and as little known to the compiler.
        black_box((black_box(number), 0u64, 0u64));
    }
    (cpu_time() - before) / count as f64
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

const TYPES: [(&str, &str); 7] = [
    ("src/pasta_fp_plonk_index.rs:51", "WasmPastaFpPlonkIndex"),
    ("src/srs.rs:30", "WasmFpSrs"),
    ("src/plonk_proof.rs:420", "WasmFpProverProof"),
    ("src/wasm_vector.rs:12", "WasmVecVecFp"),
    ("src/geometry/mesh.rs:77", "alloc::vec::Vec<(u32, f64)>"),
    ("src/gate vector.rs:141", "WasmFqGateVector"),
    ("src/arkworks/pasta_fp.rs:19", "WasmPastaFp"),
];

fn write(count: u64, live: u64, file: &str) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut random = Random(88_172_645_463_325_252);
    let mut held: Vec<(u64, u64, usize)> = Vec::with_capacity(live as usize);
    for id in 0..count {
        let (kind, bytes) = (random.below(7) as usize, 32 + random.below(2000));
        let (place, name) = TYPES[kind];
        writeln!(out, "@ ALLOCATE {bytes} {place} {name} {id}")?;
        if random.below(500) == 0 {
            continue;
        }
        if (held.len() as u64) < live {
            held.push((id, bytes, kind));
        } else if live > 0 {
            let at = random.below(live) as usize;
            let (old, old_bytes, old_kind) = std::mem::replace(&mut held[at], (id, bytes, kind));
            writeln!(out, "@ DROP {old_bytes} {} {old}", TYPES[old_kind].1)?;
        }
    }
    out.flush()
}
