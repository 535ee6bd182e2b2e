//! Puts the agent into a running process from outside, and takes it out again.

mod allocators;
mod attach;
mod borrow;
mod decode;
mod detach;
mod elf;
mod error;
mod holes;
mod hooks;
mod leftover;
mod look;
mod mappings;
mod modules;
mod patch;
mod plain;
mod plan;
mod refusal;
mod relocate;
mod script;
mod seccomp;
mod steps;
mod target_memory;
mod threads;
mod tracee;
mod walk;
mod worker;

pub use attach::{AttachOptions, Attached};
pub use detach::{DetachOptions, Detached, detach};
pub use error::AttachError;
pub use patch::StopReport;
pub use plan::{AttachPlan, PlannedAllocator, plan};
pub use refusal::Refusal;
pub use relocate::Immovable;
pub use walk::{NotWalkable, OlderBlock, OlderBlocks, walk_heap};
#[doc(hidden)]
pub use steps::Steps;
