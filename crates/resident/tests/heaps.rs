//! Heaps of glibc, as programs with known answers have them.

mod scene;

use scene::{Scene, table};

const PAGE: u64 = 4096;

#[test]
fn malloc_trim_returns_what_was_predicted() {
    let mut scene = Scene::start("every_40th", &["0", "1000000", "40", "200"]);
    let breakdown = scene.breakdown();
    let predicted = breakdown.allocator.trim.unwrap();
    let before = scene.rss();
    scene.tell('t');
    let returned = before - scene.rss();
    assert!(predicted > 50 << 20, "{}", table(&breakdown));
    assert!(predicted.abs_diff(returned) <= 4 * PAGE, "predicted {predicted}, returned {returned}");
}
