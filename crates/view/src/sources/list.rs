//! The list of sources.

use super::file::{FileKind, Opener};
use super::loaded::Loaded;
use crate::problem::{Problem, reason};
use highwater_model::Snapshot;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Live snapshots that are kept; older ones go.
const MOST_LIVE: usize = 16;

/// All sources.
pub struct Sources {
    opener: Box<dyn Opener>,
    list: RwLock<Vec<Arc<Source>>>,
}

/// One source.
pub struct Source {
    /// Its number.
    pub id: usize,
    /// The file; none of a live process.
    pub path: Option<PathBuf>,
    state: Mutex<State>,
}

struct State {
    /// Which file was read.
    stamp: Option<Stamp>,
    loaded: Option<Arc<Loaded>>,
    problem: Option<String>,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Self> {
        let about = std::fs::metadata(path)?;
        let modified = (about.mtime(), about.mtime_nsec());
        Ok(Self { device: about.dev(), inode: about.ino(), length: about.len(), modified })
    }
}

impl Source {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read of it, and what is wrong with it.
    pub fn now(&self) -> (Option<Arc<Loaded>>, Option<String>) {
        let state = self.state();
        (state.loaded.clone(), state.problem.clone())
    }

    /// What was read of it, or why nothing was.
    pub fn loaded(&self) -> Result<Arc<Loaded>, Problem> {
        let state = self.state();
        match (&state.loaded, &state.problem) {
            (Some(loaded), _) => Ok(Arc::clone(loaded)),
            (None, Some(problem)) => Err(Problem::failed(problem)),
            (None, None) => Err(Problem::failed("it was not read yet")),
        }
    }

    /// Looks at the file again: one that has changed is read anew. What was read of one that is gone stays.
    fn look(&self, opener: &dyn Opener) {
        let Some(path) = &self.path else { return };
        let mut state = self.state();
        if path == Path::new("-") && state.loaded.is_some() {
            return;
        }
        let stamp = Stamp::of(path);
        match &stamp {
            Err(error) if state.loaded.is_some() => {
                let line =
                    format!("the file cannot be read any more ({}); what was read before is shown", reason(error));
                state.problem = Some(line);
                return;
            }
            Ok(stamp) if state.stamp == Some(*stamp) && (state.loaded.is_some() || state.problem.is_some()) => {
                if state.loaded.is_some() {
                    state.problem = None;
                }
                return;
            }
            _ => {}
        }
        match opener.open(path).and_then(|opened| Loaded::of_file(opened).map_err(|problem| problem.line().to_owned()))
        {
            Ok(loaded) => {
                (state.loaded, state.problem) = (Some(Arc::new(loaded)), None);
            }
            Err(line) if state.loaded.is_some() => {
                state.problem = Some(format!("{line}; what was read before is shown"));
            }
            Err(line) => state.problem = Some(line),
        }
        state.stamp = stamp.ok();
    }
}

impl Sources {
    /// The files, each read or found to be unreadable.
    pub fn new(paths: &[PathBuf], opener: Box<dyn Opener>) -> Self {
        let source = |(id, path): (usize, &PathBuf)| {
            let state = Mutex::new(State { stamp: None, loaded: None, problem: None });
            Arc::new(Source { id, path: Some(path.clone()), state })
        };
        let list: Vec<Arc<Source>> = paths.iter().enumerate().map(source).collect();
        for source in &list {
            source.look(&*opener);
        }
        Self { opener, list: RwLock::new(list) }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Source>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at all files again.
    pub fn look_again(&self) {
        for source in self.all() {
            source.look(&*self.opener);
        }
    }

    /// The one with a number.
    pub fn get(&self, id: usize) -> Result<Arc<Source>, Problem> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let known = list.iter().find(|source| source.id == id);
        known.cloned().ok_or_else(|| Problem::Unknown(format!("there is no source {id}")))
    }

    /// Adds what a live process holds.
    pub fn add_live(&self, snapshot: Snapshot) -> Arc<Source> {
        let loaded = Some(Arc::new(Loaded::of_snapshot(FileKind::Live, snapshot)));
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let id = list.last().map_or(0, |last| last.id + 1);
        let source =
            Arc::new(Source { id, path: None, state: Mutex::new(State { stamp: None, loaded, problem: None }) });
        list.push(Arc::clone(&source));
        let live: Vec<usize> = list.iter().filter(|source| source.path.is_none()).map(|source| source.id).collect();
        if live.len() > MOST_LIVE {
            list.retain(|source| source.id != live[0]);
        }
        source
    }
}
