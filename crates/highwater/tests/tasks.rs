//! A program with asynchronous tasks on several threads that counts by task itself, compared with its recording.

use highwater::task::{self, Scope};
use highwater_model::When;
use highwater_model::groups::{GroupBy, GroupKey, Metric, rows};
use highwater_store::Recording;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<Counting> = highwater::Alloc::new(Counting);

/// The tasks by number; the first is no task.
const NAMES: [&str; 5] = ["", "fetch", "parse", "store", "reply"];

thread_local! {
    static TASK: Cell<usize> = const { Cell::new(0) };
}

/// What the program counted of one task.
struct Counter {
    allocations: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    live_blocks: AtomicU64,
}

static COUNTERS: [Counter; NAMES.len()] = [const {
    Counter {
        allocations: AtomicU64::new(0),
        allocated_bytes: AtomicU64::new(0),
        freed_bytes: AtomicU64::new(0),
        live_blocks: AtomicU64::new(0),
    }
}; NAMES.len()];

fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

/// Notes the task of each block in front of it.
struct Counting;

fn whole(layout: Layout) -> (Layout, usize) {
    let front = layout.align().max(16);
    (Layout::from_size_align(layout.size() + front, front).unwrap(), front)
}

// SAFETY: passes everything on, with room in front of each block.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (whole, front) = whole(layout);
        let task = TASK.try_with(Cell::get).unwrap_or(0);
        add(&COUNTERS[task].allocations, 1);
        add(&COUNTERS[task].live_blocks, 1);
        add(&COUNTERS[task].allocated_bytes, layout.size());
        // SAFETY: there is room for the number in front of the block.
        unsafe {
            let block = System.alloc(whole).add(front);
            block.cast::<usize>().sub(1).write(task);
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (whole, front) = whole(layout);
        // SAFETY: as it was allocated.
        unsafe {
            let task = block.cast::<usize>().sub(1).read();
            COUNTERS[task].live_blocks.fetch_sub(1, Ordering::Relaxed);
            add(&COUNTERS[task].freed_bytes, layout.size());
            System.dealloc(block.sub(front), whole);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's contract.
        unsafe {
            let new = self.alloc(Layout::from_size_align(size, layout.align()).unwrap());
            std::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
            let task = new.cast::<usize>().sub(1).read();
            COUNTERS[task].allocations.fetch_sub(1, Ordering::Relaxed);
            self.dealloc(block, layout);
            new
        }
    }
}

/// A future that sets the program's own idea of the current task, around a [`Scope`].
struct Counted<F> {
    task: usize,
    inner: Option<Pin<Box<Scope<F>>>>,
}

fn counted<F: Future>(task: usize, future: F) -> Counted<F> {
    Counted { task, inner: Some(Box::pin(task::scope(NAMES[task], future))) }
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = TASK.replace(self.task);
        let polled = self.inner.as_mut().unwrap().as_mut().poll(context);
        TASK.set(before);
        polled
    }
}

impl<F> Drop for Counted<F> {
    fn drop(&mut self) {
        let before = TASK.replace(self.task);
        // The box itself was allocated outside, and so it stays.
        self.inner = None;
        TASK.set(before);
    }
}

/// Blocks that tasks leave to each other.
static SHARED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Allocates, resizes what others left, frees what others left, waits, and does some of it as another task.
async fn work(seed: u64, rounds: u32) {
    let mut random = seed;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    for _ in 0..rounds {
        let size = 1 + next(3000) as usize;
        match next(5) {
            0 | 1 => SHARED.lock().unwrap().push(Vec::with_capacity(size)),
            2 => drop(SHARED.lock().unwrap().pop()),
            3 => {
                if let Some(block) = SHARED.lock().unwrap().last_mut() {
                    block.reserve_exact(size + block.capacity());
                }
            }
            _ => {
                let other = 1 + next(NAMES.len() as u64 - 1) as usize;
                let inner = counted(other, async move {
                    let block: Vec<u8> = Vec::with_capacity(size);
                    tokio::task::yield_now().await;
                    block
                });
                let block = inner.await;
                SHARED.lock().unwrap().push(block);
            }
        }
        if next(4) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn figures_of_tasks_are_what_the_program_counted() {
    let path = std::env::temp_dir().join(format!("highwater-test-{}-tasks.hw", std::process::id()));
    highwater::record_to(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let spawn = |number: u64| tokio::spawn(counted(1 + number as usize % (NAMES.len() - 1), work(number, 300)));
        let tasks: Vec<_> = (0..64).map(spawn).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    // What is resized outside of any task no longer belongs to one; a guard does the same for a thread that is no future.
    SHARED.lock().unwrap().iter_mut().take(20).for_each(|block| block.reserve_exact(block.capacity() + 10));
    let entered = task::enter(NAMES[2]);
    let before = TASK.replace(2);
    let mut kept: Vec<Box<[u8; 100]>> = (0..10).map(|_| Box::new([0; 100])).collect();
    TASK.set(before);
    drop(entered);
    kept.push(Box::new([1; 100]));
    drop(runtime);
    let counted: Vec<[u64; 4]> = COUNTERS
        .iter()
        .map(|counter| {
            [&counter.allocations, &counter.allocated_bytes, &counter.freed_bytes, &counter.live_blocks]
                .map(|counter| counter.load(Ordering::Relaxed))
        })
        .collect();
    highwater::stop_recording().unwrap();
    let recording = Recording::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
    let end = recording.snapshot(&When::End).unwrap();
    let rows = rows(&end, GroupBy::Task, Metric::Live, None);
    for (name, counted) in NAMES.iter().zip(&counted).skip(1) {
        let row = rows.iter().find(|row| row.key == GroupKey::Name((*name).to_owned())).unwrap();
        let figures = &row.figures;
        let recorded = [figures.allocations, figures.allocated_bytes, figures.freed_bytes, figures.live_blocks()];
        assert_eq!(recorded, *counted, "{name}");
        assert!(counted[0] > 1000, "{name}: {counted:?}");
    }
    let sum: u64 = rows.iter().map(|row| row.figures.live_bytes()).sum();
    assert_eq!(sum, end.accounts.totals().figures.live_bytes(), "with what belongs to no task it is the whole");
    drop(kept);
}
