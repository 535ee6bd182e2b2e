//! A fake live program, a directory for a collector, and a running collector.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]

pub mod child;
pub mod fake;

use highwater_collector::{CollectorClient, CollectorOptions, CollectorServer};
use highwater_model::{Snapshot, When};
use highwater_store::Recording;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A directory of the test with a short path, removed when the test ends.
pub struct TestFolder(PathBuf);

impl TestFolder {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("hwc-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Default options, but the collector does not look for processes.
    pub fn options(&self) -> CollectorOptions {
        CollectorOptions { searches: false, ..CollectorOptions::new(self.path("socket"), self.path("snapshots")) }
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A collector in a thread; stopped when dropped.
pub struct Collector {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub log: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    pub fn start(options: CollectorOptions) -> Self {
        let server = CollectorServer::bind(options).unwrap();
        let (socket, stop, log) =
            (server.socket().to_owned(), Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stops, lines) = (Arc::clone(&stop), Arc::clone(&log));
        let thread = std::thread::spawn(move || {
            server.serve(&stops, &|line: &str| lines.lock().unwrap().push(line.to_owned()));
        });
        Self { socket, stop, thread: Some(thread), log }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn client(&self) -> CollectorClient {
        CollectorClient::connect(&self.socket).unwrap()
    }

    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub fn stop(mut self) {
        self.join();
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.join();
    }
}

/// Waits until a condition is true; the test fails if it never is.
pub fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what} never happened");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads a snapshot back.
pub fn snapshot_in(file: File) -> Snapshot {
    let recording = Recording::from_file(file).unwrap();
    assert!(recording.damage().is_empty());
    let snapshot = recording.snapshot(&When::End).unwrap();
    assert_eq!(snapshot.violations(), Vec::<String>::new());
    snapshot
}
