//! Accepts connections, and reads requests from them.

use super::access::{Access, Verdict};
use super::connections::{Connections, Place};
use super::exchange::Exchange;
use highwater_http::server::{IncomingHead, Request, RequestReader};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a connection that has shown the token may be idle between two requests.
const IDLE: Duration = Duration::from_secs(60);
/// How long a stranger may send nothing.
const ARRIVING: Duration = Duration::from_secs(10);
/// How long a client may take to accept the data that is sent to it.
const SENDING: Duration = Duration::from_secs(30);
/// The longest body that is accepted. Bodies are discarded: no request needs one.
const LONGEST_BODY: u64 = 64 << 10;

/// The path that returns the address to open, for a client that already has the token: a page cannot read its own cookie.
const LINK: &str = "/api/1/link";

/// Answers requests.
pub trait Answer: Send + Sync + 'static {
    /// Answers one request. An error means that the connection is lost.
    fn answer(&self, request: &Request, exchange: &mut Exchange) -> io::Result<()>;
}

/// A server that listens on this machine only.
pub struct Server {
    listener: TcpListener,
    access: Arc<Access>,
    port: u16,
}

/// Stops a server from another thread.
#[derive(Clone, Debug)]
pub struct Stop {
    is_over: Arc<AtomicBool>,
    port: u16,
}

impl Stop {
    /// Stops accepting connections.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The thread that waits in `accept` needs a connection to wake up.
        let _ = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, self.port).into(), Duration::from_secs(1));
    }
}

impl Server {
    /// Listens on a port; on any free one if it is 0.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, access: Arc::new(Access::new(port)?), port })
    }

    /// The address to open. It contains the token.
    pub fn address(&self) -> String {
        self.access.address()
    }

    /// The address for a browser that is started with it as an argument. Every user of the machine can read a command line, so this address works only
    /// once and does not contain the token.
    pub fn address_for_once(&self) -> io::Result<String> {
        Ok(format!("http://127.0.0.1:{}/?token={}", self.port, self.access.ticket()?))
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The token that every request must bring.
    pub fn token(&self) -> &str {
        self.access.token()
    }

    /// Answers requests until it is stopped; `began` receives the handle that stops it.
    pub fn run(&self, answer: Arc<dyn Answer>, began: impl FnOnce(Stop)) {
        let is_over = Arc::new(AtomicBool::new(false));
        began(Stop { is_over: Arc::clone(&is_over), port: self.port });
        let open = Arc::new(Connections::default());
        for stream in self.listener.incoming() {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let Ok((stream, place)) = stream.and_then(|stream| open.admit(&stream).map(|place| (stream, place))) else {
                // Most likely the process is out of descriptors: other connections must close first.
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let (answer, access) = (Arc::clone(&answer), Arc::clone(&self.access));
            let begun = std::thread::Builder::new().name("view".into()).spawn(move || {
                let _ = converse(stream, &access, &*answer, place);
            });
            // If no thread could be started, the connection closes by itself.
            drop(begun);
        }
    }
}

fn converse(stream: TcpStream, access: &Access, answer: &dyn Answer, mut place: Place) -> io::Result<()> {
    stream.set_write_timeout(Some(SENDING))?;
    stream.set_nodelay(true)?;
    let mut incoming = RequestReader::new(stream.try_clone()?);
    loop {
        let patience = if place.is_known() { IDLE } else { ARRIVING };
        let head = match incoming.next_head(patience)? {
            IncomingHead::Head(head) => head,
            IncomingHead::TooLong => {
                let line = "the request's head is too long";
                return Exchange::new(stream, false, false).line("431 Request Header Fields Too Large", line);
            }
            IncomingHead::Nothing => return Ok(()),
        };
        let request = match Request::parse(&head) {
            Ok(request) => request,
            Err(problem) => {
                return Exchange::new(stream, false, false).line("400 Bad Request", &problem.to_string());
            }
        };
        if request.body_length > LONGEST_BODY {
            return Exchange::new(stream, false, false).line("413 Content Too Large", "nothing that long is read here");
        }
        incoming.skip_body(request.body_length as usize)?;
        let verdict = access.judge(&request);
        let has_token = matches!(verdict, Verdict::Welcome | Verdict::Introduced);
        if has_token && !place.introduce() {
            let line = "too many connections; try again";
            return Exchange::new(stream, false, false).line("503 Service Unavailable", line);
        }
        // A client without the token does not keep its connection.
        let stays = request.keep_alive && has_token;
        let mut exchange = Exchange::new(stream.try_clone()?, stays, request.method == "HEAD");
        respond(&request, verdict, &mut exchange, access, answer)?;
        if !stays {
            return Ok(());
        }
    }
}

fn respond(
    request: &Request,
    verdict: Verdict,
    exchange: &mut Exchange,
    access: &Access,
    answer: &dyn Answer,
) -> io::Result<()> {
    match verdict {
        Verdict::Welcome if request.path == LINK => {
            let address = format!("{{\"address\":\"{}\"}}", access.address());
            match request.method.as_str() {
                "GET" | "HEAD" => exchange.whole("200 OK", "application/json", "", address.as_bytes()),
                _ => exchange.not_allowed("GET, HEAD", "the link can only be read"),
            }
        }
        Verdict::Welcome => answer.answer(request, exchange),
        Verdict::Introduced => {
            let (cookie, token) = (access.cookie(), access.token());
            // A redirect without a fragment keeps the fragment of the opened address. A stricter `SameSite` would not send the cookie if the link was on a page elsewhere.
            let more = format!("Location: /\r\nSet-Cookie: {cookie}={token}; Path=/; SameSite=Lax; HttpOnly\r\n");
            exchange.whole("303 See Other", "text/plain; charset=utf-8", &more, b"see /\n")
        }
        Verdict::Unknown => {
            exchange.line("401 Unauthorized", "the token is missing; open the address that 'highwater view' printed")
        }
        Verdict::Forbidden => exchange.line("403 Forbidden", "this server answers only its own page on this machine"),
    }
}
