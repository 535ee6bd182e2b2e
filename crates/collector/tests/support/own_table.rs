//! The live table of the test process itself, kept by the real agent.

use highwater_agent as agent;
use highwater_agent::config::Config;
use highwater_clock::Counter;
use highwater_collector::{LiveTable, table_of};

/// Starts the table, and opens it as a collector would. Once per process.
pub fn begin() -> LiveTable {
    // A path without a collector: a collector that happens to run must not take the table over.
    let config = Config::for_live(Counter::trusted().is_some(), 0, 0, false, b"/no/such/collector");
    assert!(agent::begin_live(&config));
    table_of(std::process::id()).expect("the agent holds it open")
}
