//! `highwater listen`: receives streams.

use crate::failure::{Failure, reason};
use crate::output::say;
use crate::receive::{Arrival, Board, Incoming, Interrupts, Target, receive};
use crate::target::Overwrite;
use clap::Args;
use highwater_recorder::stream::{Address, Server, Token};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The arguments of `highwater listen`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater listen 1234                    what record --stream 1234 sends
  highwater listen 0.0.0.0:1234 --token T  from other machines, if they know it
  highwater listen 1234 --once -o app.hw   one stream, into this file

Each stream goes into a file of its own, named after host, program and time: recordings into '.hw', memtrace traces of OCaml \
programs into '.ctf', found by their first bytes. A file can be read while it grows. Ctrl-C asks the senders to end, and waits \
for what they still have; a second one ends at once.")]
pub struct Listen {
    /// Where: PORT (this machine only), HOST:PORT, [::1]:PORT
    #[arg(value_name = "ADDR")]
    address: Address,
    /// The file, for the first stream; or a directory for all of them [default: this directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// End after one stream
    #[arg(long, conflicts_with = "max")]
    once: bool,
    /// End after so many streams
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Only from senders that know this word
    #[arg(long, value_name = "TOKEN")]
    token: Option<Token>,
}

/// Streams that may arrive at once.
const MOST_AT_ONCE: usize = 256;
const NAP: Duration = Duration::from_millis(50);

impl Listen {
    /// Receives until there were enough, or Ctrl-C.
    pub fn run(&self) -> Result<(), Failure> {
        let target = Arc::new(Target::new(self.output.as_deref(), self.overwrite)?);
        let interrupts = Interrupts::catch().map_err(|error| Failure::fault(reason(&error)))?;
        let server = Server::bind(&self.address, self.token.clone(), MOST_AT_ONCE).map_err(|error| {
            target.tidy_up();
            Failure::fault(format_args!("cannot listen at {}: {}", self.address, reason(&error).to_lowercase()))
        })?;
        let board = Arc::new(Board::new());
        say(&format!("listening at {}; Ctrl-C ends it", server.local()));
        let most = if self.once { Some(1) } else { self.max };
        // Those that turned out to be none do not count.
        let (good, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        loop {
            let (received, arriving) = (good.load(Ordering::Acquire), open.load(Ordering::Acquire));
            let is_enough = most.is_some_and(|most| received as u64 >= most) || interrupts.count() > 0;
            if is_enough && arriving == 0 {
                break;
            }
            let may_come = !is_enough && most.is_none_or(|most| ((received + arriving) as u64) < most);
            match if may_come { server.next() } else { None } {
                Some(client) => {
                    open.fetch_add(1, Ordering::AcqRel);
                    let (target, board, interrupts) = (Arc::clone(&target), Arc::clone(&board), interrupts.clone());
                    let (good, open) = (Arc::clone(&good), Arc::clone(&open));
                    std::thread::spawn(move || {
                        let is_good = take_in(client.connection, target, &board, &interrupts);
                        good.fetch_add(usize::from(is_good), Ordering::AcqRel);
                        open.fetch_sub(1, Ordering::AcqRel);
                        drop(client.place);
                    });
                }
                None => std::thread::sleep(NAP),
            }
            board.show();
        }
        board.clear();
        target.tidy_up();
        Ok(())
    }
}

/// Receives one stream, and says what became of it; whether it was one.
fn take_in(mut connection: TcpStream, target: Arc<Target>, board: &Board, interrupts: &Interrupts) -> bool {
    let from = connection.peer_addr().map_or_else(|_| "somebody".to_owned(), |peer| peer.to_string());
    let line = board.add(&from);
    let arrival = Arrival { board, line: &line, deadline: None, interrupts, shows: false };
    let outcome = receive(&mut connection, Incoming::new(target), &arrival);
    board.remove(&line);
    match outcome {
        Ok(outcome) => {
            board.say(&outcome.describe());
            true
        }
        Err(failure) => {
            board.say(&format!("{from}: {}", failure.line().unwrap_or("nothing was kept")));
            false
        }
    }
}
