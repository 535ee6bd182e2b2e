//! Sixteen tests at once, as `cargo test` runs them: each sees its own figures, to the byte.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::testing;
use std::hint::black_box;
use std::process::Command;
use std::sync::Barrier;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);

const TESTS: usize = 16;
const ROUNDS: usize = 300;
/// Set for a run in which all of them have a thread.
const VARIABLE: &str = "HIGHWATER_TEST_SIXTEEN";
static TOGETHER: Barrier = Barrier::new(TESTS);

/// One of the sixteen: what it allocates depends on its number, and so do the figures.
fn one_of_many(number: usize) {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let size = 100 + number;
    // All of them are measuring when the first one begins to allocate, and none ends before the last one has begun.
    let used = testing::measure(|| {
        TOGETHER.wait();
        let mut held = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            held.push(black_box(Vec::<u8>::with_capacity(size)));
            drop(black_box(Vec::<u8>::with_capacity(2 * size)));
            if round % 3 == 0 {
                held[round].reserve_exact(3 * size);
            }
            let inner = testing::measure(|| drop(black_box(Vec::<u8>::with_capacity(number + 1))));
            assert_eq!((inner.allocations, inner.bytes, inner.live_bytes), (1, number as u64 + 1, 0));
        }
        TOGETHER.wait();
        held.truncate(10 + number);
        held
    });
    let (rounds, size, number) = (ROUNDS as u64, size as u64, number as u64);
    assert_eq!((used.allocations, used.reallocations), (1 + 3 * rounds, rounds / 3));
    let list = rounds * size_of::<Vec<u8>>() as u64;
    assert_eq!(used.bytes, list + rounds * (3 * size + number + 1) + rounds / 3 * 3 * size);
    let kept = 10 + number;
    let resized = kept.div_ceil(3);
    assert_eq!((used.live_blocks, used.live_bytes), (1 + kept, list + kept * size + resized * 2 * size));
    assert_eq!(used.frees, 3 * rounds - kept);
    assert_eq!(used.temporary, 2 * rounds);
    assert_eq!(used.largest_block, list);
    testing::assert_no_leaks(|| drop(used.value));
    testing::assert_no_allocations(|| TOGETHER.wait().is_leader());
}

macro_rules! tests {
    ($($name:ident = $number:literal),*) => {
        $(
            #[test]
            #[ignore = "run by sixteen_tests_at_once_do_not_mix"]
            fn $name() {
                one_of_many($number);
            }
        )*
    };
}

tests!(
    many_0 = 0,
    many_1 = 1,
    many_2 = 2,
    many_3 = 3,
    many_4 = 4,
    many_5 = 5,
    many_6 = 6,
    many_7 = 7,
    many_8 = 8,
    many_9 = 9,
    many_10 = 10,
    many_11 = 11,
    many_12 = 12,
    many_13 = 13,
    many_14 = 14,
    many_15 = 15
);

#[test]
fn sixteen_tests_at_once_do_not_mix() {
    let tests = Command::new(std::env::current_exe().unwrap())
        .env(VARIABLE, "1")
        .args(["--ignored", "many_", "--test-threads=16"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&tests.stdout);
    assert!(text.contains("16 passed; 0 failed"), "{text}{}", String::from_utf8_lossy(&tests.stderr));
}
