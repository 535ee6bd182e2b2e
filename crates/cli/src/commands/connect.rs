//! `highwater connect`: asks a program for its stream.

use crate::failure::{Failure, reason};
use crate::output::say;
use crate::receive::{Arrival, Board, Incoming, Interrupts, Target, receive};
use crate::target::Overwrite;
use clap::Args;
use highwater_model::{Nanos, parse_duration};
use highwater_recorder::stream::{Address, Token, connect, connect_patiently};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The arguments of `highwater connect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater connect 1234                      to record --serve 1234
  highwater connect host:1234 --duration 60s  a minute of it
  highwater connect host:1234 --wait          as soon as somebody is there

The stream goes into a file named after host, program and time, which can be read while it grows. What offers the memtrace service of \
OCaml programs can be asked as well. Ctrl-C asks the program to end its stream, and waits for what it still has; a second one \
ends at once.")]
pub struct Connect {
    /// Where: PORT (on this machine), HOST:PORT, [::1]:PORT
    #[arg(value_name = "ADDR")]
    address: Address,
    /// The file, or a directory for it [default: this directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Only so long (such as 90s, 10m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Nanos>,
    /// Wait until somebody is there
    #[arg(long)]
    wait: bool,
    /// The word that the program asks for
    #[arg(long, value_name = "TOKEN")]
    token: Option<Token>,
}

fn parse_time(text: &str) -> Result<Nanos, String> {
    parse_duration(text)
        .filter(|time| time.0 > 0)
        .ok_or_else(|| "not a time; such as 90s, 500ms, 10m, 1h30m".to_owned())
}

impl Connect {
    /// Receives the stream until it ends.
    pub fn run(&self) -> Result<(), Failure> {
        let target = Arc::new(Target::new(self.output.as_deref(), self.overwrite)?);
        let interrupts = Interrupts::catch().map_err(|error| Failure::fault(reason(&error)))?;
        let received = self.connect(&interrupts).and_then(|connection| self.receive(connection, &target, &interrupts));
        target.tidy_up();
        received
    }

    fn connect(&self, interrupts: &Interrupts) -> Result<TcpStream, Failure> {
        if self.wait {
            say(&format!("waiting for somebody at {}", self.address));
            let found = connect_patiently(&self.address, self.token.as_ref(), || interrupts.count() > 0);
            return found.ok_or_else(|| Failure::fault(format_args!("nobody came at {}", self.address)));
        }
        connect(&self.address, self.token.as_ref()).map_err(|error| cannot_connect(&self.address, &error))
    }

    fn receive(&self, mut connection: TcpStream, target: &Arc<Target>, interrupts: &Interrupts) -> Result<(), Failure> {
        let board = Board::new();
        let line = board.add(&self.address.to_string());
        let deadline = self.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
        let arrival = Arrival { board: &board, line: &line, deadline, interrupts, shows: true };
        let outcome = receive(&mut connection, Incoming::new(Arc::clone(target)), &arrival);
        board.clear();
        let outcome = outcome.map_err(|failure| {
            Failure::fault(format_args!("{}: {}", self.address, failure.line().unwrap_or("nothing was kept")))
        })?;
        say(&outcome.describe());
        Ok(())
    }
}

/// What is said where nobody can be reached.
pub fn cannot_connect(address: &Address, error: &std::io::Error) -> Failure {
    let hint = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "; does anybody listen there? --wait waits for it",
        _ => "",
    };
    Failure::fault(format_args!("cannot connect to {address}: {}{hint}", reason(error).to_lowercase()))
}
