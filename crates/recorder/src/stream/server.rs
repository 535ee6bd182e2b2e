//! A port on which clients ask for a stream, or senders offer one.

use super::address::Address;
use super::connection::prepare;
use super::presence::Presence;
use super::strangers::Strangers;
use super::threads::spawn;
use super::token::StreamToken;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum number of connections that have not shown the token, or are being refused. The oldest is closed for a new one.
const MOST_STRANGERS: usize = 64;
/// The message to that connection.
const TOO_MANY_STRANGERS: &str =
    "too many connections here have not shown the token, and this was the oldest of them; try again";
/// The message to a client without the token.
const NO_TOKEN: &str = "this stream needs a token, and the right one; --token-file or HIGHWATER_TOKEN gives it";
/// How long a client waits for the slot of another one that may be leaving.
const LEAVING: Duration = Duration::from_secs(2);
/// How often it checks meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// Listens, and accepts clients that may connect.
pub struct StreamServer {
    clients: Mutex<Receiver<StreamClient>>,
    local: SocketAddr,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// An accepted client.
pub struct StreamClient {
    /// The connection.
    pub connection: TcpStream,
    /// Its slot, if slots are limited; free for another client when dropped.
    pub slot: Option<ClientSlot>,
}

/// One of the limited number of served clients.
pub struct ClientSlot {
    presence: Arc<Presence>,
    all: Arc<ClientSlots>,
}

impl ClientSlot {
    /// The presence of its client.
    pub fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.all.taken().retain(|other| !Arc::ptr_eq(other, &self.presence));
    }
}

/// All slots: at most `most`.
struct ClientSlots {
    most: usize,
    taken: Mutex<Vec<Arc<Presence>>>,
}

impl ClientSlots {
    fn taken(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Presence>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a client, if one is free.
    fn take(self: &Arc<Self>, connection: &TcpStream) -> Option<ClientSlot> {
        let mut taken = self.taken();
        if taken.len() >= self.most {
            return None;
        }
        let presence = Arc::new(Presence::of(connection).ok()?);
        taken.push(Arc::clone(&presence));
        Some(ClientSlot { presence, all: Arc::clone(self) })
    }

    /// Whether one may become free in a moment.
    fn may_become_free(&self) -> bool {
        let taken = self.taken();
        taken.len() < self.most || taken.iter().any(|presence| presence.may_be_leaving())
    }

    /// The message to a client for which there is no slot.
    fn refusal(&self) -> String {
        match self.most {
            1 => "another client is being served; come back later, or start the program with --clients 2".to_owned(),
            most => format!("{most} clients are being served, which are all that --clients allows; come back later"),
        }
    }
}

impl StreamServer {
    /// Begins to listen, for at most `most` clients at once.
    pub fn bind(address: &Address, token: Option<StreamToken>, most: usize) -> io::Result<Self> {
        Self::listen(address, token, Some(Arc::new(ClientSlots { most, taken: Mutex::default() })))
    }

    /// Begins to listen. Every client with the token is accepted; the caller refuses clients beyond its limit.
    pub fn bind_without_limit(address: &Address, token: Option<StreamToken>) -> io::Result<Self> {
        Self::listen(address, token, None)
    }

    fn listen(address: &Address, token: Option<StreamToken>, slots: Option<Arc<ClientSlots>>) -> io::Result<Self> {
        let listener = TcpListener::bind(&address.resolve()?[..])?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (to_owner, clients) = channel();
        let strangers = Strangers::new(MOST_STRANGERS, TOO_MANY_STRANGERS);
        let door = Door { token: token.map(Arc::new), slots, strangers, to_owner };
        let stop = Arc::clone(&bell);
        let thread = spawn(c"door", move || door.keep(&listener, &stop))?;
        Ok(Self { clients: Mutex::new(clients), local, bell, thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The next client, if one has connected.
    pub fn next(&self) -> Option<StreamClient> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Door {
    token: Option<Arc<StreamToken>>,
    slots: Option<Arc<ClientSlots>>,
    strangers: Arc<Strangers>,
    to_owner: Sender<StreamClient>,
}

impl Door {
    fn keep(&self, listener: &TcpListener, stop: &OwnedFd) {
        loop {
            let mut waits = [PollFd::new(listener, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            let _ = rustix::event::poll(&mut waits, None);
            if !waits[1].revents().is_empty() {
                return;
            }
            match listener.accept() {
                Ok((connection, _)) => self.open_to(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // For instance, no descriptors are left: others may be closed soon.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn open_to(&self, connection: TcpStream) {
        prepare(&connection);
        let _ = connection.set_nonblocking(false);
        let connection = match self.token {
            None => match self.seat(connection) {
                None => return,
                Some(connection) => connection,
            },
            Some(_) => connection,
        };
        self.talk_apart(connection);
    }

    /// Hands a client over to the owner; returns the connection if there is no slot for it.
    fn seat(&self, connection: TcpStream) -> Option<TcpStream> {
        let slot = match &self.slots {
            None => None,
            Some(slots) => match slots.take(&connection) {
                None => return Some(connection),
                slot => slot,
            },
        };
        let _ = self.to_owner.send(StreamClient { connection, slot });
        None
    }

    /// Talks to a stranger in a thread of its own. If there is no thread or descriptor for it, the connection is closed.
    fn talk_apart(&self, mut connection: TcpStream) {
        let Ok(stranger) = self.strangers.admit(&connection) else { return };
        let door = self.clone();
        let _ = spawn(c"stranger", move || {
            let mut stranger = Some(stranger);
            if let Some(token) = &door.token {
                let is_known = token.is_sent_by(&mut connection).is_ok_and(|is_right| is_right);
                if stranger.as_ref().is_some_and(|stranger| stranger.was_dismissed()) {
                    return;
                }
                if !is_known {
                    return refuse(connection, NO_TOKEN);
                }
                // Connections without the token can no longer displace this one.
                stranger = None;
            }
            door.let_in(connection);
            drop(stranger);
        });
    }

    /// Accepts a client as soon as there is a slot; refuses it as soon as none can be expected.
    fn let_in(&self, mut connection: TcpStream) {
        let until = Instant::now() + LEAVING;
        loop {
            connection = match self.seat(connection) {
                None => return,
                Some(connection) => connection,
            };
            let Some(slots) = &self.slots else { return };
            if Instant::now() >= until || !slots.may_become_free() {
                return refuse(connection, &slots.refusal());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Sends the reason, and closes. All received bytes are read first: otherwise the message might not arrive.
pub fn refuse(mut connection: TcpStream, words: &str) {
    let _ = connection.set_nonblocking(false);
    let _ = connection.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = connection.write_all(format!("highwater: {words}\n").as_bytes());
    let _ = connection.shutdown(Shutdown::Write);
    let _ = connection.set_read_timeout(Some(Duration::from_millis(500)));
    let mut rest = [0; 4096];
    for _ in 0..256 {
        if !connection.read(&mut rest).is_ok_and(|count| count > 0) {
            return;
        }
    }
}
