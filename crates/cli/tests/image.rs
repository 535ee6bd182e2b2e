//! `highwater image`, and images in other commands, from the user's point of view.

mod support;

use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use support::Place;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../image/tests/fixtures").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(fixture(name)).expect(name);
    if name.ends_with(".gz") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes).expect("unpacked");
        return bytes;
    }
    zstd::decode_all(file).expect("unpacked")
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(&format!("motoko/{name}.expected.json"))).expect("read"))
        .expect("JSON")
}

/// A directory with three images of one program, its module, and sidecars that name it.
fn with_ledgers() -> Place {
    let place = Place::new();
    place.write("ledger.wasm", unpacked("motoko/ledger.wasm.zst"));
    for number in 1..=3 {
        place.write(&format!("ledger-{number}.img"), unpacked(&format!("motoko/ledger-{number}.img.zst")));
        let sidecar = r#"{"version":1,"module":{"name":"ledger.wasm"},"calls":["open(100)"]}"#;
        place.write(&format!("ledger-{number}.img.json"), sidecar);
    }
    place
}

#[test]
fn the_figures_of_every_motoko_image_are_in_the_document() {
    let place = Place::new();
    for name in ["ledger-1", "ledger-2", "ledger-3", "ropes-1", "ropes-2", "zoo-1", "ledger32-1", "ledger32-2"] {
        place.write("a.img", unpacked(&format!("motoko/{name}.img.zst")));
        place.write("a.wasm", unpacked(&format!("motoko/{}.wasm.zst", name.split('-').next().expect("a name"))));
        let document = place.json("image heap a.img --module a.wasm");
        let expected = expected(name);
        for (list, count, bytes) in
            [("all_by_kind", "count", "bytes"), ("reachable_by_kind", "live_count", "live_bytes")]
        {
            let known = expected["derived"][list].as_object().expect("kinds");
            for (kind, figures) in known {
                let found =
                    document["kinds"].as_array().expect("kinds").iter().find(|entry| entry["kind"] == kind.as_str());
                let found = found.unwrap_or_else(|| panic!("{name}: {kind}"));
                assert_eq!((&found[count], &found[bytes]), (&figures["count"], &figures["bytes"]), "{name}: {kind}");
            }
        }
        assert_eq!(document["walked_bytes"], expected["derived"]["all_bytes"], "{name}");
        assert_eq!(document["heap_bytes"], document["walked_bytes"], "{name}");
        assert_eq!(document["occupied_heap_size"], expected["metadata"]["occupied_heap_size"], "{name}");
        assert_eq!(document["totals"]["live_bytes"], expected["derived"]["reachable_bytes"], "{name}");
        assert_eq!(document["source"]["kind"], "image");
        assert_eq!(document["damage_count"], 0);
    }
}

#[test]
fn three_images_of_a_leaking_program_name_the_leak() {
    let place = with_ledgers();
    let run = place.highwater("image diff ledger-1.img ledger-2.img ledger-3.img");
    run.stdout_has(&[
        "'tree' keeps more in each image: 20.2 KiB, 116.4 KiB, 477.4 KiB.",
        "each time",
        "tree#node.right",
    ]);
    let document = place.json("image diff ledger-1.img ledger-2.img ledger-3.img");
    assert_eq!((&document["roots"][0]["name"], &document["roots"][0]["keeps_growing"]), (&"tree".into(), &true.into()));
    let shapes = document["shapes"].as_array().expect("shapes");
    let accounts = shapes.iter().find(|shape| shape["shape"] == "{balance, id, owner, tier}").expect("accounts");
    assert_eq!(accounts["count"], serde_json::json!([100, 500, 2000]));
    let same = place.json("image diff ledger-1.img ledger-1.img");
    assert_eq!(
        (&same["came"]["count"], &same["went"]["count"], &same["shapes"]),
        (&0.into(), &0.into(), &Value::Array(Vec::new()))
    );
}

#[test]
fn an_imported_image_is_a_snapshot_with_the_same_figures() {
    let place = with_ledgers();
    place.highwater("import ledger-3.img -o ledger.hw").stdout_has(&["ledger.hw: a snapshot of", "blocks"]);
    assert_eq!(place.json("info ledger.hw")["file"]["kind"], "snapshot");
    let totals = |file: &str| place.json(&format!("report {file}"))["totals"].clone();
    assert_eq!(totals("ledger.hw"), totals("ledger-3.img"));
}

#[test]
fn an_image_is_a_snapshot_for_every_other_command() {
    let place = with_ledgers();
    place.highwater("report ledger-3.img --top 2").stdout_has(&[
        "of ledger.wasm",
        "{account, key, left, right}",
        "← tree",
    ]);
    // An image has no history, and no figure suggests otherwise.
    for metric in ["peak", "allocated", "allocations", "temporary"] {
        let report = place.highwater(&format!("report ledger-3.img --metric {metric}"));
        report.is_one_clear_line_about(&["a memory image knows what is live", "--metric live"]);
    }
    let types = place.json("report ledger-3.img --by type");
    for (name, value) in types["totals"].as_object().unwrap() {
        assert_eq!(value.is_null(), !name.starts_with("live_"), "{name}: {value}");
    }
    let accounts =
        types["types"].as_array().expect("types").iter().find(|entry| entry["type"] == "{balance, id, owner, tier}");
    assert_eq!(accounts.expect("accounts")["live_objects"], 2000);
    place.highwater("diff ledger-1.img ledger-3.img").stdout_has(&["+457.2 KiB", "grew"]);
    place.highwater("info ledger-3.img").stdout_has(&["memory image, 9.2 MiB", "a memory image", "open(100)"]);
    place.highwater("check ledger-3.img").stdout_has(&["sound"]);
    place.highwater("leaks ledger-3.img").stdout_has(&["tree"]);
    let folded = place.highwater("export ledger-3.img --to folded -o -").stdout;
    assert!(folded.lines().any(|line| line == "tree;#node;{account, key, left, right} 112000"), "{folded}");
    for format in ["pprof", "flamegraph", "json"] {
        let run = place.highwater(&format!("export ledger-3.img --to {format} --force -o out"));
        assert_eq!(run.code, 0, "{format}: {}", run.stderr);
    }
}

#[test]
fn values_are_shown_as_the_language_writes_them() {
    let place = Place::new();
    place.write("zoo.wasm", unpacked("motoko/zoo.wasm.zst"));
    place.write("zoo.img", unpacked("motoko/zoo-1.img.zst"));
    let show = |what: &str| place.run(["image", "show", "zoo.img", what, "--module", "zoo.wasm"]);
    show("cells.head").stdout_has(&[
        "big = 340282366920938463463374607431768211464;",
        "flag = true;",
        "i16 = -30000 : Int16;",
        "i64big = -9223372036854775808 : Int64;",
        "letter = 'é';",
        "n64big = 18446744073709551615 : Nat64;",
        "neg = -1000008;",
        "nestedNull = ?(null);",
        "ratio = 0.125;",
        "raw = \"\\CA\\FE\\BA\\BE\\00\\01\\02\";",
        "who = Principal \"\\00\\00\\00\\00\\00\\00\\00\\2A\\01\\01\"",
        "1 reference to it",
    ]);
    show("cells.tail.head.shape").stdout_has(&["#poly [(0, 0), (10, 0), (10, -10)]"]);
    show("cells.tail.tail.head.shape").stdout_has(&["#rect (2.0, 3.25)"]);
    show("cells.nothing").is_one_clear_line_about(&["zoo.img", "has no field 'nothing'; it has: head, tail"]);
    show("sells").is_one_clear_line_about(&["begins with no root", "cells", "length"]);
    place.write("ropes.wasm", unpacked("motoko/ropes.wasm.zst"));
    place.write("ropes.img", unpacked("motoko/ropes-2.img.zst"));
    place
        .highwater("image show ropes.img document --module ropes.wasm")
        .stdout_has(&["\"<chunk 0 of the rope><chunk 1 of the rope>", "(2305 bytes)"]);
    place.highwater("image show ropes.img title --module ropes.wasm").stdout_has(&["\"The Rope Document\""]);
}

#[test]
fn a_value_is_changed_where_it_fits_and_nobody_else_sees_it() {
    let place = with_ledgers();
    let edit = |change: &str| place.run(["image", "edit", "ledger-3.img", change, "--force", "-o", "new.img"]);
    let run = edit("totalBalance=7");
    assert_eq!((run.code, run.stdout.as_str()), (0, "new.img: totalBalance was 19990000, is 7\n"));
    place.highwater("image show new.img totalBalance").stdout_has(&["\n7\n"]);
    let (old, new) =
        (std::fs::read(place.file("ledger-3.img")).expect("old"), std::fs::read(place.file("new.img")).expect("new"));
    assert_eq!(old.len(), new.len());
    let changed: Vec<usize> = (0..old.len()).filter(|at| old[*at] != new[*at]).collect();
    assert!(!changed.is_empty() && changed.iter().all(|at| (0x50_08f8..0x50_0900).contains(at)), "{changed:x?}");
    assert!(place.file("new.img.json").is_file(), "the sidecar goes with it");
    edit("tree#node.account.owner=\"owner-7\"").stdout_has(&["was \"owner-0\", is \"owner-7\""]);
    edit("tree#node.account.balance=3").stdout_has(&["was 0, is 3"]);
    edit("tree#node.account.balance=-3").is_one_clear_line_about(&["it is a Nat, and '-3' is none"]);
    edit("tree#node.account.owner=\"owner-77\"").stdout_has(&["was \"owner-0\", is \"owner-77\""]);
    place.highwater("image show new.img tree#node.account.owner").stdout_has(&["\n\"owner-77\"\n"]);
    edit("totalBalance=99999999999999999999").stdout_has(&["was 19990000, is 99999999999999999999"]);
    place.highwater("image show new.img totalBalance").stdout_has(&["\n99999999999999999999\n"]);
    let heap = place.json("image heap new.img");
    assert_eq!(heap["walked_bytes"], heap["heap_bytes"], "every byte is accounted for");
    edit("totalBalance=many").is_one_clear_line_about(&["'many' is no whole number"]);
    edit("tree=7").is_one_clear_line_about(&["it has parts", "name one of them"]);
    assert_eq!(edit("totalBalance").code, 2);
    let run = place.run(["image", "edit", "ledger-3.img", "totalBalance=7", "-o", "ledger-3.img"]);
    run.is_one_clear_line_about(&["is the image itself"]);
}

#[test]
fn what_does_not_fit_or_is_shared_gets_a_new_object() {
    let place = Place::new();
    place.write("zoo.wasm", unpacked("motoko/zoo.wasm.zst"));
    place.write("zoo.img", unpacked("motoko/zoo-1.img.zst"));
    let edit = |change: &str| {
        place.run(["image", "edit", "zoo.img", change, "--force", "-o", "new.img", "--module", "zoo.wasm"])
    };
    // All cells share one constant blob.
    edit("cells.head.raw=\\01\\02\\03\\04\\05\\06\\07").stdout_has(&["is \\01\\02\\03\\04\\05\\06\\07"]);
    place
        .highwater("image show new.img cells.head.raw --module zoo.wasm")
        .stdout_has(&["\"\\01\\02\\03\\04\\05\\06\\07\""]);
    place
        .highwater("image show new.img cells.tail.head.raw --module zoo.wasm")
        .stdout_has(&["\"\\CA\\FE\\BA\\BE\\00\\01\\02\""]);
    edit("cells.head.n8=300").is_one_clear_line_about(&["300 does not fit"]);
    edit("cells.head.n8=201").stdout_has(&["was 200 : Nat8, is 201"]);
    edit("cells.head.flag=false").stdout_has(&["was true, is false"]);
    edit("cells.head.letter='ü'").stdout_has(&["was 'é', is 'ü'"]);
    edit("cells.head.big=340282366920938463463374607431768211457")
        .stdout_has(&["is 340282366920938463463374607431768211457"]);
    place
        .highwater("image show new.img cells.head.big --module zoo.wasm")
        .stdout_has(&["\n340282366920938463463374607431768211457\n"]);
    edit("cells.head.nothing=7").stdout_has(&["was null, is 7"]);
    let run = place.run(["image", "edit", "zoo.img", "static[20].head.nothing=7", "-o", "other.img"]);
    run.is_one_clear_line_about(&["it is null, and only the program knows its type; write it with one: '7 : Nat'"]);
    let run = place.run(["image", "edit", "zoo.img", "static[20].head.nothing=7 : Nat", "-o", "other.img"]);
    run.stdout_has(&["was null, is 7"]);
    edit("cells.head.unit=true").is_one_clear_line_about(&["it is (), which has no other value"]);
    edit("cells.head.shape#point=true").is_one_clear_line_about(&["it is (), which has no other value"]);
}

#[test]
fn a_classical_image_is_changed_as_well() {
    let place = Place::new();
    place.write("a.wasm", unpacked("motoko/ledger32.wasm.zst"));
    place.write("a.img", unpacked("motoko/ledger32-2.img.zst"));
    place.highwater("image show a.img totalBalance --module a.wasm").stdout_has(&["\n1247500\n"]);
    place.highwater("image edit a.img totalBalance=8 -o b.img --module a.wasm").stdout_has(&["was 1247500, is 8"]);
    place.highwater("image show b.img totalBalance --module a.wasm").stdout_has(&["\n8\n"]);
}

#[test]
fn chunks_of_c_and_rust_programs_are_reported_and_compared() {
    let place = Place::new();
    place.write("a.wasm", unpacked("wasm/leaky_rs.wasm.zst"));
    place.write("1.img", unpacked("wasm/leaky_rs.mem1.gz"));
    place.write("3.img", unpacked("wasm/leaky_rs.mem3.gz"));
    let document = place.json("image heap 3.img --module a.wasm");
    assert_eq!((&document["lens"], &document["chunks"]["live"]), (&"dlmalloc".into(), &293.into()));
    assert_eq!(document["walked_bytes"], document["heap_bytes"]);
    assert_eq!(document["totals"]["live_blocks"], 293);
    place.highwater("image heap 3.img").stdout_has(&["dlmalloc of Rust", "size of chunk", "fragmentation"]);
    let run = place.highwater("image diff 1.img 3.img --module a.wasm");
    run.stdout_has(&["new objects", "chunk of 520 bytes", "41 41 41 41", "text of"]);
    place.highwater("image show 3.img 0x18ea98").stdout_has(&["chunk of 520 bytes at 0x18ea90", "|AAAAAAAAAAAAAAAA|"]);
    place.highwater("report 3.img --by type").stdout_has(&["chunk of 520 bytes"]);
    place.highwater("image diff 1.img a.wasm").is_one_clear_line_about(&["a.wasm", "no heap is found"]);
}

#[test]
fn chunks_that_nothing_refers_to_are_leaked() {
    let place = Place::new();
    let mut bytes = unpacked("wasm/leaky_rs.mem3.gz");
    // Only the program's own list of its blocks refers to them.
    let document: Value =
        serde_json::from_slice(&std::fs::read(fixture("wasm/leaky_rs.expected.json")).expect("read")).expect("JSON");
    let victim = &document["dumps"][2]["live"][5];
    let (address, size) = (victim[0].as_u64().expect("an address") as u32, victim[1].as_u64().expect("a size") as u32);
    for word in bytes.chunks_exact_mut(4) {
        let target = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if (address..=address + size + 16).contains(&target) {
            word.fill(0);
        }
    }
    place.write("a.img", bytes);
    let document = place.json("image heap a.img");
    assert_eq!((&document["chunks"]["leaked"], &document["chunks"]["live"]), (&1.into(), &293.into()));
    place.highwater("image heap a.img").stdout_has(&["leaked", "to which nothing seems to refer"]);
    place.highwater("report a.img --filter nothing").stdout_has(&["(nothing refers to it)"]);
}

#[test]
fn a_mostly_empty_memory_of_4_gib_is_cheap() {
    let place = with_ledgers();
    let file = std::fs::File::create(place.file("sparse.img")).expect("a file");
    file.set_len(4 << 30).expect("a long file");
    let image = std::fs::read(place.file("ledger-1.img")).expect("an image");
    file.write_all_at(&image[0x40_0000..], 0x40_0000).expect("written");
    let document = place.json("image heap sparse.img --module ledger.wasm");
    assert_eq!(document["live_bytes"], expected("ledger-1")["derived"]["reachable_bytes"]);
    assert!(document["data_bytes"].as_u64() < Some(4 << 20), "{}", document["data_bytes"]);
    place.highwater("image edit sparse.img totalBalance=7 -o new.img --module ledger.wasm").stdout_has(&["is 7"]);
    let taken = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(place.file("new.img")).expect("there")) * 512;
    assert!(taken < 4 << 20, "{taken}: holes stay holes");
}

#[test]
fn damage_is_told_and_the_rest_is_used() {
    let place = with_ledgers();
    let mut bytes = std::fs::read(place.file("ledger-3.img")).expect("an image");
    bytes[0x60_0000..0x60_1000].fill(0);
    place.write("broken.img", &bytes);
    let run = place.highwater("image heap broken.img --module ledger.wasm");
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("warning: broken.img: zeros where objects should be"), "{}", run.stderr);
    run.stdout_has(&["damage", "{account, key, left, right}"]);
    place.highwater("image heap broken.img --strict").is_one_clear_line_about(&["broken.img", "damaged"]);
    place.highwater("report broken.img --strict").is_one_clear_line_about(&["broken.img", "damaged"]);
    assert_eq!(place.highwater("report broken.img").code, 0);
    let run = place.highwater("image heap ledger-3.img --module broken.img");
    run.is_one_clear_line_about(&["broken.img", "not a WASM module"]);
    place.write("text", "hello, world\n".repeat(1000));
    place.write("empty", "");
    place.highwater("image heap text").is_one_clear_line_about(&["text", "no heap is found"]);
    place.highwater("image heap empty").is_one_clear_line_about(&["empty", "the file is empty"]);
    place.highwater("image heap absent").is_one_clear_line_about(&["absent", "No such file"]);
    place.highwater("report text").is_one_clear_line_about(&["text", "of no known format"]);
}
