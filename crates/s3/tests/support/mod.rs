//! An S3 server, what can go wrong between it and the program, and the program in an environment of the test's own.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

mod gate;
mod moto;

pub use gate::Gate;
pub use moto::Moto;

use highwater_lake::store::{LakeStore, ProgramStore, StoreError, StoreProgram, StoredFile};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A folder of a test, removed with it.
pub struct TestFolder(PathBuf);

impl TestFolder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("s3-{}-{count}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with content that no other length or beginning has.
    pub fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let mut state = bytes as u64 + 88_172_645_463_325_252;
        let content = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        });
        let path = self.path(name);
        fs::write(&path, content.take(bytes).collect::<Vec<u8>>()).unwrap();
        path
    }

    /// The program with these variables and no others.
    pub fn program(&self, variables: &[(&str, &str)]) -> StoreProgram {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let script = self.path(&format!("highwater-s3-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let variables: Vec<String> = variables.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        let program = env!("CARGO_BIN_EXE_highwater-s3");
        fs::write(&script, format!("#!/bin/sh\nexec env -i {} {program} \"$@\"\n", variables.join(" "))).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let patience = Duration::from_secs(180);
        StoreProgram { path: script, patience, cache: self.path("cache"), cache_bytes: 1 << 30 }
    }

    /// The same for a server, with credentials that it does not check.
    pub fn program_for(&self, server: SocketAddr) -> StoreProgram {
        let address = format!("http://{server}");
        self.program(&[
            ("AWS_ENDPOINT_URL", &address),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ])
    }

    pub fn store(&self, uri: &str, server: SocketAddr) -> ProgramStore {
        ProgramStore::open(uri, self.program_for(server)).unwrap()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that gives every request the same answer, and then closes the connection.
pub fn answering(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && connection.read(&mut byte).is_ok_and(|read| read == 1) {
                request.push(byte[0]);
            }
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    address
}

pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "waited for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn keys(store: &dyn LakeStore, prefix: &str) -> Vec<String> {
    store.list(prefix).unwrap().into_iter().map(|file| file.key).collect()
}

pub fn listed(store: &dyn LakeStore, key: &str) -> StoredFile {
    store.list(key).unwrap().into_iter().next().unwrap()
}

/// The line of an error that is worth another try.
pub fn away<T>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Away(line)) => one_line(line),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("no error"),
    }
}

/// The line of an error that stays.
pub fn refused<T>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Refused(line)) => one_line(line),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("no error"),
    }
}

fn one_line(line: String) -> String {
    assert!(!line.contains('\n') && line.chars().count() < 200, "{line}");
    line
}
