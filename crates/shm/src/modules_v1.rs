//! The log of loaded executables and libraries, and of the names of tasks. An entry is words:
//!
//! ```text
//!  kind | generation << 8,  stamp,  start,  end,  length of build id | length of path << 32,  build id, path, padding
//! ```
//!
//! A generation ends when a module is unloaded: from then on the same address may mean other code. Each node has its
//! generation, and the modules of generation *g* are the loaded ones that were not unloaded before it.
//!
//! The entry of a task has its number as `start`, and its name as path. A reader skips kinds that it does not know.

/// A module was met for the first time: `generation` is the one in which it was met.
pub const LOADED: u8 = 1;
/// The module that starts at `start` was found to be gone: `generation` is the first without it.
pub const UNLOADED: u8 = 2;

/// A task that allocates for the first time: see [`TASK_BIT`](crate::stacks_v1::TASK_BIT).
pub const TASK: u8 = 3;

/// Words before the texts.
pub const FIXED_WORDS: usize = 5;
/// The longest path that is stored.
pub const LONGEST_PATH: usize = 4096;
/// The longest name of a task.
pub const LONGEST_TASK: usize = 256;
/// The longest build id that is stored.
pub const LONGEST_BUILD_ID: usize = 64;
