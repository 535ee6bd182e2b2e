//! A small search service that records its own memory: five threads, a cache, an index that grows, and a leak.
//!
//! `cargo run --release --example demo -- demo.hw`, then `highwater report demo.hw`.

use highwater::event_store::{EventStore, MemoryEvent};
use highwater::{FrameText, StackId};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, mpsc};

const WORKERS: u64 = 4;
const DOCUMENTS: u64 = 6_000;

thread_local! {
    /// The functions this thread is in, outermost first.
    static CALLS: RefCell<Vec<FrameText<'static>>> = const { RefCell::new(Vec::new()) };
    static THREAD: RefCell<u64> = const { RefCell::new(0) };
}

/// Keeps a function on the thread's call stack until it is dropped.
struct Inside;

impl Inside {
    fn function(function: &'static str, line: u32) -> Self {
        let frame = FrameText { function, file: "examples/demo.rs", line, module: "demo", ..FrameText::default() };
        CALLS.with_borrow_mut(|calls| calls.push(frame));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CALLS.with_borrow_mut(|calls| calls.pop());
    }
}

fn thread() -> u64 {
    THREAD.with_borrow(|thread| *thread)
}

/// Bytes whose every allocation, growth and release is recorded, with the real addresses and sizes.
struct Buffer {
    bytes: Vec<u8>,
    store: Arc<EventStore>,
}

impl Buffer {
    fn new(store: &Arc<EventStore>, size: usize, type_name: &'static str) -> Self {
        let bytes = Vec::with_capacity(size.max(1));
        let event = MemoryEvent::allocate(bytes.as_ptr() as usize, bytes.capacity(), thread());
        store.record(event.with_type_name(type_name).with_stack(call_stack(store)));
        Self { bytes, store: Arc::clone(store) }
    }

    fn push(&mut self, more: &[u8]) {
        let (old, old_size) = (self.bytes.as_ptr() as usize, self.bytes.capacity());
        self.bytes.extend_from_slice(more);
        let (new, new_size) = (self.bytes.as_ptr() as usize, self.bytes.capacity());
        if new_size != old_size {
            let event = MemoryEvent::reallocate(new, old_size, new_size, thread()).moved_from(old);
            self.store.record(event.with_stack(call_stack(&self.store)));
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Recorded before the bytes are freed: another block may get the address right after that.
        self.store.record(MemoryEvent::deallocate(self.bytes.as_ptr() as usize, self.bytes.capacity(), thread()));
    }
}

fn call_stack(store: &EventStore) -> StackId {
    CALLS.with_borrow(|calls| {
        let innermost_first: Vec<FrameText<'_>> = calls.iter().rev().copied().collect();
        store.intern_stack(&innermost_first)
    })
}

struct Service {
    store: Arc<EventStore>,
    index: Mutex<BTreeMap<u64, Buffer>>,
    cache: Mutex<VecDeque<Buffer>>,
    sessions: Mutex<Vec<Buffer>>,
}

impl Service {
    fn fetch(&self, number: u64) -> Buffer {
        let _here = Inside::function("fetch", line!());
        let mut document = Buffer::new(&self.store, 512, "Document");
        for word in 0..40 + number % 200 {
            document.push(format!("word{} ", (number * 31 + word * word) % 5_000).as_bytes());
        }
        document
    }

    fn handle(&self, document: Buffer) {
        let _here = Inside::function("handle", line!());
        self.tokenise(&document);
        self.remember(document);
        self.open_session();
    }

    fn tokenise(&self, document: &Buffer) {
        let _here = Inside::function("tokenise", line!());
        for word in document.bytes.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
            let mut token = Buffer::new(&self.store, word.len(), "Token");
            token.push(word);
            self.index_word(&token);
        }
    }

    fn index_word(&self, token: &Buffer) {
        let _here = Inside::function("Index::add", line!());
        let key = token.bytes.iter().fold(7u64, |hash, byte| hash.wrapping_mul(31) + u64::from(*byte)) % 2_000;
        let mut index = self.index.lock().unwrap();
        let postings = index.entry(key).or_insert_with(|| Buffer::new(&self.store, 16, "Postings"));
        if postings.bytes.len() < 4_000 {
            postings.push(&key.to_le_bytes());
        }
    }

    /// The last 300 documents stay in memory; the oldest is freed by whichever thread puts in the next.
    fn remember(&self, document: Buffer) {
        let _here = Inside::function("Cache::insert", line!());
        let mut cache = self.cache.lock().unwrap();
        cache.push_back(document);
        if cache.len() > 300 {
            cache.pop_front();
        }
    }

    /// Sessions are never closed: this is the leak.
    fn open_session(&self) {
        let _here = Inside::function("Session::open", line!());
        self.sessions.lock().unwrap().push(Buffer::new(&self.store, 96, "Session"));
    }

    fn compact(&self) {
        let _here = Inside::function("Index::compact", line!());
        let mut whole = Buffer::new(&self.store, 1 << 16, "Segment");
        for postings in self.index.lock().unwrap().values() {
            whole.push(&postings.bytes);
        }
    }
}

fn serve(service: &Service, documents: &Mutex<mpsc::Receiver<Buffer>>, worker: u64) {
    THREAD.set(worker);
    service.store.name_thread(worker, &format!("worker-{worker}"));
    let _here = Inside::function("serve", line!());
    loop {
        let next = documents.lock().unwrap().recv();
        let Ok(document) = next else { return };
        service.handle(document);
    }
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn main() {
    let path = std::env::args().nth(1).unwrap_or_else(|| "demo.hw".to_owned());
    let store = Arc::new(EventStore::new());
    let service = Service {
        store: Arc::clone(&store),
        index: Mutex::default(),
        cache: Mutex::default(),
        sessions: Mutex::default(),
    };
    store.name_thread(0, "main");
    let (send, receive) = mpsc::sync_channel(64);
    let receive = Mutex::new(receive);
    std::thread::scope(|scope| {
        for worker in 1..=WORKERS {
            let (service, receive) = (&service, &receive);
            scope.spawn(move || serve(service, receive, worker));
        }
        let _here = Inside::function("main", line!());
        for number in 0..DOCUMENTS {
            send.send(service.fetch(number)).expect("the workers are there until the channel is closed");
            if number % 500 == 0 {
                store.record(MemoryEvent::gauge("rss", resident_bytes(), 0));
            }
            if number == DOCUMENTS / 4 {
                store.record(MemoryEvent::mark("warm", 0));
            }
        }
        drop(send);
    });
    service.compact();
    store.record(MemoryEvent::mark("compacted", 0));
    service.cache.lock().unwrap().clear();
    service.index.lock().unwrap().clear();

    match store.save(&path) {
        Ok(written) => eprintln!("demo: {} events, {} bytes in {path}", written.events, written.bytes),
        Err(error) => {
            eprintln!("demo: {error}");
            std::process::exit(1);
        }
    }
    // The sessions stay allocated, as in a real leak.
    std::mem::forget(service);
}
