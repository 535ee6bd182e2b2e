//! The preload library. It is embedded in the command, and must be a file for the loader to find it.
//!
//! The file is kept between runs under a name that identifies its content: a program that outlives its recorder, or starts others later, still finds
//! it. It lies where only its owner can write, and its content is compared before it is used. If such a directory is available, everyone can read it:
//! a program may start others with other rights, and those load it as well.

use crate::failure::{Failure, reason};
use highwater_packed::Packed;
use rustix::fs::StatVfsMountFlags;
use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

static LIBRARY: Packed = Packed::new(include_bytes!(env!("HIGHWATER_PRELOAD")));

/// The path of the library; writes the file if it does not exist.
pub fn path() -> Result<PathBuf, Failure> {
    let mut hasher = DefaultHasher::new();
    LIBRARY.content().hash(&mut hasher);
    let name = format!("preload-{}-{:016x}.so", env!("CARGO_PKG_VERSION"), hasher.finish());
    let mut failed = Failure::fault("no directory for the preload library");
    // The loader splits its list at these characters.
    let is_usable = |directory: &PathBuf| directory.to_str().is_some_and(|path| !path.contains([' ', ':']));
    let mut hidden = None;
    for directory in directories().into_iter().filter(is_usable) {
        match put(&directory, &name) {
            Ok(path) if is_open_to_all(&path) => return Ok(path),
            Ok(path) => hidden = hidden.or(Some(path)),
            Err(error) => {
                failed = Failure::in_file(
                    &directory,
                    format_args!("the preload library cannot be written here: {}", reason(&error)),
                );
            }
        }
    }
    hidden.ok_or(failed)
}

/// Whether every user can reach a file.
fn is_open_to_all(path: &Path) -> bool {
    let may_pass = |folder: &Path| fs::metadata(folder).is_ok_and(|about| about.mode() & 0o001 != 0);
    path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).all(may_pass)
}

/// Candidate directories; those that everyone can enter come first.
fn directories() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let user = rustix::process::geteuid().as_raw();
    let temporary = std::env::temp_dir().join(format!("highwater-cache-{user}"));
    cache.map(|cache| cache.join("highwater")).into_iter().chain([temporary]).collect()
}

fn put(directory: &Path, name: &str) -> std::io::Result<PathBuf> {
    if let Some(parent) = directory.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    match DirBuilder::new().mode(0o755).create(directory) {
        // Regardless of the user's umask.
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(0o755))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let about = fs::symlink_metadata(directory)?;
    let user = rustix::process::geteuid().as_raw();
    if !about.is_dir() || about.uid() != user || about.mode() & 0o022 != 0 {
        return Err(std::io::Error::other("others can write into this directory"));
    }
    if rustix::fs::statvfs(directory)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(std::io::Error::other("programs may not be run from this file system"));
    }
    let path = directory.join(name);
    let is_readable = |about: &Metadata| about.is_file() && about.uid() == user && about.mode() & 0o777 == 0o755;
    if fs::symlink_metadata(&path).is_ok_and(|about| is_readable(&about))
        && fs::read(&path).is_ok_and(|content| content == LIBRARY.content())
    {
        return Ok(path);
    }
    // Written under a temporary name first: another recorder may be writing the same file.
    let unfinished = directory.join(format!("{name}.{}", std::process::id()));
    // Left by a killed recorder with the same process number.
    let _ = fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(&unfinished)?;
    let written = file
        .write_all(LIBRARY.content())
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&unfinished, &path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.map(|()| path)
}
