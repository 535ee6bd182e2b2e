// A program whose heap is full of holes: of many small blocks every fortieth stays, and each keeps the pages around it.
use std::hint::black_box;
use std::thread::{sleep, spawn};
use std::time::Duration;

/// Long enough for the recorder to look at the memory.
const PAUSE: Duration = Duration::from_millis(400);
/// The recorder reads pages one percent of the time: after it has read 200,000 blocks, it waits for some seconds before it looks again.
const LAST_PAUSE: Duration = Duration::from_secs(6);

#[inline(never)]
fn open_sessions(count: usize) -> Vec<Option<Box<[u8; 200]>>> {
    (0..count).map(|_| Some(black_box(Box::new([1; 200])))).collect()
}

#[inline(never)]
fn build_index() -> Vec<u64> {
    black_box((0..1 << 20).collect())
}

#[inline(never)]
fn parse_documents(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| black_box(vec![2; 600])).collect()
}

/// In an arena of its own: another thread allocates.
#[inline(never)]
fn fill_cache(count: usize) -> Vec<Option<Vec<u8>>> {
    let mut entries: Vec<_> = (0..count).map(|_| Some(black_box(vec![3; 3000]))).collect();
    for entry in entries.iter_mut().skip(1).step_by(2) {
        *entry = None;
    }
    entries
}

#[inline(never)]
fn reserve_history() -> Vec<u8> {
    // Never touched.
    black_box(Vec::with_capacity(64 << 20))
}

fn main() {
    let index = build_index();
    let history = reserve_history();
    let cache = spawn(|| fill_cache(4000)).join().unwrap();
    let mut sessions = open_sessions(200_000);
    let documents = parse_documents(20_000);
    sleep(PAUSE);
    for (number, session) in sessions.iter_mut().enumerate() {
        if number % 40 != 0 {
            *session = None;
        }
    }
    sleep(LAST_PAUSE);
    black_box((index, history, cache, sessions, documents));
}
