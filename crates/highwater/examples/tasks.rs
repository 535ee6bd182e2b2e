//! An asynchronous server whose tasks have names: `tasks FILE` records itself, `highwater report FILE --by task` shows which kind of work holds the memory.
//!
//! It counts by itself what each of its tasks holds, and prints it.

use std::alloc::System;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

/// What the server keeps: pages that were fetched, sessions that nobody closes.
#[derive(Default)]
struct State {
    cache: Mutex<VecDeque<Vec<u8>>>,
    sessions: Mutex<Vec<Session>>,
}

/// What is known of a visitor.
type Session = Vec<u64>;

/// Fetches a page: a buffer that grows over several polls, on whichever threads they are.
async fn fetch(state: &'static State, number: usize) {
    let mut page = Vec::with_capacity(512);
    for part in 0..8 {
        page.extend(std::iter::repeat_n(b' ', 512 + number % 64));
        if part % 2 == 0 {
            tokio::task::yield_now().await;
        }
    }
    page.shrink_to_fit();
    let mut cache = state.cache.lock().expect("no thread panics");
    if cache.len() == 100 {
        cache.pop_front();
    }
    cache.push_back(page);
}

/// Opens a session, and forgets it.
async fn log_in(state: &'static State, number: usize) {
    tokio::time::sleep(Duration::from_micros(number as u64 % 50)).await;
    let session = highwater::task::scope("log_in: session", async { vec![number as u64; 128] }).await;
    state.sessions.lock().expect("no thread panics").push(session);
}

fn main() -> std::io::Result<()> {
    if let Some(path) = std::env::args().nth(1) {
        highwater::record_to(path)?;
    }
    let state: &'static State = Box::leak(Box::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build()?;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for number in 0..1000 {
            tasks.push(tokio::spawn(highwater::task::scope("fetch", fetch(state, number))));
            tasks.push(tokio::spawn(highwater::task::scope("log_in", log_in(state, number))));
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
    let cached: usize = state.cache.lock().expect("no thread panics").iter().map(Vec::capacity).sum();
    let sessions = state.sessions.lock().expect("no thread panics").len();
    println!("fetch holds {cached} bytes in 100 pages, log_in: session {} in {sessions} sessions", sessions * 1024);
    Ok(())
}
