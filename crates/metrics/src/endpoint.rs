//! The HTTP server of the endpoint.

use crate::connections::{ConnectionSlot, ScrapeConnections};
use crate::monitor::{MetricsOptions, Monitor};
use crate::negotiation::TextFormat;
use crate::pprof::{self, NoProfile};
use crate::source::MetricsSource;
use highwater_http::server::{IncomingHead, Request, RequestReader};
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a connection may be idle. Prometheus keeps its connection from scrape to scrape, a minute or so.
const IDLE: Duration = Duration::from_secs(150);
/// How long a client may take to accept a part of the answer.
const SENDING: Duration = Duration::from_secs(10);
const PLAIN: &str = "text/plain; charset=utf-8";
const INDEX: &str = "highwater: /metrics is for Prometheus, /debug/pprof/ for 'go tool pprof'\n";

/// The endpoint of a collector.
pub struct MetricsEndpoint {
    monitor: Monitor,
    /// True if it can be reached from this machine only.
    is_local: bool,
    /// Held while a profile is made: names take memory.
    profiling: Mutex<()>,
}

/// An answer to a request.
struct MetricsAnswer {
    status: &'static str,
    kind: &'static str,
    more: &'static str,
    body: Vec<u8>,
}

impl MetricsAnswer {
    fn ok(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: "200 OK", kind, more: "", body: body.into() }
    }

    /// An answer of one line.
    fn line(status: &'static str, line: &str) -> Self {
        let line: String = line.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
        Self { status, kind: PLAIN, more: "", body: format!("{line}\n").into_bytes() }
    }
}

impl MetricsEndpoint {
    /// Serves on a listener until the process ends. An error if no thread can be started.
    pub fn serve(listener: TcpListener, source: Box<dyn MetricsSource>, options: MetricsOptions) -> io::Result<()> {
        let is_local = listener.local_addr()?.ip().is_loopback();
        let endpoint = Arc::new(Self { monitor: Monitor::new(source, options), is_local, profiling: Mutex::default() });
        if options.sites > 0 {
            let endpoint = Arc::clone(&endpoint);
            std::thread::Builder::new().name("sites".into()).spawn(move || endpoint.monitor.read_sites())?;
        }
        let open = Arc::new(ScrapeConnections::default());
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // Most likely the process is out of descriptors: other connections must close first.
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let Some(slot) = open.admit(&stream) else { continue };
            let endpoint = Arc::clone(&endpoint);
            // If no thread can be started, the connection closes by itself.
            let _ = std::thread::Builder::new().name("scrape".into()).spawn(move || endpoint.converse(stream, slot));
        }
    }

    fn converse(&self, mut stream: TcpStream, mut slot: ConnectionSlot) -> io::Result<()> {
        stream.set_write_timeout(Some(SENDING))?;
        stream.set_nodelay(true)?;
        let mut incoming = RequestReader::new(stream.try_clone()?);
        loop {
            let head = match incoming.next_head(IDLE)? {
                IncomingHead::Head(head) => head,
                IncomingHead::TooLong => {
                    let line = "the request's head is too long";
                    let answer = MetricsAnswer::line("431 Request Header Fields Too Large", line);
                    return send(&mut stream, &answer, false, false);
                }
                IncomingHead::Nothing => return Ok(()),
            };
            if !slot.begin() {
                return Ok(());
            }
            let request = match Request::parse(&head) {
                Ok(request) => request,
                Err(problem) => {
                    let answer = MetricsAnswer::line("400 Bad Request", &problem.to_string());
                    return send(&mut stream, &answer, false, false);
                }
            };
            // No request has a body here. After one that has, the connection is closed instead of searched for the next request.
            let stays = request.keep_alive && request.body_length == 0;
            let answer = self.answer(&request);
            send(&mut stream, &answer, request.method == "HEAD", stays)?;
            if !stays || !slot.end(&stream) {
                return Ok(());
            }
        }
    }

    fn answer(&self, request: &Request) -> MetricsAnswer {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            let answer = MetricsAnswer::line("405 Method Not Allowed", "only GET and HEAD are answered here");
            return MetricsAnswer { more: "Allow: GET, HEAD\r\n", ..answer };
        }
        if !is_of_no_page(request) || self.is_local && !names_this_machine(request) {
            return MetricsAnswer::line("403 Forbidden", "this is not for pages in a browser");
        }
        match request.path.as_str() {
            "/" => MetricsAnswer::ok(PLAIN, INDEX),
            "/metrics" => {
                let format = TextFormat::accepted(request.field("accept").unwrap_or_default());
                match self.monitor.page(format) {
                    Ok(page) => MetricsAnswer::ok(format.content_type(), page),
                    Err(error) => MetricsAnswer::line("503 Service Unavailable", &error.to_string()),
                }
            }
            "/debug/pprof" | "/debug/pprof/" => match pprof::index(&self.monitor) {
                Ok(index) => MetricsAnswer::ok(PLAIN, index),
                Err(error) => refused(&error),
            },
            "/debug/pprof/heap" if request.method == "HEAD" => MetricsAnswer::ok("application/octet-stream", []),
            "/debug/pprof/heap" => {
                let _one = self.profiling.lock().unwrap_or_else(PoisonError::into_inner);
                match pprof::heap(&self.monitor, request) {
                    Ok(profile) => MetricsAnswer {
                        more: "Content-Disposition: attachment; filename=\"heap.pb.gz\"\r\n",
                        ..MetricsAnswer::ok("application/octet-stream", profile)
                    },
                    Err(error) => refused(&error),
                }
            }
            _ => MetricsAnswer::line("404 Not Found", "there are /metrics and /debug/pprof/"),
        }
    }
}

fn refused(error: &NoProfile) -> MetricsAnswer {
    let status = match error {
        NoProfile::Bad(_) => "400 Bad Request",
        NoProfile::Unknown(_) => "404 Not Found",
        NoProfile::Unavailable(_) => "503 Service Unavailable",
    };
    MetricsAnswer::line(status, &error.to_string())
}

/// True unless a page in a browser sends the request. Such a page could not read the answer, but it could make us work.
fn is_of_no_page(request: &Request) -> bool {
    let is_opened_by_user = matches!(request.field("sec-fetch-site"), None | Some("none"));
    is_opened_by_user && !request.is_repeated("sec-fetch-site") && request.field("origin").is_none()
}

/// True if the `Host` is an address or `localhost`. Any other name could belong to a page that made its name mean this machine.
fn names_this_machine(request: &Request) -> bool {
    let Some(host) = request.field("host").filter(|_| !request.is_repeated("host")) else { return false };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

fn send(stream: &mut TcpStream, answer: &MetricsAnswer, is_head: bool, stays: bool) -> io::Result<()> {
    let MetricsAnswer { status, kind, more, body } = answer;
    let (length, connection) = (body.len(), if stays { "keep-alive" } else { "close" });
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}Connection: {connection}\r\n\
         X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\r\n"
    )
    .into_bytes();
    if !is_head {
        bytes.extend_from_slice(body);
    }
    stream.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &str) -> Request {
        Request::parse(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn only_addresses_name_this_machine() {
        for host in ["127.0.0.1:7464", "127.0.0.1", "localhost:80", "LOCALHOST", "[::1]:7464", "[::1]", "10.1.2.3:1"] {
            assert!(names_this_machine(&request(&format!("Host: {host}\r\n"))), "{host}");
        }
        for host in ["evil.example:7464", "evil", "", "localhost.evil:1", "127.0.0.1.evil", "127.0.0.1:80:evil"] {
            assert!(!names_this_machine(&request(&format!("Host: {host}\r\n"))), "{host}");
        }
        assert!(!names_this_machine(&request("")));
        assert!(!names_this_machine(&request("Host: localhost\r\nHost: localhost\r\n")));
    }

    #[test]
    fn pages_of_a_browser_are_refused() {
        assert!(is_of_no_page(&request("")) && is_of_no_page(&request("Sec-Fetch-Site: none\r\n")));
        for fields in ["Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-origin\r\n", "Origin: http://a\r\n"] {
            assert!(!is_of_no_page(&request(fields)), "{fields}");
        }
    }
}
