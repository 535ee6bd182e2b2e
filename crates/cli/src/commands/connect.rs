//! `highwater connect`: receives the stream of a program that serves it.

use crate::failure::{Failure, reason};
use crate::output::say;
use crate::receive::{Arrival, Board, Incoming, Interrupts, Target, receive};
use crate::target::Overwrite;
use crate::token::TokenArgs;
use clap::Args;
use highwater_model::{Nanos, parse_duration};
use highwater_recorder::stream::{Address, StreamToken, connect, connect_patiently};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The arguments of `highwater connect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater connect 1234                      to record --serve 1234
  highwater connect host:1234 --duration 60s  a minute of it
  highwater connect host:1234 --wait          as soon as the program is there

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
    /// Wait until the program is there, and say why it has to
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    token: TokenArgs,
}

fn parse_time(text: &str) -> Result<Nanos, String> {
    parse_duration(text)
        .filter(|time| time.0 > 0)
        .ok_or_else(|| "not a time; such as 90s, 500ms, 10m, 1h30m".to_owned())
}

impl Connect {
    /// Receives the stream until it ends.
    pub fn run(&self) -> Result<(), Failure> {
        let token = self.token.token()?;
        let target = Arc::new(Target::new(self.output.as_deref(), self.overwrite)?);
        let interrupts = Interrupts::catch().map_err(|error| Failure::fault(reason(&error)))?;
        let received = self
            .connect(token.as_ref(), &interrupts)
            .and_then(|connection| self.receive(connection, &target, &interrupts));
        target.tidy_up();
        received
    }

    fn connect(&self, token: Option<&StreamToken>, interrupts: &Interrupts) -> Result<TcpStream, Failure> {
        if self.wait {
            return wait_for(&self.address, token, "", || interrupts.count() > 0);
        }
        connect(&self.address, token).map_err(|error| cannot_connect(&self.address, &error))
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

/// Connects as soon as that is possible. Prints the reason for waiting, at first and whenever it changes.
pub fn wait_for(
    address: &Address,
    token: Option<&StreamToken>,
    what_then: &str,
    is_over: impl Fn() -> bool,
) -> Result<TcpStream, Failure> {
    let mut last = None;
    let found = connect_patiently(address, token, is_over, |error| {
        let now = Some(reason(error).to_lowercase());
        if now != last {
            last = now;
            say(&format!("waiting for {address}: {}{what_then}", last.as_deref().unwrap_or_default()));
        }
    });
    found.ok_or_else(|| {
        let last = last.map_or_else(String::new, |last| format!("; the last attempt failed: {last}"));
        Failure::fault(format_args!("gave up waiting for {address}{last}"))
    })
}

/// The failure if the address cannot be reached.
pub fn cannot_connect(address: &Address, error: &std::io::Error) -> Failure {
    let hint = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "; does anybody listen there? --wait waits for it",
        _ => "",
    };
    Failure::fault(format_args!("cannot connect to {address}: {}{hint}", reason(error).to_lowercase()))
}
