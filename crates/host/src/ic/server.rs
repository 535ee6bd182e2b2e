//! Listens for clients of the network's interface, and passes their requests on.

use super::endpoints::IcHost;
use super::http::{HttpResponse, RequestReader};
use crate::hosted::SharedState;
use crate::server::HostLog;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The most connections at once.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take to accept an answer.
const SENDING: Duration = Duration::from_secs(30);
/// How often the stop flag is checked.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A server of the network's interface.
pub struct IcServer {
    listener: TcpListener,
    address: SocketAddr,
    host: Arc<IcHost>,
    log: HostLog,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum IcBindError {
    /// The address is not of this machine alone.
    #[error("{0} can be reached from other machines, and every client controls its canisters; --ic-remote allows it")]
    Remote(SocketAddr),
    /// The system does not allow it.
    #[error("cannot listen at {0}: {1}")]
    Io(SocketAddr, io::Error),
}

impl IcServer {
    /// Begins to listen. The port 0 stands for any free one. An address that other machines can reach is taken only if `is_open_to_others` is set.
    pub fn bind(
        address: SocketAddr,
        is_open_to_others: bool,
        state: SharedState,
        log: &HostLog,
    ) -> Result<Self, IcBindError> {
        if !address.ip().is_loopback() && !is_open_to_others {
            return Err(IcBindError::Remote(address));
        }
        let failed = |error| IcBindError::Io(address, error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let host = IcHost::new(state, Arc::clone(log)).map_err(failed)?;
        Ok(Self { listener, address: bound, host: Arc::new(host), log: Arc::clone(log) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers clients until `stop` is set.
    pub fn serve(&self, stop: &AtomicBool) {
        let connections = Arc::new(AtomicUsize::new(0));
        while !stop.load(Ordering::Relaxed) {
            let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
            if !matches!(rustix::event::poll(&mut ready, Some(&NAP)), Ok(1..)) {
                continue;
            }
            let Ok((mut stream, _)) = self.listener.accept() else { continue };
            if connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
                (self.log)(&format!("a client was turned away: {MOST_CONNECTIONS} are here, which is the limit"));
                let _ = HttpResponse::line(503, "too many connections; try again").send(&mut stream, false);
                continue;
            }
            connections.fetch_add(1, Ordering::Relaxed);
            let (host, count) = (Arc::clone(&self.host), Arc::clone(&connections));
            let address = self.address;
            let attended = std::thread::Builder::new().name("ic".into()).spawn(move || {
                let _ = attend(&stream, &host, address);
                count.fetch_sub(1, Ordering::Relaxed);
            });
            if attended.is_err() {
                connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Answers one client until it disconnects.
fn attend(mut stream: &TcpStream, host: &IcHost, address: SocketAddr) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SENDING))?;
    let mut reader = RequestReader::new(stream);
    loop {
        let request = match reader.next_request() {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(response) => return response.send(&mut stream, false),
        };
        // A page in a browser can send requests to any address under a name of its own, but never one with another name than its server's.
        let is_ours = request.head.host.as_deref().is_some_and(|name| is_this_machine(name, address));
        let keeps_alive = request.head.keeps_alive && is_ours;
        let response = match is_ours {
            true => host.answer(&request),
            false => {
                HttpResponse::line(403, "this host answers only requests to its address in numbers, or to localhost")
            }
        };
        response.send(&mut stream, keeps_alive)?;
        if !keeps_alive {
            return Ok(());
        }
    }
}

/// Whether a `Host` always means this machine: a name could be made to mean any. A host that others can reach may have any address in numbers.
fn is_this_machine(host: &str, own: SocketAddr) -> bool {
    let name = host.strip_suffix(&format!(":{}", own.port())).unwrap_or(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback() || !own.ip().is_loopback())
        || name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_count() {
        let own: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        for name in ["127.0.0.1:80", "127.0.0.1", "localhost:80", "[::1]:80", "a.localhost:80", "LOCALHOST"] {
            assert!(is_this_machine(name, own), "{name}");
        }
        for name in ["evil:80", "localhost.evil:80", "127.0.0.1.evil", "10.0.0.1:80", "127.0.0.1:81", ""] {
            assert!(!is_this_machine(name, own), "{name}");
        }
        let open: SocketAddr = "0.0.0.0:80".parse().expect("an address");
        assert!(is_this_machine("10.0.0.1:80", open) && !is_this_machine("evil:80", open));
    }
}
