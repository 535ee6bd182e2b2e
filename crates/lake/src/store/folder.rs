//! A lake in a folder.

use super::{LakeStore, StoreError, StoredFile, is_plain_key, system};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files that are being written: outside the tables, so that no engine reads them.
const UNFINISHED: &str = "unfinished";

/// A lake in a folder of this machine, or of a network file system.
#[derive(Debug)]
pub struct FolderStore {
    root: PathBuf,
    name: String,
}

/// Two stores of a process may be one folder.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

impl FolderStore {
    /// The lake in a folder, which need not exist yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), name: root.display().to_string() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path_of(&self, key: &str) -> Result<PathBuf, StoreError> {
        if is_plain_key(key) {
            Ok(self.root.join(key))
        } else {
            Err(StoreError::Refused(format!("{key}: not a path in a lake")))
        }
    }

    /// Makes a folder that outlasts a loss of power: the entry of each new folder is synced in the folder above it.
    fn make_folder(&self, folder: &Path) -> Result<(), StoreError> {
        if folder.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(folder).map_err(|error| system(folder, error))?;
        let above = folder.ancestors().skip(1).take_while(|above| above.starts_with(&self.root));
        for above in above {
            File::open(above).and_then(|above| above.sync_all()).map_err(|error| system(above, error))?;
        }
        Ok(())
    }

    fn collect(&self, folder: &Path, prefix: &str, files: &mut Vec<StoredFile>) -> Result<(), StoreError> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(system(folder, error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| system(folder, error))?;
            let path = entry.path();
            let Some(key) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) else { continue };
            // A file may be deleted by another compactor meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                let below = format!("{key}/");
                if key != UNFINISHED && (below.starts_with(prefix) || prefix.starts_with(&below)) {
                    self.collect(&path, prefix, files)?;
                }
            } else if about.is_file() && key.starts_with(prefix) {
                let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                let tag = format!("{:x}-{:x}", modified.map_or(0, |time| time.as_nanos()), about.len());
                files.push(StoredFile { key: key.to_owned(), bytes: about.len(), tag });
            }
        }
        Ok(())
    }
}

impl LakeStore for FolderStore {
    fn put(&self, key: &str, file: &Path) -> Result<(), StoreError> {
        let target = self.path_of(key)?;
        let unfinished = self.root.join(UNFINISHED);
        fs::create_dir_all(&unfinished).map_err(|error| system(&unfinished, error))?;
        // On a network file system two hosts may have the same pid.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let written = unfinished.join(format!("{}-{now:x}-{number}", std::process::id()));
        let copied = fs::copy(file, &written).and_then(|_| File::open(&written)?.sync_all());
        let done = copied.map_err(|error| system(&written, error)).and_then(|()| {
            let folder = target.parent().unwrap_or(&self.root);
            self.make_folder(folder)?;
            // A link, unlike a rename, never replaces a file.
            fs::hard_link(&written, &target).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => StoreError::Exists(key.to_owned()),
                _ => system(&target, error),
            })?;
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| system(folder, error))
        });
        // What is left of a failed write is not in the lake; `sweep` removes it.
        let _ = fs::remove_file(&written);
        done
    }

    fn open(&self, file: &StoredFile) -> Result<File, StoreError> {
        let path = self.path_of(&file.key)?;
        File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NotFound(file.key.clone()),
            _ => system(&path, error),
        })
    }

    fn local_path(&self, file: &StoredFile) -> Result<PathBuf, StoreError> {
        self.path_of(&file.key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<StoredFile>, StoreError> {
        let mut files = Vec::new();
        self.collect(&self.root, prefix, &mut files)?;
        files.sort();
        Ok(files)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        let path = self.path_of(key)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(system(&path, error)),
            _ => Ok(()),
        }
    }

    fn sweep(&self, older_than: Duration) -> Result<u64, StoreError> {
        let folder = self.root.join(UNFINISHED);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(system(&folder, error)),
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry.map_err(|error| system(&folder, error))?;
            let modified = entry.metadata().and_then(|about| about.modified());
            if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= older_than)) {
                fs::remove_file(entry.path()).map_err(|error| system(&entry.path(), error))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
