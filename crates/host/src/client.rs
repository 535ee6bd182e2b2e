//! What a client asks a host, whatever carries it there.

use crate::image::Chunk;
use crate::program::{Answer, Failed};
use crate::protocol::{Description, HostInfo, Request, Response, SnapshotInfo};
use crate::transport::{Transport, TransportError};
use std::fmt;

/// Why something could not be had.
#[derive(Debug)]
pub enum ClientError {
    /// There is no answer.
    Transport(TransportError),
    /// The host says why.
    Failed(Failed),
    /// The answer is one to another question.
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

/// See the module's text.
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

    /// How the host is.
    pub fn info(&mut self) -> Result<HostInfo, ClientError> {
        self.ask(&Request::Info, |response| match response {
            Response::Info(info) => Some(info),
            _ => None,
        })
    }

    /// A new snapshot.
    pub fn create(&mut self) -> Result<SnapshotInfo, ClientError> {
        self.snapshot(&Request::Create)
    }

    /// A new snapshot in place of the last.
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

    /// A snapshot by its number, or the last.
    pub fn describe(&mut self, id: Option<u64>) -> Result<Description, ClientError> {
        self.ask(&Request::Describe(id), |response| match response {
            Response::Described(description) => Some(*description),
            _ => None,
        })
    }

    /// A part of a snapshot.
    pub fn chunk(&mut self, id: u64, offset: u64) -> Result<Chunk, ClientError> {
        self.ask(&Request::Chunk { id, offset }, |response| match response {
            Response::Chunk(of, at, chunk) if (of, at) == (id, offset) => Some(chunk),
            _ => None,
        })
    }
}
