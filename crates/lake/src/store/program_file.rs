//! Where the program of object stores is. It is a program of its own because its libraries take several times as long to build as the rest of the lake.

use super::StoreError;
use std::path::PathBuf;

const PROGRAM: &str = "highwater-s3";
const VARIABLE: &str = "HIGHWATER_S3";
const INSTALL: &str = "in a checkout of Highwater, 'cargo install --locked --path crates/s3' builds it";

/// The program that the variable names, else the one beside this command, else the one on the path.
pub fn find() -> Result<PathBuf, StoreError> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from) {
        return if named.is_file() {
            Ok(named)
        } else {
            Err(StoreError::Refused(format!("{}: is no program, and {VARIABLE} names it", named.display())))
        };
    }
    let beside = std::env::current_exe().ok().map(|command| command.with_file_name(PROGRAM));
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&folders).filter(|folder| folder.is_absolute()).map(|f| f.join(PROGRAM));
    let found = beside.into_iter().chain(installed).find(|program| program.is_file());
    found.ok_or_else(|| {
        StoreError::Refused(format!("{PROGRAM}, which reads and writes s3:// lakes, is not installed; {INSTALL}"))
    })
}

/// The line about a program of another version.
pub fn other_version(version: &str) -> StoreError {
    let ours = env!("CARGO_PKG_VERSION");
    StoreError::Refused(format!("{PROGRAM} is version {version}, and highwater is {ours}; {INSTALL}"))
}
