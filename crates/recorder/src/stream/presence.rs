//! Whether a client that is served is still there.

use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU8, Ordering};

/// It has sent nothing.
const HERE: u8 = 0;
/// It has asked for the end, or closed its side and may be gone.
const LEAVING: u8 = 1;
/// It has closed its side, and takes what is sent all the same.
const ONLY_LISTENS: u8 = 2;

/// What is known of a client that is served. A client that comes while all places are taken is refused at once, unless
/// one of those that have them may just be leaving: then it waits until that is known.
pub struct Presence {
    connection: TcpStream,
    state: AtomicU8,
}

impl Presence {
    /// Of the client at the other end of this connection.
    pub fn of(connection: &TcpStream) -> io::Result<Self> {
        Ok(Self { connection: connection.try_clone()?, state: AtomicU8::new(HERE) })
    }

    /// It has sent something, or closed its side; called before that is read, so that it is known at every instant.
    pub fn set_leaving(&self) {
        self.state.store(LEAVING, Ordering::Release);
    }

    /// What it sent was no wish to end.
    pub fn set_here(&self) {
        self.state.store(HERE, Ordering::Release);
    }

    /// It has closed its side, and what was sent to it since did arrive.
    pub fn set_only_listens(&self) {
        self.state.store(ONLY_LISTENS, Ordering::Release);
    }

    /// Whether it may be about to leave, or gone already.
    pub fn may_be_leaving(&self) -> bool {
        let wanted = match self.state.load(Ordering::Acquire) {
            LEAVING => return true,
            // An error or the end of both sides shows in any case.
            ONLY_LISTENS => PollFlags::empty(),
            _ => PollFlags::IN | PollFlags::RDHUP,
        };
        let mut look = [PollFd::new(&self.connection, wanted)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let seen = rustix::event::poll(&mut look, Some(&now));
        seen.is_ok_and(|count| count > 0)
    }
}
