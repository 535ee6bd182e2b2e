//! Finding processes that have not registered because no collector was running when they started. Their two memory objects stay open under known
//! names.

use crate::process::{contains, has_mapping};
use crate::process_identity::{ProcessIdentity, name_of, status_field};
use crate::protocol::Which;
use crate::table::LiveTable;
use highwater_clock::Counter;
use highwater_session::Refused;
use highwater_shm::live_hello_v1::{ANY_MEMORY_NAME, CONTROL_NAME, MEMORY_NAME, VERSION};
use highwater_shm::session_v1::Header;
use highwater_shm::table_v1::{FLAG_NO_ARGS, socket_mark};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// All links to memory objects begin with this.
const LINK: &str = "/memfd:";
/// And end with this, after the name.
const LINK_END: &str = " (deleted)";

/// A process that was found.
#[derive(Debug)]
pub enum Finding {
    /// A process with a table.
    Table(ProcessIdentity, LiveTable),
    /// A process that cannot be read: its identity, its version, the reason.
    Refused(ProcessIdentity, u32, String),
}

/// Looks for processes of this user that are selected and not known yet. A process that names a socket other than `socket` belongs to another
/// collector, and is skipped.
pub fn discover(
    which: &Which,
    counter: Option<Counter>,
    socket: &Path,
    is_known: impl Fn(u32, (u64, u64)) -> bool,
) -> Vec<Finding> {
    let pids: Vec<u32> = match which {
        Which::Pid(pid) => vec![*pid],
        Which::All | Which::Name(_) => numbers_in(Path::new("/proc")).collect(),
    };
    let user = rustix::process::geteuid().as_raw();
    let is_ours = |pid: &u32| std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == user);
    let mark = socket_mark(socket.as_os_str().as_bytes());
    // Reading a name is much faster than reading the list of descriptors.
    let is_meant = |pid: &u32| which.is(*pid, || name_of(*pid));
    let pids = pids.into_iter().filter(is_ours).filter(is_meant);
    pids.filter_map(|pid| look_at(pid, counter, Some(mark), &is_known)).collect()
}

/// The live table of a process, if it has one that belongs to no other collector.
pub fn table_of(pid: u32) -> Option<LiveTable> {
    match look_at(pid, Counter::trusted(), None, &|_, _| false)? {
        Finding::Table(_, table) => Some(table),
        Finding::Refused(..) => None,
    }
}

/// An open memory object of a process: the path to open it, and its name.
struct OpenObject {
    path: PathBuf,
    name: String,
}

fn look_at(
    pid: u32,
    counter: Option<Counter>,
    mark: Option<u64>,
    is_known: &impl Fn(u32, (u64, u64)) -> bool,
) -> Option<Finding> {
    let objects = objects_of(pid);
    for object in objects.iter().filter(|object| object.name == MEMORY_NAME.to_string_lossy()) {
        let Ok(memory) = open(&object.path, OFlags::RDONLY) else { continue };
        let Ok(stat) = rustix::fs::fstat(&memory) else { continue };
        // Other processes may have the memory open too: a forked child that has no table of its own yet, or a collector.
        if !is_of(&memory, pid) || is_known(pid, (stat.st_dev, stat.st_ino)) {
            continue;
        }
        return open_table(pid, memory, &objects, counter, mark);
    }
    let version = objects.iter().filter_map(|object| object.name.strip_prefix(ANY_MEMORY_NAME)?.parse().ok());
    let version: u32 = version.filter(|&version| version != VERSION).max()?;
    Some(Finding::Refused(ProcessIdentity::found(pid), version, wrong_version(pid, version)))
}

/// Opens the table of a process; `None` if it belongs to another collector.
fn open_table(
    pid: u32,
    memory: OwnedFd,
    objects: &[OpenObject],
    counter: Option<Counter>,
    mark: Option<u64>,
) -> Option<Finding> {
    // The reason if there is no control page at all.
    let mut refused = Refused::NotOurs;
    for object in objects.iter().filter(|object| object.name == CONTROL_NAME.to_string_lossy()) {
        let control = match open(&object.path, OFlags::RDWR) {
            Ok(control) => control,
            Err(error) => {
                refused = Refused::System(error);
                continue;
            }
        };
        let memory = memory.try_clone().ok()?;
        match LiveTable::open(memory, &control, counter) {
            Ok(table) if is_of_another(&table, mark) => return None,
            Ok(table) => {
                let found = ProcessIdentity::found(pid);
                let is_reserved = table.has_flag(FLAG_NO_ARGS);
                return Some(Finding::Table(if is_reserved { found.without_arguments() } else { found }, table));
            }
            Err(error) => refused = error,
        }
    }
    Some(Finding::Refused(ProcessIdentity::found(pid), VERSION, refusal(pid, &refused)))
}

/// Why a process of another version is refused, and which side to update.
pub(crate) fn wrong_version(pid: u32, version: u32) -> String {
    let side = if version > VERSION { "the collector" } else { "what is loaded into the program" };
    format!("process {pid} speaks version {version} of the live table, this collector knows {VERSION}: update {side}")
}

/// Why a process is refused whose memory cannot be read.
pub(crate) fn refusal(pid: u32, refused: &Refused) -> String {
    format!("process {pid} cannot be read: {refused}")
}

/// Whether a process belongs to another collector: it names another socket, or another running collector has taken it over.
fn is_of_another(table: &LiveTable, mark: Option<u64>) -> bool {
    let named = table.header().socket.load(Ordering::Relaxed);
    mark.is_some_and(|mark| named != 0 && named != mark) || has_other_collector(table)
}

/// Whether another running collector has taken a process over.
pub(crate) fn has_other_collector(table: &LiveTable) -> bool {
    let collector = table.control().collector.load(Ordering::Relaxed);
    let control = CONTROL_NAME.to_bytes();
    collector != 0 && collector != std::process::id() && has_mapping(collector, &|line: &[u8]| contains(line, control))
}

/// Whether a memory object is the process's own: its header has a pid, which must be the pid that the process has itself.
fn is_of(memory: &OwnedFd, pid: u32) -> bool {
    let Ok(file) = memory.try_clone().map(File::from) else { return false };
    let mut bytes = [0; 4];
    if file.read_exact_at(&mut bytes, offset_of!(Header, pid) as u64).is_err() {
        return false;
    }
    let own = u32::from_ne_bytes(bytes);
    let numbers = || status_field(pid, "NSpid:").unwrap_or_default();
    own == pid || numbers().split_whitespace().any(|number| number.parse() == Ok(own))
}

fn objects_of(pid: u32) -> Vec<OpenObject> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let object = |number: u32| {
        let path = folder.join(number.to_string());
        let link = std::fs::read_link(&path).ok()?;
        let name = link.to_str()?.strip_prefix(LINK)?.strip_suffix(LINK_END)?.to_owned();
        name.starts_with("highwater-").then_some(OpenObject { path, name })
    };
    numbers_in(&folder).filter_map(object).collect()
}

/// Entries of a directory whose names are numbers.
fn numbers_in(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn open(path: &Path, how: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, how | OFlags::CLOEXEC, Mode::empty())
}
