//! An address to connect to, or to listen on: `HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The default host: no other machine must see a program's memory by accident.
const LOOPBACK: &str = "127.0.0.1";

/// A host and a port, as the user wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no address; such as 1234, :1234, host:1234, [::1]:1234");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port),
            None => ("", text),
        };
        let port = port.parse().map_err(|_| wrong())?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) => host,
            // An IPv6 address without brackets: it is not clear where its port begins.
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        let host = if host.is_empty() { LOOPBACK } else { host };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Address {
    /// The socket addresses that it stands for; at least one.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| {
            let text = error.to_string();
            let reason = text.rsplit(": ").next().unwrap_or(&text).to_owned();
            io::Error::new(error.kind(), format!("the host's address cannot be found ({reason}); is its name right?"))
        })?;
        let found: Vec<SocketAddr> = found.collect();
        if found.is_empty() {
            return Err(io::Error::other("the host has no address"));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_host_it_is_this_machine() {
        let shown = |text: &str| Address::from_str(text).map(|address| address.to_string());
        assert_eq!(shown("1234").unwrap(), "127.0.0.1:1234");
        assert_eq!(shown(":1234").unwrap(), "127.0.0.1:1234");
        assert_eq!(shown("0.0.0.0:80").unwrap(), "0.0.0.0:80");
        assert_eq!(shown("example.org:80").unwrap(), "example.org:80");
        assert_eq!(shown("[::1]:80").unwrap(), "[::1]:80");
        for wrong in ["", "host", "host:", "host:99999", "::1:80", "host:80:", "host:-1"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
