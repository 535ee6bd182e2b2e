//! A small search service, an ordinary program: `highwater record` shows how it uses memory (see `./demo`).
//!
//! Four workers tokenise documents and add their words to an index. It has the usual faults: each request opens a session, and the sessions of
//! every eighth request are never closed; compacting the index holds two copies of it for a moment.

use std::collections::HashMap;
use std::sync::Mutex;

const WORKERS: usize = 4;
const REQUESTS: usize = 6_000;

/// Where each word occurs.
#[derive(Default)]
struct Index {
    places: HashMap<String, Vec<u32>>,
}

impl Index {
    #[inline(never)]
    fn add(&mut self, word: &str, document: u32) {
        match self.places.get_mut(word) {
            Some(places) => places.push(document),
            None => drop(self.places.insert(word.to_owned(), vec![document])),
        }
    }

    /// A copy without spare capacity.
    #[inline(never)]
    fn compact(&self) -> Self {
        Self { places: self.places.iter().map(|(word, places)| (word.clone(), places.clone())).collect() }
    }
}

/// The state of a user between requests.
struct Session {
    _history: Vec<u8>,
}

static OPEN_SESSIONS: Mutex<Vec<Session>> = Mutex::new(Vec::new());

impl Session {
    #[inline(never)]
    fn open(user: usize) -> Self {
        Self { _history: vec![user as u8; 600] }
    }

    /// The fault: some sessions are never closed.
    fn end(self, user: usize) {
        if user.is_multiple_of(8) {
            OPEN_SESSIONS.lock().unwrap().push(self);
        }
    }
}

/// A document of words; the same in every run.
#[inline(never)]
fn fetch(document: usize) -> String {
    let mut state = document as u64 + 1;
    let mut text = String::new();
    for _ in 0..80 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        text.push_str(&format!("word{} ", (state >> 40) % 30_000));
    }
    text
}

#[inline(never)]
fn tokenise(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_lowercase).collect()
}

#[inline(never)]
fn handle(request: usize, index: &Mutex<Index>) {
    let session = Session::open(request);
    let words = tokenise(&fetch(request));
    let mut index = index.lock().unwrap();
    for word in &words {
        index.add(word, request as u32);
    }
    session.end(request);
}

fn main() {
    let index = Mutex::new(Index::default());
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let name = format!("worker {worker}");
            let index = &index;
            let work = move || (worker..REQUESTS).step_by(WORKERS).for_each(|request| handle(request, index));
            std::thread::Builder::new().name(name).spawn_scoped(scope, work).expect("a thread can be started");
        }
    });
    highwater::mark("loaded");
    let compact = index.lock().unwrap().compact();
    drop(index);
    highwater::mark("compacted");
    println!("{} words, {} sessions left open", compact.places.len(), OPEN_SESSIONS.lock().unwrap().len());
}
