//! Connections to servers.
//!
//! Plain HTTP needs only a socket. For encrypted connections the program `curl` is run: a TLS library would take a tenth of the time that the whole
//! project takes to build, and `curl` uses the certificates and proxies that the user has set up. It only carries the bytes: its output is the
//! response as the server sent it, so that both ways have the same limits.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::pace::Pace;
use super::url::ServerUrl;

const USER_AGENT: &str = concat!("highwater/", env!("CARGO_PKG_VERSION"));

/// The longest message of `curl` that is repeated.
const LONGEST_MESSAGE: u64 = 300;

/// The largest piece of a request that is written at once, so that a slow connection shows progress.
const LARGEST_WRITE: usize = 64 << 10;

/// A request.
#[derive(Clone, Copy, Default)]
pub struct OutgoingRequest<'a> {
    /// Fields of its head, beside those that every request has. None has a line break in it: see [`OutgoingRequest::is_field`].
    pub fields: &'a [(&'a str, &'a str)],
    /// The body of a `POST`; a `GET` has none.
    pub body: Option<&'a [u8]>,
}

impl OutgoingRequest<'_> {
    /// True if a text can be the value of a field: visible characters and spaces of ASCII.
    pub fn is_field(value: &str) -> bool {
        value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
    }

    fn head(&self, url: &ServerUrl) -> String {
        let method = if self.body.is_some() { "POST" } else { "GET" };
        let (path, host) = (url.path(), url.authority());
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n"
        );
        for (name, value) in self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = self.body {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head + "\r\n"
    }
}

/// The response to a request, byte by byte.
pub enum Connection<'a> {
    /// A socket.
    Socket {
        /// Where the response is read from.
        stream: TcpStream,
        /// Its time limits.
        pace: &'a mut Pace,
    },
    /// A run of the program `curl`.
    Curl(Curl),
}

impl<'a> Connection<'a> {
    /// Sends a request.
    pub fn open(url: &ServerUrl, request: &OutgoingRequest<'_>, pace: &'a mut Pace) -> io::Result<Self> {
        if !request
            .fields
            .iter()
            .all(|(name, value)| OutgoingRequest::is_field(name) && OutgoingRequest::is_field(value))
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a field of the request has characters that it cannot have",
            ));
        }
        if url.is_encrypted() {
            return Curl::start(url, request, pace).map(Self::Curl);
        }
        let mut stream = connect(url, pace)?;
        send(&mut stream, request.head(url).as_bytes(), pace)?;
        if let Some(body) = request.body
            && let Err(error) = send(&mut stream, body, pace)
        {
            // A server that refuses a body may answer before it has read all of it: its answer says more than a broken connection.
            let is_broken = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
            if !is_broken {
                return Err(error);
            }
        }
        Ok(Self::Socket { stream, pace })
    }
}

fn send(stream: &mut TcpStream, bytes: &[u8], pace: &mut Pace) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(pace.left()?.max(Duration::from_millis(1))))?;
        match stream.write(&rest[..rest.len().min(LARGEST_WRITE)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                pace.count(count);
                rest = &rest[count..];
            }
            // The next call of `left` says what took too long.
            Err(error) if is_late(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl Read for Connection<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Curl(curl) => curl.read(buffer),
            Self::Socket { stream, pace } => {
                stream.set_read_timeout(Some(pace.left()?.max(Duration::from_millis(1))))?;
                let read = stream.read(buffer);
                match read {
                    Ok(count) => pace.count(count),
                    // Says what took too long.
                    Err(error) if is_late(&error) => {
                        pace.left()?;
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    Err(error) => return Err(error),
                }
                read
            }
        }
    }
}

fn connect(url: &ServerUrl, pace: &Pace) -> io::Result<TcpStream> {
    let addresses = resolve(url, pace.left()?)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its host has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, pace.left()?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The addresses of a host. The system's resolver has no time limit of its own, so it is asked in a thread that may be left behind.
fn resolve(url: &ServerUrl, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = url.host_and_port().ok_or(io::ErrorKind::InvalidInput)?;
    let host = host.to_owned();
    let (sender, answer) = mpsc::channel();
    std::thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        // No receiver waits any more: ignored.
        let _ = sender.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
    })?;
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the address of its host was not found in time");
    answer.recv_timeout(limit).map_err(late)?
}

/// A run of the program `curl`.
pub struct Curl {
    child: Child,
    _fields: File,
}

impl Curl {
    fn start(url: &ServerUrl, request: &OutgoingRequest<'_>, pace: &Pace) -> io::Result<Self> {
        let (stall, bytes_per_second, run) = pace.as_seconds();
        let mut curl = Command::new("curl");
        // The user's configuration of `curl` may do anything. `--raw` and `--include` leave the response as it is.
        curl.args(["--disable", "--silent", "--show-error", "--include", "--raw", "--http1.1", "--no-buffer"])
            .args(["--suppress-connect-headers", "--globoff", "--proto", "=https"])
            .args(["--user-agent", USER_AGENT, "--header", "Accept-Encoding: identity"])
            .args(["--connect-timeout", &stall.to_string(), "--max-time", &run.to_string()])
            .args(["--speed-time", &stall.to_string(), "--speed-limit", &bytes_per_second.to_string()])
            .args(["--url", url.as_str()]);
        // Arguments are visible to all users, so fields are in a file that has no name. It is open until `curl` has ended.
        let fields = unnamed_file("highwater-fields", curl_fields(request.fields).as_bytes())?;
        if !request.fields.is_empty() {
            let path = format!("/proc/{}/fd/{}", std::process::id(), fields.as_raw_fd());
            curl.args(["--config", &path]);
        }
        curl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(body) = request.body {
            // Without "Expect:", `curl` would wait for a server that does not know 100 Continue.
            curl.args(["--header", "Expect:", "--data-binary", "@-"]);
            curl.stdin(unnamed_file("highwater-body", body)?);
        }
        let child = curl.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other("https needs the program 'curl', which is not installed"),
            _ => error,
        })?;
        Ok(Self { child, _fields: fields })
    }

    /// Why the program failed, in its own words; `None` if it did not.
    fn failure(&mut self) -> io::Result<Option<io::Error>> {
        let mut message = Vec::new();
        if let Some(errors) = self.child.stderr.take() {
            errors.take(LONGEST_MESSAGE).read_to_end(&mut message)?;
        }
        if self.child.wait()?.success() {
            return Ok(None);
        }
        let message = String::from_utf8_lossy(&message);
        let line = message.lines().next().unwrap_or("curl failed").to_owned();
        Ok(Some(io::Error::other(line)))
    }
}

/// A file in memory with these bytes, at its beginning.
fn unnamed_file(name: &str, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Fields in the language of `curl`'s configuration. Quotes and backslashes are escaped; [`Connection::open`] has refused other characters that would have
/// a meaning.
fn curl_fields(fields: &[(&str, &str)]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    fields.iter().map(|(name, value)| format!("header = \"{}: {}\"\n", quoted(name), quoted(value))).collect()
}

impl Read for Curl {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(output) = &mut self.child.stdout else { return Ok(0) };
        let count = output.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.child.stdout = None;
            if let Some(error) = self.failure()? {
                return Err(error);
            }
        }
        Ok(count)
    }
}

impl Drop for Curl {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_cannot_break_out_of_a_request() {
        let url: ServerUrl = "http://host/a".parse().unwrap();
        let mut pace = Pace::new(
            Duration::from_secs(1),
            1,
            std::time::Instant::now() + Duration::from_secs(1),
            super::super::LateTexts { run: "", stall_setting: "" },
        );
        let request = OutgoingRequest { fields: &[("X-Scope-OrgID", "a\r\nHost: b")], body: None };
        assert_eq!(Connection::open(&url, &request, &mut pace).err().unwrap().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(curl_fields(&[("A", "b \"c\\")]), "header = \"A: b \\\"c\\\\\"\n");
        let head = OutgoingRequest { fields: &[("A", "b")], body: Some(b"xyz") }.head(&url);
        assert!(head.starts_with("POST /a HTTP/1.1\r\nHost: host\r\n"), "{head}");
        assert!(head.ends_with("\r\nA: b\r\nContent-Length: 3\r\n\r\n"), "{head}");
    }
}
