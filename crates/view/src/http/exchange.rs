//! Sends the answer to a request, whole or in chunks.

use std::io::{self, Write};
use std::net::TcpStream;

/// Header fields of every answer: nothing is loaded from elsewhere, nothing is sent elsewhere, no other page frames it, loads it
/// or holds a reference to its window.
const HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n";

/// The answering side of a connection.
pub struct Exchange {
    stream: TcpStream,
    keep_alive: bool,
    is_head: bool,
    is_begun: bool,
}

impl Exchange {
    /// The answer to a request that arrived on a connection.
    pub fn new(stream: TcpStream, keep_alive: bool, is_head: bool) -> Self {
        Self { stream, keep_alive, is_head, is_begun: false }
    }

    /// Whether an answer was begun.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Sends a whole answer; `more` are further header lines, each with its end.
    pub fn whole(&mut self, status: &str, kind: &str, more: &str, body: &[u8]) -> io::Result<()> {
        let length = body.len();
        let head = self.head(status, &format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n{more}"));
        self.stream.write_all(head.as_bytes())?;
        if self.is_head { Ok(()) } else { self.stream.write_all(body) }
    }

    /// Sends one line of text. Control characters in it become spaces.
    pub fn line(&mut self, status: &str, line: &str) -> io::Result<()> {
        self.line_with(status, "", line)
    }

    /// Answers that a path does not support the request's method.
    pub fn not_allowed(&mut self, allowed: &str, line: &str) -> io::Result<()> {
        self.line_with("405 Method Not Allowed", &format!("Allow: {allowed}\r\n"), line)
    }

    fn line_with(&mut self, status: &str, more: &str, line: &str) -> io::Result<()> {
        let line = line.replace(char::is_control, " ");
        self.whole(status, "text/plain; charset=utf-8", more, format!("{line}\n").as_bytes())
    }

    /// Begins an answer that comes in chunks.
    pub fn begin(&mut self, kind: &str) -> io::Result<()> {
        let head = self.head("200 OK", &format!("Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n"));
        self.stream.write_all(head.as_bytes())
    }

    fn head(&mut self, status: &str, more: &str) -> String {
        self.is_begun = true;
        let connection = if self.keep_alive { "keep-alive" } else { "close" };
        format!("HTTP/1.1 {status}\r\n{HEADERS}Connection: {connection}\r\n{more}\r\n")
    }

    /// Sends a chunk.
    pub fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() || self.is_head {
            return Ok(());
        }
        self.stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.stream.write_all(bytes)?;
        self.stream.write_all(b"\r\n")
    }

    /// Ends an answer in chunks.
    pub fn end(&mut self) -> io::Result<()> {
        if self.is_head { Ok(()) } else { self.stream.write_all(b"0\r\n\r\n") }
    }

    /// Whether the client is still connected. A client that has sent another request is.
    pub fn is_awaited(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(&self.stream, PollFlags::IN | PollFlags::RDHUP)];
        match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) => true,
            Ok(_) => !polled[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR),
            Err(_) => true,
        }
    }
}
