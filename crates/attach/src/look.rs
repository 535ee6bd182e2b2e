//! What the target is, before anything is touched: from files of `/proc` only.

use crate::elf::{FILE_HEADER_BYTES, FileHeader};
use crate::refusal::Refusal;
use crate::target_memory::TargetMemory;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

/// `/proc/PID/task/TID/status`, or that of the process.
#[derive(Debug)]
pub(crate) struct TaskStatus(String);

impl TaskStatus {
    pub(crate) fn of_process(pid: i32) -> io::Result<Self> {
        Self::read(&format!("/proc/{pid}/status"))
    }

    pub(crate) fn of_thread(pid: i32, thread: i32) -> io::Result<Self> {
        Self::read(&format!("/proc/{pid}/task/{thread}/status"))
    }

    fn read(path: &str) -> io::Result<Self> {
        Ok(Self(String::from_utf8_lossy(&fs::read(path)?).into_owned()))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The first number of a field, 0 if there is none.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.field(name).and_then(|text| text.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// The last number of a field: of nested namespaces, the innermost.
    pub(crate) fn innermost(&self, name: &str) -> u64 {
        self.field(name).and_then(|text| text.split_whitespace().last()).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// A set of signals.
    pub(crate) fn signals(&self, name: &str) -> u64 {
        self.field(name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
    }

    /// One letter: R, S, D, T, t, Z, X.
    pub(crate) fn state(&self) -> char {
        self.field("State").and_then(|text| text.chars().next()).unwrap_or('?')
    }
}

/// The threads of a process now.
pub(crate) fn threads_of(pid: i32) -> io::Result<Vec<i32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Some(thread) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            threads.push(thread);
        }
    }
    threads.sort_unstable();
    Ok(threads)
}

/// The first thread of a process that has not ended; the process's number if there is none. When the first thread of all has ended and others go on, the files of the
/// process itself are empty, and those of a living thread are not.
pub(crate) fn living_thread(pid: i32) -> i32 {
    let lives =
        |thread: i32| TaskStatus::of_thread(pid, thread).is_ok_and(|status| !matches!(status.state(), 'Z' | 'X'));
    if lives(pid) {
        return pid;
    }
    threads_of(pid).unwrap_or_default().into_iter().find(|&thread| lives(thread)).unwrap_or(pid)
}

/// The folder of a living thread in `/proc`, in which all that threads share can be found.
pub(crate) fn living_folder(pid: i32) -> String {
    format!("/proc/{pid}/task/{}", living_thread(pid))
}

/// Keeps other attachers away while it lives. The kernel frees it when this process dies.
#[derive(Debug)]
pub(crate) struct AttachLock {
    _directory: File,
}

impl AttachLock {
    pub(crate) fn take(pid: i32) -> Result<Self, Refusal> {
        let directory = File::open(format!("/proc/{pid}")).map_err(|_| Refusal::NoSuchProcess(pid))?;
        rustix::fs::flock(&directory, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Refusal::Busy(pid))?;
        Ok(Self { _directory: directory })
    }
}

/// What one reads before opening the target's memory.
pub(crate) fn examine(pid: i32) -> Result<TargetMemory, Refusal> {
    if pid == std::process::id().cast_signed() {
        return Err(Refusal::Myself(pid));
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    if is_too_old(&release) {
        return Err(Refusal::OldKernel(release));
    }
    let status = TaskStatus::of_process(pid).map_err(|_| Refusal::NoSuchProcess(pid))?;
    if status.number("Tgid") != pid as u64 {
        return Err(Refusal::NoSuchProcess(pid));
    }
    let threads = threads_of(pid).unwrap_or_default();
    match status.state() {
        // The first thread of a process may end while others go on.
        'Z' | 'X' if threads.len() < 2 => return Err(Refusal::Zombie(pid)),
        'T' => return Err(Refusal::StoppedBySignal(pid)),
        _ => (),
    }
    for thread in &threads {
        let tracer = TaskStatus::of_thread(pid, *thread).map_or(0, |status| status.number("TracerPid"));
        if tracer != 0 {
            let tracer_name = fs::read_to_string(format!("/proc/{tracer}/comm"))
                .map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned());
            return Err(Refusal::Traced { pid, tracer: tracer as i32, tracer_name });
        }
    }
    if status.number("Seccomp") == 1 {
        return Err(Refusal::StrictSeccomp(pid));
    }
    // Kernel threads have no address space.
    let living = TaskStatus::of_thread(pid, living_thread(pid)).map_err(|_| Refusal::NoSuchProcess(pid))?;
    if living.field("VmSize").is_none() && living.field("Kthread").is_none_or(|kernel| kernel == "1") {
        return Err(Refusal::KernelThread(pid));
    }
    let memory = TargetMemory::open(pid).map_err(|error| explain(pid, &error))?;
    let mut head = [0; FILE_HEADER_BYTES];
    let program = File::open(format!("{}/exe", living_folder(pid))).map_err(|error| explain(pid, &error))?;
    (&program).read_exact(&mut head).map_err(|_| Refusal::OtherArchitecture(pid))?;
    let header = FileHeader::parse(&head).ok_or(Refusal::OtherArchitecture(pid))?;
    const EM_386: u16 = 3;
    const EM_X86_64: u16 = 62;
    match header.machine {
        EM_386 => return Err(Refusal::Bits32(pid)),
        EM_X86_64 if !header.is_64_bit => return Err(Refusal::Bits32(pid)),
        EM_X86_64 => (),
        _ => return Err(Refusal::OtherArchitecture(pid)),
    }
    Ok(memory)
}

/// Whether a kernel cannot hide the agent's memory from forked children (Linux 4.14), or map only where nothing is (4.17).
fn is_too_old(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map_while(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < (4_u32, 17_u32)
}

/// Why the kernel said no.
pub(crate) fn explain(pid: i32, error: &io::Error) -> Refusal {
    let Ok(status) = TaskStatus::of_process(pid) else { return Refusal::NoSuchProcess(pid) };
    if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
        return match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => Refusal::NoSuchProcess(pid),
            _ => Refusal::Unreadable { pid, source: io::Error::from(error.kind()) },
        };
    }
    let you = rustix::process::geteuid().as_raw();
    let owner = status.number("Uid") as u32;
    if owner != you && you != 0 {
        return Refusal::OtherUser { pid, owner, you };
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    if scope == 3 || scope > 0 && you != 0 {
        return Refusal::Yama(scope);
    }
    // Files of processes that are not dumpable belong to root. That of the folder itself does not change.
    if fs::metadata(format!("{}/mem", living_folder(pid))).is_ok_and(|mem| mem.uid() != you) {
        return Refusal::NotDumpable(pid);
    }
    Refusal::NotPermitted(pid)
}

/// A process that is not a thread and uses the same memory: one that `clone(CLONE_VM)` or `vfork` has made, or the one that made this. Any process may be its parent, so
/// all are compared.
pub(crate) fn shares_memory(pid: i32) -> Option<i32> {
    let living = living_thread(pid);
    let numbers = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|&other: &i32| other != pid && same_memory(living, other))
}

/// Refuses a process whose memory another one uses: that one would not be stopped.
pub(crate) fn refuse_shared_memory(pid: i32) -> Result<(), Refusal> {
    if let Some(other) = shares_memory(pid) {
        // A child of `vfork` ends that soon.
        std::thread::sleep(Duration::from_millis(20));
        if shares_memory(pid) == Some(other) {
            return Err(Refusal::SharedMemory { pid, other });
        }
    }
    Ok(())
}

fn same_memory(one: i32, other: i32) -> bool {
    const KCMP_VM: libc::c_long = 1;
    // SAFETY: kcmp takes five numbers and touches no memory of this process.
    unsafe {
        libc::syscall(libc::SYS_kcmp, libc::c_long::from(one), libc::c_long::from(other), KCMP_VM, 0_i64, 0_i64) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::is_too_old;

    #[test]
    fn kernels_are_known_by_their_releases() {
        for release in ["3.10.0-1160.el7.x86_64", "4.14.336", "4.4", "2.6.32", ""] {
            assert!(is_too_old(release), "{release}");
        }
        for release in ["4.17.0", "4.18.0-553.el8_10.x86_64", "5.4.0-1-generic", "6.18.44-fc-v657", "10.0"] {
            assert!(!is_too_old(release), "{release}");
        }
    }
}
