//! A program whose global allocator is another one: a measure refuses, and does not count nothing.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::testing;
use std::panic::catch_unwind;

#[test]
fn a_measure_says_what_is_missing() {
    let attempts: [fn(); 3] = [
        || drop(testing::measure(|| vec![1])),
        || testing::assert_no_leaks(|| std::mem::forget(vec![1])),
        || testing::assert_no_growth(16, || std::mem::forget(vec![1])),
    ];
    for attempt in attempts {
        let panic = catch_unwind(attempt).unwrap_err();
        let text =
            panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap();
        assert!(text.starts_with("highwater::Alloc is not the global allocator of this program"), "{text}");
        assert!(
            text.contains("#[global_allocator]\n    static ALLOCATOR: highwater::Alloc<std::alloc::System>"),
            "{text}"
        );
    }
}
