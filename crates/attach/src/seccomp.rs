//! What the target's seccomp filters would answer to our calls. A forbidden call may kill the process, so filters are asked before.
//!
//! Filters that the program installs later are the agent's affair: it hooks `prctl` and `syscall`, and ends before.

use crate::look::TaskStatus;
use crate::refusal::Refusal;
use crate::script::{FilteredCall, MappingRequest, call_that_unmaps, calls_of_script};
use crate::tracee::Tracee;
use std::io;
use std::ops::Range;

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// Calls that the agent makes by itself while it records, with the arguments on which a filter may decide. Where one is an address or a number of the process, it is one
/// that is like it. The agent's `injected` module refers to this list.
fn calls_of_agent() -> Vec<FilteredCall> {
    const PR_GET_NAME: u64 = 16;
    const FUTEX_WAIT: u64 = 0;
    const FUTEX_WAKE: u64 = 1;
    const CLOCK_MONOTONIC: u64 = 1;
    /// `sigprocmask` does not know it, and reads the mask before it says so: with that the agent finds out whether memory can be read.
    const NO_SUCH_ACTION: u64 = 0x7fff;
    const ADDRESS: u64 = 0x7fff_0000_0000;
    const THREAD: u64 = 1000;
    vec![
        (libc::SYS_gettid, "gettid", [0; 6]),
        (libc::SYS_getpid, "getpid", [0; 6]),
        (libc::SYS_prctl, "prctl(PR_GET_NAME)", [PR_GET_NAME, ADDRESS, 0, 0, 0, 0]),
        (libc::SYS_madvise, "madvise(MADV_HUGEPAGE)", [ADDRESS, 1 << 21, libc::MADV_HUGEPAGE as u64, 0, 0, 0]),
        (libc::SYS_futex, "futex", [ADDRESS, FUTEX_WAIT, 1, ADDRESS, 0, 0]),
        (libc::SYS_futex, "futex", [ADDRESS, FUTEX_WAKE, i32::MAX as u64, 0, 0, 0]),
        (libc::SYS_rt_sigprocmask, "rt_sigprocmask", [NO_SUCH_ACTION, ADDRESS, 0, 8, 0, 0]),
        // Whether a thread has ended: signal 0 is never sent.
        (libc::SYS_tgkill, "tgkill", [THREAD, THREAD, 0, 0, 0, 0]),
        (libc::SYS_clock_gettime, "clock_gettime", [CLOCK_MONOTONIC, ADDRESS, 0, 0, 0, 0]),
    ]
}

/// What stands against our calls, in words that a worker can pass to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterVerdict {
    /// Filters cannot be read.
    Unreadable,
    /// One of our calls, by its index, gets this answer.
    Forbidden { call: u32, answer: u32 },
}

impl FilterVerdict {
    /// For [`check_agent_calls`].
    pub(crate) fn refusal_of_agent(self, pid: i32) -> Refusal {
        match self {
            Self::Unreadable => Refusal::SeccompUnreadable(pid),
            Self::Forbidden { call, answer } => Refusal::Seccomp {
                pid,
                call: calls_of_agent().get(call as usize).map_or("a call", |&(_, name, _)| name),
                action: forbidding(answer).unwrap_or("error"),
            },
        }
    }

    /// For [`check_filters`].
    pub(crate) fn refusal(self, pid: i32, request: &MappingRequest) -> Refusal {
        match self {
            Self::Unreadable => Refusal::SeccompUnreadable(pid),
            Self::Forbidden { call, answer } => Refusal::Seccomp {
                pid,
                call: our_calls(request).get(call as usize).map_or("a call", |&(_, name, _)| name),
                action: forbidding(answer).unwrap_or("error"),
            },
        }
    }
}

fn our_calls(request: &MappingRequest) -> Vec<FilteredCall> {
    calls_of_script(request).into_iter().chain(calls_of_agent()).collect()
}

/// Whether a filter of the stopped thread answers one of our calls with anything but "allow". Without a request, only memory is unmapped.
pub(crate) fn check_filters(
    tracee: &Tracee,
    request: Option<&MappingRequest>,
    unmapped: &[Range<u64>],
) -> Result<(), FilterVerdict> {
    let filters = read_filters(tracee).map_err(|_| FilterVerdict::Unreadable)?;
    let mut calls = request.map_or_else(Vec::new, our_calls);
    calls.extend(unmapped.iter().map(|range| call_that_unmaps(range.start, range.end - range.start)));
    check_calls(&filters, &calls)
}

/// Whether the filters of all stopped threads allow what the agent does by itself: each thread may have its own filter, and any may be the one that allocates.
pub(crate) fn check_agent_calls<'a>(pid: i32, threads: impl Iterator<Item = &'a Tracee>) -> Result<(), FilterVerdict> {
    let calls = calls_of_agent();
    // Most threads have the filters of the one that created them.
    let mut checked: Vec<Vec<[u64; 2]>> = Vec::new();
    for tracee in threads {
        match TaskStatus::of_thread(pid, tracee.thread).map_or(0, |status| status.number("Seccomp")) {
            0 => continue,
            // Strict: no call but four.
            1 => return Err(FilterVerdict::Forbidden { call: 0, answer: 0 }),
            _ => (),
        }
        let filters = read_filters(tracee).map_err(|_| FilterVerdict::Unreadable)?;
        let words = |filters: &[Vec<libc::sock_filter>]| -> Vec<[u64; 2]> {
            let all = filters.iter().flatten();
            all.map(|one| [u64::from(one.code) << 16 | u64::from(one.jt) << 8 | u64::from(one.jf), one.k.into()])
                .collect()
        };
        let key = words(&filters);
        if !checked.contains(&key) {
            check_calls(&filters, &calls)?;
            checked.push(key);
        }
    }
    Ok(())
}

fn check_calls(filters: &[Vec<libc::sock_filter>], calls: &[FilteredCall]) -> Result<(), FilterVerdict> {
    for (call, (number, _, arguments)) in (0..).zip(calls) {
        for filter in filters {
            let answer = run(filter, &call_data(*number, arguments));
            if forbidding(answer).is_some() {
                return Err(FilterVerdict::Forbidden { call, answer });
            }
        }
    }
    Ok(())
}

fn read_filters(tracee: &Tracee) -> io::Result<Vec<Vec<libc::sock_filter>>> {
    let mut filters = Vec::new();
    loop {
        match tracee.seccomp_filter(filters.len() as u64) {
            Ok(filter) => filters.push(filter),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(filters),
            Err(error) => return Err(error),
        }
    }
}

/// `struct seccomp_data`.
fn call_data(number: i64, arguments: &[u64; 6]) -> [u8; 64] {
    let mut data = [0; 64];
    data[..4].copy_from_slice(&(number as u32).to_le_bytes());
    data[4..8].copy_from_slice(&AUDIT_ARCH_X86_64.to_le_bytes());
    for (at, argument) in data[16..].chunks_exact_mut(8).zip(arguments) {
        at.copy_from_slice(&argument.to_le_bytes());
    }
    data
}

/// What an answer is called, unless it lets the call pass.
fn forbidding(answer: u32) -> Option<&'static str> {
    match answer & 0xffff_0000 {
        0x7fff_0000 | 0x7ffc_0000 => None,
        0x0005_0000 => Some("error"),
        0x0003_0000 => Some("trap"),
        0x7ff0_0000 => Some("trace"),
        0x7fc0_0000 => Some("notify"),
        0x8000_0000 => Some("kill the process"),
        _ => Some("kill the thread"),
    }
}

/// Classic BPF, as far as the kernel permits it in filters. What cannot be is answered with "kill".
fn run(filter: &[libc::sock_filter], data: &[u8; 64]) -> u32 {
    let (mut accumulator, mut index, mut scratch) = (0_u32, 0_u32, [0_u32; 16]);
    let load = |at: u32| data.get(at as usize..).and_then(|rest| rest.first_chunk().copied().map(u32::from_le_bytes));
    let mut at = 0_usize;
    while let Some(instruction) = filter.get(at) {
        at += 1;
        let (code, constant) = (u32::from(instruction.code), instruction.k);
        let source = if code & 8 != 0 { index } else { constant };
        match code & 7 {
            // ld, ldx
            class @ (0 | 1) => {
                let value = match code & 0xe0 {
                    0x20 => load(constant),
                    0x00 => Some(constant),
                    0x60 => scratch.get(constant as usize).copied(),
                    0x80 => Some(64),
                    _ => None,
                };
                let Some(value) = value else { return 0 };
                *if class == 0 { &mut accumulator } else { &mut index } = value;
            }
            // st, stx
            class @ (2 | 3) => {
                let Some(word) = scratch.get_mut(constant as usize) else { return 0 };
                *word = if class == 2 { accumulator } else { index };
            }
            // alu
            4 => {
                accumulator = match code & 0xf0 {
                    0x00 => accumulator.wrapping_add(source),
                    0x10 => accumulator.wrapping_sub(source),
                    0x20 => accumulator.wrapping_mul(source),
                    0x30 => match accumulator.checked_div(source) {
                        Some(quotient) => quotient,
                        None => return 0,
                    },
                    0x40 => accumulator | source,
                    0x50 => accumulator & source,
                    0x60 => accumulator.checked_shl(source).unwrap_or(0),
                    0x70 => accumulator.checked_shr(source).unwrap_or(0),
                    0x80 => accumulator.wrapping_neg(),
                    0xa0 => accumulator ^ source,
                    _ => return 0,
                };
            }
            // jmp
            5 => {
                let holds = match code & 0xf0 {
                    0x00 => {
                        at = at.saturating_add(constant as usize);
                        continue;
                    }
                    0x10 => accumulator == source,
                    0x20 => accumulator > source,
                    0x30 => accumulator >= source,
                    0x40 => accumulator & source != 0,
                    _ => return 0,
                };
                at += usize::from(if holds { instruction.jt } else { instruction.jf });
            }
            // ret
            6 => return if code & 0x18 == 0x10 { accumulator } else { constant },
            // misc
            _ => {
                if code & 0x80 != 0 {
                    accumulator = index;
                } else {
                    index = accumulator;
                }
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::{FilterVerdict, call_data, calls_of_agent, check_calls, forbidding, run};

    fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt, jf, k }
    }

    #[test]
    fn filters_see_the_arguments_of_the_agents_calls() {
        // As sandboxes do: prctl only to ask for a name, sigprocmask only with actions that exist, madvise only to give memory back.
        let only = |call: i64, at: u32, values: &[u32]| -> Vec<libc::sock_filter> {
            let count = values.len() as u8;
            let mut filter = vec![
                instruction(0x20, 0, 0, 0),
                instruction(0x15, 0, count + 2, call as u32),
                instruction(0x20, 0, 0, 16 + 8 * at),
            ];
            filter.extend((0..count).map(|index| instruction(0x15, count - index, 0, values[index as usize])));
            filter.extend([instruction(0x06, 0, 0, 0x8000_0000), instruction(0x06, 0, 0, 0x7fff_0000)]);
            filter
        };
        let forbidden = |filter: Vec<libc::sock_filter>| match check_calls(&[filter], &calls_of_agent()) {
            Ok(()) => None,
            Err(FilterVerdict::Forbidden { call, .. }) => Some(calls_of_agent()[call as usize].1),
            Err(FilterVerdict::Unreadable) => unreachable!(),
        };
        assert_eq!(forbidden(only(libc::SYS_prctl, 0, &[16])), None);
        assert_eq!(forbidden(only(libc::SYS_prctl, 0, &[0, 15])), Some("prctl(PR_GET_NAME)"));
        assert_eq!(forbidden(only(libc::SYS_madvise, 2, &[4, 8])), Some("madvise(MADV_HUGEPAGE)"));
        assert_eq!(forbidden(only(libc::SYS_madvise, 2, &[14])), None);
        assert_eq!(forbidden(only(libc::SYS_rt_sigprocmask, 0, &[0, 1, 2])), Some("rt_sigprocmask"));
        assert_eq!(forbidden(only(libc::SYS_futex, 1, &[0])), Some("futex"), "waking is another operation");
        for call in [libc::SYS_getpid, libc::SYS_tgkill, libc::SYS_gettid, libc::SYS_clock_gettime] {
            assert!(forbidden(only(call, 5, &[7])).is_some(), "{call}");
        }
    }

    #[test]
    fn a_filter_is_run_with_its_arguments() {
        // Forbids mmap with PROT_EXEC, kills at memfd_create.
        let filter = [
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 0, 3, libc::SYS_mmap as u32),
            instruction(0x20, 0, 0, 32),
            instruction(0x45, 0, 3, 4),
            instruction(0x06, 0, 0, 0x0005_0001),
            instruction(0x15, 0, 1, libc::SYS_memfd_create as u32),
            instruction(0x06, 0, 0, 0x8000_0000),
            instruction(0x06, 0, 0, 0x7fff_0000),
        ];
        let answer = |number, arguments: [u64; 6]| forbidding(run(&filter, &call_data(number, &arguments)));
        assert_eq!(answer(libc::SYS_mmap, [0, 0, 5, 0, 0, 0]), Some("error"));
        assert_eq!(answer(libc::SYS_mmap, [0, 0, 3, 0, 0, 0]), None);
        assert_eq!(answer(libc::SYS_memfd_create, [0; 6]), Some("kill the process"));
        assert_eq!(answer(libc::SYS_close, [0; 6]), None);
        assert_eq!(
            forbidding(run(&filter[..1], &call_data(1, &[0; 6]))),
            Some("kill the thread"),
            "a filter without an end"
        );
    }
}
