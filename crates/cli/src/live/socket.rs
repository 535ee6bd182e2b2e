//! Where the collector listens.

use crate::failure::{Failure, reason};
use clap::Args;
use highwater_collector::Client;
use highwater_recorder::{SOCKET_VARIABLE, default_socket};
use std::path::{Path, PathBuf};

/// Where the collector listens, for every command that asks it.
#[derive(Debug, Args)]
pub struct Socket {
    /// Where the collector listens [default: $HIGHWATER_SOCKET, or this user's usual place]
    #[arg(long = "socket", value_name = "PATH", global = true)]
    named: Option<PathBuf>,
}

impl Socket {
    /// The path: absolute, since others may have other working directories.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(named) = &self.named {
            let path = std::path::absolute(named);
            return path
                .map_err(|error| Failure::in_file(named, format_args!("cannot be a socket: {}", reason(&error))));
        }
        let variable = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty());
        if variable.is_some_and(|value| !Path::new(&value).is_absolute()) {
            // Programs would not follow it: they may have other working directories.
            return Err(Failure::fault(format_args!("{SOCKET_VARIABLE} must be an absolute path")));
        }
        Ok(default_socket())
    }

    /// Makes sure that a collector listens.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.path()?).map_err(Failure::fault)
    }

    /// What a command that is suggested needs to find the same collector.
    pub fn to_repeat(&self) -> String {
        let word = |path: &PathBuf| crate::print::text::shell_word(&path.to_string_lossy());
        self.named.as_ref().map_or_else(String::new, |path| format!(" --socket {}", word(path)))
    }
}
