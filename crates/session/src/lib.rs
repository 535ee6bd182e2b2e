//! The reading end of the memory that an agent shares.
//!
//! An agent in another process shares memory: rings of records or a table of live blocks, stack nodes, a log of modules (`highwater-shm` has the layouts).
//! [`SessionMemory`] maps it and checks everything that it reads there; [`Stamps`] turns its clock into times, [`SessionNames`] its numbers into modules and stacks of a
//! catalog. The recorder and the collector build on these, and neither needs the other.
//!
//! [`AttachedMemory`] is the memory of an agent that was injected into a running process. [`AgentConfig`] is the configuration with which agents are started; [`Reason`] says why a process is not recorded.

mod agent_config;
mod allocator_of;
mod attached;
mod ended_first;
mod file_code;
mod jit_names;
mod module_watch;
mod names;
mod perf_map_file;
mod provided;
mod session_memory;
mod socket;
mod stamps;
mod unrecorded;

pub use agent_config::{AGENT_VARIABLE, AgentConfig};
pub use allocator_of::allocator_of;
pub use attached::{AttachedCounts, AttachedEnd, AttachedMemory, BEFORE_ATTACH, BEFORE_ATTACH_THREAD, READER_PATIENCE};
pub use ended_first::be_ended_first;
pub use module_watch::ModuleWatch;
pub use names::SessionNames;
pub use perf_map_file::PerfMapFile;
pub use provided::Used;
pub use session_memory::{Refused, SessionMemory, wake_writer};
pub use socket::{SOCKET_VARIABLE, default_socket, socket_by};
pub use stamps::{Stamps, monotonic_ns};
pub use unrecorded::{Reason, UnrecordedPrograms, names_in_sentence, reason_in_words};
