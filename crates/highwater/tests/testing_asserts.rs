//! Assertions on memory, and what they say when they fail.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::testing;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);

/// The message of a failed assertion; the line of each frame is shown as `LINE`.
fn failure(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it fails");
    let text = panic.downcast_ref::<String>().expect("a message");
    let lines = text.lines().map(|line| match line.rsplit_once(':') {
        Some((before, number)) if number.parse::<u32>().is_ok() => format!("{before}:LINE"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[inline(never)]
fn remember(bytes: usize) {
    std::mem::forget(black_box(Vec::<u8>::with_capacity(bytes)));
}

#[inline(never)]
fn remember_twice() {
    remember(1024);
    remember(1024);
    black_box(());
}

#[test]
fn leaks_fail_with_their_sites() {
    testing::assert_no_leaks(|| String::from("returned, and dropped"));
    let text = failure(|| testing::assert_no_leaks(remember_twice));
    assert!(text.starts_with("2.0 KiB in 2 blocks left over\n  1.0 KiB in 1 block: "), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].contains("remember  ") && lines[1].ends_with("testing_asserts.rs:LINE"), "{text}");
    assert!(lines[2].starts_with("      by ") && lines[2].contains("remember_twice  "), "{text}");
    let summary = "in all: 2 allocations, 0 freed; 2.0 KiB allocated, peak 2.0 KiB, left over 2.0 KiB";
    assert!(text.ends_with(summary), "{text}");
    assert!(!text.contains("highwater::"), "{text}");
}

#[test]
fn growth_of_an_older_block_is_left_over() {
    let mut older = Vec::<u8>::with_capacity(8);
    let text = failure(|| testing::assert_no_leaks(|| older.reserve_exact(1032)));
    assert!(
        text.starts_with("1.0 KiB more in blocks from before left over\n  1.0 KiB more in blocks from before: "),
        "{text}"
    );
}

#[test]
fn a_peak_fails_with_what_was_live() {
    assert_eq!(testing::assert_peak_at_most("4 KiB", || vec![0u8; 4096].len()), 4096);
    assert_eq!(testing::assert_peak_at_most(4096, || vec![0u8; 4096].len()), 4096);
    let text = failure(|| {
        testing::assert_peak_at_most("4 KiB", || {
            drop(black_box(Vec::<u8>::with_capacity(4000)));
            black_box(Vec::<u8>::with_capacity(5120)).len()
        });
    });
    let expected =
        "peak of 5.0 KiB, 1.0 KiB more than the limit of 4.0 KiB; live at that moment:\n  5.0 KiB in 1 block: ";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(text.matches(" in 1 block").count(), 1, "what was freed before is not shown: {text}");
}

#[test]
fn allocations_fail_with_their_number() {
    testing::assert_allocations_at_most(2, || drop(black_box([Box::new(1), Box::new(2)])));
    testing::assert_no_allocations(|| black_box([1, 2, 3]).iter().sum::<i32>());
    let text = failure(|| {
        testing::assert_allocations_at_most(2, || drop(black_box([Box::new(1u64), Box::new(2), Box::new(3)])));
    });
    assert!(text.starts_with("3 allocations, the limit is 2\n"), "{text}");
    let mut older = Vec::<u8>::with_capacity(8);
    let text = failure(|| testing::assert_no_allocations(|| older.reserve_exact(100)));
    assert!(text.starts_with("1 reallocation, none is allowed\n  1 reallocation (92 B): "), "{text}");
}

#[test]
fn the_panic_is_located_where_the_assertion_stands() {
    let default = std::panic::take_hook();
    let (sender, receiver) = std::sync::mpsc::channel();
    let own_thread = std::thread::current().id();
    let sender = std::sync::Mutex::new(sender);
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == own_thread {
            let _ = sender.lock().unwrap().send(info.location().map(|at| (at.file().to_owned(), at.line())));
        } else {
            default(info);
        }
    }));
    let line = line!() + 1;
    let _ = catch_unwind(|| testing::assert_no_leaks(|| remember(10)));
    let _ = catch_unwind(|| testing::assert_no_growth(16, || remember(10)));
    drop(std::panic::take_hook());
    let located: Vec<_> = receiver.try_iter().flatten().collect();
    assert_eq!(located.len(), 2);
    assert!(located[0].0.ends_with("testing_asserts.rs"));
    assert_eq!([located[0].1, located[1].1], [line, line + 1]);
}

#[test]
fn output_that_the_test_harness_keeps_is_no_leak() {
    testing::assert_no_leaks(|| println!("kept by the test harness: {}", "text ".repeat(1000)));
}

/// Its text leaks while it is printed, or only passes through.
struct Shown {
    leaks: bool,
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.leaks {
            remember(4096);
            String::leak("text ".repeat(1000));
        }
        write!(f, "{:>5000}", "wide")
    }
}

#[test]
fn what_is_allocated_while_output_is_made_counts() {
    testing::assert_no_leaks(|| println!("{}", Shown { leaks: false }));
    testing::assert_no_leaks(|| eprintln!("{:?}", vec![Some("text"); 1000]));
    let text = failure(|| testing::assert_no_leaks(|| println!("{}", Shown { leaks: true })));
    assert!(text.contains("  4.0 KiB in 1 block: ") && text.contains("remember  "), "{text}");
    assert!(text.starts_with("8.9 KiB in 2 blocks left over\n"), "{text}");
}

#[test]
fn growth_fails_with_its_site_and_its_rounds() {
    let mut sessions = Vec::with_capacity(1000);
    let text = failure(|| {
        testing::assert_no_growth(16, || {
            sessions.push(black_box(Vec::<u8>::with_capacity(512)));
            drop(black_box(Vec::<u8>::with_capacity(9999)));
        });
    });
    assert!(text.starts_with("memory grows from round to round, at 1 site\n  8.0 KiB after 16 rounds: "), "{text}");
    let (first, last) =
        ("512 B, 1.0 KiB, 1.5 KiB, 2.0 KiB, 2.5 KiB, 3.0 KiB", "5.5 KiB, 6.0 KiB, 6.5 KiB, 7.0 KiB, 7.5 KiB, 8.0 KiB");
    assert!(text.contains(&format!("\n      round by round: {first}, …, {last}\n")), "{text}");
}

/// Holds that one more element in each round is growth, for any number of rounds.
fn one_element_each_round_is_growth<C: Default>(what: &str, mut add: impl FnMut(&mut C, u64)) {
    for rounds in [16, 17, 19, 22, 23, 24, 29, 32, 33, 48] {
        let (mut collection, mut number) = (C::default(), 0);
        let grown = catch_unwind(AssertUnwindSafe(|| {
            testing::assert_no_growth(rounds, || {
                number += 1;
                add(&mut collection, number);
            });
        }));
        assert!(grown.is_err(), "{what}, {rounds} rounds");
    }
}

#[test]
fn collections_that_grow_now_and_then_are_growth() {
    let scattered = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    one_element_each_round_is_growth("Vec<u64>", |numbers: &mut Vec<u64>, number| numbers.push(number));
    one_element_each_round_is_growth("Vec<u8>", |bytes: &mut Vec<u8>, _| bytes.push(1));
    one_element_each_round_is_growth("Vec of large ones", |blocks: &mut Vec<[u8; 2000]>, _| blocks.push([1; 2000]));
    one_element_each_round_is_growth("String", |text: &mut String, _| text.push('x'));
    one_element_each_round_is_growth("VecDeque", |queue: &mut VecDeque<u64>, number| queue.push_back(number));
    one_element_each_round_is_growth("BinaryHeap", |heap: &mut BinaryHeap<u64>, number| heap.push(number));
    one_element_each_round_is_growth("LinkedList", |list: &mut LinkedList<u64>, number| list.push_back(number));
    one_element_each_round_is_growth("HashMap", |map: &mut HashMap<u64, u64>, number| _ = map.insert(number, 1));
    one_element_each_round_is_growth("HashSet<u8>", |set: &mut HashSet<u8>, number| _ = set.insert(number as u8));
    one_element_each_round_is_growth("BTreeMap, ascending", |map: &mut BTreeMap<u64, u8>, number| {
        _ = map.insert(number, 1)
    });
    one_element_each_round_is_growth("BTreeMap, descending", |map: &mut BTreeMap<u64, u8>, number| {
        map.insert(u64::MAX - number, 1);
    });
    one_element_each_round_is_growth("BTreeMap, scattered", |map: &mut BTreeMap<u64, u8>, number| {
        map.insert(scattered(number), 1);
    });
    one_element_each_round_is_growth("BTreeSet<u8>", |set: &mut BTreeSet<u8>, number| _ = set.insert(number as u8));
}

/// The limit that the documentation names.
#[test]
fn a_vector_with_room_for_all_rounds_is_no_growth() {
    let mut numbers = Vec::with_capacity(100);
    testing::assert_no_growth(32, || numbers.push(1));
}

#[test]
fn caches_and_what_comes_and_goes_are_no_growth() {
    for (rounds, entries) in [(16, 8), (32, 16), (33, 16), (32, 3)] {
        let (mut cache, mut tree, mut list) = (HashMap::new(), BTreeMap::new(), Vec::new());
        let mut round = 0usize;
        testing::assert_no_growth(rounds, || {
            round += 1;
            // Filled in the first half.
            let key = round.min(entries);
            cache.entry(key).or_insert_with(|| vec![0u8; 100]);
            tree.entry(key).or_insert_with(|| String::from("kept"));
            if round <= entries {
                list.push(round);
            }
            // Of another size each time.
            drop(black_box(vec![0u8; round * 1000]));
        });
    }
    let mut buffer = Vec::new();
    testing::assert_no_growth(16, || {
        buffer = vec![0u8; [100, 300, 200][buffer.len() / 100 % 3]];
    });
    let too_few = failure(|| testing::assert_no_growth(15, || ()));
    assert_eq!(too_few, "growth shows in 16 rounds or more, these are 15");
}

#[highwater::test(max_peak = "4 KiB", max_bytes = 100_000, max_block = "2 KiB", max_allocations = 3, no_leaks)]
fn a_test_within_its_limits_passes() {
    drop(black_box([vec![0u8; 2048], vec![0u8; 2048]]));
}

#[highwater::test(no_allocations)]
fn a_test_may_return_a_result() -> Result<(), std::fmt::Error> {
    Ok(())
}

#[highwater::test(max_allocations = 1)]
#[should_panic(expected = "2 allocations, the limit is 1")]
fn a_test_with_too_many_allocations_fails() {
    drop(black_box([Box::new(1), Box::new(2)]));
}

#[highwater::test(max_block = "1 KiB", max_bytes = "1 KiB")]
#[should_panic(expected = "a block of 2.0 KiB, 1.0 KiB more than the limit of 1.0 KiB")]
fn a_test_with_a_large_block_fails() {
    drop(black_box(vec![0u8; 2048]));
}

#[highwater::test(max_block = "1 KiB", max_bytes = "1 KiB", max_allocations = 0)]
fn the_buffer_of_captured_output_is_no_large_block() {
    println!("{}", "a long line ");
    println!("{:>10000}", "wide");
}

#[highwater::test(max_block = "1 KiB")]
#[should_panic(expected = "a block of 2.0 KiB, 1.0 KiB more than the limit of 1.0 KiB\n  2.0 KiB: ")]
fn a_large_block_beside_captured_output_is_named() {
    drop(black_box(vec![0u8; 2048]));
    println!("{:>10000}", "wide");
}

#[highwater::test(max_bytes = "1 KiB")]
#[should_panic(expected = "3.0 KiB allocated, 2.0 KiB more than the limit of 1.0 KiB")]
fn a_test_with_many_bytes_fails() {
    drop(black_box(vec![0u8; 1024]));
    drop(black_box(vec![0u8; 2048]));
}

#[highwater::test(no_leaks)]
#[should_panic(expected = "the test's own panic")]
fn the_panic_of_a_test_goes_before_its_limits() {
    remember(100);
    panic!("the test's own panic");
}

#[highwater::test(no_leaks)]
#[ignore = "never run"]
fn an_ignored_test_is_not_run() {
    remember(100);
}

#[test]
fn the_error_of_a_test_goes_before_its_limits() {
    let limits = testing::Limits { no_leaks: true, ..Default::default() };
    let failed: Result<(), String> = testing::run_test(&limits, || Err(String::from("its own error")));
    assert_eq!(failed, Err(String::from("its own error")));
}
