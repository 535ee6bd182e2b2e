//! What answers requests.

use crate::error::FleetError;
use crate::protocol::{EngineAnswer, EngineRequest};

/// An engine: a program that answers one request at a time.
pub trait FleetEngine: Send + Sync {
    /// The answer to a request. `go_on` is asked repeatedly; once it is false the engine is stopped.
    fn ask(&self, request: &EngineRequest, go_on: &dyn Fn() -> bool) -> Result<EngineAnswer, FleetError>;
}

/// What a question may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Memory of the engine; what does not fit is written to a temporary folder.
    pub memory_bytes: u64,
    /// Its threads.
    pub threads: u32,
    /// Seconds after which it gives up; 0 for never.
    pub seconds: u64,
}

impl Default for EngineLimits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(64) as u32);
        Self { memory_bytes: 512 << 20, threads, seconds: 600 }
    }
}
