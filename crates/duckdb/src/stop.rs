//! What ends a question early.

use crate::session::Session;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const RUNS: u8 = 0;
const TOO_LONG: u8 = 1;
const ASKED: u8 = 2;

/// Why the question was stopped; the first reason counts.
static STOPPED: AtomicU8 = AtomicU8::new(RUNS);

/// DuckDB notices an interrupt between two pieces of work. A question that has not ended by then is ended with the process.
const PATIENCE: Duration = Duration::from_secs(3);

/// Keeps signals away from all threads that are started later, so that one thread can wait for them.
pub fn block_signals() {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// The reason in one line, if the question was stopped.
pub fn reason(seconds: u64) -> Option<String> {
    match STOPPED.load(Ordering::Acquire) {
        TOO_LONG => Some(format!("the question took longer than {seconds} s")),
        ASKED => Some("the question was stopped".into()),
        _ => None,
    }
}

/// Starts the threads that stop the question: after `seconds` if that is not 0, on SIGTERM or SIGINT, and at the end of standard input if it is watched.
pub fn watch(session: &'static Session, seconds: u64, is_watched: bool, temporary: PathBuf) {
    if seconds > 0 {
        let temporary = temporary.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(seconds));
            stop(session, TOO_LONG, seconds, &temporary);
        });
    }
    if is_watched {
        let temporary = temporary.clone();
        std::thread::spawn(move || {
            // Until the end: the parent has closed its end, or has died.
            let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
            stop(session, ASKED, seconds, &temporary);
        });
    }
    std::thread::spawn(move || {
        // SAFETY: the set is initialised, and its signals are blocked in all threads.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            let mut signal = 0;
            libc::sigwait(&set, &mut signal);
        }
        stop(session, ASKED, seconds, &temporary);
    });
}

fn stop(session: &Session, why: u8, seconds: u64, temporary: &Path) {
    let _ = STOPPED.compare_exchange(RUNS, why, Ordering::AcqRel, Ordering::Acquire);
    session.interrupt();
    std::thread::sleep(PATIENCE);
    // The main thread has ended the process by now, unless DuckDB does not react.
    let line = reason(seconds).unwrap_or_default();
    let answer = serde_json::json!({ "error": line });
    let _ = std::fs::remove_dir_all(temporary);
    println!("{answer}");
    std::process::exit(1);
}
