//! The part of HTTP/1.1 that clients of the network use: requests with a body of known length or in chunks, over connections that stay open.
//!
//! Everything is bounded: the head, the body, the time that a request takes to arrive, and the number of connections ([`super::server`]).

mod head;
mod reader;

pub use head::{BadHead, RequestHead};
pub use reader::RequestReader;

use std::io::{self, Write};

/// A request with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Everything before the body.
    pub head: RequestHead,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The number of the status.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A document of the interface.
    pub fn cbor(body: Vec<u8>) -> Self {
        Self { status: 200, content_type: "application/cbor", body }
    }

    /// A line for people.
    pub fn line(status: u16, line: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{line}\n").into_bytes() }
    }

    /// Sends it.
    pub fn send(&self, stream: &mut impl Write, keeps_alive: bool) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            202 => "Accepted",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Payload Too Large",
            415 => "Unsupported Media Type",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let connection = if keeps_alive { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\nConnection: {connection}\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&self.body)
    }
}
