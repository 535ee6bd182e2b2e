//! Live processes: finds the collector, chooses a process, and outputs a snapshot of it.

pub mod all;
mod choice;
mod collector;
mod contents;
pub mod contents_dir;
mod delivery;
mod metrics;
mod metrics_process;
pub mod outside;
mod socket;
mod taken;

pub use choice::ProcessChoice;
pub use collector::LiveCollector;
pub use delivery::Delivery;
pub use metrics::CollectorMetrics;
pub use metrics_process::MetricsProcess;
pub use socket::{Asking, CollectorSocket, parse_limit};
pub use taken::TakenSnapshot;
