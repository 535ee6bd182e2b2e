//! Programs that the process is about to start: whether the library would do harm there, or could not be loaded, and the notes about them.
//!
//! This runs between fork and exec, perhaps in the memory of a parent that waits (vfork): it allocates nothing, takes no lock, and keeps nothing open.

use crate::executable::{self, ExecutableKind, LONGEST_PATH};
use crate::{session, sys};
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};
pub use highwater_shm::unrecorded_v1::Reason;

/// A script's interpreter may be a script.
const MOST_INTERPRETERS: usize = 5;

/// Whether a seccomp filter was installed: from then on the agent must not make system calls, in this process and those that it forks.
static FILTERED: AtomicBool = AtomicBool::new(false);

/// Announces that a seccomp filter is about to be installed.
pub(crate) fn set_filtered() {
    FILTERED.store(true, Ordering::SeqCst);
}

/// Whether a seccomp filter was installed.
pub fn is_filtered() -> bool {
    FILTERED.load(Ordering::SeqCst)
}

/// The kind of this very program.
pub fn own_kind() -> ExecutableKind {
    let Some(file) = sys::open(c"/proc/self/exe") else { return ExecutableKind::Fit };
    let kind = executable::look_at(&|offset, buffer| sys::read_at(file, offset, buffer));
    sys::close(file);
    kind
}

/// Whether the process may run the program at `path`.
pub fn is_executable(path: &CStr) -> bool {
    sys::may_execute(path)
}

/// Why a program is started without the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It is not recorded.
    Unrecorded(Reason),
    /// It contains the library already, and is recorded.
    Linked,
}

/// Whether the program at `path` must be started without the library at `library`.
pub fn must_be_left_out(path: &CStr, library: &CStr) -> Option<LeftOut> {
    let unrecorded = |reason| Some(LeftOut::Unrecorded(reason));
    if is_filtered() {
        return unrecorded(Reason::Filter);
    }
    let mut is_linked = false;
    let mut interpreter = [0; LONGEST_PATH + 1];
    for step in 0..MOST_INTERPRETERS {
        let path = if step == 0 { Some(path) } else { CStr::from_bytes_until_nul(&interpreter).ok() };
        // A file that cannot be read is left to the kernel, which refuses it, or runs it unseen.
        let file = path.and_then(sys::open)?;
        let kind = executable::look_at(&|offset, buffer| sys::read_at(file, offset, buffer));
        let gets_rights = sys::gets_other_rights(file);
        sys::close(file);
        match kind {
            ExecutableKind::Script(name, length) => {
                interpreter = [0; LONGEST_PATH + 1];
                interpreter[..length].copy_from_slice(&name[..length]);
            }
            ExecutableKind::Unfit(reason) => return unrecorded(reason),
            _ if gets_rights => return unrecorded(Reason::MoreRights),
            ExecutableKind::Linked { is_static } => {
                is_linked = is_static;
                break;
            }
            ExecutableKind::Fit | ExecutableKind::OwnAllocator => break,
        }
    }
    let Some(library) = sys::open(library) else { return unrecorded(Reason::OutOfReach) };
    sys::close(library);
    let config = session::session().config();
    // A collector may start later; a recorder is listening, or out of reach.
    let is_reached = match sys::check_writable(config.socket()) {
        0 => true,
        sys::ENOENT => config.is_live(),
        error => error != sys::EACCES,
    };
    if !is_reached {
        return unrecorded(Reason::OutOfReach);
    }
    is_linked.then_some(LeftOut::Linked)
}

/// Notes a program that is started without the library, for the reader of this process's shared memory.
pub fn note_left_out(reason: Reason, path: &CStr) {
    let mut led_to = [0; LONGEST_PATH];
    let mut path = path;
    // An open file has a number for a name; its link has the real one.
    if path.to_bytes().starts_with(b"/proc/self/fd/") && reason != Reason::Filter {
        let length = sys::read_link(path, &mut led_to[..LONGEST_PATH - 1]);
        if length > 0
            && let Ok(link) = CStr::from_bytes_until_nul(&led_to)
        {
            path = link;
        }
    }
    let name = path.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    session::session().note_unrecorded(reason, name);
}
