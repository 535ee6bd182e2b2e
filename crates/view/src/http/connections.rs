//! The open connections, and which one is closed when there are too many.
//!
//! Any program on this machine can connect and send nothing. So a connection that has not shown the token yet is a stranger. The number of strangers is limited,
//! and the oldest is closed when another one connects. A client that has something to ask sends its request at once. It then has a slot that no stranger
//! can take.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most strangers at a time. When one more connects, the oldest is closed.
const MOST_STRANGERS: usize = 64;
/// The most connections that have shown the token. Further ones get an error that asks to try again.
const MOST_KNOWN: usize = 128;

/// The open connections: strangers, and those that have shown the token. Each group has a limit of its own.
#[derive(Default)]
pub struct Connections(Mutex<Open>);

#[derive(Default)]
struct Open {
    next: u64,
    /// The oldest first.
    strangers: VecDeque<(u64, TcpStream)>,
    known: usize,
}

/// A connection's slot, until it is dropped.
pub struct Place {
    all: Arc<Connections>,
    number: u64,
    is_known: bool,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a stranger.
    pub fn admit(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Place> {
        let stream = stream.try_clone()?;
        let mut open = self.open();
        if open.strangers.len() >= MOST_STRANGERS
            && let Some((_, oldest)) = open.strangers.pop_front()
        {
            // The thread that reads from it sees it closed.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = open.next;
        open.next += 1;
        open.strangers.push_back((number, stream));
        Ok(Place { all: Arc::clone(self), number, is_known: false })
    }
}

impl Place {
    /// True if the connection has shown the token.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Notes that the connection has shown the token. False if too many connections have.
    pub fn introduce(&mut self) -> bool {
        if self.is_known {
            return true;
        }
        let mut open = self.all.open();
        if open.known >= MOST_KNOWN {
            return false;
        }
        open.known += 1;
        open.strangers.retain(|(number, _)| *number != self.number);
        self.is_known = true;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.all.open();
        match self.is_known {
            true => open.known -= 1,
            false => open.strangers.retain(|(number, _)| *number != self.number),
        }
    }
}
