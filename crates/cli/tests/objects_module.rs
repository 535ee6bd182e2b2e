//! Object logs together with what else is known of the module: images of its memory, and its types.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::Place;

fn fixture(path: &str) -> Vec<u8> {
    support::viewed::fixture(path)
}

fn with(name: &str) -> (Place, Value) {
    let place = Place::new();
    place.write("console.log", fixture(&format!("formats/tests/fixtures/objlog/{name}.log.zst")));
    for image in 1..=3 {
        place.write(&format!("{image}.img"), fixture(&format!("image/tests/fixtures/wasm/{name}.mem{image}.gz")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../image/tests/fixtures/wasm/{name}.expected.json"));
    (place, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

#[test]
fn the_heap_of_an_image_has_a_chunk_for_each_object_that_the_module_says_is_live() {
    for name in ["leaky_rs", "leaky_c", "clean_rs", "clean_c"] {
        let (place, truth) = with(name);
        let last = &truth["dumps"][2];
        let found = place.json("objects console.log --image 3.img");
        let image = &found["trust"]["images"][0];
        assert_eq!((&image["file"], &image["at"]), (&json!("3.img"), &json!("end")));
        assert_eq!(image["memory_bytes"], last["linear_memory_bytes"], "{name}");
        let number = |member: &str| image[member].as_u64().unwrap();
        // A program in C has a few chunks of its library.
        let (chunks, live) = (number("chunks_in_use"), last["live_objects"].as_u64().unwrap());
        assert!((live..live + 8).contains(&chunks), "{name}: {chunks} chunks for {live} objects");
        assert!(number("in_use_bytes") >= last["live_bytes"].as_u64().unwrap());
        let parts = number("in_use_bytes") + number("free_bytes");
        assert!(parts <= number("heap_bytes") && number("heap_bytes") - parts < 200, "{name}: all but the foot");
        assert!(number("largest_free_bytes") <= number("free_bytes") && number("free_pieces") > 0);
        assert_eq!(found["trust"]["verdict"], "yes", "{name}");
    }
}

#[test]
fn an_image_from_before_is_no_proof_that_the_method_is_at_fault() {
    let (place, _) = with("leaky_rs");
    place.highwater("objects console.log --image 1.img").stdout_has(&["No: ", "older than the log's end"]);
    // With MEMORY lines, the size of the memory shows when the image was taken.
    let log = String::from_utf8(fixture("formats/tests/fixtures/objlog/leaky_rs.log.zst")).unwrap();
    place.write("console.log", format!("@ MEMORY 1638400 a\n{log}@ MEMORY 1835008 b\n"));
    let at = |image: u32| {
        place.json(&format!("objects console.log --image {image}.img"))["trust"]["images"][0]["at"].clone()
    };
    assert_eq!([at(1), at(2), at(3)], [json!("start"), json!("other"), json!("end")]);
    place.highwater("objects console.log --image 2.img").stdout_has(&["another instant", "decides nothing"]);
}

#[test]
fn what_is_no_heap_of_dlmalloc_is_refused_in_one_line() {
    let (place, _) = with("leaky_rs");
    place.write("motoko.img", fixture("image/tests/fixtures/motoko/ledger-1.img.zst"));
    place.write("noise.img", vec![7; 1 << 17]);
    for (image, about) in
        [("motoko.img", "dlmalloc"), ("noise.img", "no heap is found"), ("missing.img", "missing.img")]
    {
        place.highwater(&format!("objects console.log --image {image}")).is_one_clear_line_about(&[image, about]);
    }
    let three = "objects console.log --image 1.img --image 2.img --image 3.img";
    assert_eq!(place.highwater(three).code, 2);
    assert_eq!(place.highwater("objects console.log --image 1.img --follow").code, 2);
}

#[test]
fn the_types_that_a_log_lacks_are_listed_largest_first() {
    let place = Place::new();
    for name in ["owners", "names"] {
        place.write(&format!("{name}.wasm"), fixture(&format!("symbols/tests/fixtures/types/{name}.wasm.zst")));
    }
    place.write("console.log", "@ ALLOCATE 9 src/a.rs:1 Point 0\n@ ALLOCATE 9 src/a.rs:1 prover::Table<u8> 1\n");
    let found = place.json("objects console.log --untracked owners.wasm");
    let untracked = &found["untracked"];
    let types: Vec<_> =
        untracked["types"].as_array().unwrap().iter().map(|row| (&row["type"], &row["size_bytes"])).collect();
    let (proof, message, guard) =
        (json!("owners::prover::Proof"), json!("owners::prover::Message"), json!("owners::prover::Guard"));
    assert_eq!(types, [(&proof, &json!(176)), (&message, &json!(16)), (&guard, &json!(4))]);
    assert_eq!(
        (&untracked["tracked"], &untracked["order"], &untracked["sizes"]),
        (&json!(2), &json!("size"), &json!(true))
    );

    let names = &place.json("objects console.log --untracked names.wasm --top 1")["untracked"];
    assert_eq!((&names["order"], &names["untracked"]), (&json!("functions"), &json!(3)));
    assert_eq!((&names["types"].as_array().unwrap().len(), &names["types"][0]["size_bytes"]), (&1, &json!(null)));
    let run = place.highwater("objects console.log --untracked names.wasm");
    run.stdout_has(&["no DWARF, so no sizes", "dropped types first", "owners::prover::Proof"]);

    place.write("console.log", "@ ALLOCATE 9 a.rs:1 (Point, Table, Proof, Message, Guard) 0\n");
    place.highwater("objects console.log --untracked owners.wasm").stdout_has(&["Nothing: the log has every type"]);
}

#[test]
fn files_without_types_are_refused_in_one_line() {
    let place = Place::new();
    place.write("console.log", "@ ALLOCATE 9 src/a.rs:1 Point 0\n");
    place.write("bare.wasm", b"\0asm\x01\0\0\0");
    let mut cut = fixture("symbols/tests/fixtures/types/owners.wasm.zst");
    cut.truncate(1000);
    place.write("cut.wasm", cut);
    for (module, about) in [
        ("bare.wasm", "neither DWARF nor names"),
        ("cut.wasm", "at byte"),
        ("console.log", "neither a WASM module nor"),
        ("none.wasm", "none.wasm"),
    ] {
        place.highwater(&format!("objects console.log --untracked {module}")).is_one_clear_line_about(&[module, about]);
    }
}
