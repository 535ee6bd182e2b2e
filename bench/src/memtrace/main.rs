//! What reading OCaml traces costs: `bench/memtrace`.
//!
//! `write FROM TO EVENTS` makes a large trace of a real one by letting it happen again and again, `decode TRACE` decodes it with stacks, and
//! `account TRACE` keeps account of it as `highwater report` does. Both print nanoseconds of CPU time per event, and what was reached.

use highwater_formats::memtrace::{MemtraceReader, TraceWriter, Version, address_of};
use highwater_model::{AddressLedger, Catalog, Event, EventKind, EventSink, Nanos, Placement, Source};
use std::fs::File;
use std::io::{BufWriter, Write};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", from, to, events] => write(from, to, events.parse().expect("a number of events")),
        ["decode", trace] => decode(trace),
        ["account", trace] => account(trace),
        _ => eprintln!("memtrace-bench: see bench/memtrace"),
    }
}

fn read(path: &str, catalog: &mut Catalog, receiver: &mut impl EventSink) -> Source {
    let mut reader = MemtraceReader::new(File::open(path).expect("the trace"));
    while reader.step(catalog, receiver).expect("a trace") {}
    assert!(reader.decoder().damage().is_empty(), "{:?}", reader.decoder().damage());
    reader.decoder().source().expect("a source")
}

/// CPU time of this process, in nanoseconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The most memory that this process ever had, in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    let kilobytes: f64 = line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
    kilobytes / 1024.0
}

/// Lets a trace happen again and again, each time with objects of its own.
fn write(from: &str, to: &str, wanted: u64) {
    let (mut catalog, mut events) = (Catalog::default(), Vec::new());
    let source = read(from, &mut catalog, &mut |event: Event, _: &Catalog| events.push(event));
    let out = BufWriter::new(File::create(to).expect("a file to write"));
    let mut writer = TraceWriter::new(out, &source, Version::V3).expect("a trace to write");
    let before = cpu_time();
    let (mut written, mut round) = (0, 0u64);
    let pause = 1_000_000;
    while written < wanted {
        let shift = |address: u64| address.wrapping_add(address_of((round * events.len() as u64) as i64));
        let later = round * (source.duration.0 + pause);
        for event in &events {
            let kind = match event.kind {
                EventKind::Allocate(place) => EventKind::Allocate(Placement { address: shift(place.address), ..place }),
                EventKind::Deallocate { address, claimed_size, .. } => EventKind::free(shift(address), claimed_size),
                EventKind::Promote { address, tag } => EventKind::Promote { address: shift(address), tag },
                other => other,
            };
            let event = Event { time: Nanos(event.time.0 + later), kind, ..*event };
            writer.write_event(&event, &catalog).expect("room for the trace");
        }
        written += events.len() as u64;
        round += 1;
    }
    let (_, mut out) = writer.finish(&catalog).expect("room for the trace");
    out.flush().expect("room for the trace");
    let length = std::fs::metadata(to).map_or(0, |about| about.len());
    let nanoseconds = (cpu_time() - before) / written as f64;
    println!("{nanoseconds:.1} {written} {:.2} {:.0}", length as f64 / written as f64, peak_memory());
}

fn decode(path: &str) {
    let (mut events, mut stacks) = (0u64, 0u64);
    let mut receive = |event: Event, _: &Catalog| {
        events += 1;
        if let EventKind::Allocate(place) = event.kind {
            stacks = stacks.wrapping_add(place.stack.0.into());
        }
    };
    let mut catalog = Catalog::default();
    let before = cpu_time();
    read(path, &mut catalog, &mut receive);
    let nanoseconds = (cpu_time() - before) / events as f64;
    println!(
        "{nanoseconds:.1} {events} {} {:.0}",
        catalog.stacks.nodes().len() + (stacks == 1) as usize,
        peak_memory()
    );
}

fn account(path: &str) {
    let (mut catalog, mut ledger) = (Catalog::default(), AddressLedger::default());
    let before = cpu_time();
    read(path, &mut catalog, &mut |event: Event, _: &Catalog| ledger.record(&event, &mut ()));
    let events = ledger.accounts().events();
    let nanoseconds = (cpu_time() - before) / events as f64;
    println!("{nanoseconds:.1} {events} {} {:.0}", ledger.accounts().totals().figures.live_records(), peak_memory());
}
