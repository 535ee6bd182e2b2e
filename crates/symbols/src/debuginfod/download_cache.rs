//! The folder of downloaded files, which all clients of debuginfod share.
//!
//! The layout is that of elfutils: `BUILDID/debuginfo` and `BUILDID/executable`. An empty file there means that no server had the file at the time
//! of its last change; it counts for as many seconds as the file `cache_miss_s` says, or 600. elfutils also removes files that were not read for a
//! week, ours included.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Artifact;

const DEFAULT_ABSENCE: Duration = Duration::from_secs(600);

pub(super) struct DownloadCache {
    folder: PathBuf,
}

/// What is known about a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CacheEntry {
    File(PathBuf),
    /// No server had it a short time ago.
    Absent,
    Unknown,
}

impl DownloadCache {
    /// The user's folder, which is created when it is needed.
    pub(super) fn of_user() -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let former = || variable("HOME").map(|home| home.join(".debuginfod_client_cache")).filter(|path| path.is_dir());
        let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let folder = variable("DEBUGINFOD_CACHE_PATH").or_else(former);
        folder.or_else(|| cache().map(|cache| cache.join("debuginfod_client"))).map(|folder| Self { folder })
    }

    fn path(&self, build_id: &str, artifact: Artifact) -> PathBuf {
        self.folder.join(build_id).join(artifact.name())
    }

    pub(super) fn look_up(&self, build_id: &str, artifact: Artifact) -> CacheEntry {
        let path = self.path(build_id, artifact);
        let Ok(about) = fs::metadata(&path) else { return CacheEntry::Unknown };
        if about.len() > 0 {
            return CacheEntry::File(path);
        }
        // A time in the future counts as just now.
        let age = about.modified().ok().map(|time| time.elapsed().unwrap_or_default());
        match age {
            Some(age) if age <= self.absence() => CacheEntry::Absent,
            _ => {
                let _ = fs::remove_file(&path);
                CacheEntry::Unknown
            }
        }
    }

    /// How long an absence counts.
    fn absence(&self) -> Duration {
        let mut text = String::new();
        let read =
            File::open(self.folder.join("cache_miss_s")).and_then(|file| file.take(32).read_to_string(&mut text));
        let seconds = read.ok().and_then(|_| text.trim().parse().ok());
        seconds.map_or(DEFAULT_ABSENCE, Duration::from_secs)
    }

    /// Remembers that no server has the file. Errors are ignored: the servers are asked again then.
    pub(super) fn keep_absence(&self, build_id: &str, artifact: Artifact) {
        let path = self.path(build_id, artifact);
        let _ = self.create_folder(build_id).and_then(|_| OpenOptions::new().write(true).create_new(true).open(path));
    }

    /// A new file, to be written.
    pub(super) fn begin(&self, build_id: &str, artifact: Artifact) -> io::Result<UnfinishedDownload> {
        let folder = self.create_folder(build_id)?;
        let path = folder.join(format!("{}.{}.new", artifact.name(), std::process::id()));
        // Left behind by a process that had the same number.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(UnfinishedDownload { path, file, to: self.path(build_id, artifact), is_finished: false })
    }

    fn create_folder(&self, build_id: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join(build_id);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(folder)
    }
}

/// A file that is being downloaded. It is removed unless it is finished.
pub(super) struct UnfinishedDownload {
    path: PathBuf,
    file: File,
    to: PathBuf,
    is_finished: bool,
}

impl UnfinishedDownload {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name. Others never see an incomplete one.
    pub(super) fn finish(mut self) -> io::Result<PathBuf> {
        self.file.set_permissions(Permissions::from_mode(0o400))?;
        fs::rename(&self.path, &self.to)?;
        self.is_finished = true;
        Ok(self.to.clone())
    }
}

impl Drop for UnfinishedDownload {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.path);
            // Fails if there is something else in it.
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}
