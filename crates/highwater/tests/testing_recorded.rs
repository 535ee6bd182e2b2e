//! A program that records itself and measures at the same time: neither sees the other.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::testing;
use highwater_model::When;
use highwater_store::Recording;
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);

fn work() -> Vec<Vec<u8>> {
    (0..1000).map(|size| black_box(Vec::with_capacity(100_000 + size))).collect()
}

#[test]
fn a_recording_and_a_measure_count_the_same() {
    let path = std::env::temp_dir().join(format!("highwater-test-{}-measured.hw", std::process::id()));
    highwater::record_to(&path).unwrap();
    highwater::mark("before");
    let used = testing::measure(work);
    highwater::mark("after");
    highwater::stop_recording().unwrap();
    let recording = Recording::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let at = |mark: &str| recording.snapshot(&When::Mark(mark.to_owned())).unwrap();
    let figures = [at("before"), at("after")].map(|snapshot| snapshot.accounts.totals().figures);
    let [before, after] = figures;
    assert_eq!((used.allocations, used.live_blocks), (1001, 1001));
    let between = [after.allocations - before.allocations, after.live_blocks() - before.live_blocks()];
    // The copies of the measure's figures are the only blocks beside those of the work.
    assert!(between[0] >= used.allocations && between[0] < used.allocations + 20, "{between:?}");
    assert!(between[1] >= used.live_blocks && between[1] < used.live_blocks + 20, "{between:?}");
    let live = after.live_bytes() - before.live_bytes();
    assert!(live >= used.live_bytes && live < used.live_bytes + 10_000, "{live} and {}", used.live_bytes);
}
