//! Why a process is not attached to. Each is one line for people: what is in the way, and what to do.

use crate::relocate::Immovable;
use std::io;

/// Nothing was changed in the process.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It has ended, or never was.
    #[error("there is no process {0}; `highwater ps` and `ps -e` list processes")]
    NoSuchProcess(i32),
    /// Its memory is gone.
    #[error("process {0} has ended and waits for its parent to notice (zombie)")]
    Zombie(i32),
    /// It has no program.
    #[error("process {0} is a thread of the kernel, which has no heap of its own")]
    KernelThread(i32),
    /// By SIGSTOP, or Ctrl-Z.
    #[error("process {0} is stopped by a signal; continue it first: kill -CONT {0}")]
    StoppedBySignal(i32),
    /// Only one tracer is possible.
    #[error(
        "process {pid} is traced by process {tracer} ({tracer_name}); only one debugger or profiler can attach at a time, so detach that first"
    )]
    Traced {
        /// The process.
        pid: i32,
        /// Its tracer.
        tracer: i32,
        /// The tracer's name.
        tracer_name: String,
    },
    /// Of another user.
    #[error("process {pid} belongs to user {owner}, you are user {you}; run this as that user, or as root")]
    OtherUser {
        /// The process.
        pid: i32,
        /// Its user.
        owner: u32,
        /// The user of this process.
        you: u32,
    },
    /// Setuid, capabilities, or `prctl(PR_SET_DUMPABLE)`.
    #[error(
        "process {0} is protected: it was started with other rights than yours (setuid, capabilities), or asked for it (PR_SET_DUMPABLE); root can attach (CAP_SYS_PTRACE)"
    )]
    NotDumpable(i32),
    /// Yama's `ptrace_scope` is 1, 2 or 3.
    #[error("{}", yama_text(*.0))]
    Yama(u8),
    /// A security module, or a user namespace.
    #[error(
        "the system does not permit attaching to process {0}: a security module forbids it, or the process is in a user namespace in which you lack CAP_SYS_PTRACE; try as root"
    )]
    NotPermitted(i32),
    /// i386, or the x32 ABI.
    #[error("process {0} is a 32-bit program; Highwater measures 64-bit programs for x86-64")]
    Bits32(i32),
    /// Emulated, or something else.
    #[error("process {0} is not a program for x86-64")]
    OtherArchitecture(i32),
    /// Itself.
    #[error("process {0} is this command itself")]
    Myself(i32),
    /// Its heap is not malloc's.
    #[error(
        "process {0} is a Go program without C code, whose heap is its own: use Go's pprof, and `highwater import` for its profiles"
    )]
    Go(i32),
    /// Static and stripped, or an allocator under other names.
    #[error(
        "no malloc was found in process {0}: it is linked statically without symbols, or uses an allocator with other names; a build with symbols can be attached to"
    )]
    NoAllocator(i32),
    /// An allocator in the program whose functions have names of their own.
    #[error(
        "process {pid} calls {allocator}, which is linked into it under names that are not hooked: its blocks would not be seen; build it so that {allocator} takes the place of malloc, or without it"
    )]
    UnseenAllocator {
        /// The process.
        pid: i32,
        /// Which.
        allocator: &'static str,
    },
    /// Tools that replace or emulate the allocator.
    #[error("process {pid} runs under {tool}, which has its own malloc; start it without to measure it")]
    OtherTool {
        /// The process.
        pid: i32,
        /// Which.
        tool: &'static str,
    },
    /// Before Linux 4.17.
    #[error(
        "the kernel ({0}) is older than Linux 4.17, and cannot keep forked children from the agent; use `highwater record` or `highwater run`"
    )]
    OldKernel(String),
    /// The preload library, or the crate `highwater`.
    #[error("process {0} was started with Highwater's library and records already: see `highwater ps`")]
    AlreadyPreloaded(i32),
    /// An allocator whose functions cannot be hooked.
    #[error("{function} of {module} cannot be hooked: {reason}")]
    Immovable {
        /// The function.
        function: &'static str,
        /// Its file.
        module: String,
        /// Why.
        reason: Immovable,
    },
    /// An inline hook of another tool.
    #[error(
        "{function} of {module} was changed by another tool in this process (a hook or a breakpoint); detach that first"
    )]
    ForeignHook {
        /// The function.
        function: &'static str,
        /// Its file.
        module: String,
    },
    /// No hole within 2 GiB.
    #[error("there is no room in the address space near {0}")]
    NoRoom(String),
    /// No place for some hundred bytes of code.
    #[error("no executable page of process {0} has room for the code that maps the agent")]
    NoSlack(i32),
    /// `SECCOMP_MODE_STRICT`.
    #[error("process {0} runs in seccomp's strict mode, which would kill it at the first call of the agent")]
    StrictSeccomp(i32),
    /// A filter.
    #[error(
        "the seccomp filter of process {pid} answers {call} with \"{action}\"; allow that call in its filter (systemd: SystemCallFilter), or start the program with `highwater record`"
    )]
    Seccomp {
        /// The process.
        pid: i32,
        /// The system call.
        call: &'static str,
        /// The filter's answer.
        action: &'static str,
    },
    /// Only root may read filters.
    #[error(
        "process {0} has a seccomp filter that cannot be read without root, and a call that it forbids could kill the process; run this as root"
    )]
    SeccompUnreadable(i32),
    /// A process that is no thread uses the same memory.
    #[error(
        "process {other} shares the memory of process {pid} without being a thread of it; that cannot be stopped together with it"
    )]
    SharedMemory {
        /// The process.
        pid: i32,
        /// The other one.
        other: i32,
    },
    /// The lock is held.
    #[error("another attacher works on process {0} at this moment; try again")]
    Busy(i32),
    /// An image of a version that is not known here.
    #[error(
        "process {pid} carries an agent of version {version}, this command knows version {known}; detach it with the command that attached it"
    )]
    OtherVersion {
        /// The process.
        pid: i32,
        /// What was found.
        version: u64,
        /// What is known.
        known: u64,
    },
    /// `/proc` says something unexpected.
    #[error("process {pid} cannot be examined: {source}")]
    Unreadable {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
}

fn yama_text(scope: u8) -> &'static str {
    match scope {
        1 => {
            "this system permits attaching only to one's own children (kernel.yama.ptrace_scope is 1); use sudo, or `sysctl kernel.yama.ptrace_scope=0`, or start the program with `highwater record`"
        }
        2 => "this system permits attaching only with CAP_SYS_PTRACE (kernel.yama.ptrace_scope is 2); use sudo",
        _ => {
            "this system forbids attaching to any process (kernel.yama.ptrace_scope is 3, and only a reboot changes that); start the program with `highwater record`"
        }
    }
}
