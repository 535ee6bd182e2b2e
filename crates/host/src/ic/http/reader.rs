//! Reads requests from a connection.

use super::{HttpRequest, HttpResponse, RequestHead};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The longest head.
const LONGEST_HEAD: usize = 16 << 10;
/// The longest body: twice what the network takes for a message.
pub const LONGEST_BODY: u64 = 4 << 20;
/// The longest line that begins a chunk.
const LONGEST_LINE: usize = 256;
/// How long a connection may be idle between two requests.
const IDLE: Duration = Duration::from_secs(60);
/// How long a request may take to arrive once it has begun.
const ARRIVING: Duration = Duration::from_secs(30);

/// The reading side of a connection.
pub struct RequestReader<'a> {
    stream: &'a TcpStream,
    received: Vec<u8>,
    deadline: Instant,
}

/// Why there is no request.
enum Missing {
    /// The connection ended, or nothing came in time.
    Over,
    /// It must be answered with this, and the connection must end.
    Refused(HttpResponse),
}

impl From<io::Error> for Missing {
    fn from(_: io::Error) -> Self {
        Self::Over
    }
}

fn refused<T>(status: u16, line: &str) -> Result<T, Missing> {
    Err(Missing::Refused(HttpResponse::line(status, line)))
}

impl<'a> RequestReader<'a> {
    /// Reads from a connection.
    pub fn new(stream: &'a TcpStream) -> Self {
        Self { stream, received: Vec::new(), deadline: Instant::now() }
    }

    /// The next request; `Err` with the answer if it is not accepted, and `None` at the end of the connection.
    pub fn next_request(&mut self) -> Result<Option<HttpRequest>, HttpResponse> {
        match self.read() {
            Ok(request) => Ok(Some(request)),
            Err(Missing::Over) => Ok(None),
            Err(Missing::Refused(response)) => Err(response),
        }
    }

    fn read(&mut self) -> Result<HttpRequest, Missing> {
        self.deadline = Instant::now() + IDLE;
        if self.received.is_empty() {
            self.receive()?;
        }
        self.deadline = Instant::now() + ARRIVING;
        let head = loop {
            let end = self.received.windows(4).take(LONGEST_HEAD).position(|end| end == b"\r\n\r\n");
            match end {
                Some(end) => break self.take(end + 4)?,
                None if self.received.len() >= LONGEST_HEAD => return refused(431, "the request's head is too long"),
                None => self.receive()?,
            }
        };
        let head = match RequestHead::parse(&head) {
            Ok(head) => head,
            Err(problem) => return refused(400, &problem.to_string()),
        };
        if head.body_bytes > LONGEST_BODY {
            return too_long();
        }
        if head.expects_continue {
            let mut stream = self.stream;
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = if head.is_chunked { self.chunks()? } else { self.take(head.body_bytes as usize)? };
        Ok(HttpRequest { head, body })
    }

    /// Reads a body that comes in chunks.
    fn chunks(&mut self) -> Result<Vec<u8>, Missing> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let length = u64::from_str_radix(digits, 16).ok().filter(|_| is_number);
            match length {
                None => return refused(400, "a chunk of the body has no length"),
                Some(0) => break,
                Some(length) if body.len() as u64 + length.min(LONGEST_BODY + 1) > LONGEST_BODY => return too_long(),
                Some(length) => body.extend(self.take(length as usize)?),
            }
            if !self.line()?.is_empty() {
                return refused(400, "a chunk of the body is longer than it says");
            }
        }
        // Fields after the body are not used.
        for _ in 0..100 {
            if self.line()?.is_empty() {
                return Ok(body);
            }
        }
        refused(400, "the body has too many fields after it")
    }

    /// A line, without its end.
    fn line(&mut self) -> Result<String, Missing> {
        loop {
            let end = self.received.windows(2).take(LONGEST_LINE).position(|end| end == b"\r\n");
            match end {
                Some(end) => {
                    let line = self.take(end + 2)?;
                    return Ok(String::from_utf8_lossy(line.get(..end).unwrap_or_default()).into_owned());
                }
                None if self.received.len() > LONGEST_LINE => return refused(400, "a line of the body is too long"),
                None => self.receive()?,
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, Missing> {
        while self.received.len() < count {
            self.receive()?;
        }
        let rest = self.received.split_off(count);
        Ok(std::mem::replace(&mut self.received, rest))
    }

    fn receive(&mut self) -> Result<(), Missing> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Missing::Over);
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut buffer = [0; 16 << 10];
        let mut stream = self.stream;
        match stream.read(&mut buffer) {
            Ok(0) => Err(Missing::Over),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(Missing::Over),
        }
    }
}

fn too_long<T>() -> Result<T, Missing> {
    refused(413, &format!("the body is longer than {LONGEST_BODY} bytes"))
}
