//! The host's socket path.

use crate::failure::{Failure, reason};
use clap::Args;
use highwater_host::client::HostClient;
use highwater_host::transport::SocketTransport;
use std::path::PathBuf;

/// The socket's file name, in the directory of the collector's socket.
const NAME: &str = "highwater-image.sock";

/// Where a host listens, for every command that asks it.
#[derive(Debug, Args)]
pub struct HostSocketArgs {
    /// Where the host listens [default: highwater-image.sock in this user's runtime directory]
    #[arg(long = "socket", value_name = "PATH")]
    named: Option<PathBuf>,
}

impl HostSocketArgs {
    /// The path. The default one lies in a directory that no other user can write.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        match &self.named {
            Some(named) => Ok(named.clone()),
            None => match highwater_collector::default_socket() {
                Ok(collector) => Ok(collector.with_file_name(NAME)),
                Err(error) => Err(Failure::fault(reason(&error))),
            },
        }
    }

    /// Fails if a socket is named together with a canister, which is not reached through one.
    pub fn excludes(&self, canister: Option<&str>) -> Result<(), Failure> {
        match (&self.named, canister) {
            (Some(_), Some(_)) => {
                Err(Failure::Usage("--socket names a host, and --canister a canister: give one".into()))
            }
            _ => Ok(()),
        }
    }

    /// Connects to the host.
    pub fn connect(&self) -> Result<HostClient<SocketTransport>, Failure> {
        SocketTransport::connect(&self.path()?).map(HostClient::new).map_err(Failure::fault)
    }
}
