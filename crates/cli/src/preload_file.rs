//! The preload library: it travels inside the command, and must lie in a file for the loader to find it.
//!
//! The file is kept between runs under a name that tells its content: a program that outlives its recorder, or starts others
//! later, still finds it. It lies where only its owner can write, and is compared with what it should be before it is used.

use crate::failure::{Failure, reason};
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

static LIBRARY: &[u8] = include_bytes!(env!("HIGHWATER_PRELOAD"));

/// The path of the library, written if it is not there.
pub fn path() -> Result<PathBuf, Failure> {
    let mut hasher = DefaultHasher::new();
    LIBRARY.hash(&mut hasher);
    let name = format!("preload-{}-{:016x}.so", env!("CARGO_PKG_VERSION"), hasher.finish());
    let mut failed = Failure::fault("no directory for the preload library");
    for directory in directories() {
        // The loader splits its list at these.
        if directory.to_str().is_none_or(|path| path.contains([' ', ':'])) {
            continue;
        }
        match put(&directory, &name) {
            Ok(path) => return Ok(path),
            Err(error) => {
                failed = Failure::in_file(
                    &directory,
                    format_args!("the preload library cannot be written here: {}", reason(&error)),
                );
            }
        }
    }
    Err(failed)
}

/// Where it may lie, best first.
fn directories() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let user = rustix::process::geteuid().as_raw();
    let temporary = std::env::temp_dir().join(format!("highwater-cache-{user}"));
    cache.map(|cache| cache.join("highwater")).into_iter().chain([temporary]).collect()
}

fn put(directory: &Path, name: &str) -> std::io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let about = fs::symlink_metadata(directory)?;
    let user = rustix::process::geteuid().as_raw();
    if !about.is_dir() || about.uid() != user || about.mode() & 0o022 != 0 {
        return Err(std::io::Error::other("others can write into this directory"));
    }
    let path = directory.join(name);
    if fs::read(&path).is_ok_and(|content| content == LIBRARY) {
        return Ok(path);
    }
    // Under another name first: another recorder may be at the same.
    let unfinished = directory.join(format!("{name}.{}", std::process::id()));
    // What a recorder of this number that was killed has left.
    let _ = fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(&unfinished)?;
    let written = file.write_all(LIBRARY).and_then(|()| fs::rename(&unfinished, &path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.map(|()| path)
}
