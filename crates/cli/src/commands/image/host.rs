//! `highwater image host`: runs a module and answers requests.

use super::program::Start;
use super::socket::HostSocketArgs;
use crate::failure::{Failure, reason};
use crate::output::say;
use clap::Args;
use highwater_host::hosted::HostState;
use highwater_host::ic::FIRST_CANISTER;
use highwater_host::ic::server::IcServer;
use highwater_host::server::{HostLog, HostServer};
use highwater_store::BindError;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The arguments of `highwater image host`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image host ledger.wasm
  highwater image host ledger.wasm --socket /tmp/ledger.sock --quiet
  highwater image host ledger.wasm --load edited.img   go on from an image
  highwater image host --ic 127.0.0.1:4943             an empty host, for 'icp':
    icp canister install -n http://127.0.0.1:4943 -k fetch \\
      rrkah-fqaaa-aaaaa-aaaaq-cai --wasm ledger.wasm

Messages, replies, traps, self-calls and timers are as on the Internet Computer, but time stands still unless a call lets it pass \
('image call --after 5s'). The same calls always give the same memory. With --ic, 'icp' and any agent see a network with one subnet; \
its key is new at each start ('-k fetch').")]
pub struct HostArgs {
    #[command(flatten)]
    start: Start,
    #[command(flatten)]
    socket: HostSocketArgs,
    /// Also speak the Internet Computer's interface at this address of this machine; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    ic: Option<SocketAddr>,
    /// Let other machines reach --ic: every client controls the canisters
    #[arg(long, requires = "ic")]
    ic_remote: bool,
    /// Say nothing about what happens
    #[arg(short, long)]
    quiet: bool,
}

impl HostArgs {
    /// Hosts until a signal stops it.
    pub fn run(&self) -> Result<(), Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let program = match self.ic {
            Some(_) if self.start.is_empty() => None,
            _ => Some(self.start.program()?),
        };
        if self.ic.is_some() && program.as_ref().is_some_and(|program| program.canister().is_none()) {
            return Err(Failure::Usage("--ic needs a canister, and the module is a plain one".into()));
        }
        let name = program.as_ref().map_or_else(|| "nothing yet".to_owned(), |program| program.module().name.clone());
        let state = HostState::new(program, self.start.options()).shared();
        let server = HostServer::share(&self.socket.path()?, Arc::clone(&state)).map_err(|error| match error {
            BindError::AlreadyListens { .. } => Failure::fault(format_args!("{error}; choose another --socket")),
            other => Failure::fault(other),
        })?;
        let log: HostLog = if self.quiet { Arc::new(|_| {}) } else { Arc::new(say) };
        let ic = self
            .ic
            .map(|address| IcServer::bind(address, self.ic_remote, state, &log))
            .transpose()
            .map_err(Failure::fault)?;
        log(&format!("{name} is hosted at {}; Ctrl-C ends it", server.socket().display()));
        std::thread::scope(|scope| {
            if let Some(ic) = &ic {
                say(&format!("the canister {FIRST_CANISTER} is at http://{}", ic.address()));
                scope.spawn(|| ic.serve(&stop));
            }
            server.serve(&stop, &log);
        });
        Ok(())
    }
}
