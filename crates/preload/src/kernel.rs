//! System calls for functions of the C library that this library replaces, and for starting a recorder.

use core::arch::asm;

pub mod number {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const POLL: usize = 7;
    #[cfg(feature = "static")]
    pub const MMAP: usize = 9;
    #[cfg(feature = "static")]
    pub const MPROTECT: usize = 10;
    #[cfg(feature = "static")]
    pub const MUNMAP: usize = 11;
    pub const BRK: usize = 12;
    #[cfg(feature = "static")]
    pub const MREMAP: usize = 25;
    #[cfg(feature = "static")]
    pub const MADVISE: usize = 28;
    pub const DUP2: usize = 33;
    pub const GETPID: usize = 39;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const GETEUID: usize = 107;
    pub const SETSID: usize = 112;
    #[cfg(feature = "static")]
    pub const PRCTL: usize = 157;
    pub const OPENAT: usize = 257;
    pub const PIPE2: usize = 293;
    #[cfg(feature = "static")]
    pub const PKEY_MPROTECT: usize = 329;
    pub const PIDFD_SEND_SIGNAL: usize = 424;
    pub const PIDFD_OPEN: usize = 434;
    pub const CLOSE_RANGE: usize = 436;
}

/// Makes a system call; the result is the kernel's, an error a negative number.
///
/// # Safety
/// The kernel's requirements for the arguments of this call.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result;
    // SAFETY: the x86-64 Linux convention: these registers in, rax out, rcx and r11 lost.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first, in("rsi") second, in("rdx") third, in("r10") fourth, in("r8") fifth, in("r9") sixth,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Opens a file for reading; `None` if that fails.
pub fn open(path: &core::ffi::CStr, flags: usize) -> Option<usize> {
    const FROM_HERE: usize = -100isize as usize;
    const CLOSE_ON_EXEC: usize = 0o2_000_000;
    // SAFETY: the path is a C string.
    let file = unsafe { call(number::OPENAT, [FROM_HERE, path.as_ptr() as usize, flags | CLOSE_ON_EXEC, 0, 0, 0]) };
    usize::try_from(file).ok()
}

/// The device that a descriptor is; 0 for anything else.
pub fn device_of(descriptor: i32) -> u64 {
    /// Words of the kernel's `struct stat`.
    const WORDS: usize = 18;
    const DEVICE: usize = 5;
    let mut about = [0u64; WORDS];
    // SAFETY: the kernel writes a `struct stat`, which has that size.
    let result = unsafe { call(number::FSTAT, [descriptor as usize, about.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    if result == 0 { about[DEVICE] } else { 0 }
}

/// The program break.
pub fn program_break() -> usize {
    // SAFETY: 0 is below any break, so the kernel only reports it.
    unsafe { call(number::BRK, [0; 6]) as usize }
}

/// Closes a descriptor of our own.
pub fn close(descriptor: usize) {
    // SAFETY: the caller owns it.
    unsafe { call(number::CLOSE, [descriptor, 0, 0, 0, 0, 0]) };
}

/// Reads into `buffer`; returns the number of bytes, 0 at the end or after an error.
pub fn read(file: usize, buffer: &mut [u8]) -> usize {
    const INTERRUPTED: isize = -4;
    loop {
        // SAFETY: the buffer is as long as it says.
        let read = unsafe { call(number::READ, [file, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
        if read != INTERRUPTED {
            return usize::try_from(read).unwrap_or(0);
        }
    }
}

/// Waits until a descriptor can be read, at most this long. Returns whether it can.
pub fn wait_for(descriptor: usize, milliseconds: u32) -> bool {
    const INTERRUPTED: isize = -4;
    const READABLE: u64 = 1;
    // A descriptor and the events of interest in one word, as the kernel takes them.
    let mut watched = descriptor as u64 & 0xffff_ffff | READABLE << 32;
    loop {
        // SAFETY: the kernel reads and writes one word.
        let ready = unsafe { call(number::POLL, [(&raw mut watched) as usize, 1, milliseconds as usize, 0, 0, 0]) };
        if ready != INTERRUPTED {
            return ready == 1;
        }
    }
}

/// The effective user.
pub fn user() -> u32 {
    // SAFETY: always works.
    unsafe { call(number::GETEUID, [0; 6]) as u32 }
}

/// The process id.
pub fn process_id() -> u32 {
    // SAFETY: always works.
    unsafe { call(number::GETPID, [0; 6]) as u32 }
}
