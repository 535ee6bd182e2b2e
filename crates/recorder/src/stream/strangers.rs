//! Connections that have not shown yet that they may stay. If there are too many, the oldest is closed.
//!
//! Every process that reaches a port can connect and say nothing. So these connections have a limit of their own, and the oldest is closed
//! for a new one: a client with something to say says it at once. The viewer's server does the same with its HTTP connections.

use rustix::net::SendFlags;
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that have not shown yet that they may stay.
pub struct Strangers {
    limit: usize,
    /// The message to a connection that is closed.
    words: &'static str,
    open: Mutex<PendingConnections>,
}

/// The connections, by the order in which they were admitted.
#[derive(Default)]
struct PendingConnections {
    next: u64,
    /// Oldest first.
    waiting: VecDeque<(u64, TcpStream)>,
}

/// One of these connections, until it is dropped.
pub struct Stranger {
    all: Arc<Strangers>,
    number: u64,
}

impl Strangers {
    /// None yet, and never more than `limit` at once. A connection that is closed gets `words`.
    pub fn new(limit: usize, words: &'static str) -> Arc<Self> {
        Arc::new(Self { limit, words, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, PendingConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a new connection; closes the oldest if the limit is reached.
    pub fn admit(self: &Arc<Self>, connection: &TcpStream) -> io::Result<Stranger> {
        let connection = connection.try_clone()?;
        let mut open = self.open();
        while open.waiting.len() >= self.limit
            && let Some((_, oldest)) = open.waiting.pop_front()
        {
            dismiss(&oldest, self.words);
        }
        let number = open.next;
        open.next += 1;
        open.waiting.push_back((number, connection));
        Ok(Stranger { all: Arc::clone(self), number })
    }

    /// Closes all of them.
    pub fn dismiss_all(&self, words: &str) {
        self.open().waiting.drain(..).for_each(|(_, connection)| dismiss(&connection, words));
    }
}

impl Stranger {
    /// Whether it was closed: the reason was sent to it, and its connection is shut down.
    pub fn was_dismissed(&self) -> bool {
        !self.all.open().waiting.iter().any(|(number, _)| *number == self.number)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.open().waiting.retain(|(number, _)| *number != self.number);
    }
}

/// Sends the reason, without waiting, and shuts the connection down: its thread, which waits for input, then reads the end of the stream.
fn dismiss(connection: &TcpStream, words: &str) {
    let line = format!("highwater: {words}\n");
    let _ = rustix::net::send(connection, line.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = connection.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn the_oldest_gives_way_and_gets_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let strangers = Strangers::new(2, "too many");
        let mut pairs = [connect(), connect(), connect()];
        let first = strangers.admit(&pairs[0].1).unwrap();
        let second = strangers.admit(&pairs[1].1).unwrap();
        assert!(!first.was_dismissed() && !second.was_dismissed());
        let third = strangers.admit(&pairs[2].1).unwrap();
        assert!(first.was_dismissed() && !second.was_dismissed() && !third.was_dismissed());
        let mut words = String::new();
        pairs[0].0.read_to_string(&mut words).unwrap();
        assert_eq!(words, "highwater: too many\n");
        // A connection that has identified itself does not count any more.
        drop(second);
        let (_, again) = connect();
        let fourth = strangers.admit(&again).unwrap();
        assert!(!third.was_dismissed() && !fourth.was_dismissed());
        strangers.dismiss_all("enough");
        assert!(third.was_dismissed() && fourth.was_dismissed());
        words.clear();
        pairs[2].0.read_to_string(&mut words).unwrap();
        assert_eq!(words, "highwater: enough\n");
    }
}
