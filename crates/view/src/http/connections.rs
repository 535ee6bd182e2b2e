//! The connections that are open, and who has to go when there are too many.
//!
//! Anybody on this machine can connect and say nothing. So those that have not shown the token yet are strangers: there are few of them, and the
//! one that is silent for the longest goes when another comes. Whoever has something to say says it at once, and then has a place that
//! no stranger can take.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Strangers at a time; the oldest is shut out for one more.
const MOST_STRANGERS: usize = 64;
/// Connections at a time that have shown the token; those beyond are told to come back.
const MOST_KNOWN: usize = 128;

/// See the module's text.
#[derive(Default)]
pub struct Connections(Mutex<Open>);

#[derive(Default)]
struct Open {
    next: u64,
    /// The oldest first.
    strangers: VecDeque<(u64, TcpStream)>,
    known: usize,
}

/// A connection's place, until it is dropped.
pub struct Place {
    all: Arc<Connections>,
    number: u64,
    is_known: bool,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a stranger.
    pub fn admit(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Place> {
        let stream = stream.try_clone()?;
        let mut open = self.open();
        if open.strangers.len() >= MOST_STRANGERS
            && let Some((_, oldest)) = open.strangers.pop_front()
        {
            // Whoever waits for it to speak finds it closed.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = open.next;
        open.next += 1;
        open.strangers.push_back((number, stream));
        Ok(Place { all: Arc::clone(self), number, is_known: false })
    }
}

impl Place {
    /// True when the token was shown.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// The token was shown. False when too many are here that have shown it.
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
