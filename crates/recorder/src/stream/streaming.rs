//! Makes the streams of a process, and collects their results.

use super::address::Address;
use super::namer::{Namer, Naming};
use super::outbox::{Outbox, Wish};
use super::server::{ClientSlot, StreamClient, StreamServer};
use super::token::StreamToken;
use super::wire::{StreamEnd, Wire};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// How long a forked process waits before it connects: most forked processes execute another program at once.
const PRELUDE: Duration = Duration::from_millis(150);
/// Delay before connecting again after a connection broke.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The maximum of that delay.
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// How long the end of a stream waits for a client that takes no bytes.
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection that lasted at least this long was a good one.
const GOOD: Duration = Duration::from_secs(5);

/// The destination of streams.
pub enum StreamTo {
    /// The recorder connects, and again when the connection breaks.
    Connect {
        /// The receiver's address.
        address: Address,
        /// The token that is sent first.
        token: Option<StreamToken>,
        /// An existing connection.
        first: Option<TcpStream>,
    },
    /// Clients connect, and nothing is recorded while there are none.
    Serve(Arc<StreamServer>),
}

/// The results of the streams of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Streams that had a connection.
    pub connections: u64,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Events left out because a client did not take them in time.
    pub left_out: u64,
    /// The last failure.
    pub problem: Option<String>,
    /// Why the receiver did not keep the stream that was sent to it; `None` if it did, as far as that can be known. Of several streams, the last.
    pub not_kept: Option<String>,
}

/// The streams of a process.
pub struct Streaming {
    to: StreamTo,
    /// The format of the streams.
    pub(crate) wire: Wire,
    pub(crate) naming: Naming,
    /// The other end has asked for no more.
    is_over: bool,
    delay: Duration,
    /// How long the end of a stream waits for a client that takes no bytes.
    pub(crate) patience: Duration,
    /// The results of streams that have ended.
    pub(crate) sent: Sent,
}

impl Streaming {
    /// No stream yet. `forked` says that the process may be about to execute another program.
    pub fn new(to: StreamTo, wire: Wire, namer: Namer, forked: bool) -> Self {
        let delay = if forked { PRELUDE } else { Duration::ZERO };
        Self { to, wire, naming: Naming::new(namer), is_over: false, delay, patience: PATIENCE, sent: Sent::default() }
    }

    /// Limits how long the end waits for clients that take no bytes: for a program whose own exit would have to wait.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether nothing is recorded while there is no client.
    pub(crate) fn is_on_demand(&self) -> bool {
        matches!(self.to, StreamTo::Serve(_))
    }

    /// The next stream, if there is to be one beside `others` existing ones.
    pub(crate) fn next(&mut self, others: usize) -> Option<(Outbox, Option<ClientSlot>)> {
        match &mut self.to {
            StreamTo::Connect { .. } if others > 0 || self.is_over => None,
            StreamTo::Connect { address, token, first } => {
                let outbox = match first.take() {
                    Some(connection) => Outbox::over(connection, Wish::Ours),
                    None => Outbox::to(address.clone(), token.clone(), self.delay),
                };
                match outbox {
                    Ok(outbox) => Some((outbox, None)),
                    Err(error) => {
                        self.is_over = true;
                        self.sent.problem = Some(error.to_string());
                        self.sent.not_kept = self.sent.problem.clone();
                        None
                    }
                }
            }
            StreamTo::Serve(server) => {
                let StreamClient { connection, slot } = server.next()?;
                let slot = slot?;
                let wish = Wish::Client(Arc::clone(slot.presence()));
                Some((Outbox::over(connection, wish).ok()?, Some(slot)))
            }
        }
    }

    /// Adds the result of a stream that has ended.
    pub(crate) fn has_ended(&mut self, ending: StreamEnd) {
        self.sent.connections += u64::from(ending.was_connected);
        self.sent.bytes += ending.sent;
        self.sent.left_out += ending.left_out;
        if let StreamTo::Connect { .. } = self.to {
            self.is_over |= ending.was_asked_for;
            let problem = ending.refusal.map(|words| format!("the receiver says: {words}")).or(ending.failure);
            self.sent.not_kept = match (problem.clone(), self.sent.not_kept.take()) {
                // The reason is the failure that broke the connection, not that there was none afterwards.
                (Some(problem), Some(before)) if !ending.was_connected && !before.contains(&problem) => {
                    Some(format!("{before}; then {problem}"))
                }
                (Some(_), Some(before)) if !ending.was_connected => Some(before),
                (problem, _) => problem,
            };
            if problem.is_some() {
                self.sent.problem = problem;
            }
        }
        self.delay = match ending.lasted > GOOD {
            true => FIRST_DELAY,
            false => (self.delay * 2).clamp(FIRST_DELAY, LONGEST_DELAY),
        };
    }
}
