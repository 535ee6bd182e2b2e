//! Puts the agent into a running process from outside, and takes it out again.
//!
//! [`plan`] examines a process and touches nothing; [`AttachPlan::attach`] maps the agent's image and hooks the functions of every allocator; [`detach`] makes the
//! process as it was. The image itself, and what it records, is not this crate's: `highwater_shm::attach_v1` is the agreement.
//!
//! # Design
//! * **No function of the target is called.** No lock of the target matters then, and no moment must be found at which none is held.
//! * One thread is **borrowed once**, for a dozen system calls in code that restores itself (`script`). The attacher may die at any instant after it has sent the thread
//!   there: the thread finds its own way back.
//! * The memory object is **made by the target** and opened as `/proc/PID/fd/N`: no path, no socket, nothing of its file system.
//! * Functions are hooked **after their first instruction** (`relocate`), while all threads are stopped and none is between the instructions that change (`patch`).
//! * Threads are stopped by a **worker process** that its parent kills when it takes too long (`worker`): the kernel then releases them. Killing the attacher, or the
//!   worker, is harmless at each step.
//! * System calls that fail with `EINTR` because of the stop alone **are begun again** (`threads`).
//!
//! # What is true if the attacher dies
//! | after | in the target | and then |
//! |---|---|---|
//! | the plan | nothing | nothing |
//! | a thread is seized or stopped | it stands still | the kernel lets it go |
//! | the script is written | bytes that no thread executes | they stay; the next attacher wipes them first |
//! | the registers lead to the script | the thread maps everything, waits at most 50 ms and some, closes the object, goes back | about 1 MiB of mappings stays |
//! | the image and its header are written | code that no thread reaches | the next attach or detach unmaps it |
//! | all threads are stopped | they stand still | the kernel lets them go |
//! | some functions are hooked | their calls are passed on | the next attach or detach restores them: the list was written first |
//! | it is switched on | it records | the agent's lease ends it; the next attach or detach restores |
//! | some functions are restored | the others pass calls on | the next attach or detach restores the rest |
//!
//! # What stays after a detach
//! Executable pages that were written to are private copies with the bytes of their file. Image, islands and object are unmapped when no thread is in them and none has an
//! address of theirs on its stack; else they stay, inert, until the next attach or detach. A child that was forked while attached keeps its copy of the hooks, which pass
//! calls on; `detach` works on it.
//!
//! # Limits
//! * A stack is searched for return addresses of signal handlers up to 1 MiB from its top, and the stack that a handler on an alternate stack has interrupted is not.
//! * The stack of a coroutine that is suspended is not searched. It matters if it was suspended between the first instructions of an allocator's function, or inside a hook:
//!   by a signal handler that switches stacks.
//! * A signal that arrives while a thread runs the script (some tenths of a millisecond) is handled, but does not end the system call that the thread was waiting in with
//!   `EINTR`. Threads that run are preferred, and threads in `pause` or `sigsuspend` come last.
//! * A child that is forked by another thread while the script runs inherits the object's descriptor, which is closed by `exec`.
//! * A program that closes descriptors that are not its own can close the object's while the script runs; attaching fails then, and can be tried again.
//! * A thread whose signal handler leaves the script with `longjmp` leaves the object's descriptor open.

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
mod loading;
mod look;
mod mappings;
mod module_table;
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
pub use detach::{DetachOptions, Detached, detach, has_leftover};
pub use error::AttachError;
pub use loading::is_loading;
pub use patch::StopReport;
pub use plan::{AttachPlan, PlannedAllocator, plan};
pub use refusal::Refusal;
pub use relocate::Immovable;
#[doc(hidden)]
pub use steps::Steps;
#[doc(hidden)]
pub use walk::walk_attached_in_steps;
pub use walk::{NotWalkable, OlderBlock, OlderBlocks, estimate_walk, walk_heap, walk_heap_of_attached};
