//! Memory by task: which part of the program's work holds it, whichever threads do that work.
//!
//! An asynchronous program runs thousands of tasks on a few threads. A thread, or a stack that ends in the runtime, says little about them. A task that has a
//! name says it: everything that is allocated while it is polled belongs to it, on every thread that polls it. `highwater report app.hw --by task` shows who
//! holds what; `--filter task:NAME` selects the blocks of one.
//!
//! ```no_run
//! # async fn serve(connection: u32) {}
//! # fn spawn(future: impl Future) {}
//! # let connection = 1;
//! // With tokio: tokio::spawn(highwater::task::scope("serve", serve(connection)));
//! spawn(highwater::task::scope("serve", serve(connection)));
//!
//! // Work that is not asynchronous:
//! let entered = highwater::task::enter("compact");
//! // … allocate …
//! drop(entered);
//! ```
//!
//! * A block belongs to the task that allocated it, or last resized it, until it is freed; who frees it does not matter.
//! * Tasks nest: within a scope of another name, blocks belong to the inner one.
//! * A task with the name of another is the same task. Name kinds of work (`serve`), not single requests: a process keeps 16,383 names; blocks of tasks with
//!   further names belong to `[other tasks]`.
//! * What `spawn` itself allocates, the future's own memory above all, belongs to the task that spawns.
//! * It works in programs that record themselves, that are [live](crate::live), and under `highwater record` and `highwater run`. Without any of them, a poll
//!   costs a few nanoseconds more.
//!
//! The crate `highwater-tracing` makes tasks of the spans of the crate `tracing`.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task, known by its name. Copies are the same task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task(agents::TaskNumbers);

impl Task {
    /// No task.
    pub const NONE: Self = Self(agents::NO_TASK);

    /// The task with this name. An empty name is no task; of a long one the first 256 bytes count.
    pub fn named(name: impl AsRef<str>) -> Self {
        Self(agents::number(name.as_ref()))
    }

    /// The calling thread works for this task until the guard is dropped.
    pub fn enter(self) -> Entered {
        Entered { before: self.switch(), not_send: PhantomData }
    }

    /// The calling thread works for this task from now on. Returns the task that it worked for. [`Self::enter`] is safer; this is for code whose begin and end
    /// are not nested.
    #[inline]
    pub fn switch(self) -> Self {
        Self(agents::enter(self.0))
    }
}

/// The calling thread works for a task while this lives.
#[derive(Debug)]
#[must_use = "the thread works for the task only as long as this lives"]
pub struct Entered {
    before: Task,
    not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.before.switch();
    }
}

/// The calling thread works for the task with this name until the guard is dropped.
pub fn enter(name: impl AsRef<str>) -> Entered {
    Task::named(name).enter()
}

/// A future that is a task with this name: what is allocated while it is polled or dropped belongs to the task.
pub fn scope<F: Future>(name: impl AsRef<str>, future: F) -> Scope<F> {
    Scope { task: Task::named(name), future: Some(future) }
}

/// A future that is a task: see [`scope`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Scope<F> {
    task: Task,
    /// Always there, until it is dropped.
    future: Option<F>,
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    #[allow(unsafe_code, reason = "the pin of a field")]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is never moved, and its pin lives no longer than ours.
        let (task, future) = unsafe {
            let this = self.get_unchecked_mut();
            (this.task, Pin::new_unchecked(&mut this.future))
        };
        let _entered = task.enter();
        match future.as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Scope<F> {
    fn drop(&mut self) {
        let _entered = self.task.enter();
        // Dropped where it is, as a pinned value must be.
        self.future = None;
    }
}

/// The agents of the process: this crate's own, and that of the library that `highwater record` and `highwater run` load. Either may record.
#[cfg(all(feature = "record", target_os = "linux", target_arch = "x86_64"))]
mod agents {
    #![allow(unsafe_code, reason = "functions of the library that the command loads")]
    use crate::c_library::find_function;
    use highwater_agent::task;
    use std::ffi::c_char;
    use std::sync::OnceLock;

    /// The numbers of a task in both agents.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TaskNumbers {
        own: u32,
        loaded: u32,
    }

    pub const NO_TASK: TaskNumbers = TaskNumbers { own: 0, loaded: 0 };

    #[derive(Clone, Copy)]
    struct Loaded {
        number: unsafe extern "C" fn(*const c_char) -> u32,
        enter: extern "C" fn(u32) -> u32,
    }

    fn loaded() -> Option<Loaded> {
        static LOADED: OnceLock<Option<Loaded>> = OnceLock::new();
        // SAFETY: the functions with these names have these types.
        *LOADED.get_or_init(|| unsafe {
            let (number, enter) = (find_function(c"highwater_task")?, find_function(c"highwater_task_enter")?);
            Some(Loaded { number, enter })
        })
    }

    /// More bytes than an agent keeps of a name.
    const LONG: usize = 300;

    pub fn number(name: &str) -> TaskNumbers {
        let name = name.as_bytes();
        let name = name.split(|byte| *byte == 0).next().unwrap_or(name);
        let of_loaded = |loaded: Loaded| {
            // On the stack: a block for it would be one of the program's.
            let mut text = [0; LONG];
            text.iter_mut().zip(name).take(LONG - 1).for_each(|(byte, own)| *byte = *own);
            // SAFETY: its last byte is zero.
            unsafe { (loaded.number)(text.as_ptr().cast()) }
        };
        TaskNumbers { own: task::number(name), loaded: loaded().map_or(0, of_loaded) }
    }

    #[inline]
    pub fn enter(numbers: TaskNumbers) -> TaskNumbers {
        let loaded = loaded().map_or(0, |loaded| (loaded.enter)(numbers.loaded));
        TaskNumbers { own: task::enter(numbers.own), loaded }
    }
}

/// Where nothing can be recorded, tasks are nothing.
#[cfg(not(all(feature = "record", target_os = "linux", target_arch = "x86_64")))]
mod agents {
    /// The number of no task.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TaskNumbers;

    pub const NO_TASK: TaskNumbers = TaskNumbers;

    pub fn number(_: &str) -> TaskNumbers {
        NO_TASK
    }

    pub fn enter(_: TaskNumbers) -> TaskNumbers {
        NO_TASK
    }
}
