//! The heap size that a value reports equals what was requested from the allocator for it.

use highwater::DeepSize;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

struct Counting;

thread_local!(static LIVE: Cell<isize> = const { Cell::new(0) });

fn add(bytes: isize) {
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes a value, and compares the requested bytes with its reported size.
#[track_caller]
fn exact<T: DeepSize>(make: impl FnOnce() -> T) {
    let before = LIVE.get();
    let value = make();
    let asked = LIVE.get() - before;
    assert_eq!(value.heap_size() as isize, asked);
    assert_eq!(value.deep_size() as isize, asked + size_of::<T>() as isize);
}

#[test]
fn containers_are_counted_exactly() {
    exact(|| 7u32);
    exact(|| vec![[0u8; 64]; 100]);
    exact(|| Vec::<u64>::with_capacity(13));
    exact(|| "text".to_owned());
    exact(|| vec!["one".to_owned(), String::with_capacity(50)]);
    exact(|| Box::new([0u32; 9]));
    exact(|| Box::<str>::from("boxed"));
    exact(|| vec![1u16, 2, 3].into_boxed_slice());
    exact(|| VecDeque::from(vec![1u64; 9]));
    exact(|| BinaryHeap::from(vec![3u8, 1, 2]));
    exact(|| LinkedList::from([1u8, 2, 3]));
    exact(|| Some((String::from("a"), vec![Some(Box::new(1u8)), None])));
    exact(|| Rc::new(String::from("alone")));
    exact(|| Arc::<str>::from("shared by nobody"));
    exact(|| Arc::new([0u128; 3]));
    exact(|| std::path::PathBuf::from("/some/where"));
    exact(|| std::ffi::CString::from(c"zero ended"));
    exact(|| RefCell::new(vec![1u8; 5]));
    exact(|| Mutex::new(vec![1u8; 5]));
    exact(|| Ok::<Vec<u8>, String>(vec![0; 3]));
    exact(|| std::borrow::Cow::<str>::Owned("owned".to_owned()));
    exact(|| Box::pin(vec![1u8; 12]));
    exact(BTreeMap::<u8, u8>::new);
}

#[test]
fn hash_tables_are_counted_exactly_at_every_size() {
    for length in [0, 1, 3, 4, 7, 8, 14, 15, 28, 29, 100, 1000, 5000] {
        exact(|| (0..length).map(|key| (key, ())).collect::<HashMap<u32, ()>>());
        exact(|| (0..length).map(|key| (u64::from(key), key as u8)).collect::<HashMap<u64, u8>>());
        exact(|| (0..length).collect::<HashSet<u32>>());
        exact(|| (0..length).map(|key| (key.to_string(), vec![key; 3])).collect::<HashMap<String, Vec<u32>>>());
    }
}

#[test]
fn trees_are_estimated_within_a_third() {
    for length in [1u64, 11, 50, 1000, 20_000] {
        let before = LIVE.get();
        let mut tree: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        for key in 0..length {
            tree.insert(key * 7919 % 100_003, [key; 3]);
        }
        let asked = (LIVE.get() - before) as f64;
        let said = tree.heap_size() as f64;
        assert!((0.66..1.5).contains(&(said / asked)), "{length}: {said} of {asked}");
    }
}

#[test]
fn what_is_shared_counts_once() {
    let shared = Rc::new(vec![0u8; 100]);
    let other = Rc::clone(&shared);
    assert_eq!((shared.heap_size(), other.heap_size()), (0, 0));
    drop(other);
    assert_eq!(shared.heap_size(), 16 + 24 + 100);
}
