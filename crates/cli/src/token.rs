//! The token that both ends of a stream must know, for every command that takes one.

use crate::failure::{Failure, reason};
use clap::Args;
use highwater_recorder::stream::{LONGEST_TOKEN, StreamToken};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The environment variable that may hold it.
const VARIABLE: &str = "HIGHWATER_TOKEN";

/// Where the token comes from.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// A word that both ends must know [default: $HIGHWATER_TOKEN]. Every user of the machine sees arguments in 'ps'; the file and the
    /// variable are seen by their owner only
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<StreamToken>,
    /// Read the token from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token, if there is one: from the argument, the file or the variable.
    pub fn token(&self) -> Result<Option<StreamToken>, Failure> {
        if let Some(token) = &self.token {
            return Ok(Some(token.clone()));
        }
        if let Some(path) = &self.token_file {
            return read(path).map(Some);
        }
        match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => {
                let token = value.to_str().unwrap_or_default().parse();
                token.map(Some).map_err(|problem| Failure::Usage(format!("{VARIABLE}: {problem}")))
            }
            None => Ok(None),
        }
    }
}

/// Reads a file that holds a single word.
fn read(path: &Path) -> Result<StreamToken, Failure> {
    // Allows for the line ending, plus one byte that shows that the file is longer.
    let most = LONGEST_TOKEN as u64 + 3;
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut text))
        .map_err(|error| Failure::in_file(path, format_args!("cannot be read: {}", reason(&error))))?;
    let word = std::str::from_utf8(text.trim_ascii_end()).unwrap_or_default();
    word.parse().map_err(|problem| Failure::in_file(path, format_args!("has no token: {problem}")))
}
