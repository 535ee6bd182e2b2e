//! `highwater view`, with requests over its socket.

use super::Place;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running `highwater view`, killed when dropped.
pub struct Viewer {
    pub child: Child,
    pub address: String,
}

/// An HTTP answer. If its body has several lines, the last one counts.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    /// The last line with an object, as JSON; null if there is none.
    pub fn value(&self) -> Value {
        let line = self.body.lines().rev().find(|line| line.starts_with('{'));
        line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }

    /// The error message, from the body or from its JSON; `None` if there was an answer.
    pub fn problem(&self) -> Option<String> {
        match self.value() {
            Value::Null if self.status != 200 => Some(self.body.trim().to_owned()),
            value => value["error"]["what"].as_str().map(str::to_owned),
        }
    }
}

impl Viewer {
    /// Views files, without a collector.
    pub fn new(place: &Place, arguments: &str) -> Self {
        let line = format!("view --no-open --socket nowhere {arguments}");
        Self::start(&mut place.command(line.split_whitespace()))
    }

    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    /// Sends a request below `/api/1/`; errors are returned as well.
    pub fn request(&self, method: &str, question: &str) -> Answer {
        let (host, token) = self.address.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        let token = token.split('#').next().unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!("Host: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close");
        write!(stream, "{method} /api/1/{question} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{question}: {answer}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, body: body.to_owned() }
    }

    /// Sends a request that must succeed.
    #[track_caller]
    pub fn ask(&self, question: &str) -> Value {
        answered(question, &self.request("GET", question))
    }

    #[track_caller]
    pub fn post(&self, question: &str) -> Value {
        answered(question, &self.request("POST", question))
    }

    /// The entry of one source in `sources`.
    pub fn source(&self, id: usize) -> Value {
        self.ask("sources")["sources"].as_array().unwrap().iter().find(|source| source["id"] == id).unwrap().clone()
    }
}

#[track_caller]
fn answered(question: &str, answer: &Answer) -> Value {
    assert_eq!((answer.status, answer.problem()), (200, None), "{question}");
    let mut value = answer.value();
    if value.get("result").is_some() { value["result"].take() } else { value }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
