//! Heap snapshots of V8 in every command, from the user's point of view.

mod support;

use std::path::PathBuf;
use support::Place;

/// A directory with two snapshots of a page that leaks between them.
fn with_snapshots() -> Place {
    let place = Place::new();
    for name in ["before", "after"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../image/tests/fixtures/v8/{name}.heapsnapshot.zst"));
        let file = std::fs::File::open(path).expect("a fixture");
        place.write(&format!("{name}.heapsnapshot"), zstd::decode_all(file).expect("unpacked"));
    }
    place
}

/// What a command prints that must succeed.
fn printed(place: &Place, line: &str) -> String {
    let run = place.highwater(line);
    assert_eq!(run.code, 0, "{line}: {run:?}");
    run.stdout
}

#[test]
fn a_snapshot_is_shown_by_every_command_that_shows_images() {
    let place = with_snapshots();
    let heap = place.json("image heap before.heapsnapshot");
    assert_eq!((heap["lens"].as_str(), heap["live_bytes"].as_u64()), (Some("v8-heapsnapshot"), Some(785_782)));
    let titles: Vec<&str> =
        heap["highlights"].as_array().expect("tables").iter().filter_map(|table| table["title"].as_str()).collect();
    assert_eq!(titles, ["detached nodes", "strings", "closures"]);
    let text = printed(&place, "image heap before.heapsnapshot");
    for part in ["constructor", "Detached <div>", "keeps"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let account = heap["shapes"].as_array().expect("shapes").iter().find(|shape| shape["shape"] == "Account");
    assert_eq!(account.map(|shape| &shape["kind"]), Some(&"object".into()));

    let diff = place.json("image diff before.heapsnapshot after.heapsnapshot");
    assert!(diff["grown"][0]["path"].as_str().is_some_and(|path| path.ends_with(".leaked")), "{}", diff["grown"][0]);
    let id = diff["grown"][0]["object"].as_str().expect("an object");
    let shown = place.json(&format!("image show after.heapsnapshot {id} --depth 2"));
    assert!(shown["object"]["value"].as_str().is_some_and(|value| value.contains("[0] Request @")), "{shown}");
    let text = printed(&place, "image diff before.heapsnapshot after.heapsnapshot");
    let first = text.lines().skip_while(|line| !line.contains("where it grew")).nth(2).expect("a row");
    assert!(first.contains("Array") && first.contains(".leaked"), "{text}");
}

#[test]
fn a_snapshot_is_read_like_a_recording() {
    let place = with_snapshots();
    let report = place.json("report before.heapsnapshot");
    assert_eq!(report["totals"]["live_bytes"].as_u64(), Some(785_782));
    let diff = printed(&place, "diff before.heapsnapshot after.heapsnapshot");
    assert!(diff.contains("Array"), "{diff}");
    printed(&place, "export before.heapsnapshot --to flamegraph -o flame.svg");
    printed(&place, "import before.heapsnapshot -o before.hw");
    assert_eq!(place.json("report before.hw")["totals"]["live_bytes"].as_u64(), Some(785_782));
}

#[test]
fn what_needs_bytes_refuses_a_snapshot_in_one_line() {
    let place = with_snapshots();
    place.highwater("image edit before.heapsnapshot a=1 -o b.img").is_one_clear_line_about(&["heap dump", "no bytes"]);
    place.highwater("image heap before.heapsnapshot --module a.wasm").is_one_clear_line_about(&["no module"]);
    place.highwater("image show before.heapsnapshot @999999999").is_one_clear_line_about(&["@999999999"]);
    place.write("cut.heapsnapshot", b"{\"snapshot\":{\"meta\":{}}");
    place.highwater("image heap cut.heapsnapshot").is_one_clear_line_about(&["cut.heapsnapshot", "byte"]);
}
