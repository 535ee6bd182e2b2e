//! How a client reaches a host that keeps snapshots. A socket is one way; a canister on a network that reads its own memory could be another.

use crate::frame::{FrameError, HostFrame};
use crate::protocol::{HostRequest, HostResponse};
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Sends a request to a host and returns its response.
pub trait Transport {
    /// Sends the request, and waits for the response.
    fn ask(&mut self, request: &HostRequest) -> Result<HostResponse, TransportError>;
}

/// Why there is no response.
#[derive(Debug)]
pub enum TransportError {
    /// No host listens at the socket.
    Nobody(PathBuf),
    /// The host closed the connection, or was killed.
    Lost,
    /// Another error: its text.
    Other(String),
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody(path) => {
                write!(f, "no host listens at {}; 'highwater image host MODULE.wasm' starts one", path.display())
            }
            Self::Lost => f.write_str("the host is gone: it ended, or was killed"),
            Self::Other(line) => f.write_str(line),
        }
    }
}

impl std::error::Error for TransportError {}

/// A connection to a host at a Unix socket.
#[derive(Debug)]
pub struct SocketTransport {
    connection: UnixStream,
}

impl SocketTransport {
    /// Connects to a host.
    pub fn connect(path: &Path) -> Result<Self, TransportError> {
        match UnixStream::connect(path) {
            Ok(connection) => Ok(Self { connection }),
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused].contains(&error.kind()) => {
                Err(TransportError::Nobody(path.to_owned()))
            }
            Err(error) => Err(TransportError::Other(format!("{}: {error}", path.display()))),
        }
    }
}

impl Transport for SocketTransport {
    fn ask(&mut self, request: &HostRequest) -> Result<HostResponse, TransportError> {
        request.to_frame().write(&mut self.connection).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => TransportError::Lost,
            _ => TransportError::Other(error.to_string()),
        })?;
        let frame = HostFrame::read(&mut self.connection).map_err(|error| match error {
            FrameError::Ended | FrameError::Garbage("a frame is cut off") => TransportError::Lost,
            FrameError::Broken(error) if error.kind() == io::ErrorKind::ConnectionReset => TransportError::Lost,
            other => TransportError::Other(other.to_string()),
        })?;
        HostResponse::from_frame(frame).map_err(TransportError::Other)
    }
}
