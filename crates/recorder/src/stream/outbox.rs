//! A bounded queue of bytes to send, and the thread that writes it to a socket.
//!
//! Filling the queue never blocks: the caller asks whether [there is room](Outbox::has_room_for), and leaves out events for which there is none.

use super::address::Address;
use super::connection::{connect_patiently, pause};
use super::presence::Presence;
use super::threads::spawn;
use super::token::StreamToken;
use super::words::{ReceiverStatus, understand};
use highwater_store::FileSink;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of queued bytes.
const MOST_WAITING: usize = 8 << 20;
/// Words of the other end are kept up to this length: a token and a few lines.
const LONGEST_WORDS: usize = 1024;
/// How long the end of a stream waits for a connection, if there is none.
const PATIENCE_WITHOUT_CONNECTION: Duration = Duration::from_secs(3);
/// How long a client may take to close its side.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a receiver may take to confirm that it has kept everything.
const CONFIRMATION: Duration = Duration::from_secs(10);
const NOT_CONFIRMED: &str = "the receiver has not confirmed in time that it kept the stream";

/// Which end wants the stream.
#[derive(Clone)]
pub enum Wish {
    /// A client that connected to us: it knows itself what it received.
    Client(Arc<Presence>),
    /// Our user, to whom it is reported whether the stream was kept.
    Ours,
}

/// The filling end of the queue; the thread has the other one.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<OutboxQueue>,
}

/// The queue, which both ends share.
struct OutboxQueue {
    state: Mutex<OutboxState>,
    changed: Condvar,
    /// Wakes the thread.
    bell: OwnedFd,
}

/// The state of the queue and of the connection.
#[derive(Default)]
struct OutboxState {
    queue: VecDeque<Vec<u8>>,
    waiting: usize,
    sent: u64,
    is_connected: bool,
    /// Why the last attempt to connect failed.
    not_connected: Option<String>,
    /// All was sent, and the receiver has not confirmed it yet.
    is_all_sent: bool,
    /// Nothing more will be queued.
    is_ended: bool,
    /// The stream is not wanted any more.
    is_given_up: bool,
    /// The thread is done.
    is_done: bool,
    asked_to_end: bool,
    /// The other end has closed its side, and may be gone.
    is_silent: bool,
    words: Vec<u8>,
    failure: Option<String>,
}

impl FileSink for Outbox {
    fn cut_back(&mut self, _: u64) {}
}

impl Write for Outbox {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        if let Some(failure) = &state.failure {
            return Err(io::Error::new(io::ErrorKind::NotConnected, failure.clone()));
        }
        state.waiting += bytes.len();
        state.queue.push_back(bytes.to_vec());
        drop(state);
        self.ring();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Outbox {
    fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { shared: Arc::new(OutboxQueue { state: Mutex::default(), changed: Condvar::new(), bell }) })
    }

    /// Sends over an existing connection.
    pub fn over(connection: TcpStream, wish: Wish) -> io::Result<Self> {
        let outbox = Self::new()?;
        let thread = outbox.clone();
        outbox.state().is_connected = true;
        spawn(c"sender", move || thread.send_all(connection, &wish))?;
        Ok(outbox)
    }

    /// Connects after `delay`, as soon as a receiver listens, and sends then. Bytes written before are queued.
    pub fn to(address: Address, token: Option<StreamToken>, delay: Duration) -> io::Result<Self> {
        let outbox = Self::new()?;
        let thread = outbox.clone();
        spawn(c"sender", move || {
            pause(delay, &|| thread.state().is_ended || thread.state().is_given_up);
            let failed = |error: &io::Error| thread.state().not_connected = Some(reason(error));
            match connect_patiently(&address, token.as_ref(), || thread.state().is_given_up, failed) {
                Some(connection) => {
                    thread.state().is_connected = true;
                    thread.send_all(connection, &Wish::Ours);
                }
                None => thread.done(Some(thread.state().why_not_connected())),
            }
        })?;
        Ok(outbox)
    }

    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
    }

    /// Whether there is room in the queue. A writer that has already left out events gets room only once the queue is half empty: catching up must be worth while.
    pub fn has_room_for(&self, is_behind: bool) -> bool {
        self.state().waiting < if is_behind { MOST_WAITING / 2 } else { MOST_WAITING }
    }

    /// Why nothing more can be sent.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Whether there has ever been a connection.
    pub fn is_connected(&self) -> bool {
        self.state().is_connected
    }

    /// Whether the other end has asked to end the stream.
    pub fn is_asked_to_end(&self) -> bool {
        self.state().asked_to_end
    }

    /// Whether the other end has closed its side: because it is gone, or because it has nothing to say.
    pub fn is_silent(&self) -> bool {
        self.state().is_silent
    }

    /// Why the other end does not keep the stream, in its own words.
    pub fn refusal(&self) -> Option<String> {
        self.status().refusal
    }

    fn status(&self) -> ReceiverStatus {
        understand(&self.state().words)
    }

    /// The number of bytes sent.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// Nothing more will be queued: sends the rest, then closes the connection.
    pub fn end(&self) {
        self.state().is_ended = true;
        self.ring();
    }

    /// Whether everything was sent, or nothing more can be.
    pub fn is_done(&self) -> bool {
        self.state().is_done
    }

    /// Waits until everything was sent. Fails if the other end takes no bytes for `patience`.
    pub fn wait_until_sent(&self, patience: Duration) -> Result<(), String> {
        let mut state = self.state();
        let (mut sent, mut since) = (state.sent, Instant::now());
        while !state.is_done {
            if state.sent != sent {
                (sent, since) = (state.sent, Instant::now());
            }
            let patience = if state.is_connected { patience } else { patience.min(PATIENCE_WITHOUT_CONNECTION) };
            if since.elapsed() > patience {
                state.is_given_up = true;
                drop(state);
                self.ring();
                let state = self.state();
                return Err(match (state.is_connected, state.is_all_sent) {
                    (true, true) => NOT_CONFIRMED.to_owned(),
                    (true, false) => "the receiver takes nothing any more".to_owned(),
                    (false, _) => state.why_not_connected(),
                });
            }
            let waited = self.shared.changed.wait_timeout(state, Duration::from_millis(50));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failure.clone().map_or(Ok(()), Err)
    }

    /// The stream is not wanted any more: drops the queue.
    pub fn give_up(&self) {
        self.state().is_given_up = true;
        self.ring();
    }

    fn done(&self, failure: Option<String>) {
        let mut state = self.state();
        state.is_done = true;
        state.failure = failure;
        state.queue.clear();
        state.waiting = 0;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// The sender thread: sends the queue until it has ended, or the receiver is gone.
    fn send_all(&self, mut connection: TcpStream, wish: &Wish) {
        let failure = match (self.send_until_end(&mut connection, wish), wish) {
            (Ok(()), Wish::Client(_)) => {
                say_farewell(&mut connection);
                None
            }
            (Ok(()), Wish::Ours) => self.wait_for_confirmation(&mut connection).err(),
            (Err(error), _) => {
                // The reason may have arrived before the connection broke.
                while self.hear(&mut connection, wish).is_ok_and(|heard| heard == ReceiverInput::Words) {}
                Some(reason(&error))
            }
        };
        self.done(failure);
    }

    fn send_until_end(&self, connection: &mut TcpStream, wish: &Wish) -> io::Result<()> {
        connection.set_nonblocking(true)?;
        // A client that has closed its side may still read.
        let mut hears = true;
        let mut current: Vec<u8> = Vec::new();
        let mut done = 0;
        loop {
            if done == current.len() {
                let mut state = self.state();
                if state.is_given_up {
                    return Err(io::Error::other("given up"));
                }
                done = 0;
                match state.queue.pop_front() {
                    Some(next) => current = next,
                    None if state.is_ended => return Ok(()),
                    None => current = Vec::new(),
                }
            }
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::OUT, !current.is_empty());
            wanted.set(PollFlags::IN, hears);
            let mut waits = [PollFd::new(connection, wanted), PollFd::new(&self.shared.bell, PollFlags::IN)];
            let limit = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
            let _ = rustix::event::poll(&mut waits, Some(&limit));
            let (ready, rung) = (waits[0].revents(), waits[1].revents());
            if !rung.is_empty() {
                let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
                if self.state().is_given_up {
                    return Err(io::Error::other("given up"));
                }
            }
            if hears && ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                hears = self.hear(connection, wish)? != ReceiverInput::End;
            }
            if !hears && current.is_empty() && ready.intersects(PollFlags::HUP | PollFlags::ERR) {
                return Err(connection.take_error()?.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()));
            }
            if !current.is_empty() && ready.intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP) {
                match connection.write(&current[done..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        done += count;
                        let mut state = self.state();
                        state.sent += count as u64;
                        state.waiting = state.waiting.saturating_sub(count);
                    }
                    Err(error) if is_for_later(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// All was sent: closes our side, and reads the receiver's answer.
    fn wait_for_confirmation(&self, connection: &mut TcpStream) -> Result<(), String> {
        self.state().is_all_sent = true;
        let _ = connection.shutdown(Shutdown::Write);
        let until = Instant::now() + CONFIRMATION;
        while Instant::now() < until && !self.state().is_given_up {
            let mut waits = [PollFd::new(connection, PollFlags::IN)];
            let step = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let _ = rustix::event::poll(&mut waits, Some(&step));
            let heard = match waits[0].revents().is_empty() {
                true => Ok(ReceiverInput::Nothing),
                false => self.hear(connection, &Wish::Ours),
            };
            let status = self.status();
            if status.is_kept || status.refusal.is_some() {
                return Ok(());
            }
            match heard {
                Ok(ReceiverInput::Words | ReceiverInput::Nothing) => {}
                // A receiver that never says anything, such as netcat, has read to the end if it closes in order.
                Ok(ReceiverInput::End) if !status.is_receiving => return Ok(()),
                Ok(ReceiverInput::End) => {
                    return Err("the receiver ended before it confirmed that it kept the stream".to_owned());
                }
                Err(error) => {
                    return Err(format!("{} before the receiver confirmed that it kept the stream", reason(&error)));
                }
            }
        }
        Err(NOT_CONFIRMED.to_owned())
    }

    /// Reads what the other end says.
    fn hear(&self, connection: &mut TcpStream, wish: &Wish) -> io::Result<ReceiverInput> {
        if let Wish::Client(presence) = wish {
            presence.set_leaving();
        }
        let mut bytes = [0; 256];
        match connection.read(&mut bytes) {
            Ok(0) => {
                self.state().is_silent = true;
                Ok(ReceiverInput::End)
            }
            Ok(count) => {
                let mut state = self.state();
                let room = LONGEST_WORDS.saturating_sub(state.words.len()).min(count);
                state.words.extend_from_slice(&bytes[..room]);
                state.asked_to_end |= understand(&state.words).asks_to_end;
                if let (Wish::Client(presence), false) = (wish, state.asked_to_end) {
                    presence.set_here();
                }
                Ok(ReceiverInput::Words)
            }
            Err(error) if is_for_later(&error) => Ok(ReceiverInput::Nothing),
            Err(error) => Err(error),
        }
    }
}

impl OutboxState {
    fn why_not_connected(&self) -> String {
        let reason = self.not_connected.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("could not connect{reason}")
    }
}

/// The result of reading from the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiverInput {
    /// It said something.
    Words,
    /// Nothing yet.
    Nothing,
    /// It will say nothing more.
    End,
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Closes a connection so that everything that was sent arrives: all bytes from the other end must have been read before.
fn say_farewell(connection: &mut TcpStream) {
    let _ = connection.shutdown(Shutdown::Write);
    let _ = connection.set_nonblocking(false);
    let _ = connection.set_read_timeout(Some(FAREWELL));
    let until = Instant::now() + FAREWELL;
    let mut rest = [0; 4096];
    while Instant::now() < until && connection.read(&mut rest).is_ok_and(|count| count > 0) {}
}

/// The error in the system's words, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
