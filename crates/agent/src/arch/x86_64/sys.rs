//! System calls made directly: they do not touch `errno`, take no lock and cannot be intercepted, not even by the agent itself.

use core::arch::asm;

mod number {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PREAD: usize = 17;
    pub const ACCESS: usize = 21;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const RECVFROM: usize = 45;
    pub const SENDMSG: usize = 46;
    pub const SETSOCKOPT: usize = 54;
    pub const GETSOCKOPT: usize = 55;
    pub const FCNTL: usize = 72;
    pub const FTRUNCATE: usize = 77;
    pub const READLINK: usize = 89;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const FUTEX: usize = 202;
    #[cfg(feature = "injected")]
    pub const CLOCK_GETTIME: usize = 228;
    pub const TGKILL: usize = 234;
    pub const OPENAT: usize = 257;
    pub const PRLIMIT: usize = 302;
    pub const MEMFD_CREATE: usize = 319;
    pub const FACCESSAT2: usize = 439;
}

/// "No such process".
pub const ESRCH: isize = -3;
/// "Bad address".
const EFAULT: isize = -14;
/// Not allowed by a file's mode, or a directory's.
pub const EACCES: isize = -13;
/// The kernel does not know this call.
const ENOSYS: isize = -38;
/// No process listens there.
pub const ECONNREFUSED: isize = -111;
/// No such file.
pub const ENOENT: isize = -2;
/// Not allowed: the listener is not one of ours.
pub const EPERM: isize = -1;

/// A file descriptor.
pub type Descriptor = usize;

/// SAFETY: the kernel's requirements for the arguments of this call.
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

/// Private memory, zeroed, taken from the system when touched. Only [`private_memory`](crate::private_memory) calls this: it lists what it maps.
pub fn map_private(bytes: usize) -> Option<*mut u8> {
    const READ_WRITE: usize = 3;
    map_anonymous(bytes, READ_WRITE)
}

/// Address space for private memory that cannot be accessed yet.
pub fn reserve(bytes: usize) -> Option<*mut u8> {
    const NO_ACCESS: usize = 0;
    map_anonymous(bytes, NO_ACCESS)
}

fn map_anonymous(bytes: usize, protection: usize) -> Option<*mut u8> {
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
    // SAFETY: a new mapping wherever the kernel likes.
    let result = unsafe { call(number::MMAP, [0, bytes, protection, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0]) };
    value(result).ok().map(|address| address as *mut u8)
}

/// Makes reserved memory accessible; false if the system does not allow more.
pub fn make_accessible(start: *mut u8, bytes: usize) -> bool {
    const READ_WRITE: usize = 3;
    // SAFETY: a part of a mapping of our own.
    unsafe { call(number::MPROTECT, [start as usize, bytes, READ_WRITE, 0, 0, 0]) == 0 }
}

/// Whether the address space of the process has a limit of its own.
pub fn limits_address_space() -> bool {
    const ADDRESS_SPACE: usize = 9;
    let mut limit = [usize::MAX; 2];
    // SAFETY: the kernel writes two words.
    unsafe { call(number::PRLIMIT, [0, ADDRESS_SPACE, 0, (&raw mut limit) as usize, 0, 0]) };
    limit[0] != usize::MAX
}

/// Advises the system to provide this memory in large pages.
pub fn prefer_large_pages(start: *mut u8, bytes: usize) {
    const HUGE_PAGE: usize = 14;
    // SAFETY: only advises how to provide a mapping of our own.
    unsafe { call(number::MADVISE, [start as usize, bytes, HUGE_PAGE, 0, 0, 0]) };
}

/// Releases the whole pages within this memory.
pub fn give_back_pages(start: *mut u8, bytes: usize) {
    const DONT_NEED: usize = 4;
    const PAGE: usize = 4096;
    let (from, to) = ((start as usize).next_multiple_of(PAGE), (start as usize + bytes) & !(PAGE - 1));
    if from < to {
        // SAFETY: private memory of ours that nothing refers to any more.
        unsafe { call(number::MADVISE, [from, to - from, DONT_NEED, 0, 0, 0]) };
    }
}

/// Maps a shared object.
pub fn map_shared(object: Descriptor, bytes: usize) -> Option<*mut u8> {
    const READ_WRITE: usize = 3;
    const SHARED_NORESERVE: usize = 0x1 | 0x4000;
    // SAFETY: a new mapping wherever the kernel likes.
    let result = unsafe { call(number::MMAP, [0, bytes, READ_WRITE, SHARED_NORESERVE, object, 0]) };
    value(result).ok().map(|address| address as *mut u8)
}

/// Unmaps a mapping.
///
/// # Safety
/// Nothing refers to it any more.
pub unsafe fn unmap(address: *mut u8, bytes: usize) {
    // SAFETY: the caller's.
    unsafe { call(number::MUNMAP, [address as usize, bytes, 0, 0, 0, 0]) };
}

/// A forked child will find zeros here. False if the kernel does not support that.
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

/// Runs `work` while files, and memory objects with them, may be as large as `bytes`. Returns `None` without running it if that is not possible: asking
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
    // Only a privileged program can exceed the hard limit.
    let wanted = [bytes, most.max(bytes)];
    if !limit(&raw const wanted, core::ptr::null_mut()) {
        return None;
    }
    let done = work();
    limit(&raw const before, core::ptr::null_mut());
    done
}

/// A memory object of this size and name that can never change its size; `None` if it cannot be created.
pub fn sealed_memory(name: &core::ffi::CStr, bytes: usize) -> Option<Descriptor> {
    const CLOSE_ON_EXEC_ALLOW_SEALING: usize = 3;
    with_file_size(bytes, || {
        // SAFETY: the name is a C string; the descriptor is ours.
        unsafe {
            let object = call(number::MEMFD_CREATE, [name.as_ptr() as usize, CLOSE_ON_EXEC_ALLOW_SEALING, 0, 0, 0, 0]);
            let object = value(object).ok()?;
            let sized =
                call(number::FTRUNCATE, [object, bytes, 0, 0, 0, 0]) == 0 && add_seals(object, SEAL_SHRINK | SEAL_GROW);
            if !sized {
                close(object);
                return None;
            }
            Some(object)
        }
    })
}

const SEAL_SEAL: usize = 1;
const SEAL_SHRINK: usize = 2;
const SEAL_GROW: usize = 4;
const SEAL_FUTURE_WRITE: usize = 16;

fn add_seals(object: Descriptor, seals: usize) -> bool {
    const ADD_SEALS: usize = 1033;
    // SAFETY: only restricts what can be done to the object.
    unsafe { call(number::FCNTL, [object, ADD_SEALS, seals, 0, 0, 0]) == 0 }
}

/// From now on no process can map the object for writing, or write it otherwise; existing mappings stay. Older kernels do not support that.
pub fn seal_against_writing(object: Descriptor) {
    add_seals(object, SEAL_FUTURE_WRITE | SEAL_SEAL);
}

/// Moves a descriptor out of the way of the program's own, to one of the highest possible numbers.
pub fn move_up(descriptor: Descriptor) -> Descriptor {
    const OPEN_FILES: usize = 7;
    const DUPLICATE_CLOSE_ON_EXEC: usize = 1030;
    /// Beyond this the kernel's table would take memory of its own.
    const HIGHEST: usize = 4096;
    let mut limit = [0usize; 2];
    // SAFETY: the kernel writes two words; the descriptor is ours.
    unsafe {
        if call(number::PRLIMIT, [0, OPEN_FILES, 0, (&raw mut limit) as usize, 0, 0]) != 0 {
            return descriptor;
        }
        let least = limit[0].min(HIGHEST).saturating_sub(16);
        match value(call(number::FCNTL, [descriptor, DUPLICATE_CLOSE_ON_EXEC, least, 0, 0, 0])) {
            Ok(moved) => {
                close(descriptor);
                moved
            }
            Err(_) => descriptor,
        }
    }
}

/// The identity of a descriptor's object, which may be another one by now. `None` if the descriptor is closed.
pub fn identity(descriptor: Descriptor) -> Option<(u64, u64)> {
    about(descriptor).map(|about| (about[0], about[1]))
}

/// The kernel's description of a file: its device and its inode number come first.
fn about(descriptor: Descriptor) -> Option<[u64; 18]> {
    let mut about = [0u64; 18];
    // SAFETY: the kernel writes 144 bytes.
    let result = unsafe { call(number::FSTAT, [descriptor, about.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    (result == 0).then_some(about)
}

/// The process at the other end of a connection, and its user.
pub fn peer(socket: Descriptor) -> Option<(u32, u32)> {
    const SOCKET_LEVEL: usize = 1;
    const PEER_CREDENTIALS: usize = 17;
    let (mut credentials, mut length) = ([0u32; 3], 12u32);
    let pointers = [credentials.as_mut_ptr() as usize, (&raw mut length) as usize];
    // SAFETY: the kernel writes at most twelve bytes, and their number.
    let result =
        unsafe { call(number::GETSOCKOPT, [socket, SOCKET_LEVEL, PEER_CREDENTIALS, pointers[0], pointers[1], 0]) };
    (result == 0).then_some((credentials[0], credentials[1]))
}

/// Waits at most `nanoseconds` for a message; returns the number of bytes that fit into the buffer.
pub fn receive(socket: Descriptor, buffer: &mut [u8], nanoseconds: u64) -> Option<usize> {
    const SOCKET_LEVEL: usize = 1;
    const RECEIVE_TIMEOUT: usize = 20;
    let timeout = [(nanoseconds / 1_000_000_000) as i64, (nanoseconds % 1_000_000_000 / 1000) as i64];
    // SAFETY: the kernel reads two words, and writes into the buffer.
    unsafe {
        call(number::SETSOCKOPT, [socket, SOCKET_LEVEL, RECEIVE_TIMEOUT, timeout.as_ptr() as usize, 16, 0]);
        value(call(number::RECVFROM, [socket, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])).ok()
    }
}

/// Lets a process read our memory; best effort.
pub fn allow_reading_by(process: u32) {
    const SET_PTRACER: usize = 0x5961_6d61;
    // SAFETY: only changes which process may read our memory.
    unsafe { call(number::PRCTL, [SET_PTRACER, process as usize, 0, 0, 0, 0]) };
}

/// Closes a descriptor of our own.
pub fn close(descriptor: Descriptor) {
    // SAFETY: the caller owns it.
    unsafe { call(number::CLOSE, [descriptor, 0, 0, 0, 0, 0]) };
}

/// Opens a file for reading.
pub fn open(path: &core::ffi::CStr) -> Option<Descriptor> {
    const READ_CLOSE_ON_EXEC: usize = 0o2_000_000;
    // SAFETY: the path is a C string. The loader makes this call as well: a filter that lets programs start allows it.
    let opened = unsafe { call(number::OPENAT, [FROM_HERE, path.as_ptr() as usize, READ_CLOSE_ON_EXEC, 0, 0, 0]) };
    value(opened).ok()
}

/// Relative paths start at the working directory.
const FROM_HERE: usize = -100isize as usize;

/// Reads the beginning of a file into `buffer`, as much as fits; returns the number of bytes.
pub fn read_file(path: &core::ffi::CStr, buffer: &mut [u8]) -> Option<usize> {
    let file = open(path)?;
    let mut length = 0;
    while length < buffer.len() {
        let rest = &mut buffer[length..];
        // SAFETY: the buffer is as long as it says.
        let read = unsafe { call(number::READ, [file, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0]) };
        match value(read) {
            Ok(0) | Err(_) => break,
            Ok(read) => length += read,
        }
    }
    close(file);
    Some(length)
}

/// Reads what comes next in a file into `buffer`; returns the number of bytes, 0 at its end.
pub fn read(file: Descriptor, buffer: &mut [u8]) -> usize {
    // SAFETY: the buffer is as long as it says.
    value(unsafe { call(number::READ, [file, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }).unwrap_or(0)
}

/// Reads the file at `offset` into `buffer`; returns the number of bytes.
pub fn read_at(file: Descriptor, offset: u64, buffer: &mut [u8]) -> usize {
    let (address, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the buffer is as long as it says.
    value(unsafe { call(number::PREAD, [file, address, length, offset as usize, 0, 0]) }).unwrap_or(0)
}

/// Whether a program started from this file gets the rights of another user or group.
pub fn gets_other_rights(file: Descriptor) -> bool {
    const SET_USER: u64 = 0o4000;
    const SET_GROUP: u64 = 0o2000;
    let Some(about) = about(file) else { return false };
    // SAFETY: both always work.
    let ours = unsafe { [number::GETEUID, number::GETEGID].map(|number| call(number, [0; 6]) as u64) };
    // After device, inode number and links: the mode and the user in one word, the group in the next.
    let (mode, user, group) = (about[3] & 0xffff_ffff, about[3] >> 32, about[4] & 0xffff_ffff);
    (mode & SET_USER != 0 && user != ours[0]) || (mode & SET_GROUP != 0 && group != ours[1])
}

/// Whether the file at `path` may be run.
pub fn may_execute(path: &core::ffi::CStr) -> bool {
    const EXECUTE: usize = 1;
    // SAFETY: a C string.
    unsafe { access(path.as_ptr() as usize, EXECUTE) == 0 }
}

/// Checks a kind of access to a file with the rights that the process has now: 0, or the kernel's error number.
///
/// # Safety
/// There is a C string at `path`.
unsafe fn access(path: usize, what: usize) -> isize {
    const RIGHTS_OF_NOW: usize = 0x200;
    // SAFETY: the caller's. Older kernels only check the rights that the process began with.
    unsafe {
        match call(number::FACCESSAT2, [FROM_HERE, path, what, RIGHTS_OF_NOW, 0, 0]) {
            ENOSYS => call(number::ACCESS, [path, what, 0, 0, 0, 0]),
            result => result,
        }
    }
}

/// Whether the file at `path` may be written: 0, or the kernel's error number.
pub fn check_writable(path: &[u8]) -> isize {
    const WRITE: usize = 2;
    if path.len() >= PATH_BYTES {
        return ENOENT;
    }
    let mut text = [0; PATH_BYTES];
    text[..path.len()].copy_from_slice(path);
    // SAFETY: the text ends with a zero.
    unsafe { access(text.as_ptr() as usize, WRITE) }
}

/// Reads a symbolic link's target, as far as it fits into `buffer`; returns its length.
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

/// Connects to the socket at `path`. Only a process of our own user or of root is accepted as the listener: no other process gets anything from us. Returns
/// the kernel's error number on failure. If the listener's queue is full, waits at most `patience_ns`.
pub fn connect(path: &[u8], patience_ns: u64) -> Result<Descriptor, isize> {
    const SOCKET_LEVEL: usize = 1;
    const SEND_TIMEOUT: usize = 21;
    const SEQPACKET_CLOSE_ON_EXEC: usize = 5 | 0o2_000_000;
    if path.len() >= PATH_BYTES {
        return Err(ENOENT);
    }
    let mut address = UnixAddress { family: UNIX as u16, path: [0; PATH_BYTES] };
    address.path[..path.len()].copy_from_slice(path);
    // SAFETY: the address is whole and outlives the call.
    unsafe {
        let socket = value(call(number::SOCKET, [UNIX, SEQPACKET_CLOSE_ON_EXEC, 0, 0, 0, 0]))?;
        let timeout = [(patience_ns / 1_000_000_000) as i64, (patience_ns % 1_000_000_000 / 1000) as i64];
        call(number::SETSOCKOPT, [socket, SOCKET_LEVEL, SEND_TIMEOUT, timeout.as_ptr() as usize, 16, 0]);
        let length = 2 + path.len() + 1;
        match call(number::CONNECT, [socket, (&raw const address) as usize, length, 0, 0, 0]) {
            0 if peer(socket).is_some_and(|(_, user)| user == 0 || user == effective_user()) => Ok(socket),
            result => {
                close(socket);
                Err(if result == 0 { EPERM } else { result })
            }
        }
    }
}

/// A buffer, as the kernel takes it (`iovec`).
#[repr(C)]
struct IoVec {
    start: *const u8,
    length: usize,
}

/// A message with control data, as the kernel takes it (`msghdr`).
#[repr(C)]
struct MessageHeader {
    name: usize,
    name_length: u32,
    pieces: *const IoVec,
    piece_count: usize,
    control: *const RightsMessage,
    control_length: usize,
    flags: i32,
}

/// Descriptors as control data: length, level SOL_SOCKET, type SCM_RIGHTS, then the descriptors.
#[repr(C)]
struct RightsMessage {
    length: usize,
    level: i32,
    kind: i32,
    descriptors: [i32; MOST_SENT],
}

const MOST_SENT: usize = 2;

/// Sends bytes, with up to two descriptors attached.
pub fn send(socket: Descriptor, bytes: &[u8], descriptors: &[Descriptor]) -> bool {
    const NO_SIGNAL: usize = 0x4000;
    const HEAD: usize = 16;
    let piece = IoVec { start: bytes.as_ptr(), length: bytes.len() };
    let count = descriptors.len().min(MOST_SENT);
    let sent = core::array::from_fn(|at| descriptors.get(at).map_or(0, |&descriptor| descriptor as i32));
    let control = RightsMessage { length: HEAD + count * 4, level: 1, kind: 1, descriptors: sent };
    let message = MessageHeader {
        name: 0,
        name_length: 0,
        pieces: &raw const piece,
        piece_count: 1,
        control: &raw const control,
        control_length: if count > 0 { (HEAD + count * 4).next_multiple_of(8) } else { 0 },
        flags: 0,
    };
    // SAFETY: everything that the message points to outlives the call.
    let sent = unsafe { call(number::SENDMSG, [socket, (&raw const message) as usize, NO_SIGNAL, 0, 0, 0]) };
    sent == bytes.len() as isize
}

fn effective_user() -> u32 {
    // SAFETY: always works.
    unsafe { call(number::GETEUID, [0; 6]) as u32 }
}

/// The process id.
pub fn process_id() -> u32 {
    // SAFETY: always works.
    unsafe { call(number::GETPID, [0; 6]) as u32 }
}

/// The thread id.
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

/// Sleeps while the shared word at `word` is `expected`, at most `nanoseconds`.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32, nanoseconds: u64) {
    const WAIT: usize = 0;
    let timeout = [(nanoseconds / 1_000_000_000) as i64, (nanoseconds % 1_000_000_000) as i64];
    // SAFETY: the word and the time outlive the call.
    unsafe { call(number::FUTEX, [word.as_ptr() as usize, WAIT, expected as usize, timeout.as_ptr() as usize, 0, 0]) };
}

/// Wakes the threads that sleep on the shared word.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    const WAKE: usize = 1;
    // SAFETY: the kernel only compares the address.
    unsafe { call(number::FUTEX, [word.as_ptr() as usize, WAKE, i32::MAX as usize, 0, 0, 0]) };
}

unsafe extern "C" {
    #[cfg(not(feature = "injected"))]
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
    fn getauxval(kind: u64) -> u64;
}

/// The kernel's own function, which reads clocks without entering the kernel, or the system call.
///
/// SAFETY: `time` has room for two words.
#[cfg(feature = "injected")]
unsafe fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32 {
    let function = crate::injected::header().clock_gettime as *const ();
    // SAFETY: the attacher has found the function of this name, which has this type; the rest is the caller's.
    unsafe {
        if function.is_null() {
            return call(number::CLOCK_GETTIME, [clock as usize, time as usize, 0, 0, 0, 0]) as i32;
        }
        let function: unsafe extern "C" fn(i32, *mut [i64; 2]) -> i32 = core::mem::transmute(function);
        function(clock, time)
    }
}

/// Whether the process has rights that the user who started it does not have (setuid, setgid, file capabilities). That user chose the environment,
/// so nothing in it may be trusted then.
pub fn has_more_rights() -> bool {
    const SECURE: u64 = 23;
    // SAFETY: reads what the kernel gave the process at its start.
    unsafe { getauxval(SECURE) != 0 }
}

/// The system's monotonic clock in nanoseconds. Calls the C library (in an injected agent the kernel's own function), which reads this clock without
/// entering the kernel.
pub fn monotonic_ns() -> u64 {
    const MONOTONIC: i32 = 1;
    let mut time = [0i64; 2];
    // SAFETY: writes two words; cannot fail for this clock, so `errno` stays as it is.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Whether the eight bytes at `address` can be read. The agent passes them to the kernel as a signal mask, in a call that is
/// otherwise invalid: the kernel reads them first, and then refuses.
pub fn is_readable(address: u64) -> bool {
    const NO_SUCH_ACTION: usize = 0x7fff;
    // SAFETY: the call fails whatever the bytes are.
    unsafe { call(number::RT_SIGPROCMASK, [NO_SUCH_ACTION, address as usize, 0, 8, 0, 0]) != EFAULT }
}
