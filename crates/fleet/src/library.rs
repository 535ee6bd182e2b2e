//! DuckDB's library as a file: which one is expected, and where it is installed.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The Node package that has the library: DuckDB's own build, which needs glibc 2.25 and libstdc++.
pub const LIBRARY_PACKAGE: &str = "@duckdb/node-bindings-linux-x64@1.5.6-r.1";

/// The SHA-256 of the library in that package.
const LIBRARY_HASH: &str = "3f4962cdd266eab2b479a5b5a4a6d063d279b2954ae814ed00385d553b747633";

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryFile {
    /// The library that is expected.
    Known,
    /// Another file.
    Other {
        /// Its SHA-256.
        found: String,
    },
}

/// Checks a file.
pub fn check_library(path: &Path) -> io::Result<LibraryFile> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => hash.update(&buffer[..length]),
        }
    }
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(if found == LIBRARY_HASH { LibraryFile::Known } else { LibraryFile::Other { found } })
}

/// Where the library is installed: in the user's data folder. The program looks there, too.
pub fn installed_library() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("highwater").join("libduckdb.so"))
}
