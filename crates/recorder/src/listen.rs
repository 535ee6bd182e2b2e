//! The socket on which agents connect. It lies in a directory that only its owner can enter. Under root every user can enter it: recorded programs may give
//! up their rights, or start others that have fewer. The listener then checks each process that connects.

use highwater_session::{Refused, SessionMemory};
use highwater_shm::hello_v1::{HELLO_BYTES, Hello, LONGEST_HELLO_TEXT};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::fs::{DirBuilder, Permissions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The socket; removed with its directory when dropped.
pub struct Listener {
    socket: OwnedFd,
    directory: PathBuf,
}

/// A process that has connected.
pub struct Visitor {
    /// Its hello message.
    pub hello: Hello,
    /// The process id, as the kernel reports it.
    pub pid: u32,
    /// Its executable.
    pub executable: String,
    /// Its arguments.
    pub command: Vec<String>,
    /// The memory that it shares.
    pub shared: Result<SessionMemory, Refused>,
}

impl Listener {
    /// Begins to listen.
    pub fn new() -> io::Result<Self> {
        let directory = new_directory()?;
        let path = directory.join("agents");
        let listener = Self::at(&path).and_then(|socket| open_for_children(&directory, &path).map(|()| socket));
        match listener {
            Ok(socket) => Ok(Self { socket, directory }),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                let _ = std::fs::remove_dir(&directory);
                Err(error)
            }
        }
    }

    fn at(path: &Path) -> io::Result<OwnedFd> {
        const WAITING: i32 = 1024;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path.as_os_str().as_bytes())?)?;
        rustix::net::listen(&socket, WAITING)?;
        Ok(socket)
    }

    /// The socket path for agents.
    pub fn path(&self) -> PathBuf {
        self.directory.join("agents")
    }

    /// The next process, if one has connected; messages that are not valid are skipped. Processes of other users are accepted by root alone, and only if
    /// `is_ours` says that they belong to the recording.
    pub fn next(&self, is_ours: impl Fn(u32) -> bool) -> Option<Visitor> {
        loop {
            // Not "non-blocking": an agent sends at once, and its message is there even if the agent is gone.
            let connection = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC).ok()?;
            if let Some(visitor) = hear(&connection, &is_ours) {
                return Some(visitor);
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path());
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// Lets programs that have given up root's rights reach the socket.
fn open_for_children(directory: &Path, socket: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        std::fs::set_permissions(socket, Permissions::from_mode(0o666))?;
        std::fs::set_permissions(directory, Permissions::from_mode(0o711))?;
    }
    Ok(())
}

fn hear(connection: &OwnedFd, is_ours: &impl Fn(u32) -> bool) -> Option<Visitor> {
    let peer = rustix::net::sockopt::socket_peercred(connection).ok()?;
    let (us, pid) = (rustix::process::geteuid(), peer.pid.as_raw_nonzero().get() as u32);
    if peer.uid != us && !peer.uid.is_root() && !(us.is_root() && is_ours(pid)) {
        return None;
    }
    let mut message = vec![0; HELLO_BYTES + LONGEST_HELLO_TEXT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(connection, &mut [IoSliceMut::new(&mut message)], &mut control, flags).ok()?;
    message.truncate(received.bytes);
    let object = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    // The system leaves out a descriptor if the recorder cannot open any more.
    let why_none = match received.flags.contains(ReturnFlags::CTRUNC) {
        true => Refused::NoDescriptors,
        false => Refused::NoMemory,
    };
    let hello = Hello::from_bytes(&message)?;
    let mut texts = message[HELLO_BYTES..].split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let executable = texts.next().unwrap_or_default().trim_end_matches(" (deleted)").to_owned();
    let mut command: Vec<String> = texts.map(|text| text.into_owned()).collect();
    if command.last().is_some_and(String::is_empty) {
        command.pop();
    }
    Some(Visitor { hello, pid, executable, command, shared: object.ok_or(why_none).and_then(SessionMemory::open) })
}

/// A new directory that only its owner can enter: in the user's runtime directory, else among temporary files. Also removes directories of recorders
/// that were killed.
fn new_directory() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let mut failed = None;
    for parent in runtime.into_iter().chain([std::env::temp_dir(), PathBuf::from("/tmp")]) {
        remove_abandoned(&parent);
        for attempt in 0..100u32 {
            let path = parent.join(format!("highwater-{}-{attempt}", std::process::id()));
            // The path of a socket has at most 107 bytes.
            if path.as_os_str().len() > 96 {
                break;
            }
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::other("no directory for temporary files with a short enough path")))
}

fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix("highwater-")?.split('-').next()?.parse::<i32>().ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw)
            && rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
        {
            let _ = std::fs::remove_file(entry.path().join("agents"));
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}
