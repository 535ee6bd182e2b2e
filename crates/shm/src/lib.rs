//! Layouts of the memory that the agent inside a program shares with the recorder outside it: no policy.
//!
//! Every layout carries its version in its name; a change makes a new module beside the old one. All of it is plain
//! words in one shared memory object, which the agent creates, seals against resizing and hands to the recorder over
//! a socket. Neither side trusts the other: a reader checks every number it takes from here.
//!
//! * [`session_v1`]: the header, and where everything else lies.
//! * [`ring_v1`]: one ring of records per thread, one writer and one reader each.
//! * [`stacks_v1`]: call stacks as a trie, append-only.
//! * [`modules_v1`]: loaded executables and libraries, append-only.
//! * [`agent_memory_v1`]: the addresses of the agent's private memory.
//! * [`unrecorded_v1`]: programs that the process starts and that are not recorded.
//! * [`hello_v1`]: the agent's configuration in the environment, and its first message to the recorder.
//!
//! A live process shares, instead of rings:
//! * [`table_v1`]: its live blocks, and the protocol by which they are read at one instant;
//! * [`control_v1`]: the page with which the collector makes that instant;
//! * [`live_hello_v1`]: how it registers.
//!
//! * [`attach_v1`]: how an agent is injected into a process that runs already.
#![cfg_attr(not(loom), no_std)]
#![forbid(unsafe_code)]

pub mod agent_memory_v1;
mod atomic;
pub mod attach_v1;
pub mod control_v1;
pub mod hello_v1;
pub mod live_hello_v1;
pub mod modules_v1;
pub mod ring_v1;
pub mod session_v1;
pub mod stacks_v1;
pub mod table_v1;
pub mod unrecorded_v1;
