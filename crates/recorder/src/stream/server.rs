//! A port at which clients ask for a stream.

use super::address::Address;
use super::connection::prepare;
use super::threads::spawn;
use super::token::Token;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Strangers that may be talked to at once.
const MOST_STRANGERS: usize = 16;
/// How often a place is looked for where all are taken.
const WAIT_FOR_PLACE: usize = 20;
/// How long is waited between two looks.
const A_WHILE: Duration = Duration::from_millis(100);

/// Listens, and lets in who may come in.
pub struct Server {
    clients: Mutex<Receiver<Client>>,
    local: SocketAddr,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Somebody who was let in.
pub struct Client {
    /// The connection.
    pub connection: TcpStream,
    /// Its place; free for another one when dropped.
    pub place: Place,
}

/// A place among those that are served.
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    /// Begins to listen, for at most so many clients at once.
    pub fn bind(address: &Address, token: Option<Token>, most: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(&address.resolve()?[..])?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (to_owner, clients) = channel();
        let door = Door { token, most, taken: Arc::default(), strangers: Arc::default(), to_owner };
        let stop = Arc::clone(&bell);
        let thread = spawn(c"door", move || door.keep(&listener, &stop))?;
        Ok(Self { clients: Mutex::new(clients), local, bell, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The next client, if one is there.
    pub fn next(&self) -> Option<Client> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Door {
    token: Option<Token>,
    most: usize,
    taken: Arc<AtomicUsize>,
    strangers: Arc<AtomicUsize>,
    to_owner: Sender<Client>,
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
                // No descriptors left, say: others may give some back.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn open_to(&self, mut connection: TcpStream) {
        prepare(&connection);
        let _ = connection.set_nonblocking(false);
        let Some(token) = self.token.clone() else { return self.let_in(connection) };
        self.talk_apart(move |door| match token.is_sent_by(&mut connection) {
            Ok(true) => door.let_in(connection),
            _ => refuse(connection, "this stream needs a token, and the right one; --token gives it"),
        });
    }

    fn let_in(&self, connection: TcpStream) {
        if let Some(place) = self.free_place() {
            let _ = self.to_owner.send(Client { connection, place });
            return;
        }
        self.talk_apart(move |door| {
            // Whoever was there may just have left: that shows with what is sent next.
            for _ in 0..WAIT_FOR_PLACE {
                std::thread::sleep(A_WHILE);
                if let Some(place) = door.free_place() {
                    let _ = door.to_owner.send(Client { connection, place });
                    return;
                }
            }
            let words = match door.most {
                1 => {
                    "another client is being served; come back later, or start the program with --clients 2".to_owned()
                }
                most => {
                    format!("{most} clients are being served, which are all that --clients allows; come back later")
                }
            };
            refuse(connection, &words);
        });
    }

    /// Talks to a stranger in a thread of its own; where there are too many already, not at all.
    fn talk_apart(&self, talk: impl FnOnce(&Self) + Send + 'static) {
        let stranger = Stranger::new(&self.strangers);
        if stranger.number > MOST_STRANGERS {
            return;
        }
        let door = self.same_for_stranger();
        let _ = spawn(c"stranger", move || {
            let _stranger = stranger;
            talk(&door);
        });
    }

    fn free_place(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.taken));
        (self.taken.fetch_add(1, Ordering::AcqRel) < self.most).then_some(place)
    }

    /// The same door, for a thread that talks to a stranger.
    fn same_for_stranger(&self) -> Self {
        Self {
            token: None,
            most: self.most,
            taken: Arc::clone(&self.taken),
            strangers: Arc::clone(&self.strangers),
            to_owner: self.to_owner.clone(),
        }
    }
}

/// Somebody who was not let in, or not yet.
struct Stranger {
    strangers: Arc<AtomicUsize>,
    number: usize,
}

impl Stranger {
    fn new(strangers: &Arc<AtomicUsize>) -> Self {
        let number = strangers.fetch_add(1, Ordering::AcqRel) + 1;
        Self { strangers: Arc::clone(strangers), number }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Says why, and closes. What was sent to us is read first: else our words might not arrive.
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
