//! A socket at which a server of this user listens, and a lock file beside it, so that only one server listens there.

use rustix::fs::{FlockOperation, Mode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A kind of server.
#[derive(Clone, Copy, Debug)]
pub struct ServerKind {
    /// What it is, for messages: "a collector".
    pub what: &'static str,
    /// True if its messages have boundaries (`SOCK_SEQPACKET`), false for a stream.
    pub has_messages: bool,
    /// The number of connections that may wait to be accepted.
    pub waiting: i32,
}

impl ServerKind {
    fn socket_type(&self) -> SocketType {
        if self.has_messages { SocketType::SEQPACKET } else { SocketType::STREAM }
    }
}

/// Why a server cannot listen.
#[derive(Debug)]
pub enum BindError {
    /// Another server listens there.
    AlreadyListens {
        /// What it is.
        what: &'static str,
        /// The socket's path.
        path: PathBuf,
        /// Its process, if it is known.
        pid: Option<u32>,
    },
    /// There is a file at this path that is not a socket.
    NotASocket(PathBuf),
    /// Other users could replace the socket in this directory.
    NotOurs(PathBuf),
    /// A system call failed.
    System {
        /// The path it was about.
        what: String,
        /// The error.
        error: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyListens { what, path, pid } => {
                write!(f, "{what} already listens at {}", path.display())?;
                pid.map_or(Ok(()), |pid| write!(f, " (process {pid})"))
            }
            Self::NotASocket(path) => write!(f, "{}: exists, and is not a socket", path.display()),
            Self::NotOurs(path) => {
                write!(f, "{}: a directory of another user, or one that others can write", path.display())
            }
            Self::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for BindError {}

impl BindError {
    /// Converts an error about a path.
    pub fn about(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what: path.display().to_string(), error }
    }
}

/// A listening socket; removed when dropped.
#[derive(Debug)]
pub struct ListeningSocket {
    socket: OwnedFd,
    path: PathBuf,
    lock: LockFile,
}

impl ListeningSocket {
    /// Begins to listen.
    pub fn new(path: &Path, kind: ServerKind) -> Result<Self, BindError> {
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes())
            .map_err(io::Error::from)
            .map_err(BindError::about(path))?;
        let lock = LockFile::take(path, kind)?;
        remove_stale(path, &address, kind)?;
        let socket = listen(&address, kind).map_err(io::Error::from).map_err(BindError::about(path))?;
        Ok(Self { socket, path: path.to_owned(), lock })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // Removed while the lock is held: a server that then gets the lock notices that it is no longer the file of that name.
        let _ = std::fs::remove_file(&self.lock.path);
    }
}

fn listen(address: &SocketAddrUnix, kind: ServerKind) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind.socket_type(), flags, None)?;
    // Before the bind: the socket file gets the mode of the socket.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, kind.waiting)?;
    Ok(socket)
}

/// Creates the directory of a socket if needed, and makes sure that no other user can replace the socket.
pub fn prepare_directory(path: &Path) -> Result<(), BindError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(BindError::about(directory)(error)),
        _ => {}
    }
    // A link of another user is not followed: in a directory that everyone can write, it could point anywhere.
    let about = std::fs::symlink_metadata(directory).map_err(BindError::about(directory))?;
    let about = if about.is_symlink() && about.uid() != rustix::process::geteuid().as_raw() && about.uid() != 0 {
        about
    } else {
        std::fs::metadata(directory).map_err(BindError::about(directory))?
    };
    let is_sticky = about.mode() & 0o1000 != 0;
    let is_own = about.uid() == rustix::process::geteuid().as_raw() || about.uid() == 0;
    let is_safe = about.is_dir() && is_own && (about.mode() & 0o022 == 0 || is_sticky);
    if is_safe { Ok(()) } else { Err(BindError::NotOurs(directory.to_owned())) }
}

/// Removes the socket of a server that was killed. The caller holds the lock.
fn remove_stale(path: &Path, address: &SocketAddrUnix, kind: ServerKind) -> Result<(), BindError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BindError::about(path)(error)),
        Ok(about) if !about.file_type().is_socket() => Err(BindError::NotASocket(path.to_owned())),
        // The lock file of a running server may have been removed.
        Ok(_) if is_listened_at(address, kind) => {
            Err(BindError::AlreadyListens { what: kind.what, path: path.to_owned(), pid: None })
        }
        Ok(_) => std::fs::remove_file(path).map_err(BindError::about(path)),
    }
}

fn is_listened_at(address: &SocketAddrUnix, kind: ServerKind) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind.socket_type(), flags, None);
    socket.is_ok_and(|socket| match rustix::net::connect(&socket, address) {
        // `AGAIN`: the queue of waiting connections is full.
        Ok(()) | Err(rustix::io::Errno::AGAIN) => true,
        Err(_) => false,
    })
}

/// A lock file beside the socket, held as long as this process lives: the system releases it when the process ends.
#[derive(Debug)]
struct LockFile {
    path: PathBuf,
    _file: File,
}

impl LockFile {
    fn take(socket: &Path, kind: ServerKind) -> Result<Self, BindError> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        loop {
            let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(no_follow)
                .open(&path)
                .map_err(BindError::about(&path))?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let mut text = String::new();
                    let _ = file.read_to_string(&mut text);
                    return Err(BindError::AlreadyListens {
                        what: kind.what,
                        path: socket.to_owned(),
                        pid: text.trim().parse().ok(),
                    });
                }
                Err(error) => return Err(BindError::about(&path)(error.into())),
            }
            // The previous owner may have removed the file in the meantime.
            let ours = file.metadata().map_err(BindError::about(&path))?;
            if !std::fs::metadata(&path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                continue;
            }
            let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
            return Ok(Self { path, _file: file });
        }
    }
}
