//! Connecting, once or until a receiver listens.

use super::address::Address;
use super::token::StreamToken;
use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit of one attempt.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Delay after the first attempt.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The maximum delay between attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Connects, and sends the token if there is one.
pub fn connect(address: &Address, token: Option<&StreamToken>) -> io::Result<TcpStream> {
    let mut failed = None;
    for one in address.resolve()? {
        match TcpStream::connect_timeout(&one, ATTEMPT) {
            Ok(mut connection) => {
                prepare(&connection);
                if let Some(token) = token {
                    connection.write_all(token.line().as_bytes())?;
                }
                return Ok(connection);
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::other("the host has no address")))
}

/// Connects as soon as the other end listens; `None` once `is_over` returns true. A name that cannot be resolved is tried again too.
/// `failed` is called with the error of each failed attempt.
pub fn connect_patiently(
    address: &Address,
    token: Option<&StreamToken>,
    is_over: impl Fn() -> bool,
    mut failed: impl FnMut(&io::Error),
) -> Option<TcpStream> {
    let mut wait = FIRST_WAIT;
    while !is_over() {
        match connect(address, token) {
            Ok(connection) => return Some(connection),
            Err(error) => failed(&error),
        }
        pause(wait, &is_over);
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    None
}

/// Sleeps for `time`, or until `is_over` returns true.
pub(super) fn pause(time: Duration, is_over: &impl Fn() -> bool) {
    const STEP: Duration = Duration::from_millis(20);
    let mut left = time;
    while !left.is_zero() && !is_over() {
        let step = left.min(STEP);
        std::thread::sleep(step);
        left -= step;
    }
}

/// Sets the options of every connection: no delay, and a periodic check whether the other machine is still there.
pub(super) fn prepare(connection: &TcpStream) {
    let _ = connection.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(connection, true);
    let _ = rustix::net::sockopt::set_tcp_keepidle(connection, Duration::from_secs(30));
    let _ = rustix::net::sockopt::set_tcp_keepintvl(connection, Duration::from_secs(10));
    let _ = rustix::net::sockopt::set_tcp_keepcnt(connection, 3);
}
