//! The store of kept snapshots, which programs took of themselves: files in a directory. All state is in the directory: it outlives the collector,
//! and other processes may use it too.

use crate::protocol::{KeptInfo, Retention};
use serde_json::Value;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The default limits for kept snapshots.
pub const KEPT_SNAPSHOTS: Retention = Retention { count: 100, bytes: 1 << 30 };
/// The file with the largest number ever used: numbers are not reused.
const LAST: &str = "last";
/// Files with larger numbers were not made by a collector.
const LARGEST: u64 = 1 << 53;
/// A partial file older than this will never be completed.
const STALE: Duration = Duration::from_secs(3600);

/// A directory of kept snapshots, with limits for their number and bytes.
#[derive(Debug)]
pub struct SnapshotStore {
    directory: PathBuf,
    retention: Retention,
}

/// A reserved number and file for a snapshot that is still to be written; removed when dropped.
#[derive(Debug)]
pub struct ReservedSnapshot {
    id: u64,
    partial: PathBuf,
    file: Option<File>,
}

impl Drop for ReservedSnapshot {
    fn drop(&mut self) {
        // Once the snapshot is complete, there is no file of that name any more.
        let _ = std::fs::remove_file(&self.partial);
    }
}

/// The default directory of kept snapshots.
pub fn default_snapshot_folder() -> io::Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| io::Error::other("neither XDG_STATE_HOME nor HOME is an absolute path"))?;
    Ok(state.join("highwater/snapshots"))
}

impl SnapshotStore {
    /// Opens a directory, and creates it if needed.
    pub fn open(directory: PathBuf, retention: Retention) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let store = Self { directory, retention };
        store.remove_stale();
        Ok(store)
    }

    /// The limits of what is kept.
    pub fn retention(&self) -> Retention {
        self.retention
    }

    /// All kept snapshots, oldest first. Damaged or foreign files are skipped.
    pub fn list(&self) -> Vec<KeptInfo> {
        let mut all: Vec<KeptInfo> = self.numbers("json").filter_map(|id| self.entry(id)).collect();
        all.sort_unstable_by_key(|kept| kept.id);
        all
    }

    fn entry(&self, id: u64) -> Option<KeptInfo> {
        let text = std::fs::read(self.path(id, "json")).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        let file = std::fs::metadata(self.path(id, "hw")).ok()?;
        KeptInfo::from_json(&value).filter(|kept| kept.id == id && file.is_file())
    }

    /// A kept snapshot.
    pub fn get(&self, id: u64) -> Option<(KeptInfo, File)> {
        Some((self.entry(id)?, File::open(self.path(id, "hw")).ok()?))
    }

    /// Removes snapshots, all of them if `ids` is empty. Returns how many were removed.
    pub fn remove(&self, ids: &[u64]) -> u64 {
        let ids: Vec<u64> = match ids {
            [] => self.list().into_iter().map(|kept| kept.id).collect(),
            ids => ids.to_vec(),
        };
        ids.into_iter().filter(|&id| self.remove_one(id)).count() as u64
    }

    fn remove_one(&self, id: u64) -> bool {
        let was_there = self.entry(id).is_some();
        // The entry is removed last: a snapshot with an entry is complete.
        was_there
            && std::fs::remove_file(self.path(id, "hw")).is_ok()
            && std::fs::remove_file(self.path(id, "json")).is_ok()
    }

    /// Reserves a number that is larger than all before, and a file for the snapshot.
    pub fn reserve(&self) -> io::Result<ReservedSnapshot> {
        let last = self.directory.join(LAST);
        let remembered = std::fs::read_to_string(&last).ok().and_then(|text| text.trim().parse().ok());
        let taken = ["hw", "json", "partial"].into_iter().flat_map(|ending| self.numbers(ending));
        let mut id = taken.chain(remembered).filter(|&id| id < LARGEST).max().unwrap_or(0) + 1;
        loop {
            let partial = self.path(id, "partial");
            match create(&partial) {
                Ok(file) => {
                    // If this fails, the number may be reused after its snapshot is removed.
                    let _ = std::fs::write(&last, id.to_string());
                    return Ok(ReservedSnapshot { id, partial, file: Some(file) });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => id += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps a snapshot that `write` writes. Completes `about` with its number and length. Removes the oldest snapshots if a limit is exceeded.
    pub fn keep(
        &self,
        mut reserved: ReservedSnapshot,
        mut about: KeptInfo,
        write: impl FnOnce(File) -> io::Result<File>,
    ) -> io::Result<KeptInfo> {
        let file = reserved.file.take().ok_or(io::ErrorKind::NotFound)?;
        about.id = reserved.id;
        about.file_bytes = write(file)?.metadata()?.len();
        std::fs::rename(&reserved.partial, self.path(about.id, "hw"))?;
        if let Err(error) = self.write_entry(about.id, &about.to_json()) {
            let _ = std::fs::remove_file(self.path(about.id, "hw"));
            return Err(error);
        }
        self.make_room();
        Ok(about)
    }

    fn write_entry(&self, id: u64, entry: &Value) -> io::Result<()> {
        let partial = self.path(id, "json-partial");
        create(&partial)?.write_all(entry.to_string().as_bytes())?;
        std::fs::rename(partial, self.path(id, "json"))
    }

    fn make_room(&self) {
        let all = self.list();
        let mut bytes: u64 = all.iter().map(|kept| kept.file_bytes).fold(0, u64::saturating_add);
        let mut count = all.len() as u64;
        for kept in all {
            // The latest one is kept, however large it is.
            if count <= self.retention.count && (bytes <= self.retention.bytes || count == 1) {
                break;
            }
            self.remove_one(kept.id);
            count -= 1;
            bytes = bytes.saturating_sub(kept.file_bytes);
        }
    }

    /// Removes partial files that a killed collector left.
    fn remove_stale(&self) {
        for (id, ending) in
            ["partial", "json-partial"].into_iter().flat_map(|end| self.numbers(end).map(move |id| (id, end)))
        {
            let path = self.path(id, ending);
            let age = |path: &Path| SystemTime::now().duration_since(path.metadata().ok()?.modified().ok()?).ok();
            if age(&path).is_some_and(|age| age > STALE) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn path(&self, id: u64, ending: &str) -> PathBuf {
        self.directory.join(format!("{id}.{ending}"))
    }

    /// The numbers of files with this ending.
    fn numbers(&self, ending: &str) -> impl Iterator<Item = u64> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let number = move |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(ending)?.strip_suffix('.')?.parse().ok()
        };
        entries.filter_map(number)
    }
}

/// A new file that only this user can read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).read(true).create_new(true).mode(0o600).open(path)
}
