//! What keeping a live table costs, apart from walking stacks: run by `bench/live`, which adds real programs.
//!
//! The agent and the reader are the real ones; addresses are made up. Prints `NAME VALUE` lines.

mod pairs;
mod pinned;
mod predecessor;
mod stalls;

use highwater_agent as agent;
use highwater_agent::config::Config;
use highwater_clock::Counter;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let number = arguments.next().and_then(|number| number.parse().ok());
    let config = Config::for_live(Counter::trusted().is_some(), 0, 0, false, b"");
    assert!(agent::begin_live(&config), "no live table");
    match task.as_str() {
        "hot" => pairs::hot(),
        "random" => pairs::random(number.unwrap_or(10_000_000)),
        "stalls" => stalls::measure(number.unwrap_or(1_000_000)),
        _ => panic!("hot, random [BLOCKS], or stalls [BLOCKS]"),
    }
}
