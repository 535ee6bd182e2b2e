//! Why attaching or detaching did not succeed, after the process was found fit for it.

use crate::refusal::Refusal;
use std::io;

/// The process is unharmed in each case. What may be left in it is in the documentation of [`crate`].
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It cannot be attached to.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An earlier attach still records.
    #[error("process {0} is attached to already; `highwater detach --pid {0}` ends that")]
    AlreadyAttached(i32),
    /// There is nothing to detach.
    #[error("process {0} has nothing of Highwater's in it that was attached")]
    NotAttached(i32),
    /// No thread could be borrowed.
    #[error(
        "no thread of process {0} could make the calls that map the agent: each was in a signal, a restartable sequence or the kernel; try again"
    )]
    NoThread(i32),
    /// The calls of the script failed.
    #[error(
        "the agent could not be mapped into process {pid}: {call} failed ({source}); see its limits (ulimit -v, ulimit -n)"
    )]
    Script {
        /// The process.
        pid: i32,
        /// Which call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The process itself took the addresses that were free when it was examined.
    #[error("process {0} mapped memory where the agent was to lie; try again")]
    SpaceTaken(i32),
    /// It took too long.
    #[error(
        "the thread of process {0} that maps the agent did not come to its end: the process is very busy; try again"
    )]
    ScriptLate(i32),
    /// A thread did not stop.
    #[error(
        "not all threads of process {pid} stop within {budget_ms} ms: one waits in the kernel (state {state}), as in vfork or on a slow disk; try again"
    )]
    DoesNotStop {
        /// The process.
        pid: i32,
        /// The thread's state.
        state: char,
        /// The budget.
        budget_ms: u64,
    },
    /// The worker was killed, more than once.
    #[error(
        "looking at the stopped threads of process {0} took too long, twice: the machine is very busy, or some of its memory comes from itself (userfaultfd) or from a slow file system; its threads go on"
    )]
    HeldUp(i32),
    /// Another attacher, or a debugger.
    #[error("the functions of process {0} were changed by another tool while it was attached to; try again")]
    ChangedMeanwhile(i32),
    /// A thread is always at the wrong place.
    #[error("threads of process {0} were between the first instructions of malloc or free each time; try again")]
    NoSafeMoment(i32),
    /// The image does not fit the contract.
    #[error("the agent's image is damaged")]
    BadImage,
    /// The process has ended.
    #[error("process {0} has ended")]
    Ended(i32),
    /// The kernel forbids writing code.
    #[error(
        "the code of process {pid} cannot be changed ({source}); the kernel's proc_mem.force_override, or a security module, may forbid it"
    )]
    WriteForbidden {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
    /// Something else.
    #[error("process {pid}: {what}: {source}")]
    Failed {
        /// The process.
        pid: i32,
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl AttachError {
    /// True if the process is fit, but was busy in a way that passes: a new plan and another try may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::NoThread(_)
                | Self::SpaceTaken(_)
                | Self::ScriptLate(_)
                | Self::DoesNotStop { .. }
                | Self::NoSafeMoment(_)
                | Self::ChangedMeanwhile(_)
                | Self::Refused(Refusal::Busy(_))
        )
    }
}
