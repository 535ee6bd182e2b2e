//! System calls made directly: they touch no `errno`, take no lock and cannot be intercepted, not even by ourselves.

use core::arch::asm;

mod number {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const OPEN: usize = 2;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDMSG: usize = 46;
    pub const FCNTL: usize = 72;
    pub const FTRUNCATE: usize = 77;
    pub const READLINK: usize = 89;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const FUTEX: usize = 202;
    pub const TGKILL: usize = 234;
    pub const PRLIMIT: usize = 302;
    pub const MEMFD_CREATE: usize = 319;
}

/// "No such process".
pub const ESRCH: isize = -3;
/// "Bad address".
const EFAULT: isize = -14;
/// Nobody listens there.
pub const ECONNREFUSED: isize = -111;
/// No such file.
pub const ENOENT: isize = -2;

/// A file descriptor.
pub type Descriptor = usize;

/// SAFETY: what the kernel asks of the arguments of this call.
unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
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

fn value(result: isize) -> Result<usize, isize> {
    if result < 0 { Err(result) } else { Ok(result as usize) }
}

/// Private memory, zero, taken when touched.
pub fn map_private(bytes: usize) -> Option<*mut u8> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
    // SAFETY: a new mapping wherever the kernel likes.
    let result = unsafe { call(number::MMAP, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0]) };
    value(result).ok().map(|address| address as *mut u8)
}

/// A shared object, mapped.
pub fn map_shared(object: Descriptor, bytes: usize) -> Option<*mut u8> {
    const READ_WRITE: usize = 3;
    const SHARED_NORESERVE: usize = 0x1 | 0x4000;
    // SAFETY: a new mapping wherever the kernel likes.
    let result = unsafe { call(number::MMAP, [0, bytes, READ_WRITE, SHARED_NORESERVE, object, 0]) };
    value(result).ok().map(|address| address as *mut u8)
}

/// Gives a mapping back.
///
/// # Safety
/// Nothing refers to it any more.
pub unsafe fn unmap(address: *mut u8, bytes: usize) {
    // SAFETY: the caller's.
    unsafe { call(number::MUNMAP, [address as usize, bytes, 0, 0, 0, 0]) };
}

/// A child of fork will find zeros here. False if the kernel cannot.
pub fn wipe_on_fork(address: *mut u8, bytes: usize) -> bool {
    const WIPEONFORK: usize = 18;
    // SAFETY: only changes what a forked child sees of a mapping of our own.
    unsafe { call(number::MADVISE, [address as usize, bytes, WIPEONFORK, 0, 0, 0]) == 0 }
}

/// Leaves a mapping out of core dumps; best effort.
pub fn leave_out_of_core_dumps(address: *mut u8, bytes: usize) {
    const DONTDUMP: usize = 16;
    // SAFETY: as above.
    unsafe { call(number::MADVISE, [address as usize, bytes, DONTDUMP, 0, 0, 0]) };
}

/// Does `work` while files, and memory objects with them, may be as large as `bytes`; `None`, and nothing done, if that cannot be. Asking
/// for more than is allowed would not only fail but kill the program, by a signal.
fn with_file_size<T>(bytes: usize, work: impl FnOnce() -> Option<T>) -> Option<T> {
    const FILE_SIZE: usize = 1;
    let limit = |new: *const [usize; 2], old: *mut [usize; 2]| {
        // SAFETY: the kernel reads and writes two words, or none where it is given null.
        unsafe { call(number::PRLIMIT, [0, FILE_SIZE, new as usize, old as usize, 0, 0]) == 0 }
    };
    let mut before = [0; 2];
    if !limit(core::ptr::null(), &raw mut before) {
        return None;
    }
    let [now, most] = before;
    if now >= bytes {
        return work();
    }
    // Beyond the most that is allowed only a privileged program gets.
    let wanted = [bytes, most.max(bytes)];
    if !limit(&raw const wanted, core::ptr::null_mut()) {
        return None;
    }
    let done = work();
    limit(&raw const before, core::ptr::null_mut());
    done
}

/// A memory object of this size that can never change its size; `None` if there is none to be had.
pub fn sealed_memory(bytes: usize) -> Option<Descriptor> {
    with_file_size(bytes, || new_sealed_memory(bytes))
}

fn new_sealed_memory(bytes: usize) -> Option<Descriptor> {
    const CLOSE_ON_EXEC_ALLOW_SEALING: usize = 3;
    const ADD_SEALS: usize = 1033;
    const SEAL_SEAL_SHRINK_GROW: usize = 1 | 2 | 4;
    let name = c"highwater";
    // SAFETY: the name is a C string; the descriptor is ours.
    unsafe {
        let object = call(number::MEMFD_CREATE, [name.as_ptr() as usize, CLOSE_ON_EXEC_ALLOW_SEALING, 0, 0, 0, 0]);
        let object = value(object).ok()?;
        let sized = call(number::FTRUNCATE, [object, bytes, 0, 0, 0, 0]) == 0
            && call(number::FCNTL, [object, ADD_SEALS, SEAL_SEAL_SHRINK_GROW, 0, 0, 0]) == 0;
        if !sized {
            close(object);
            return None;
        }
        Some(object)
    }
}

/// Closes a descriptor of our own.
pub fn close(descriptor: Descriptor) {
    // SAFETY: the caller owns it.
    unsafe { call(number::CLOSE, [descriptor, 0, 0, 0, 0, 0]) };
}

/// Reads the beginning of a file into `buffer`, as much as fits; how much that is.
pub fn read_file(path: &core::ffi::CStr, buffer: &mut [u8]) -> Option<usize> {
    const READ_CLOSE_ON_EXEC: usize = 0o2_000_000;
    // SAFETY: the path is a C string, the buffer is as long as it says.
    unsafe {
        let file = value(call(number::OPEN, [path.as_ptr() as usize, READ_CLOSE_ON_EXEC, 0, 0, 0, 0])).ok()?;
        let mut length = 0;
        while length < buffer.len() {
            let rest = &mut buffer[length..];
            match value(call(number::READ, [file, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0])) {
                Ok(0) | Err(_) => break,
                Ok(read) => length += read,
            }
        }
        close(file);
        Some(length)
    }
}

/// Where a symbolic link leads, as far as it fits into `buffer`; how long that is.
pub fn read_link(path: &core::ffi::CStr, buffer: &mut [u8]) -> usize {
    // SAFETY: the path is a C string, the buffer is as long as it says.
    let result = unsafe {
        call(number::READLINK, [path.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])
    };
    value(result).unwrap_or(0)
}

const UNIX: usize = 1;
const PATH_BYTES: usize = 108;

#[repr(C)]
struct UnixAddress {
    family: u16,
    path: [u8; PATH_BYTES],
}

/// A connection to the socket at `path`; the kernel's error number if there is none.
pub fn connect(path: &[u8]) -> Result<Descriptor, isize> {
    const SEQPACKET_CLOSE_ON_EXEC: usize = 5 | 0o2_000_000;
    if path.len() >= PATH_BYTES {
        return Err(ENOENT);
    }
    let mut address = UnixAddress { family: UNIX as u16, path: [0; PATH_BYTES] };
    address.path[..path.len()].copy_from_slice(path);
    // SAFETY: the address is whole and outlives the call.
    unsafe {
        let socket = value(call(number::SOCKET, [UNIX, SEQPACKET_CLOSE_ON_EXEC, 0, 0, 0, 0]))?;
        let length = 2 + path.len() + 1;
        match call(number::CONNECT, [socket, (&raw const address) as usize, length, 0, 0, 0]) {
            0 => Ok(socket),
            error => {
                close(socket);
                Err(error)
            }
        }
    }
}

#[repr(C)]
struct Piece {
    start: *const u8,
    length: usize,
}

#[repr(C)]
struct Message {
    name: usize,
    name_length: u32,
    pieces: *const Piece,
    piece_count: usize,
    control: *const Control,
    control_length: usize,
    flags: i32,
}

/// One descriptor as control data: length, level SOL_SOCKET, type SCM_RIGHTS, then the descriptor.
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    descriptor: i32,
    padding: i32,
}

/// Sends bytes, with a descriptor attached if there is one.
pub fn send(socket: Descriptor, bytes: &[u8], descriptor: Option<Descriptor>) -> bool {
    const NO_SIGNAL: usize = 0x4000;
    let piece = Piece { start: bytes.as_ptr(), length: bytes.len() };
    let control = Control { length: 20, level: 1, kind: 1, descriptor: descriptor.unwrap_or(0) as i32, padding: 0 };
    let message = Message {
        name: 0,
        name_length: 0,
        pieces: &raw const piece,
        piece_count: 1,
        control: &raw const control,
        control_length: if descriptor.is_some() { size_of::<Control>() } else { 0 },
        flags: 0,
    };
    // SAFETY: everything that the message points to outlives the call.
    let sent = unsafe { call(number::SENDMSG, [socket, (&raw const message) as usize, NO_SIGNAL, 0, 0, 0]) };
    sent == bytes.len() as isize
}

/// The process.
pub fn process_id() -> u32 {
    // SAFETY: always works.
    unsafe { call(number::GETPID, [0; 6]) as u32 }
}

/// The thread.
pub fn thread_id() -> u32 {
    // SAFETY: always works.
    unsafe { call(number::GETTID, [0; 6]) as u32 }
}

/// Whether a thread of this process is gone.
pub fn is_gone(process: u32, thread: u32) -> bool {
    // SAFETY: signal 0 is never sent.
    unsafe { call(number::TGKILL, [process as usize, thread as usize, 0, 0, 0, 0]) == ESRCH }
}

/// The calling thread's name: at most 15 bytes, then zeros.
pub fn thread_name() -> [u8; 16] {
    const GET_NAME: usize = 16;
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { call(number::PRCTL, [GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    name
}

/// Sleeps while the shared word at `word` is `expected`, at most so long.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32, nanoseconds: u64) {
    const WAIT: usize = 0;
    let timeout = [(nanoseconds / 1_000_000_000) as i64, (nanoseconds % 1_000_000_000) as i64];
    // SAFETY: the word and the time outlive the call.
    unsafe { call(number::FUTEX, [word.as_ptr() as usize, WAIT, expected as usize, timeout.as_ptr() as usize, 0, 0]) };
}

/// Wakes whoever sleeps on the shared word.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    const WAKE: usize = 1;
    // SAFETY: the kernel only compares the address.
    unsafe { call(number::FUTEX, [word.as_ptr() as usize, WAKE, i32::MAX as usize, 0, 0, 0]) };
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

/// The system's monotonic clock in nanoseconds. The one call that goes through the C library, which reads this clock without
/// entering the kernel.
pub fn monotonic_ns() -> u64 {
    const MONOTONIC: i32 = 1;
    let mut time = [0i64; 2];
    // SAFETY: writes two words; cannot fail for this clock, so `errno` stays as it is.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Whether the eight bytes at `address` can be read. The kernel is asked to take them for a signal mask in a call that is
/// wrong otherwise: it reads them first, and then refuses.
pub fn is_readable(address: u64) -> bool {
    const NO_SUCH_ACTION: usize = 0x7fff;
    // SAFETY: the call fails whatever the bytes are.
    unsafe { call(number::RT_SIGPROCMASK, [NO_SUCH_ACTION, address as usize, 0, 8, 0, 0]) != EFAULT }
}
