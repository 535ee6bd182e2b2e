//! The socket at which a collector listens, and a lock file, so that only one collector listens there.

use rustix::fs::{FlockOperation, Mode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The number of connections that may wait to be accepted.
const WAITING: i32 = 1024;

/// Why a collector cannot start.
#[derive(Debug)]
pub enum CollectorBindError {
    /// Another collector listens there.
    AlreadyListens {
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

impl fmt::Display for CollectorBindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyListens { path, pid: Some(pid) } => {
                write!(f, "a collector already listens at {} (process {pid})", path.display())
            }
            Self::AlreadyListens { path, pid: None } => write!(f, "a collector already listens at {}", path.display()),
            Self::NotASocket(path) => write!(f, "{}: exists, and is not a socket", path.display()),
            Self::NotOurs(path) => {
                write!(f, "{}: a directory of another user, or one that others can write", path.display())
            }
            Self::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for CollectorBindError {}

/// Converts an error about a path.
pub(crate) fn with(path: &Path) -> impl Fn(io::Error) -> CollectorBindError {
    move |error| CollectorBindError::System { what: path.display().to_string(), error }
}

/// The default socket path of this user's collector. Its directory is created if needed, and no other user can write to it.
pub fn default_socket() -> io::Result<PathBuf> {
    let path = highwater_session::default_socket();
    prepare_directory(&path).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(path)
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
    pub fn new(path: &Path) -> Result<Self, CollectorBindError> {
        prepare_directory(path)?;
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes()).map_err(io::Error::from).map_err(with(path))?;
        let lock = LockFile::take(path)?;
        remove_stale(path, &address)?;
        let socket = listen(&address).map_err(io::Error::from).map_err(with(path))?;
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
        // Removed while the lock is held: a collector that then gets the lock notices that it is no longer the file of that name.
        let _ = std::fs::remove_file(&self.lock.path);
    }
}

fn listen(address: &SocketAddrUnix) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // Before the bind: the socket file gets the mode of the socket.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, WAITING)?;
    Ok(socket)
}

/// Creates the directory of a socket if needed, and makes sure that no other user can replace the socket.
fn prepare_directory(path: &Path) -> Result<(), CollectorBindError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(with(directory)(error)),
        _ => {}
    }
    // A link of another user is not followed: in a directory that everyone can write, it could point anywhere.
    let about = std::fs::symlink_metadata(directory).map_err(with(directory))?;
    let about = if about.is_symlink() && about.uid() != rustix::process::geteuid().as_raw() && about.uid() != 0 {
        about
    } else {
        std::fs::metadata(directory).map_err(with(directory))?
    };
    let is_sticky = about.mode() & 0o1000 != 0;
    let is_own = about.uid() == rustix::process::geteuid().as_raw() || about.uid() == 0;
    let is_safe = about.is_dir() && is_own && (about.mode() & 0o022 == 0 || is_sticky);
    if is_safe { Ok(()) } else { Err(CollectorBindError::NotOurs(directory.to_owned())) }
}

/// Removes the socket of a collector that was killed. The caller holds the lock.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), CollectorBindError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(with(path)(error)),
        Ok(about) if !about.file_type().is_socket() => Err(CollectorBindError::NotASocket(path.to_owned())),
        // The lock file of a running collector may have been removed.
        Ok(_) if is_listened_at(address) => {
            Err(CollectorBindError::AlreadyListens { path: path.to_owned(), pid: None })
        }
        Ok(_) => std::fs::remove_file(path).map_err(with(path)),
    }
}

fn is_listened_at(address: &SocketAddrUnix) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
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
    fn take(socket: &Path) -> Result<Self, CollectorBindError> {
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
                .map_err(with(&path))?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let mut text = String::new();
                    let _ = file.read_to_string(&mut text);
                    return Err(CollectorBindError::AlreadyListens {
                        path: socket.to_owned(),
                        pid: text.trim().parse().ok(),
                    });
                }
                Err(error) => return Err(with(&path)(error.into())),
            }
            // The previous owner may have removed the file in the meantime.
            let ours = file.metadata().map_err(with(&path))?;
            if !std::fs::metadata(&path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                continue;
            }
            let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
            return Ok(Self { path, _file: file });
        }
    }
}
