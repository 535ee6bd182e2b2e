//! The collector's socket path.

use crate::failure::{Failure, reason};
use clap::Args;
use highwater_collector::{CollectorClient, CollectorError};
use highwater_model::parse_duration;
use highwater_session::{SOCKET_VARIABLE, default_socket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the collector listens, for every command that asks it.
#[derive(Debug, Args)]
pub struct CollectorSocket {
    /// Where the collector listens [default: $HIGHWATER_SOCKET, or this user's usual place]
    #[arg(long = "socket", value_name = "PATH", global = true)]
    named: Option<PathBuf>,
}

impl CollectorSocket {
    /// The path. It is absolute, since other processes may have other working directories.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(named) = &self.named {
            let path = std::path::absolute(named);
            return path
                .map_err(|error| Failure::in_file(named, format_args!("cannot be a socket: {}", reason(&error))));
        }
        let variable = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty());
        if variable.is_some_and(|value| !Path::new(&value).is_absolute()) {
            // Programs would not find a relative path: they may have other working directories.
            return Err(Failure::fault(format_args!("{SOCKET_VARIABLE} must be an absolute path")));
        }
        Ok(default_socket())
    }

    /// The arguments that a suggested command needs to reach the same collector.
    pub fn to_repeat(&self) -> String {
        let word = |path: &PathBuf| crate::print::text::shell_word(&path.to_string_lossy());
        self.named.as_ref().map_or_else(String::new, |path| format!(" --socket {}", word(path)))
    }
}

/// How a collector is asked: where it listens, and how long it may take.
#[derive(Debug, Args)]
pub struct Asking {
    #[command(flatten)]
    socket: CollectorSocket,
    /// How long the collector may take for each answer (such as 5s, 2m) [default: 10s, for a snapshot 60s]
    #[arg(long, value_name = "TIME", global = true, value_parser = parse_limit)]
    timeout: Option<Duration>,
}

/// A time that is not 0.
pub fn parse_limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text).map(|time| Duration::from_nanos(time.0));
    limit.filter(|limit| !limit.is_zero()).ok_or_else(|| "not a time; such as 5s, 500ms, 2m".to_owned())
}

impl Asking {
    /// Where it listens.
    pub fn socket(&self) -> Result<PathBuf, Failure> {
        self.socket.path()
    }

    /// How long it may take for each answer, if the user says so.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Connects to the collector; `None` if none listens.
    pub fn connect_if_any(&self) -> Result<Option<CollectorClient>, Failure> {
        match CollectorClient::with_limit(&self.socket.path()?, self.timeout) {
            Ok(client) => Ok(Some(client)),
            Err(CollectorError::Nobody(_)) => Ok(None),
            Err(error) => Err(Failure::fault(error)),
        }
    }

    /// Connects to the collector; fails if none listens.
    pub fn connect(&self) -> Result<CollectorClient, Failure> {
        CollectorClient::with_limit(&self.socket.path()?, self.timeout).map_err(Failure::fault)
    }
}
