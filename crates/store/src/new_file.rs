//! Files that hold a program's data: created new, never through a link, for their owner only.
//!
//! `O_EXCL` also refuses a symbolic link in the place of the file, so that another user with write access to the directory cannot redirect the file.
//! The mode is 0600, minus the bits of the umask.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The limit of names that are tried.
const MOST_NAMES: usize = 10_000;

/// Creates a file for reading and writing. Fails with [`io::ErrorKind::AlreadyExists`] if the name is in use, even by a link.
pub fn create_new_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a file next to `path` that will be renamed to it: `path.PID.unfinished`, or with another number if that name is taken.
pub fn create_unfinished_file(path: &Path) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    first_free((1..=MOST_NAMES).map(|number| {
        let mut name = OsString::from(path);
        name.push(if number == 1 { format!(".{pid}.unfinished") } else { format!(".{pid}-{number}.unfinished") });
        PathBuf::from(name)
    }))
}

/// Creates `path`, or the first of `app-2.hw`, `app-3.hw` … that is free; `from` is the first number that is tried.
pub fn create_numbered_file(path: &Path, from: usize) -> io::Result<(PathBuf, File)> {
    first_free((from..=MOST_NAMES).map(|number| numbered(path, number)))
}

fn first_free(mut names: impl Iterator<Item = PathBuf>) -> io::Result<(PathBuf, File)> {
    let created = names.find_map(|path| match create_new_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        Err(error) => Some(Err(error)),
        Ok(file) => Some(Ok((path, file))),
    });
    created.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
}

/// `app.hw`, `app-2.hw`, `app-3.hw` …
pub fn numbered(path: &Path, number: usize) -> PathBuf {
    if number <= 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// Renames a file. Fails with [`io::ErrorKind::AlreadyExists`] if the new name is in use: an existing file is never replaced.
pub fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support this. An empty file takes the name first, and is then replaced.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            create_new_file(to)?;
            std::fs::rename(from, to)
        }
        other => Ok(other?),
    }
}

/// Renames a file to `to`, or if that is taken, to the first free name of `app-2.hw`, `app-3.hw` … Returns the new name.
pub fn rename_to_free_name(from: &Path, to: &Path) -> io::Result<PathBuf> {
    for number in 1..=MOST_NAMES {
        let path = numbered(to, number);
        match rename_without_replacing(from, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Begins a file that replaces an existing one of this name. It is created under another name first, so that a link is replaced and not followed, and
/// a program that has the old file open keeps it unchanged.
pub fn create_in_place_of(path: &Path) -> io::Result<File> {
    begin_in_place_of(path, |_| Ok(()))
}

/// The same for a file with this content, which gets its name only when it is complete.
pub fn write_in_place_of(path: &Path, content: &[u8]) -> io::Result<()> {
    begin_in_place_of(path, |file| file.write_all(content)).map(drop)
}

fn begin_in_place_of(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let (unfinished, mut file) = create_unfinished_file(path)?;
    let renamed = write(&mut file).and_then(|()| std::fs::rename(&unfinished, path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(unfinished);
    }
    renamed.map(|()| file)
}

/// Whether `path` is written to and never replaced: a device, a pipe, or a name for one of our own descriptors such as `/dev/stdout`, whatever that is
/// connected to.
pub fn is_special(path: &Path) -> bool {
    let names = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
    names.iter().any(|name| path.starts_with(name))
        || std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Opens `path` for writing if it is [special](is_special).
pub fn open_special(path: &Path) -> io::Result<Option<File>> {
    if !is_special(path) {
        return Ok(None);
    }
    File::options().write(true).truncate(true).open(path).map(Some)
}

/// Opens a file for a recording when the user cannot be asked whether an existing one may be replaced: a [special](is_special) file is written to, and
/// any other is [replaced](create_in_place_of).
pub fn open_or_replace(path: &Path) -> io::Result<File> {
    match open_special(path)? {
        Some(special) => Ok(special),
        None => create_in_place_of(path),
    }
}

/// The path at which a file that replaces another is created: a link stays a link, and its target is replaced. A link that belongs to neither this
/// user nor root is refused: in a directory that everyone may write to, any user could have placed it.
pub fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let Ok(there) = std::fs::symlink_metadata(path) else { return Ok(path.to_owned()) };
    if !there.is_symlink() {
        return Ok(path.to_owned());
    }
    if there.uid() != 0 && there.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("a link that another user has made is not followed"));
    }
    Ok(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("highwater-new-file-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_unfinished_file_is_no_link_that_lay_there() {
        let folder = Folder::new("unfinished");
        let (target, path) = (folder.file("target"), folder.file("app.hw"));
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, folder.file(&format!("app.hw.{}.unfinished", std::process::id()))).unwrap();
        let (unfinished, file) = create_unfinished_file(&path).unwrap();
        assert!(unfinished.to_str().unwrap().ends_with("-2.unfinished"), "{}", unfinished.display());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0);
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    }

    #[test]
    fn a_name_that_is_taken_is_not_taken_again() {
        let folder = Folder::new("rename");
        let (from, to) = (folder.file("from"), folder.file("app.hw"));
        std::fs::write(&to, "precious").unwrap();
        symlink("nowhere", folder.file("app-2.hw")).unwrap();
        std::fs::write(&from, "new").unwrap();
        let refused = rename_without_replacing(&from, &to).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(rename_to_free_name(&from, &to).unwrap(), folder.file("app-3.hw"));
        assert_eq!(std::fs::read(&to).unwrap(), b"precious");
        assert_eq!(std::fs::read(folder.file("app-3.hw")).unwrap(), b"new");
    }

    #[test]
    fn what_takes_the_place_of_a_link_is_not_written_through_it() {
        let folder = Folder::new("replace");
        let (target, link) = (folder.file("target"), folder.file("app.hw"));
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, &link).unwrap();
        let file = create_in_place_of(&link).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0);
        assert!(!link.is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    }

    #[test]
    fn numbers_come_before_the_ending() {
        assert_eq!(numbered(Path::new("a/app.hw"), 1), Path::new("a/app.hw"));
        assert_eq!(numbered(Path::new("a/app.hw"), 2), Path::new("a/app-2.hw"));
        assert_eq!(numbered(Path::new("app"), 3), Path::new("app-3"));
    }
}
