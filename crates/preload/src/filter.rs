//! Seccomp filters: a program that installs one may be killed for any system call that it did not foresee. So the agent stops before.

use crate::real;
use core::arch::naked_asm;
use core::ffi::c_int;
use highwater_agent as agent;

const SET_SECCOMP: c_int = 22;
const SYS_PRCTL: i64 = 157;
const SYS_SECCOMP: i64 = 317;
/// Modes of `prctl`: one is the operation of `seccomp` plus one.
const STRICT: usize = 1;
const FILTER: usize = 2;

/// Stops the agent before a call that installs a filter. A call without a program only asks whether the kernel supports it.
fn look_at(mode: usize, program: usize) {
    if mode == STRICT || (mode == FILTER && program != 0) {
        agent::end_before_filter();
    }
}

#[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
#[cfg_attr(feature = "static", unsafe(export_name = "__wrap_prctl"))]
pub unsafe extern "C" fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
    if option == SET_SECCOMP {
        look_at(second, third);
    }
    // SAFETY: the program's. It takes as many arguments as the option has; the others are passed on unchanged.
    unsafe { real::prctl(option, second, third, fourth, fifth) }
}

/// `syscall`: all but two calls are passed on at once, with nothing of ours on the stack, since some return twice or on another stack.
#[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
#[cfg_attr(feature = "static", unsafe(export_name = "__wrap_syscall"))]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "je 2f",
        "cmp edi, {prctl}",
        "je 2f",
        "cmp edi, {seccomp}",
        "je 2f",
        "jmp rax",
        "2:",
        "jmp {target}",
        ".cfi_endproc",
        real = sym real::SYSCALL,
        prctl = const SYS_PRCTL,
        seccomp = const SYS_SECCOMP,
        target = sym call
    )
}

unsafe extern "C" fn call(
    number: i64,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> i64 {
    match number {
        SYS_PRCTL if first as c_int == SET_SECCOMP => look_at(second, third),
        SYS_SECCOMP => look_at(first.wrapping_add(1), third),
        _ => {}
    }
    // SAFETY: the program's.
    unsafe { real::syscall(number, first, second, third, fourth, fifth, sixth) }
}
