//! Where the figures come from.

use highwater_collector::ProcessGauges;
use std::collections::HashMap;
use std::time::Duration;

/// Live bytes by site; the number is the content hash of the site's stack.
pub type SiteBytes = HashMap<i64, u64>;
/// The function that each site is named by.
pub type SiteFunctions = HashMap<i64, String>;

/// Why there is no answer: one line for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The collector cannot be asked.
    #[error("{0}")]
    Unavailable(String),
    /// There is no such process, or it cannot be read.
    #[error("{0}")]
    NoProcess(String),
}

/// Answers about live processes.
pub trait MetricsSource: Send + Sync + 'static {
    /// The figures of all running processes, and with an age how much of their memory is at least that old.
    fn gauges(&self, survivor_age: Option<Duration>) -> Result<Vec<ProcessGauges>, SourceError>;

    /// The live bytes of a process by site. `wanted` receives them, and returns the sites whose names it needs.
    fn sites(&self, pid: u32, wanted: &mut dyn FnMut(&SiteBytes) -> Vec<i64>) -> Result<SiteFunctions, SourceError>;

    /// A heap profile of a process: gzipped `profile.proto`, with names.
    fn profile(&self, pid: u32) -> Result<Vec<u8>, SourceError>;
}
