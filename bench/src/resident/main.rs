//! What the breakdown of a process's resident memory costs: run by `bench/resident`. Prints `NAME VALUE` lines.
//!
//! The process that is read is this program once more: it holds a gibibyte of small blocks, or maps and unmaps memory and notes how long that takes.

mod cost;
mod wait;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|number| number.parse().ok());
    match (arguments.first().map(String::as_str), number(1)) {
        (None, _) => {
            for size in [1000, 240, 80] {
                cost::measure(size);
            }
            wait::measure();
        }
        (Some("hold"), Some(size)) => cost::hold(size),
        (Some("map"), Some(seconds)) => wait::map(seconds as u64),
        _ => panic!("no arguments"),
    }
}
