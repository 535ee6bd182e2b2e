//! The requests that a client sends to a host, over any transport.

use crate::image::ImagePart;
use crate::program::{CallReply, Failed};
use crate::protocol::{Description, HostInfo, HostRequest, HostResponse, SnapshotInfo, WhichMemory};
use crate::transport::{Transport, TransportError};
use std::fmt;

/// Why a request failed.
#[derive(Debug)]
pub enum HostClientError {
    /// There was no response.
    Transport(TransportError),
    /// The host refused, and says why.
    Failed(Failed),
    /// The response is for another request.
    Confused,
}

impl fmt::Display for HostClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Failed(failed) => f.write_str(&failed.line),
            Self::Confused => f.write_str("the host answered something else than was asked"),
        }
    }
}

impl std::error::Error for HostClientError {}

/// A client of a host: one method for each request of the protocol.
#[derive(Debug)]
pub struct HostClient<T> {
    transport: T,
}

impl<T: Transport> HostClient<T> {
    /// A client over a transport.
    pub fn new(transport: T) -> Self {
        Self { transport }
    }

    fn ask<R>(
        &mut self,
        request: &HostRequest,
        wanted: impl FnOnce(HostResponse) -> Option<R>,
    ) -> Result<R, HostClientError> {
        match self.transport.ask(request).map_err(HostClientError::Transport)? {
            HostResponse::Failed(failed) => Err(HostClientError::Failed(failed)),
            other => wanted(other).ok_or(HostClientError::Confused),
        }
    }

    /// The state of the host.
    pub fn info(&mut self) -> Result<HostInfo, HostClientError> {
        self.ask(&HostRequest::Info, |response| match response {
            HostResponse::Info(info) => Some(info),
            _ => None,
        })
    }

    /// Takes a new snapshot.
    pub fn create(&mut self) -> Result<SnapshotInfo, HostClientError> {
        self.snapshot(&HostRequest::Create)
    }

    /// Takes a new snapshot that replaces the latest.
    pub fn update(&mut self) -> Result<SnapshotInfo, HostClientError> {
        self.snapshot(&HostRequest::Update)
    }

    fn snapshot(&mut self, request: &HostRequest) -> Result<SnapshotInfo, HostClientError> {
        self.ask(request, |response| match response {
            HostResponse::Snapshot(info) => Some(info),
            _ => None,
        })
    }

    /// Calls the program.
    pub fn call(&mut self, call: &str) -> Result<CallReply, HostClientError> {
        self.ask(&HostRequest::Call(call.to_owned()), |response| match response {
            HostResponse::Called(answer) => Some(answer),
            _ => None,
        })
    }

    /// The description of a snapshot: by its number, or of the latest.
    pub fn describe(&mut self, id: Option<u64>) -> Result<Description, HostClientError> {
        self.ask(&HostRequest::Describe(id), |response| match response {
            HostResponse::Described(description) => Some(*description),
            _ => None,
        })
    }

    /// A part of a snapshot, from an offset on.
    pub fn chunk(&mut self, id: u64, memory: WhichMemory, offset: u64) -> Result<ImagePart, HostClientError> {
        self.ask(&HostRequest::Chunk { id, offset, memory }, |response| match response {
            HostResponse::Chunk(of, at, chunk) if (of, at) == (id, offset) => Some(chunk),
            _ => None,
        })
    }
}
