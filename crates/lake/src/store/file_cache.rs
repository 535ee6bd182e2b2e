//! Copies of an object store's files on this machine.
//!
//! ```text
//! CACHE/files/HASH                a file's content; the hash is of store, key, ETag and length
//! CACHE/in-use/NAME/KEY           links to the contents that one store uses, under their keys
//! CACHE/in-use/NAME.lock          locked while that store is open
//! ```
//!
//! Contents are removed when the cache is too large, the longest unused first. Links keep what is in use: a path that was handed out stays valid, whatever another
//! process removes. Engines read day and service from the path, so links have the keys as names. Files that are only opened need no links, so that a compaction does
//! not keep all that it has read.

use super::{StoreError, StoredFile, system};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The folder, if not the user's cache.
const FOLDER: &str = "HIGHWATER_LAKE_CACHE";
/// The bytes that contents may take.
const LIMIT: &str = "HIGHWATER_LAKE_CACHE_BYTES";
const DEFAULT_LIMIT: u64 = 10 << 30;
/// Downloads that ended in the middle are removed after this.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The folder and the bytes that the user's environment names.
pub fn user_settings() -> Result<(PathBuf, u64), StoreError> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match (variable(FOLDER), variable("XDG_CACHE_HOME"), variable("HOME")) {
        (Some(folder), ..) => folder,
        (_, Some(cache), _) => cache.join("highwater/lake"),
        (.., Some(home)) => home.join(".cache/highwater/lake"),
        _ => {
            let text = format!("none of {FOLDER}, XDG_CACHE_HOME and HOME is an absolute path");
            return Err(StoreError::Refused(text));
        }
    };
    let limit = match std::env::var(LIMIT) {
        Ok(text) => text.parse().map_err(|_| StoreError::Refused(format!("{LIMIT}={text}: is no number of bytes")))?,
        Err(_) => DEFAULT_LIMIT,
    };
    Ok((folder, limit))
}

/// The copies, and which of them one store uses.
#[derive(Debug)]
pub struct FileCache {
    store: String,
    files: PathBuf,
    links: PathBuf,
    limit: u64,
    /// Bytes that came since the last look at the limit.
    grown: AtomicU64,
    /// The tags of the linked files.
    linked: Mutex<HashMap<String, String>>,
    /// Held until the store is closed.
    _lock: File,
    lock_path: PathBuf,
}

impl FileCache {
    /// The copies in a folder, for the files of a store.
    pub fn open(folder: &Path, limit: u64, store: &str) -> Result<Self, StoreError> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let (files, in_use) = (folder.join("files"), folder.join("in-use"));
        for folder in [&files, &in_use] {
            // Names of functions and hosts are for their owner alone.
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| system(folder, error))?;
        }
        // One process at a time looks for abandoned folders or makes its own.
        let gate_path = in_use.join("gate");
        let gate = File::create(&gate_path).map_err(|error| system(&gate_path, error))?;
        gate.lock().map_err(|error| system(&gate_path, error))?;
        remove_abandoned(&in_use);
        // A number may come again in another container that shares the folder; then the next one is taken.
        loop {
            let name = format!("{}-{}", std::process::id(), OPENED.fetch_add(1, Ordering::Relaxed));
            let (links, lock_path) = (in_use.join(&name), in_use.join(format!("{name}.lock")));
            let lock = match File::create_new(&lock_path) {
                Ok(lock) => lock,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(system(&lock_path, error)),
            };
            lock.lock().map_err(|error| system(&lock_path, error))?;
            fs::create_dir_all(&links).map_err(|error| system(&links, error))?;
            let (grown, linked) = (AtomicU64::new(0), Mutex::default());
            let cache = Self { store: store.to_owned(), files, links, limit, grown, linked, _lock: lock, lock_path };
            cache.make_room();
            return Ok(cache);
        }
    }

    /// Where the content of a file is, or goes.
    pub fn entry(&self, file: &StoredFile) -> PathBuf {
        let mut hash = Sha256::new();
        for part in [&self.store, &file.key, &file.tag] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(file.bytes.to_le_bytes());
        let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.files.join(digits)
    }

    /// The path of a file that was taken into use.
    pub fn local_path(&self, key: &str) -> PathBuf {
        self.links.join(key)
    }

    /// The folder of all such paths.
    pub fn local_root(&self) -> &Path {
        &self.links
    }

    /// The content of a file, if it is here. One of a wrong length is removed.
    pub fn content(&self, file: &StoredFile) -> Result<Option<File>, StoreError> {
        let entry = self.entry(file);
        let content = match File::open(&entry) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(system(&entry, error)),
        };
        if content.metadata().map_err(|error| system(&entry, error))?.len() != file.bytes {
            fs::remove_file(&entry).map_err(|error| system(&entry, error))?;
            return Ok(None);
        }
        // The time of the last use; without it the file is only removed earlier.
        let _ = content.set_modified(SystemTime::now());
        Ok(Some(content))
    }

    /// Whether a file has a path, whose content stays.
    pub fn is_linked(&self, file: &StoredFile) -> bool {
        let linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        linked.get(&file.key) == Some(&file.tag)
    }

    /// Makes the path of a file, if its content is here.
    pub fn link(&self, file: &StoredFile) -> Result<bool, StoreError> {
        let mut linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        if linked.get(&file.key) == Some(&file.tag) {
            return Ok(true);
        }
        if self.content(file)?.is_none() {
            return Ok(false);
        }
        let path = self.local_path(&file.key);
        let folder = path.parent().unwrap_or(&self.links);
        fs::create_dir_all(folder).map_err(|error| system(folder, error))?;
        let new = self.links.join(".new");
        let _ = fs::remove_file(&new);
        match fs::hard_link(self.entry(file), &new) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(system(&new, error)),
        }
        fs::rename(&new, &path).map_err(|error| system(&path, error))?;
        linked.insert(file.key.clone(), file.tag.clone());
        Ok(true)
    }

    /// A folder for files that are read once.
    pub fn new_folder(&self) -> Result<ReadOnce, StoreError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let path = self.links.join(format!(".once-{}", MADE.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).map_err(|error| system(&path, error))?;
        Ok(ReadOnce(path))
    }

    /// Counts contents that came. From time to time this makes room for them.
    pub fn grew(&self, bytes: u64) {
        if self.grown.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= self.limit / 8 {
            self.make_room();
        }
    }

    /// Removes the contents that were not used for the longest time, until the rest is within the limit.
    fn make_room(&self) {
        self.grown.store(0, Ordering::Relaxed);
        let mut contents = Vec::new();
        let Ok(entries) = fs::read_dir(&self.files) else { return };
        for entry in entries.flatten() {
            let Ok(about) = entry.metadata() else { continue };
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if entry.path().extension().is_none() {
                contents.push((used, about.len(), entry.path()));
            } else if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            }
        }
        contents.sort();
        let mut bytes: u64 = contents.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, length, path) in contents {
            if bytes <= self.limit {
                break;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(path);
            bytes -= length;
        }
    }
}

/// A folder that is removed when it is dropped.
pub struct ReadOnce(PathBuf);

impl ReadOnce {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ReadOnce {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for FileCache {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.links);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// Removes the links of stores that were not closed: no process holds their locks.
fn remove_abandoned(in_use: &Path) {
    for entry in fs::read_dir(in_use).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "lock")
            && File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok())
        {
            let _ = fs::remove_dir_all(path.with_extension(""));
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hw-cache-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn file(key: &str, bytes: u64) -> StoredFile {
        StoredFile { key: key.to_owned(), bytes, tag: "\"t\"".to_owned() }
    }

    #[test]
    fn contents_of_a_wrong_length_are_noticed() {
        let folder = folder("length");
        let cache = FileCache::open(&folder, 1000, "here").unwrap();
        let wanted = file("sites/day=2026-11-18/a", 3);
        assert!(cache.content(&wanted).unwrap().is_none());
        fs::write(cache.entry(&wanted), "ab").unwrap();
        assert!(!cache.link(&wanted).unwrap());
        assert!(!cache.entry(&wanted).exists(), "the damaged content is removed");
        fs::write(cache.entry(&wanted), "abc").unwrap();
        assert!(cache.link(&wanted).unwrap());
        assert_eq!(fs::read_to_string(cache.local_path(&wanted.key)).unwrap(), "abc");
        let other = StoredFile { tag: "other".to_owned(), ..wanted };
        assert!(cache.content(&other).unwrap().is_none(), "another version");
        drop(cache);
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn the_cache_is_bounded_and_what_is_in_use_stays() {
        let folder = folder("bound");
        let cache = FileCache::open(&folder, 250, "here").unwrap();
        let files: Vec<StoredFile> = (0..5).map(|number| file(&format!("sites/{number}"), 100)).collect();
        for file in &files {
            fs::write(cache.entry(file), [7; 100]).unwrap();
            assert!(cache.link(file).unwrap());
            cache.grew(100);
        }
        assert_eq!(fs::read_dir(folder.join("files")).unwrap().count(), 2);
        assert!(files.iter().all(|file| fs::metadata(cache.local_path(&file.key)).unwrap().len() == 100));
        assert!(cache.content(&files[4]).unwrap().is_some(), "the last one is among them");
        let links = cache.links.clone();
        drop(cache);
        assert!(!links.exists());
        // A store that was not closed.
        fs::create_dir(&links).unwrap();
        fs::write(links.with_extension("lock"), "").unwrap();
        let other = FileCache::open(&folder, 250, "elsewhere").unwrap();
        assert!(files.iter().all(|file| other.content(file).unwrap().is_none()), "stores do not share contents");
        assert_eq!(fs::read_dir(folder.join("in-use")).unwrap().count(), 3, "gate, lock and links of one store");
        drop(other);
        let _ = fs::remove_dir_all(folder);
    }
}
