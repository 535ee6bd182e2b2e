//! Reads heads and bodies of requests from a connection, within time limits.

use super::request::{LONGEST_HEAD, head_length};
use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a request may take to arrive once it has begun.
const ARRIVING: Duration = Duration::from_secs(10);

/// The result of waiting for the head of a request.
#[derive(Debug)]
pub enum IncomingHead {
    /// The head, its empty line included.
    Head(Vec<u8>),
    /// The head is longer than [`LONGEST_HEAD`].
    TooLong,
    /// The client closed the connection, or was too slow.
    Nothing,
}

/// The reading side of a connection.
#[derive(Debug)]
pub struct RequestReader {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RequestReader {
    /// Reads from this connection.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new() }
    }

    /// Reads up to the end of a head, which must begin within `to_begin`, and be complete some seconds later.
    pub fn next_head(&mut self, to_begin: Duration) -> io::Result<IncomingHead> {
        let mut begun = (!self.received.is_empty()).then(Instant::now);
        let mut searched = 0;
        loop {
            // The four bytes that end a head may have begun in an earlier read.
            let from = searched.min(self.received.len()).saturating_sub(3);
            let end = head_length(&self.received[from..]).map(|length| from + length);
            if let Some(end) = end.filter(|end| *end <= LONGEST_HEAD) {
                let rest = self.received.split_off(end);
                return Ok(IncomingHead::Head(std::mem::replace(&mut self.received, rest)));
            }
            searched = self.received.len();
            if self.received.len() > LONGEST_HEAD {
                return Ok(IncomingHead::TooLong);
            }
            let patience = match begun {
                None => to_begin,
                Some(begun) => ARRIVING.saturating_sub(begun.elapsed()),
            };
            if patience.is_zero() || !self.receive(patience)? {
                return Ok(IncomingHead::Nothing);
            }
            begun = begun.or_else(|| Some(Instant::now()));
        }
    }

    /// Discards a body. An error if it does not arrive.
    pub fn skip_body(&mut self, length: usize) -> io::Result<()> {
        let begun = Instant::now();
        while self.received.len() < length {
            let patience = ARRIVING.saturating_sub(begun.elapsed());
            if patience.is_zero() || !self.receive(patience)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.received.drain(..length);
        Ok(())
    }

    /// Receives some bytes; false if no more will arrive.
    fn receive(&mut self, patience: Duration) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(patience))?;
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.received.extend_from_slice(&buffer[..count]);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(false),
            }
        }
    }
}
