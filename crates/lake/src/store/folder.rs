//! A lake in a folder.

use super::{LakeStore, StoreError, StoredFile, is_plain_key, system};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
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
        let is_missing = |made: &&Path| !made.as_os_str().is_empty() && !made.is_dir();
        let missing: Vec<&Path> = self.root.ancestors().take_while(is_missing).collect();
        fs::create_dir_all(folder).map_err(|error| system(folder, error))?;
        // Folders of the lake may be new to other writers too.
        for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(&self.root)) {
            File::open(above).and_then(|above| above.sync_all()).map_err(|error| system(above, error))?;
        }
        // Those above a new lake need not be readable for this user.
        for above in missing.into_iter().filter_map(Path::parent) {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            let _ = File::open(above).and_then(|above| above.sync_all());
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

/// Why a file is not under its name.
#[derive(Debug)]
enum NotPlaced {
    Exists,
    Failed(io::Error),
    /// The file system cannot do it without a risk for what is there.
    Impossible,
}

type Place = fn(&Path, &Path) -> io::Result<()>;

fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)
}

fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Gives a file its name. A link, unlike a plain rename, never replaces a file. Mounts of object stores and of other systems' disks have no links; some can rename without
/// replacing.
fn put_in_place(written: &Path, target: &Path, link: Place, rename: Place) -> Result<(), NotPlaced> {
    let is_missing = |error: &io::Error| {
        let number = error.raw_os_error().map(Errno::from_raw_os_error);
        matches!(number, Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::MLINK))
    };
    for place in [link, rename] {
        match place(written, target) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(NotPlaced::Exists),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(NotPlaced::Failed(error)),
        }
    }
    Err(NotPlaced::Impossible)
}

impl LakeStore for FolderStore {
    fn put(&self, key: &str, file: &Path) -> Result<(), StoreError> {
        let target = self.path_of(key)?;
        let unfinished = self.root.join(UNFINISHED);
        self.make_folder(&unfinished)?;
        // On a network file system two hosts may have the same pid.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let written = unfinished.join(format!("{}-{now:x}-{number}", std::process::id()));
        let copied = fs::copy(file, &written).and_then(|_| File::open(&written)?.sync_all());
        let done = copied.map_err(|error| system(&written, error)).and_then(|()| {
            let folder = target.parent().unwrap_or(&self.root);
            self.make_folder(folder)?;
            put_in_place(&written, &target, hard_link, rename_new).map_err(|error| match error {
                NotPlaced::Exists => StoreError::Exists(key.to_owned()),
                NotPlaced::Failed(error) => system(&target, error),
                NotPlaced::Impossible => StoreError::Refused(format!(
                    "{}: this file system has neither hard links nor a rename that replaces no file, so a lake here could lose rows; use a local folder, NFS or s3://",
                    self.name
                )),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    #[test]
    fn a_mount_without_links_renames_or_says_why_it_cannot() {
        let folder = std::env::temp_dir().join(format!("hw-place-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let (written, target) = (folder.join("written"), folder.join("target"));
        // As gcsfuse, s3fs and SMB answer.
        let links: [Place; 3] = [
            |_, _| Err(refused(Errno::NOSYS)),
            |_, _| Err(refused(Errno::PERM)),
            |_, _| Err(refused(Errno::OPNOTSUPP)),
        ];
        for link in links {
            fs::write(&written, "new").unwrap();
            put_in_place(&written, &target, link, rename_new).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), "new");
            fs::write(&written, "newer").unwrap();
            let again = put_in_place(&written, &target, link, rename_new);
            assert!(matches!(again, Err(NotPlaced::Exists)), "{again:?}");
            assert_eq!(fs::read_to_string(&target).unwrap(), "new", "nothing is replaced");
            fs::remove_file(&target).unwrap();
            let neither = put_in_place(&written, &target, link, |_, _| Err(refused(Errno::INVAL)));
            assert!(matches!(neither, Err(NotPlaced::Impossible)), "{neither:?}");
            assert!(!target.exists());
        }
        let broken = put_in_place(&written, &target, |_, _| Err(refused(Errno::IO)), rename_new);
        assert!(matches!(broken, Err(NotPlaced::Failed(_))), "{broken:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
