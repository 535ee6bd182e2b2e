//! A server for tests, and a client that knows just enough of HTTP.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]

pub mod history;
pub mod rss;

use highwater_store::Recording;
use highwater_store::history::Work;
use highwater_view::{Api, FileKind, LiveProcesses, OpenedFile, Opener, Plain, Server, Sources, Stop};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// A directory for one test, removed when the test ends.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("view-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens `.hw` files.
pub struct Recordings;

impl Opener for Recordings {
    fn open(&self, path: &Path, _: &Work<'_>) -> Result<OpenedFile, String> {
        let recording = Recording::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let kind = if recording.is_snapshot() { FileKind::Snapshot } else { FileKind::Recording };
        Ok(OpenedFile { kind, recording: Arc::new(recording), damage: Vec::new(), special: Box::new(Plain) })
    }
}

/// A server that runs until it is dropped.
pub struct Running {
    pub port: u16,
    pub token: String,
    pub address: String,
    pub address_for_once: String,
    pub api: Arc<Api>,
    stop: Stop,
}

impl Running {
    pub fn new(files: &[PathBuf]) -> Self {
        Self::with(files, None)
    }

    pub fn with(files: &[PathBuf], collector: Option<Box<dyn LiveProcesses>>) -> Self {
        Self::opening(files, Box::new(Recordings), collector)
    }

    pub fn opening(files: &[PathBuf], opener: Box<dyn Opener>, collector: Option<Box<dyn LiveProcesses>>) -> Self {
        Self::serving(Arc::new(Api::new(Sources::new(files, opener), collector)))
    }

    pub fn serving(api: Arc<Api>) -> Self {
        let server = Server::bind(0).unwrap();
        let (port, token, address) = (server.port(), server.token().to_owned(), server.address());
        let address_for_once = server.address_for_once().unwrap();
        let (sender, receiver) = mpsc::channel();
        let served = Arc::clone(&api);
        std::thread::spawn(move || server.run(served, |stop| sender.send(stop).unwrap()));
        Self { port, token, address, address_for_once, api, stop: receiver.recv().unwrap() }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a request unchanged, and reads one answer.
    pub fn raw(&self, request: &str) -> Response {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        Response::read(&mut stream)
    }

    pub fn request(&self, method: &str, path: &str, more: &str) -> Response {
        let (port, token) = (self.port, &self.token);
        self.raw(&format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        ))
    }

    /// The text of a request with the token.
    pub fn asking(&self, method: &str, path: &str) -> String {
        let (port, token) = (self.port, &self.token);
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n")
    }

    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path, "")
    }

    /// Asks an endpoint that answers in one piece.
    pub fn plain(&self, question: &str) -> Value {
        let response = self.get(&format!("/api/1/{question}"));
        assert_eq!(response.status, 200, "{question}: {}", response.text());
        serde_json::from_slice(&response.body).unwrap()
    }

    /// The last line of an endpoint that answers in lines.
    pub fn last_line(&self, question: &str) -> Value {
        let response = self.get(&format!("/api/1/{question}"));
        assert_eq!(response.status, 200, "{question}: {}", response.text());
        assert_eq!(response.field("content-type"), Some("application/x-ndjson"));
        let text = response.text();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }

    pub fn ask(&self, question: &str) -> Value {
        let mut line = self.last_line(question);
        assert!(line.get("result").is_some(), "{question}: {line}");
        line["result"].take()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "closed within: {}", String::from_utf8_lossy(&head));
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let field = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let fields: Vec<(String, String)> = lines.filter_map(field).collect();
        let mut response = Self { status, fields, body: Vec::new() };
        if let Some(length) = response.field("content-length") {
            response.body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut response.body).unwrap();
        } else if response.field("transfer-encoding") == Some("chunked") {
            while response.read_chunk(stream) {}
        }
        response
    }

    fn read_chunk(&mut self, stream: &mut TcpStream) -> bool {
        let mut size = String::new();
        while !size.ends_with("\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            size.push(byte[0].into());
        }
        let length = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk).unwrap();
        self.body.extend_from_slice(&chunk[..length]);
        length > 0
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A text, percent-encoded for an address.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02x}") })
        .collect()
}
