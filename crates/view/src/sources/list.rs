//! The list of sources.

use super::file::{FileKind, Opener};
use super::live::LiveSnapshot;
use super::loaded::Loaded;
use super::processes::ProcessAnswers;
use super::stamp::Stamp;
use highwater_query::{ProcessFile, QueryError, are_related};
use highwater_store::history::Work;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::Duration;

/// The most live snapshots and parts of fleets that are kept; the oldest is dropped first.
const MOST_LIVE: usize = 16;
/// The most processes of a tree that are open at the same time; the one that was used least recently is closed first.
const MOST_OPEN: usize = 32;

/// All sources.
pub struct Sources {
    opener: Box<dyn Opener>,
    list: RwLock<Vec<Arc<ViewedSource>>>,
    /// Counts uses of sources.
    uses: AtomicU64,
    /// Whether the files are recordings of processes that belong together.
    is_tree: bool,
    /// The latest answers about all processes together.
    pub processes: ProcessAnswers,
}

/// One source.
pub struct ViewedSource {
    /// Its number.
    pub id: usize,
    /// The file; `None` for a live process.
    pub path: Option<PathBuf>,
    /// It is read when it is asked for, and closed again: one of perhaps thousands of processes.
    is_member: bool,
    /// When it was used last, as the list counts.
    used: AtomicU64,
    /// Held by the thread that checks the file for changes. This may take long, and the loaded content answers meanwhile.
    looking: Mutex<()>,
    state: Mutex<SourceState>,
}

struct SourceState {
    /// Identifies the version of the file that was read.
    stamp: Option<Stamp>,
    loaded: Option<Arc<Loaded>>,
    /// Why the last version of the file could not be read.
    problem: Option<String>,
    /// Why the file cannot be found any more.
    gone: Option<String>,
}

impl ViewedSource {
    fn new(id: usize, path: Option<PathBuf>, loaded: Option<Arc<Loaded>>) -> Self {
        let state = SourceState { stamp: None, loaded, problem: None, gone: None };
        let (is_member, used) = (false, AtomicU64::new(0));
        Self { id, path, is_member, used, looking: Mutex::default(), state: Mutex::new(state) }
    }

    /// Whether it was read, or could not be.
    pub fn is_open(&self) -> bool {
        let state = self.state();
        !self.is_member || state.loaded.is_some() || state.problem.is_some()
    }

    /// Forgets its content until it is asked for again.
    fn close(&self) {
        let mut state = self.state();
        (state.loaded, state.problem, state.stamp) = (None, None, None);
    }

    fn state(&self) -> MutexGuard<'_, SourceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loaded content, and the current problem with the file.
    pub fn now(&self) -> (Option<Arc<Loaded>>, Option<String>) {
        let state = self.state();
        (state.loaded.clone(), state.gone.as_ref().or(state.problem.as_ref()).cloned())
    }

    /// The loaded content, or why there is none.
    pub fn loaded(&self) -> Result<Arc<Loaded>, QueryError> {
        let state = self.state();
        match (&state.loaded, &state.problem) {
            (Some(loaded), _) => Ok(Arc::clone(loaded)),
            (None, Some(problem)) => Err(QueryError::failed(problem)),
            (None, None) => Err(QueryError::failed("it was not read yet")),
        }
    }

    /// Checks the file for changes, and reads it again if it has changed. If the file is gone, its content stays. The old content answers meanwhile.
    fn look(&self, opener: &dyn Opener, work: &Work<'_>) -> Result<(), QueryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _only_one = self.turn_to_look(work)?;
        let stamp = Stamp::of(path);
        // While a file grows, it would be useless to scan all of it: it is read again before long.
        let is_settled = |loaded: &Loaded| loaded.history.is_complete() || stamp.as_ref().is_ok_and(Stamp::is_settled);
        if !self.state().is_out_of_date(path, &stamp) {
            if let (Some(loaded), _) = self.now()
                && is_settled(&loaded)
            {
                loaded.history.build_index();
            }
            return Ok(());
        }
        let opened = opener.open(path, work);
        // If the read was given up because the client disconnected, its result says nothing about the file.
        work.go_on()?;
        let loaded = opened.and_then(|opened| Loaded::of_file(opened).map_err(|problem| problem.to_string()));
        let mut state = self.state();
        match loaded {
            Ok(loaded) => {
                let loaded = Arc::new(loaded);
                if is_settled(&loaded) {
                    loaded.history.build_index();
                }
                (state.loaded, state.problem) = (Some(loaded), None);
            }
            Err(line) if state.loaded.is_some() => {
                state.problem = Some(format!("{line}; what was read before is shown"));
            }
            Err(line) => state.problem = Some(line),
        }
        state.stamp = stamp.ok();
        Ok(())
    }

    /// Waits until no other thread checks the file.
    fn turn_to_look(&self, work: &Work<'_>) -> Result<MutexGuard<'_, ()>, QueryError> {
        loop {
            match self.looking.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            }
            work.go_on()?;
        }
    }
}

impl SourceState {
    /// Whether the file has to be read. Also stores the problem if a loaded file cannot be found any more.
    fn is_out_of_date(&mut self, path: &Path, stamp: &io::Result<Stamp>) -> bool {
        if path == Path::new("-") && self.loaded.is_some() {
            return false;
        }
        match stamp {
            Err(error) if self.loaded.is_some() => {
                let text = error.to_string();
                let reason = text.split(" (os error").next().unwrap_or(&text);
                self.gone = Some(format!("the file cannot be read any more ({reason}); what was read before is shown"));
                false
            }
            stamp => {
                self.gone = None;
                stamp.as_ref().ok() != self.stamp.as_ref() || (self.loaded.is_none() && self.problem.is_none())
            }
        }
    }
}

impl Sources {
    /// Opens the files. Each one is read, or its problem is stored.
    pub fn new(paths: &[PathBuf], opener: Box<dyn Opener>) -> Self {
        let source = |(id, path): (usize, &PathBuf)| Arc::new(ViewedSource::new(id, Some(path.clone()), None));
        let list: Vec<Arc<ViewedSource>> = paths.iter().enumerate().map(source).collect();
        for source in &list {
            // There is no client that could disconnect here.
            let _ = source.look(&*opener, &Work::quiet());
        }
        let (uses, processes) = (AtomicU64::new(0), ProcessAnswers::default());
        Self { opener, list: RwLock::new(list), uses, is_tree: false, processes }
    }

    /// The same, with recordings of processes that belong to these. They are read when they are asked for.
    pub fn with_members(mut self, members: &[PathBuf]) -> Self {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        for path in members {
            let source = ViewedSource::new(list.len(), Some(path.clone()), None);
            list.push(Arc::new(ViewedSource { is_member: true, ..source }));
        }
        self.is_tree = !members.is_empty() || (list.len() > 1 && are_related(&process_files(list)));
        self
    }

    /// Whether the files are recordings of processes that belong together.
    pub fn is_tree(&self) -> bool {
        self.is_tree
    }

    /// The recordings of processes.
    pub fn process_files(&self) -> Vec<ProcessFile> {
        process_files(&self.list.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The sources that are open.
    pub fn all(&self) -> Vec<Arc<ViewedSource>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.iter().filter(|source| source.is_open()).cloned().collect()
    }

    /// Checks all open files for changes.
    pub fn look_again(&self, work: &Work<'_>) -> Result<(), QueryError> {
        self.all().iter().try_for_each(|source| source.look(&*self.opener, work))
    }

    /// The source with an id. One of the processes is opened for it.
    pub fn get(&self, id: usize) -> Result<Arc<ViewedSource>, QueryError> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let known = list.iter().find(|source| source.id == id).cloned();
        drop(list);
        let source = known.ok_or_else(|| QueryError::Unknown(format!("there is no source {id}")))?;
        if source.is_member {
            source.used.store(self.uses.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            if !source.is_open() {
                source.look(&*self.opener, &Work::quiet())?;
                self.close_unused();
            }
        }
        Ok(source)
    }

    /// Closes the processes that were used least recently, so that few are open.
    fn close_unused(&self) {
        let mut open: Vec<Arc<ViewedSource>> = self.all().into_iter().filter(|source| source.is_member).collect();
        open.sort_by_key(|source| std::cmp::Reverse(source.used.load(Ordering::Relaxed)));
        open.iter().skip(MOST_OPEN).for_each(|source| source.close());
    }

    /// Adds a snapshot of a live process as a source.
    pub fn add_live(&self, taken: LiveSnapshot) -> Arc<ViewedSource> {
        self.add(Loaded::of_live(taken))
    }

    /// Adds a part of a fleet as a source. If there is one of that name, it gets the new content.
    pub fn add_part(&self, loaded: Loaded) -> Arc<ViewedSource> {
        let same = |source: &Arc<ViewedSource>| {
            let is_same = |known: Arc<Loaded>| known.kind == loaded.kind && known.snapshot_name == loaded.snapshot_name;
            source.path.is_none() && source.now().0.is_some_and(is_same)
        };
        let known =
            self.list.read().unwrap_or_else(PoisonError::into_inner).iter().find(|source| same(source)).cloned();
        match known {
            Some(source) => {
                source.state().loaded = Some(Arc::new(loaded));
                source
            }
            None => self.add(loaded),
        }
    }

    fn add(&self, loaded: Loaded) -> Arc<ViewedSource> {
        let loaded = Some(Arc::new(loaded));
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let id = list.last().map_or(0, |last| last.id + 1);
        let source = Arc::new(ViewedSource::new(id, None, loaded));
        list.push(Arc::clone(&source));
        let live: Vec<usize> = list.iter().filter(|source| source.path.is_none()).map(|source| source.id).collect();
        if live.len() > MOST_LIVE {
            list.retain(|source| source.id != live[0]);
        }
        source
    }
}

/// The files that are recordings of processes; of those that are not open this is not known yet.
fn process_files(list: &[Arc<ViewedSource>]) -> Vec<ProcessFile> {
    let is_recording = |source: &ViewedSource| match source.now().0 {
        Some(loaded) => loaded.kind == FileKind::Recording,
        None => source.is_member,
    };
    let file = |source: &Arc<ViewedSource>| Some(ProcessFile { id: source.id, path: source.path.clone()? });
    list.iter().filter(|source| is_recording(source)).filter_map(file).collect()
}
