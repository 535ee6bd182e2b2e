//! Live processes: finding a collector, choosing a process, and what a snapshot of it becomes.

mod choice;
mod collector;
mod contents;
mod delivery;
mod socket;
mod taken;

pub use choice::Choice;
pub use collector::LiveCollector;
pub use delivery::Delivery;
pub use socket::{Asking, Socket};
pub use taken::TakenSnapshot;
