//! Whether a served client is still there.

use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU8, Ordering};

/// It has sent nothing.
const HERE: u8 = 0;
/// It has asked for the end, or closed its side and may be gone.
const LEAVING: u8 = 1;
/// It has closed its side, but still receives.
const ONLY_LISTENS: u8 = 2;

/// The state of a served client. A client that connects while all slots are taken is refused at once, unless
/// one of the served clients may be leaving: then it waits until that is known.
pub struct Presence {
    connection: TcpStream,
    state: AtomicU8,
}

impl Presence {
    /// For the client at the other end of this connection.
    pub fn of(connection: &TcpStream) -> io::Result<Self> {
        Ok(Self { connection: connection.try_clone()?, state: AtomicU8::new(HERE) })
    }

    /// It has sent something, or closed its side. Called before that is read, so that the state is right at every instant.
    pub fn set_leaving(&self) {
        self.state.store(LEAVING, Ordering::Release);
    }

    /// The bytes that it sent were no request to end.
    pub fn set_here(&self) {
        self.state.store(HERE, Ordering::Release);
    }

    /// It has closed its side, and bytes sent to it since have arrived.
    pub fn set_only_listens(&self) {
        self.state.store(ONLY_LISTENS, Ordering::Release);
    }

    /// Whether it may be about to leave, or gone already.
    pub fn may_be_leaving(&self) -> bool {
        let wanted = match self.state.load(Ordering::Acquire) {
            LEAVING => return true,
            // An error, or both sides being closed, is reported in any case.
            ONLY_LISTENS => PollFlags::empty(),
            _ => PollFlags::IN | PollFlags::RDHUP,
        };
        let mut look = [PollFd::new(&self.connection, wanted)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let seen = rustix::event::poll(&mut look, Some(&now));
        seen.is_ok_and(|count| count > 0)
    }
}
