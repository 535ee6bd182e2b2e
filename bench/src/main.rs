//! Measures what Highwater promises and prints one table: `bench/run`.
//!
//! Every measurement runs in a process of its own, five times, in turn with the others and with the predecessor's, if that was
//! built. The median counts; times are CPU times, since machines are shared.

mod measure;
mod table;
mod tasks;
mod workload;

use std::path::PathBuf;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("'{text}' is not a number"));
    match arguments[..] {
        ["record"] => tasks::record(),
        ["record-rate", threads] => tasks::record_rate(number(threads)),
        ["snapshot"] => tasks::snapshot(),
        ["write", path, events, keep] => tasks::write(&PathBuf::from(path), number(events), number(keep) as usize),
        ["travel", path, seed] => tasks::travel(&PathBuf::from(path), number(seed)),
        ["diff", path, seed] => tasks::diff(&PathBuf::from(path), number(seed)),
        [] => table::print(None),
        [predecessor] => table::print(Some(predecessor)),
        _ => eprintln!("highwater-bench: see bench/run"),
    }
}
