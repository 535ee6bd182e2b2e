//! A lake in an object store, by a program of its own.
//!
//! # Design
//!
//! The program `highwater-s3` is a child of this process: the libraries of object stores take minutes to build, and few users need them. What it says is checked
//! like any input. It is started again after it ended unexpectedly, and ended when it is silent for too long. Contents go through files: uploads
//! are read by the program, downloads are written by it into the [`FileCache`] and appear there by a rename. So a killed program leaves nothing half.

use super::file_cache::{self, FileCache};
use super::protocol::{StoreAnswer, StoreRequest, WantedFile};
use super::running_program::{Broken, RunningProgram};
use super::{LakeStore, StoreError, StoredFile, is_plain_key, program_file};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The program gives a request up before this: its own limits are shorter.
const PATIENCE: Duration = Duration::from_secs(180);
/// Downloads of one request. The lines of a request stay short.
const FILES_AT_ONCE: usize = 1000;
/// Another process may remove a copy between its download and its use.
const TRIES: usize = 4;

/// The program, and where it keeps copies.
#[derive(Clone, Debug)]
pub struct StoreProgram {
    /// The program.
    pub path: PathBuf,
    /// It is ended when it says nothing for this long.
    pub patience: Duration,
    /// The folder of the copies.
    pub cache: PathBuf,
    /// The bytes that copies may take, beside those in use.
    pub cache_bytes: u64,
}

impl StoreProgram {
    /// The installed program, and the user's cache.
    pub fn find() -> Result<Self, StoreError> {
        let (cache, cache_bytes) = file_cache::user_settings()?;
        Ok(Self { path: program_file::find()?, patience: PATIENCE, cache, cache_bytes })
    }
}

/// A lake in an object store.
#[derive(Debug)]
pub struct ProgramStore {
    uri: String,
    program: StoreProgram,
    running: Mutex<Option<RunningProgram>>,
    cache: FileCache,
}

impl ProgramStore {
    /// The lake at `s3://BUCKET/PREFIX`. Without credentials it fails here; the store itself is not asked yet.
    pub fn open(uri: &str, program: StoreProgram) -> Result<Self, StoreError> {
        let running = RunningProgram::start(&program.path, uri, program.patience)?;
        let cache = FileCache::open(&program.cache, program.cache_bytes, &running.identity)?;
        Ok(Self { uri: uri.to_owned(), program, running: Mutex::new(Some(running)), cache })
    }

    /// What the store says of one file, without its content.
    pub fn head(&self, key: &str) -> Result<StoredFile, StoreError> {
        let files = self.ask(&StoreRequest::Head { key: key.to_owned() })?;
        files.into_iter().next().ok_or_else(|| StoreError::NotFound(key.to_owned()))
    }

    /// The program's process id, if it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(RunningProgram::id)
    }

    /// Asks the program, and starts it again if it has ended. All requests can be repeated: keys are written once.
    fn ask(&self, request: &StoreRequest) -> Result<Vec<StoredFile>, StoreError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut restarted = false;
        loop {
            let mut program = match running.take() {
                Some(program) => program,
                None => RunningProgram::start(&self.program.path, &self.uri, self.program.patience)?,
            };
            match exchange(&mut program, request) {
                Ok(answer) => {
                    *running = Some(program);
                    return answer;
                }
                Err(Broken::Ended) if !restarted => restarted = true,
                Err(Broken::Ended) => return Err(self.away("ended unexpectedly, twice")),
                Err(Broken::Silent) => {
                    program.kill();
                    return Err(self.away("did not answer and was ended"));
                }
                Err(Broken::Unclear) => {
                    program.kill();
                    return Err(StoreError::Refused(format!("{}: highwater-s3 cannot be understood", self.uri)));
                }
            }
        }
    }

    /// Downloads the files whose contents are not here. May remove others to make room.
    fn download(&self, files: &[StoredFile]) -> Result<(), StoreError> {
        let bytes = self.fetch(files.iter())?;
        self.cache.grew(bytes);
        Ok(())
    }

    /// Downloads the files whose contents are not here. Returns their bytes.
    fn fetch<'a>(&self, files: impl Iterator<Item = &'a StoredFile>) -> Result<u64, StoreError> {
        let mut wanted = Vec::new();
        for file in files {
            if self.cache.content(file)?.is_none() {
                wanted.push(WantedFile { file: file.clone(), to: self.cache.entry(file), tail: None });
            }
        }
        if wanted.is_empty() {
            return Ok(0);
        }
        let bytes = wanted.iter().fold(0_u64, |sum, wanted| sum.saturating_add(wanted.file.bytes));
        self.ask(&StoreRequest::Get { files: wanted })?;
        Ok(bytes)
    }

    /// Refuses keys that are no relative paths: links have their names.
    fn check(&self, files: &[StoredFile]) -> Result<(), StoreError> {
        match files.iter().find(|file| !is_plain_key(&file.key)) {
            Some(file) => Err(StoreError::Refused(format!("{}: {}: not a path in a lake", self.uri, file.key))),
            None => Ok(()),
        }
    }

    fn removed(&self, file: &StoredFile) -> StoreError {
        StoreError::Away(format!("{}: {}: does not stay in the cache", self.uri, file.key))
    }

    /// The folder below which the paths of [`LakeStore::local_path`] are.
    pub fn local_root(&self) -> &Path {
        self.cache.local_root()
    }

    fn away(&self, what: &str) -> StoreError {
        StoreError::Away(format!("{}: highwater-s3 {what}", self.uri))
    }
}

/// One request with all its answers.
fn exchange(
    program: &mut RunningProgram,
    request: &StoreRequest,
) -> Result<Result<Vec<StoredFile>, StoreError>, Broken> {
    program.send(request)?;
    let mut files = Vec::new();
    loop {
        match program.next()? {
            StoreAnswer::Moved(_) => {}
            StoreAnswer::Files(more) => files.extend(more),
            StoreAnswer::Done => return Ok(Ok(files)),
            StoreAnswer::Failed(failure) => return Ok(Err(failure.into())),
            StoreAnswer::Ready { .. } => return Err(Broken::Unclear),
        }
    }
}

impl LakeStore for ProgramStore {
    fn put(&self, key: &str, file: &Path) -> Result<(), StoreError> {
        // A relative path would depend on the folder in which the program was started.
        let file = std::path::absolute(file).map_err(|error| super::system(file, error))?;
        self.ask(&StoreRequest::Put { key: key.to_owned(), file }).map(|_| ())
    }

    fn open(&self, file: &StoredFile) -> Result<File, StoreError> {
        for _ in 0..TRIES {
            if let Some(content) = self.cache.content(file)? {
                return Ok(content);
            }
            self.download(std::slice::from_ref(file))?;
        }
        Err(self.removed(file))
    }

    fn local_path(&self, file: &StoredFile) -> Result<PathBuf, StoreError> {
        self.check(std::slice::from_ref(file))?;
        for _ in 0..TRIES {
            if self.cache.link(file)? {
                return Ok(self.cache.local_path(&file.key));
            }
            self.download(std::slice::from_ref(file))?;
        }
        Err(self.removed(file))
    }

    fn local_paths(&self, files: &[StoredFile]) -> Result<Vec<PathBuf>, StoreError> {
        self.check(files)?;
        let mut paths = Vec::new();
        for some in files.chunks(FILES_AT_ONCE) {
            // Those that have a path need not be in the cache any more. The others get theirs before room is made.
            let bytes = self.fetch(some.iter().filter(|file| !self.cache.is_linked(file)))?;
            paths.extend(some.iter().map(|file| self.local_path(file)).collect::<Result<Vec<_>, _>>()?);
            self.cache.grew(bytes);
        }
        Ok(paths)
    }

    fn ends(&self, files: &[StoredFile], bytes: u64) -> Result<Vec<File>, StoreError> {
        let mut ends = Vec::new();
        for some in files.chunks(FILES_AT_ONCE) {
            let folder = self.cache.new_folder()?;
            let part = |(number, file): (usize, &StoredFile)| {
                let to = folder.path().join(number.to_string());
                WantedFile { file: file.clone(), to, tail: Some(bytes) }
            };
            let wanted: Vec<WantedFile> = some.iter().enumerate().map(part).collect();
            self.ask(&StoreRequest::Get { files: wanted.clone() })?;
            for WantedFile { to, .. } in wanted {
                ends.push(File::open(&to).map_err(|error| super::system(&to, error))?);
            }
        }
        Ok(ends)
    }

    fn bring(&self, files: &[StoredFile]) -> Result<(), StoreError> {
        files.chunks(FILES_AT_ONCE).try_for_each(|some| self.download(some))
    }

    fn list(&self, prefix: &str) -> Result<Vec<StoredFile>, StoreError> {
        let mut files = self.ask(&StoreRequest::List { prefix: prefix.to_owned() })?;
        // What cannot be a file of a lake is foreign: another program's, or a marker of a folder.
        files.retain(|file| file.key.starts_with(prefix) && is_plain_key(&file.key));
        files.sort();
        files.dedup();
        Ok(files)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.delete_all(&[key.to_owned()])
    }

    fn delete_all(&self, keys: &[String]) -> Result<(), StoreError> {
        keys.chunks(FILES_AT_ONCE)
            .try_for_each(|keys| self.ask(&StoreRequest::Delete { keys: keys.to_vec() }).map(|_| ()))
    }

    fn name(&self) -> &str {
        &self.uri
    }
}
