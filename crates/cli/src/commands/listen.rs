//! `highwater listen`: receives streams.

use crate::failure::{Failure, reason};
use crate::output::say;
use crate::receive::{Admission, Arrival, Board, Claim, Incoming, Interrupts, Quota, Target, receive};
use crate::target::Overwrite;
use crate::token::TokenArgs;
use clap::Args;
use highwater_recorder::stream::{Address, Strangers, StreamClient, StreamServer, refuse};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The arguments of `highwater listen`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater listen 1234                         what record --stream 1234 sends
  highwater listen 0.0.0.0:1234 --token-file F  from others that know the token
  highwater listen 1234 --once -o app.hw        one stream, into this file

Each stream goes into a file of its own, named after host, program and time: recordings into '.hw', memtrace traces of OCaml \
programs into '.ctf', found by their first bytes. A file can be read while it grows. Ctrl-C asks the senders to end, and waits \
for what they still have; a second one ends at once. Each sender gets a word whether its stream was kept, and if not, why.")]
pub struct Listen {
    /// Where: PORT (this machine only), HOST:PORT, [::1]:PORT
    #[arg(value_name = "ADDR")]
    address: Address,
    /// The file, for the first stream; or a directory for all of them [default: this directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// End after one stream; connections that send none do not count
    #[arg(long, conflicts_with = "max")]
    once: bool,
    /// End after N streams; those beyond are refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    #[command(flatten)]
    token: TokenArgs,
}

/// The maximum number of streams at once.
const MOST_AT_ONCE: usize = 256;
/// The maximum number of connections that have not begun a stream; a further one displaces the oldest.
const MOST_SILENT: usize = 128;
/// The answer to the displaced connection.
const TOO_MANY_SILENT: &str =
    "too many connections here have sent no stream yet, and this was the oldest of them; try again";
const NAP: Duration = Duration::from_millis(50);

impl Listen {
    /// Receives until the wanted number of streams is kept, or Ctrl-C.
    pub fn run(&self) -> Result<(), Failure> {
        let token = self.token.token()?;
        let target = Arc::new(Target::new(self.output.as_deref(), self.overwrite)?);
        let interrupts = Interrupts::catch().map_err(|error| Failure::fault(reason(&error)))?;
        let server = StreamServer::bind_without_limit(&self.address, token).map_err(|error| {
            target.tidy_up();
            Failure::fault(format_args!("cannot listen at {}: {}", self.address, reason(&error).to_lowercase()))
        })?;
        let board = Arc::new(Board::new());
        say(&format!("listening at {}; Ctrl-C ends it", server.local()));
        let quota = Quota::new(if self.once { Some(1) } else { self.max }, MOST_AT_ONCE);
        let silent = Strangers::new(MOST_SILENT, TOO_MANY_SILENT);
        loop {
            let is_over = quota.is_met() || interrupts.count() > 0;
            if is_over && quota.arriving() == 0 {
                break;
            }
            match server.next() {
                Some(StreamClient { connection, .. }) => {
                    // If no descriptor is left, the connection is closed.
                    let Ok(stranger) = silent.admit(&connection) else { continue };
                    let admission = Admission { quota: Arc::clone(&quota), stranger };
                    let incoming = Incoming::with_admission(Arc::clone(&target), admission);
                    let (board, interrupts) = (Arc::clone(&board), interrupts.clone());
                    std::thread::spawn(move || take_in(connection, incoming, &board, &interrupts));
                }
                None => std::thread::sleep(NAP),
            }
            board.show();
        }
        silent.dismiss_all("the receiver has ended; not kept");
        board.clear();
        target.tidy_up();
        Ok(())
    }
}

/// Receives one stream, prints the outcome, and answers the sender.
fn take_in(mut connection: TcpStream, incoming: Incoming, board: &Board, interrupts: &Interrupts) {
    let from = connection.peer_addr().map_or_else(|_| "somebody".to_owned(), |peer| peer.to_string());
    let line = board.add(&from);
    let arrival = Arrival { board, line: &line, deadline: None, interrupts, shows: false };
    let outcome = receive(&mut connection, incoming, &arrival);
    board.remove(&line);
    match outcome {
        Ok(mut outcome) => {
            board.say(&outcome.describe());
            match outcome.answer() {
                Ok(answer) => _ = answer.send(&connection),
                Err(words) => refuse(connection, words),
            }
            outcome.claim.take().into_iter().for_each(Claim::keep);
        }
        Err(failure) => {
            let words = failure.line().unwrap_or("not kept");
            board.say(&format!("{from}: {words}"));
            refuse(connection, words);
        }
    }
}
