//! The folders that an assistant may read, and which file a text of its names.

use crate::failure::{Failure, reason};
use crate::permitted;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Entries that are looked at for one list.
const MOST_ENTRIES: usize = 100_000;
/// Folders below folders that are looked at.
const DEEPEST: usize = 32;

/// The permitted folders.
#[derive(Debug)]
pub struct Folders(Vec<Folder>);

#[derive(Debug)]
struct Folder {
    /// As the user gave it, made absolute.
    given: PathBuf,
    /// Without links.
    real: PathBuf,
}

/// A file below a permitted folder.
#[derive(Clone, Debug, PartialEq)]
pub struct PermittedFile {
    /// The permitted folder, without links.
    pub folder: PathBuf,
    /// The file, without links.
    pub path: PathBuf,
}

/// A file in a list.
#[derive(Debug)]
pub struct Listed {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
}

/// The files below the folders.
#[derive(Debug)]
pub struct Listing {
    /// The files, latest first.
    pub files: Vec<Listed>,
    /// False if there are more entries than are looked at.
    pub is_whole: bool,
}

impl Folders {
    /// Fails unless each is a folder.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Failure> {
        let folders = paths.iter().map(|path| -> Result<Folder, Failure> {
            let failed = |error: io::Error| Failure::in_file(path, format_args!("cannot read: {}", reason(&error)));
            let real = fs::canonicalize(path).map_err(failed)?;
            if !real.is_dir() {
                return Err(Failure::in_file(path, "is no folder"));
            }
            if real.as_os_str().as_encoded_bytes().contains(&b'\n') {
                return Err(Failure::in_file(path, "has a line feed in its name"));
            }
            Ok(Folder { given: std::path::absolute(path).map_err(failed)?, real })
        });
        Ok(Self(folders.collect::<Result<_, _>>()?))
    }

    /// The file that a text names: an absolute path, or one below a folder. Links may lead from one permitted folder to another, but not outside.
    pub fn file(&self, text: &str) -> Result<PermittedFile, Failure> {
        let mut problem = None;
        for path in self.candidates(text)? {
            let real = match fs::canonicalize(&path) {
                Ok(real) => real,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                Err(error) => {
                    problem = Some(format!("{text}: cannot read: {}", reason(&error)));
                    continue;
                }
            };
            let Some(folder) = self.folder_of(&real) else {
                return Err(self.refused(text, "it leads outside of them by a link"));
            };
            return match fs::metadata(&real) {
                Ok(about) if about.is_file() => Ok(PermittedFile { folder: folder.to_owned(), path: real }),
                Ok(about) if about.is_dir() => Err(Failure::fault(format_args!(
                    "{text} is a folder; list_files lists the files below the permitted folders"
                ))),
                Ok(_) => {
                    Err(Failure::fault(format_args!("{text} is no regular file but a device, a pipe or a socket")))
                }
                Err(error) => Err(Failure::fault(format_args!("{text}: cannot read: {}", reason(&error)))),
            };
        }
        Err(Failure::Fault(problem.unwrap_or_else(|| {
            format!("there is no file {text} below {}; list_files lists those that are there", self.names())
        })))
    }

    /// The new recording that a text names. Its folder must be there, and it must not.
    pub fn new_recording(&self, text: &str) -> Result<PermittedFile, Failure> {
        if !text.ends_with(".hw") {
            return Err(Failure::fault(format_args!("{text}: the name of a recording ends with .hw")));
        }
        for path in self.candidates(text)? {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let Ok(parent) = fs::canonicalize(parent) else { continue };
            let Some(folder) = self.folder_of(&parent) else {
                return Err(self.refused(text, "it leads outside of them by a link"));
            };
            let path = parent.join(name);
            return match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Ok(PermittedFile { folder: folder.to_owned(), path })
                }
                _ => Err(Failure::fault(format_args!("{text} exists; choose another name"))),
            };
        }
        Err(Failure::fault(format_args!("{text}: there is no such folder below {}", self.names())))
    }

    /// The paths that a text may mean. Nothing outside of the folders is looked at, so an answer does not say what is there.
    fn candidates(&self, text: &str) -> Result<Vec<PathBuf>, Failure> {
        let path = Path::new(text);
        if text.is_empty() || text.contains('\0') {
            return Err(Failure::fault("the name of the file is empty or has a zero byte in it"));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(self.refused(text, "it has '..' in it"));
        }
        if path.is_relative() {
            return Ok(self.0.iter().map(|folder| folder.real.join(path)).collect());
        }
        match self.0.iter().any(|folder| path.starts_with(&folder.given) || path.starts_with(&folder.real)) {
            true => Ok(vec![path.to_owned()]),
            false => Err(self.refused(text, "it is not below them")),
        }
    }

    fn folder_of(&self, real: &Path) -> Option<&Path> {
        self.0.iter().map(|folder| folder.real.as_path()).find(|folder| real.starts_with(folder))
    }

    fn refused(&self, text: &str, why: &str) -> Failure {
        Failure::fault(format_args!("{text} is refused: only files below {} are permitted, and {why}", self.names()))
    }

    /// The folders, for commands that look for files themselves.
    pub fn only_below(&self) -> OsString {
        permitted::only_below(self.0.iter().map(|folder| folder.real.as_path()))
    }

    /// The folders, in words.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|folder| folder.real.display().to_string()).collect();
        names.join(", ")
    }

    /// The name by which an answer calls a file: below the folder if there is only one.
    pub fn shown(&self, path: &Path) -> String {
        match self.0.as_slice() {
            [folder] => path.strip_prefix(&folder.real).unwrap_or(path).display().to_string(),
            _ => path.display().to_string(),
        }
    }

    /// The files below the folders that `wanted` chooses by their path. Links are not followed, and hidden folders are left out.
    pub fn list(&self, wanted: impl Fn(&Path) -> bool) -> Listing {
        let mut listing = Listing { files: Vec::new(), is_whole: true };
        let mut left = MOST_ENTRIES;
        let mut folders: Vec<(PathBuf, usize)> = self.0.iter().map(|folder| (folder.real.clone(), 0)).collect();
        while let Some((folder, depth)) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if left == 0 {
                    listing.is_whole = false;
                    break;
                }
                left -= 1;
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
                if kind.is_dir() && !is_hidden {
                    match depth < DEEPEST {
                        true => folders.push((path, depth + 1)),
                        false => listing.is_whole = false,
                    }
                } else if kind.is_file()
                    && wanted(&path)
                    && let Ok(about) = entry.metadata()
                {
                    let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    listing.files.push(Listed { path, bytes: about.len(), modified });
                }
            }
        }
        // A folder may lie below another one.
        listing.files.sort_by(|one, other| other.modified.cmp(&one.modified).then_with(|| one.path.cmp(&other.path)));
        listing.files.dedup_by(|one, other| one.path == other.path);
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A permitted folder `in`, with a secret beside it.
    fn place(name: &str) -> (PathBuf, Folders) {
        let root = std::env::temp_dir().join(format!("highwater-mcp-folders-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("in/deep")).unwrap();
        fs::write(root.join("in/deep/a.hw"), "a").unwrap();
        fs::write(root.join("secret.hw"), "s").unwrap();
        let folders = Folders::open(&[root.join("in")]).unwrap();
        (fs::canonicalize(root).unwrap(), folders)
    }

    fn refusal(result: Result<PermittedFile, Failure>) -> String {
        result.unwrap_err().line().unwrap().to_owned()
    }

    #[test]
    fn files_below_the_folder_are_found_by_both_kinds_of_paths() {
        let (root, folders) = place("found");
        let file = PermittedFile { folder: root.join("in"), path: root.join("in/deep/a.hw") };
        assert_eq!(folders.file("deep/a.hw").unwrap(), file);
        assert_eq!(folders.file(root.join("in/deep/a.hw").to_str().unwrap()).unwrap(), file);
        assert_eq!(folders.shown(&file.path), "deep/a.hw");
        assert_eq!(folders.list(|_| true).files.len(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn nothing_leads_outside() {
        let (root, folders) = place("outside");
        symlink(root.join("secret.hw"), root.join("in/link.hw")).unwrap();
        symlink(&root, root.join("in/up")).unwrap();
        let secret = root.join("secret.hw");
        let beside = root.join("in-beside/a.hw");
        for text in [
            "../secret.hw",
            "deep/../../secret.hw",
            "link.hw",
            "up/secret.hw",
            secret.to_str().unwrap(),
            beside.to_str().unwrap(),
            "/etc/passwd",
        ] {
            let line = refusal(folders.file(text));
            assert!(line.contains("is refused") && line.contains(root.join("in").to_str().unwrap()), "{line}");
        }
        for text in ["up/new.hw", "../new.hw", "/tmp/new.hw"] {
            assert!(refusal(folders.new_recording(text)).contains("is refused"), "{text}");
        }
        // A list does not follow links either.
        assert_eq!(folders.list(|_| true).files.len(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_regular_files_are_read_and_only_new_recordings_written() {
        let (root, folders) = place("kinds");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("in/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(refusal(folders.file("pipe")).contains("no regular file"));
        assert!(refusal(folders.file("deep")).contains("is a folder"));
        assert!(refusal(folders.file("absent.hw")).contains("there is no file absent.hw below"));
        assert!(refusal(folders.file("a\0b")).contains("zero byte"));
        assert!(refusal(folders.new_recording("deep/a.hw")).contains("exists"));
        assert!(refusal(folders.new_recording("deep/a.sh")).contains(".hw"));
        assert!(refusal(folders.new_recording("absent/a.hw")).contains("no such folder"));
        assert_eq!(folders.new_recording("deep/new.hw").unwrap().path, root.join("in/deep/new.hw"));
        fs::remove_dir_all(root).unwrap();
    }
}
