//! The live table of the test's own process, by the real agent.

use highwater_agent as agent;
use highwater_agent::config::Config;
use highwater_clock::Counter;
use highwater_collector::{LiveTable, table_of};

/// Begins to keep it, and opens it as a collector would. Once in a process.
pub fn begin() -> LiveTable {
    // A place where no collector is: one that happens to run must not take it over.
    let config = Config::for_live(Counter::trusted().is_some(), 0, 0, false, b"/no/such/collector");
    assert!(agent::begin_live(&config));
    table_of(std::process::id()).expect("the agent holds it open")
}
