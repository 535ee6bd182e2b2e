//! Connections to servers.
//!
//! Plain HTTP needs only a socket. For encrypted connections the program `curl` is run: a TLS library would take a tenth of the time that the whole
//! project takes to build, and `curl` uses the certificates and proxies that the user has set up. It only carries the bytes: its output is the
//! response as the server sent it, so that both ways have the same limits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::limits::Pace;
use super::url::ServerUrl;

const USER_AGENT: &str = concat!("highwater/", env!("CARGO_PKG_VERSION"));

/// The longest message of `curl` that is repeated.
const LONGEST_MESSAGE: u64 = 300;

/// The response to a request, byte by byte.
pub(super) enum Connection<'a> {
    Socket { stream: TcpStream, pace: &'a mut Pace },
    Curl(Curl),
}

impl<'a> Connection<'a> {
    /// Sends a request.
    pub(super) fn open(url: &ServerUrl, pace: &'a mut Pace) -> io::Result<Self> {
        if url.is_encrypted() {
            return Curl::start(url, pace).map(Self::Curl);
        }
        let mut stream = connect(url, pace)?;
        stream.set_write_timeout(Some(pace.left()?))?;
        let (path, host) = (url.path(), url.authority());
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        Ok(Self::Socket { stream, pace })
    }
}

impl Read for Connection<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Curl(curl) => curl.read(buffer),
            Self::Socket { stream, pace } => {
                stream.set_read_timeout(Some(pace.left()?.max(Duration::from_millis(1))))?;
                let read = stream.read(buffer);
                let is_late =
                    |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
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
pub(super) struct Curl {
    child: Child,
}

impl Curl {
    fn start(url: &ServerUrl, pace: &Pace) -> io::Result<Self> {
        let (stall, bytes_per_second, run) = pace.as_seconds();
        let mut curl = Command::new("curl");
        // The user's configuration of `curl` may do anything. `--raw` and `--include` leave the response as it is.
        curl.args(["--disable", "--silent", "--show-error", "--include", "--raw", "--http1.1", "--no-buffer"])
            .args(["--suppress-connect-headers", "--globoff", "--proto", "=https"])
            .args(["--user-agent", USER_AGENT, "--header", "Accept-Encoding: identity"])
            .args(["--connect-timeout", &stall.to_string(), "--max-time", &run.to_string()])
            .args(["--speed-time", &stall.to_string(), "--speed-limit", &bytes_per_second.to_string()])
            .args(["--url", url.as_str()]);
        curl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = curl.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other("https needs the program 'curl', which is not installed"),
            _ => error,
        })?;
        Ok(Self { child })
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
