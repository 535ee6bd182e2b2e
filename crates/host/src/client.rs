//! The requests that a client sends to a host, over any transport.

use crate::image::Chunk;
use crate::program::{Answer, Failed};
use crate::protocol::{Description, HostInfo, Request, Response, SnapshotInfo};
use crate::transport::{Transport, TransportError};
use std::fmt;

/// Why a request failed.
#[derive(Debug)]
pub enum ClientError {
    /// There was no response.
    Transport(TransportError),
    /// The host refused, and says why.
    Failed(Failed),
    /// The response is for another request.
    Confused,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Failed(failed) => f.write_str(&failed.line),
            Self::Confused => f.write_str("the host answered something else than was asked"),
        }
    }
}

impl std::error::Error for ClientError {}

/// A client of a host: one method for each request of the protocol.
#[derive(Debug)]
pub struct Client<T> {
    transport: T,
}

impl<T: Transport> Client<T> {
    /// A client over a transport.
    pub fn new(transport: T) -> Self {
        Self { transport }
    }

    fn ask<R>(&mut self, request: &Request, wanted: impl FnOnce(Response) -> Option<R>) -> Result<R, ClientError> {
        match self.transport.ask(request).map_err(ClientError::Transport)? {
            Response::Failed(failed) => Err(ClientError::Failed(failed)),
            other => wanted(other).ok_or(ClientError::Confused),
        }
    }

    /// The state of the host.
    pub fn info(&mut self) -> Result<HostInfo, ClientError> {
        self.ask(&Request::Info, |response| match response {
            Response::Info(info) => Some(info),
            _ => None,
        })
    }

    /// Takes a new snapshot.
    pub fn create(&mut self) -> Result<SnapshotInfo, ClientError> {
        self.snapshot(&Request::Create)
    }

    /// Takes a new snapshot that replaces the latest.
    pub fn update(&mut self) -> Result<SnapshotInfo, ClientError> {
        self.snapshot(&Request::Update)
    }

    fn snapshot(&mut self, request: &Request) -> Result<SnapshotInfo, ClientError> {
        self.ask(request, |response| match response {
            Response::Snapshot(info) => Some(info),
            _ => None,
        })
    }

    /// Calls the program.
    pub fn call(&mut self, call: &str) -> Result<Answer, ClientError> {
        self.ask(&Request::Call(call.to_owned()), |response| match response {
            Response::Called(answer) => Some(answer),
            _ => None,
        })
    }

    /// The description of a snapshot: by its number, or of the latest.
    pub fn describe(&mut self, id: Option<u64>) -> Result<Description, ClientError> {
        self.ask(&Request::Describe(id), |response| match response {
            Response::Described(description) => Some(*description),
            _ => None,
        })
    }

    /// A part of a snapshot, from an offset on.
    pub fn chunk(&mut self, id: u64, offset: u64) -> Result<Chunk, ClientError> {
        self.ask(&Request::Chunk { id, offset }, |response| match response {
            Response::Chunk(of, at, chunk) if (of, at) == (id, offset) => Some(chunk),
            _ => None,
        })
    }
}
