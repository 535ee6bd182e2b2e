//! The socket at which a host listens, and a lock file beside it that only one host can hold.

use rustix::fs::{FlockOperation, Mode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Why a host cannot listen.
#[derive(Debug)]
pub enum HostBindError {
    /// Another host listens there.
    InUse {
        /// The socket's path.
        path: PathBuf,
        /// The process of the other host, if known.
        pid: Option<u32>,
    },
    /// The path exists and is not a socket.
    NotASocket(PathBuf),
    /// The system reported an error.
    System(PathBuf, io::Error),
}

impl fmt::Display for HostBindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, pid } => {
                write!(f, "a host already listens at {}", path.display())?;
                if let Some(pid) = pid {
                    write!(f, " (process {pid})")?;
                }
                f.write_str("; choose another --socket")
            }
            Self::NotASocket(path) => write!(f, "{}: exists, and is not a socket", path.display()),
            Self::System(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for HostBindError {}

/// A listening socket and its lock file. Both are removed when it is dropped.
#[derive(Debug)]
pub struct HostSocket {
    /// The socket.
    pub listener: UnixListener,
    path: PathBuf,
    lock: PathBuf,
    _locked: File,
}

impl HostSocket {
    /// Begins to listen.
    pub fn new(path: &Path) -> Result<Self, HostBindError> {
        let system = |error| HostBindError::System(path.to_owned(), error);
        let (lock, locked) = take_lock(path)?;
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(system(error)),
            Ok(about) if !about.file_type().is_socket() => return Err(HostBindError::NotASocket(path.to_owned())),
            // We hold the lock, so the host that listened there was killed.
            Ok(_) => std::fs::remove_file(path).map_err(system)?,
        }
        let listener = listen(path).map_err(system)?;
        Ok(Self { listener, path: path.to_owned(), lock, _locked: locked })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for HostSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.lock);
    }
}

/// A listening socket that only its owner can use, from the beginning: the mode is set before `bind`, which creates the file with it.
fn listen(path: &Path) -> io::Result<UnixListener> {
    const WAITING: i32 = 128;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path.as_os_str().as_bytes())?)?;
    rustix::net::listen(&socket, WAITING)?;
    Ok(UnixListener::from(socket))
}

fn take_lock(socket: &Path) -> Result<(PathBuf, File), HostBindError> {
    let path = socket.with_added_extension("lock");
    let system = |error| HostBindError::System(path.clone(), error);
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        let mut file = options.open(&path).map_err(system)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = Read::by_ref(&mut file).take(20).read_to_string(&mut text);
                return Err(HostBindError::InUse { path: socket.to_owned(), pid: text.trim().parse().ok() });
            }
            Err(error) => return Err(system(error.into())),
        }
        // The previous holder may have removed the file meanwhile.
        let ours = file.metadata().map_err(system)?;
        if !std::fs::metadata(&path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            continue;
        }
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
        return Ok((path, file));
    }
}
