//! A server on a port of its own that answers as its test says, and keeps the requests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with the next request.
pub enum Act {
    /// Answers with these bytes, after it has read the request.
    Answer(&'static str),
    /// Answers 200 with this body.
    Reply(&'static [u8]),
    /// Answers before it has read the body.
    AnswerEarly(&'static str),
    /// Closes the connection after it has read the request.
    Close,
    /// Answers slowly, byte by byte.
    Slowly(&'static str),
}

/// A request.
pub struct Received {
    pub line: String,
    /// By names in small letters.
    pub fields: HashMap<String, String>,
    pub body: Vec<u8>,
}

pub struct Server {
    pub address: String,
    acts: Arc<Mutex<Vec<Act>>>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// A server that answers 200 once it has done all `acts`.
    pub fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let acts = Arc::new(Mutex::new(acts.into_iter().collect::<Vec<_>>()));
        let received = Arc::new(Mutex::new(Vec::new()));
        let (of_thread, kept) = (Arc::clone(&acts), Arc::clone(&received));
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let act = {
                    let mut acts = of_thread.lock().unwrap();
                    if acts.is_empty() { Act::Reply(b"") } else { acts.remove(0) }
                };
                serve(stream.unwrap(), &act, &kept);
            }
        });
        Self { address, acts, received }
    }

    pub fn then(&self, act: Act) {
        self.acts.lock().unwrap().push(act);
    }

    /// The requests that were read, in order.
    pub fn take(&self) -> Vec<Received> {
        std::mem::take(&mut self.received.lock().unwrap())
    }
}

fn serve(stream: TcpStream, act: &Act, received: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut out = stream;
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut fields = HashMap::new();
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).unwrap();
        let Some((name, value)) = field.trim_end().split_once(": ") else { break };
        fields.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    if let Act::AnswerEarly(answer) = act {
        // The client may be gone.
        let _ = out.write_all(answer.as_bytes());
        let _ = out.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
        return;
    }
    let mut body = vec![0; fields["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    received.lock().unwrap().push(Received { line: line.trim_end().to_owned(), fields, body });
    let written = match act {
        Act::Answer(answer) => out.write_all(answer.as_bytes()),
        Act::Reply(reply) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", reply.len());
            out.write_all(&[head.as_bytes(), reply].concat())
        }
        Act::Slowly(answer) => answer.bytes().try_for_each(|byte| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            out.write_all(&[byte])
        }),
        Act::Close | Act::AnswerEarly(_) => Ok(()),
    };
    // The client may be gone.
    drop(written);
}
