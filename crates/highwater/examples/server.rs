//! A server that runs for some seconds and can be inspected meanwhile: `server [SECONDS]`, then `highwater snapshot --name server`.
//!
//! It leaks every twentieth session.

use std::alloc::System;
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

/// The session of a visitor.
struct Session {
    _user: String,
    _history: Vec<u64>,
}

impl Session {
    #[inline(never)]
    fn open(number: u64) -> Self {
        Self { _user: format!("user {number}"), _history: vec![number; 64] }
    }
}

/// Recently rendered pages.
#[derive(Default)]
struct Cache {
    pages: HashMap<u64, Vec<u8>>,
}

impl Cache {
    #[inline(never)]
    fn page(&mut self, number: u64) -> &[u8] {
        self.pages.entry(number % 500).or_insert_with(|| vec![b' '; 2000])
    }
}

#[inline(never)]
fn serve(cache: &mut Cache, sessions: &mut HashMap<u64, Session>, number: u64) -> usize {
    sessions.insert(number, Session::open(number));
    let size = cache.page(number).len();
    if !number.is_multiple_of(20) {
        sessions.remove(&number);
    }
    size
}

fn main() -> std::io::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10.0);
    highwater::live()?;
    let (begin, mut cache, mut sessions) = (Instant::now(), Cache::default(), HashMap::new());
    let mut bytes = 0;
    for number in 0.. {
        bytes += serve(&mut cache, &mut sessions, number);
        if number == 1000 && highwater::snapshot("warmed up").is_err() {
            eprintln!("server: no collector is there to keep a snapshot");
        }
        if number.is_multiple_of(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if begin.elapsed() > Duration::from_secs_f64(seconds) {
            break;
        }
    }
    let stats = highwater::global_stats().unwrap_or_default();
    println!("{bytes} bytes served; {} allocations, {} frees", stats.allocations, stats.frees);
    Ok(())
}
