//! A connection to the collector: one message at a time, each way, with descriptors attached.

use crate::protocol::LONGEST_MESSAGE;
use highwater_shm::hello_v1::LONGEST_HELLO_TEXT;
use highwater_shm::live_hello_v1::LIVE_HELLO_BYTES;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags,
};
use serde_json::{Value, json};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The length of the longest message of any kind.
pub const LONGEST: usize = {
    let hello = LIVE_HELLO_BYTES + LONGEST_HELLO_TEXT;
    if hello > LONGEST_MESSAGE { hello } else { LONGEST_MESSAGE }
};
/// The maximum number of descriptors attached to a message.
const DESCRIPTORS: usize = 2;
/// How long to wait for a peer that does not receive an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection of a process or a client.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    /// The pid of the peer when it connected.
    pub pid: u32,
    /// When the last message arrived, or the peer connected.
    pub last_message: Instant,
}

/// A received message.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The attached descriptors.
    pub attached: Vec<OwnedFd>,
}

/// The result of reading from a connection.
#[derive(Debug)]
pub enum ConnectionInput {
    /// A message.
    Message(ReceivedMessage),
    /// Nothing yet.
    Nothing,
    /// The connection has ended.
    End,
}

impl Connection {
    /// Accepts the next waiting connection. `Ok(None)` if the peer is neither of this user nor root; an error if no connection waits.
    pub fn accept(listener: impl AsFd) -> rustix::io::Result<Option<Self>> {
        let socket = rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&socket) else { return Ok(None) };
        let is_ours = peer.uid == rustix::process::geteuid() || peer.uid.is_root();
        let pid = peer.pid.as_raw_nonzero().get() as u32;
        Ok(is_ours.then(|| Self { socket, pid, last_message: Instant::now() }))
    }

    /// Receives a message, if there is one. `room` must have [`LONGEST`] bytes.
    pub fn receive(&mut self, room: &mut [u8]) -> ConnectionInput {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(room)];
        let received = match rustix::net::recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return ConnectionInput::Nothing,
            Err(_) => return ConnectionInput::End,
        };
        let attached: Vec<OwnedFd> = control
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
                _ => Vec::new(),
            })
            .collect();
        if received.bytes == 0 || received.flags.contains(ReturnFlags::TRUNC) {
            return ConnectionInput::End;
        }
        self.last_message = Instant::now();
        ConnectionInput::Message(ReceivedMessage { bytes: room[..received.bytes].to_vec(), attached })
    }

    /// Sends a message. Returns false if the peer does not receive it.
    pub fn send(&self, bytes: &[u8], attached: &[BorrowedFd<'_>]) -> bool {
        let begin = Instant::now();
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !attached.is_empty() && !control.push(SendAncillaryMessage::ScmRights(attached)) {
                return false;
            }
            match rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if begin.elapsed() < PATIENCE => {
                    let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                    let _ = rustix::event::poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&nap));
                }
                Err(_) => return false,
            }
        }
    }

    /// Sends an answer.
    pub fn answer(&self, answer: RequestResult) -> bool {
        let (message, attached) = match answer {
            Ok(Done { what, attached }) => (json!({"done": what}), attached),
            Err(line) => (json!({"failed": line}), Vec::new()),
        };
        let attached: Vec<BorrowedFd<'_>> = attached.iter().map(AsFd::as_fd).collect();
        self.send(message.to_string().as_bytes(), &attached)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The successful result of a request.
#[derive(Debug)]
pub struct Done {
    /// The `done` value of the answer.
    pub what: Value,
    /// Files with long results.
    pub attached: Vec<OwnedFd>,
}

/// The answer to a request: the result, or an error as one line for the user.
pub type RequestResult = Result<Done, String>;
