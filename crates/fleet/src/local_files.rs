//! The files of a request as paths below one folder, with the service in the path of compacted ones, as engines read it.

use crate::error::FleetError;
use highwater_lake::store::{LakeStore, StoredFile};
use highwater_lake::{LakeFiles, Table};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Paths of files by table: compacted and incoming ones.
pub(crate) type TablePaths = BTreeMap<&'static str, (Vec<String>, Vec<String>)>;

/// Local paths of a request's files.
pub(crate) struct LocalFiles {
    base: PathBuf,
    tables: TablePaths,
    keys: HashMap<String, String>,
    /// Removed with this value.
    links: Option<PathBuf>,
}

impl LocalFiles {
    /// Takes the paths of a store. Copies of an object store have names of their own, so links with the names in the lake are made to them.
    pub fn new(store: &dyn LakeStore, files: &BTreeMap<Table, LakeFiles>) -> Result<Self, FleetError> {
        let all = files.values().flat_map(|files| files.compacted.iter().chain(&files.incoming));
        let mut paths: HashMap<&str, PathBuf> = HashMap::new();
        let mut base: Option<PathBuf> = None;
        let mut is_plain = true;
        for file in all {
            let path = store.local_path(file).map_err(highwater_lake::LakeError::from)?;
            let path = std::path::absolute(&path).map_err(|error| failed(&path, error))?;
            let root = root_of(&path, &file.key);
            is_plain &= root.is_some() && (base.is_none() || base == root);
            base = base.or(root);
            paths.insert(&file.key, path);
        }
        let mut made =
            Self { base: PathBuf::from("/nonexistent"), tables: TablePaths::new(), keys: HashMap::new(), links: None };
        if is_plain {
            // The engine compares paths as texts with its folder.
            if let Some(base) = base.and_then(|base| base.canonicalize().ok()) {
                made.base = base;
            }
        } else {
            made.base = made.make_links(&paths)?;
        }
        made.add_paths(files);
        Ok(made)
    }

    /// The addresses of objects, for engines that read them: nothing is copied.
    pub fn objects(bucket: &str, files: &BTreeMap<Table, LakeFiles>) -> Self {
        let base = PathBuf::from(format!("s3a://{}", bucket.trim_end_matches('/')));
        let mut made = Self { base, tables: TablePaths::new(), keys: HashMap::new(), links: None };
        made.add_paths(files);
        made
    }

    fn add_paths(&mut self, files: &BTreeMap<Table, LakeFiles>) {
        for (table, files) in files {
            let mut list = |files: &[StoredFile]| -> Vec<String> {
                let path = |file: &StoredFile| {
                    let path = self.base.join(&file.key).to_string_lossy().into_owned();
                    self.keys.insert(path.clone(), file.key.clone());
                    path
                };
                files.iter().map(path).collect()
            };
            let lists = (list(&files.compacted), list(&files.incoming));
            self.tables.insert(table.name(), lists);
        }
    }

    fn make_links(&mut self, paths: &HashMap<&str, PathBuf>) -> Result<PathBuf, FleetError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("highwater-lake-{}-{number}", std::process::id()));
        // Fails if it exists, so no other user can have put anything into it.
        fs::create_dir(&folder).map_err(|error| failed(&folder, error))?;
        self.links = Some(folder.clone());
        for (key, path) in paths {
            let link = folder.join(key);
            let parent = link.parent().unwrap_or(&folder);
            fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
            std::os::unix::fs::symlink(path, &link).map_err(|error| failed(&link, error))?;
        }
        Ok(folder)
    }

    /// The folder below which all files are.
    pub fn base(&self) -> String {
        self.base.to_string_lossy().into_owned()
    }

    /// The paths.
    pub fn tables(&self) -> &TablePaths {
        &self.tables
    }

    /// The file that an engine's error names, as its key and its path.
    pub fn named_in(&self, line: &str) -> Option<(String, PathBuf)> {
        let named = self.keys.iter().find(|(path, _)| line.contains(path.as_str()));
        named.map(|(path, key)| (key.clone(), PathBuf::from(path)))
    }
}

impl Drop for LocalFiles {
    fn drop(&mut self) {
        if let Some(folder) = &self.links {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// The folder in which a path has the name of a key.
fn root_of(path: &Path, key: &str) -> Option<PathBuf> {
    let depth = key.split('/').count();
    path.ends_with(key).then(|| path.ancestors().nth(depth).map(Path::to_owned))?
}

fn failed(path: &Path, error: std::io::Error) -> FleetError {
    FleetError::Links { path: path.display().to_string(), error }
}
