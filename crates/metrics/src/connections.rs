//! The open connections. When there are too many, the one that has been idle for longest is closed: clients that send nothing cannot keep others out.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most connections at a time.
const MOST_CONNECTIONS: usize = 64;

/// All open connections.
#[derive(Debug, Default)]
pub struct ScrapeConnections(Mutex<OpenConnections>);

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Connections that wait for a request: the one that waits longest first.
    idle: VecDeque<(u64, TcpStream)>,
    busy: usize,
}

/// A connection's slot, until it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    all: Arc<ScrapeConnections>,
    number: u64,
    is_busy: bool,
}

impl ScrapeConnections {
    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a new connection; `None` if all others are busy.
    pub fn admit(self: &Arc<Self>, stream: &TcpStream) -> Option<ConnectionSlot> {
        let stream = stream.try_clone().ok()?;
        let mut open = self.open();
        if open.idle.len() + open.busy >= MOST_CONNECTIONS {
            let (_, oldest) = open.idle.pop_front()?;
            // The thread that reads from it sees it closed.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = open.next;
        open.next += 1;
        open.idle.push_back((number, stream));
        Some(ConnectionSlot { all: Arc::clone(self), number, is_busy: false })
    }
}

impl ConnectionSlot {
    /// A request has arrived: the connection is not closed until it is answered. False if it was closed already.
    pub fn begin(&mut self) -> bool {
        let mut open = self.all.open();
        let before = open.idle.len();
        open.idle.retain(|(number, _)| *number != self.number);
        self.is_busy = open.idle.len() < before;
        open.busy += usize::from(self.is_busy);
        self.is_busy
    }

    /// The request is answered.
    pub fn end(&mut self, stream: &TcpStream) -> bool {
        let Ok(stream) = stream.try_clone() else { return false };
        let mut open = self.all.open();
        open.busy -= usize::from(self.is_busy);
        self.is_busy = false;
        open.idle.push_back((self.number, stream));
        true
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.all.open();
        open.busy -= usize::from(self.is_busy);
        open.idle.retain(|(number, _)| *number != self.number);
    }
}
