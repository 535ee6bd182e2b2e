//! Canister snapshots as folders: every command takes them, what is written can be uploaded, and bad ones are refused in one line.

mod support;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use support::{Place, document};

const BOTH: [&str; 2] = ["regions", "regions32"];

/// An image of a program that has written to stable memory, and the folder of the same state.
fn exported(name: &str) -> Place {
    let place = Place::new();
    place.module(name);
    let mut calls = place.command(["image", "run", &format!("{name}.wasm"), "--snapshot", "a.img"]);
    for call in ["write(\"kept in stable memory\")", "fill(200)", "more()", "more()", "forget()", "more()"] {
        calls.args(["--call", call]);
    }
    let run = support::Run::of(calls.env("XDG_STATE_HOME", place.path()).output().unwrap());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(place.highwater("image export a.img -o d").code, 0);
    place
}

fn read_back(place: &Place, arguments: &str) -> String {
    let run = place.run(arguments.split(' ').chain(["--call", "read(21)"]));
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}

#[test]
fn stable_memory_survives_in_files_and_in_folders() {
    for name in BOTH {
        let place = exported(name);
        let wanted = "read(21) → (4711 : nat64, opt \"kept in stable memory\")\n";
        assert_eq!(read_back(&place, &format!("image run {name}.wasm --load a.img")), wanted);
        assert_eq!(read_back(&place, "image run --load a.img"), wanted, "the module lies beside it");
        assert_eq!(read_back(&place, "image run --load d"), wanted, "the module is in the folder");
        assert_eq!(read_back(&place, &format!("image run {name}.wasm --load d/")), wanted);
        fs::remove_file(place.file("a.img.stable")).unwrap();
        let lost = place.highwater(&format!("image run {name}.wasm --load a.img"));
        lost.is_one_clear_line_about(&["a.img.stable has 0 pages", "784"]);
    }
}

#[test]
fn the_stable_memory_of_a_replaced_image_is_gone() {
    let place = exported("regions");
    place.module("busy");
    let refused = place.highwater("image run busy.wasm --snapshot a.img");
    refused.is_one_clear_line_about(&["a.img exists"]);
    assert_eq!(place.highwater("image run busy.wasm --snapshot a.img --force").code, 0);
    assert!(!place.file("a.img.stable").exists(), "{:?}", place.names());
    assert_eq!(place.highwater("image run busy.wasm --load a.img").code, 0);
    place.write("b.img.stable", "of another image");
    let refused = place.run(["image", "edit", "a.img", "static[20]=7 : Nat", "-o", "b.img"]);
    refused.is_one_clear_line_about(&["b.img.stable exists"]);
}

#[test]
fn a_folder_and_the_image_that_it_was_made_of_have_the_same_heap() {
    for name in BOTH {
        let place = exported(name);
        let without_names = |line: &str| {
            let mut heap = place.json(line);
            for member in ["file", "source", "recording"] {
                heap.as_object_mut().unwrap().remove(member);
            }
            heap
        };
        assert_eq!(without_names("image heap d"), without_names("image heap a.img"), "{name}");
    }
}

#[test]
fn regions_have_sizes_and_owners() {
    for name in BOTH {
        let place = exported(name);
        for line in ["image heap d", "image info d", "image info a.img"] {
            let stable = place.json(line)["stable"].clone();
            assert_eq!(stable["bytes"], 784 * 65_536, "{name} {line}");
            let regions: Vec<Value> = stable["regions"].as_array().unwrap().clone();
            let row = |region: &Value| {
                let number = |member: &str| region[member].as_u64().unwrap();
                (number("id"), number("bytes") / 65_536, number("reserved_bytes") >> 20, region["owner"].clone())
            };
            let rows: Vec<_> = regions.iter().map(row).collect();
            let wanted = [
                (18, 200, 16, json!("users.data")),
                (16, 3, 8, json!("log")),
                (19, 1, 8, Value::Null),
                (20, 1, 8, Value::Null),
                (21, 1, 8, json!("pool[0]")),
                (17, 0, 0, json!("users.index")),
            ];
            assert_eq!(rows, wanted, "{name} {line}");
            assert_eq!(regions[2]["is_live"], false);
        }
        place.highwater("image heap d").stdout_has(&[
            "stable  49.0 MiB in 6 regions",
            "users.data",
            "nothing: no variable",
        ]);
    }
}

#[test]
fn every_reading_command_takes_a_folder() {
    let place = exported("regions");
    assert_eq!(place.highwater("image edit d count=7 -o e").stdout, "e: count was 1, is 7\n");
    place.highwater("image show d count").stdout_has(&["way     count", "\n1\n"]);
    place.highwater("image show e count").stdout_has(&["\n7\n"]);
    place.highwater("image diff d e").stdout_has(&["before", "after"]);
    place.highwater("report d --by type").stdout_has(&["snapshot  of d", "Text"]);
    place.highwater("diff d e").stdout_has(&["Nothing changed."]);
    place.highwater("d").stdout_has(&["heap    Motoko, 64 bits"]);
    assert_eq!(place.highwater("export d --to folded -o d.folded").code, 0);
    assert_eq!(place.highwater("import d -o d.hw").code, 0);
    place.highwater("info d").stdout_has(&["memory image"]);
    assert_eq!(place.highwater("view d e --save page.html").code, 0);
    assert!(fs::read_to_string(place.file("page.html")).unwrap().contains("Array_M"));
}

#[test]
fn an_edited_folder_continues_with_the_new_value_and_the_old_one_is_untouched() {
    let place = exported("regions");
    let before = fs::read(place.file("d/wasm_memory.bin")).unwrap();
    assert_eq!(place.highwater("image edit d count=41 -o e").code, 0);
    let run = place.run(["image", "run", "--load", "e", "--call", "write(\"again\")"]);
    assert_eq!(run.stdout, "write(\"again\") → (42 : nat)\n");
    assert_eq!(fs::read(place.file("d/wasm_memory.bin")).unwrap(), before);
    let documents =
        ["d", "e"].map(|folder| document(&fs::read_to_string(place.file(&format!("{folder}/metadata.json"))).unwrap()));
    assert_eq!(documents[0], documents[1]);
    place.highwater("image edit d count=5 -o e").is_one_clear_line_about(&["e", "not an empty folder"]);
    place.highwater("image edit d count=5 -o d").is_one_clear_line_about(&["is the image itself"]);
    assert_eq!(fs::read(place.file("d/wasm_memory.bin")).unwrap(), before);
}

#[test]
fn an_edit_of_a_folder_may_need_more_memory_and_another_heap_pointer() {
    let long = "a text that is longer than the one before. ".repeat(2500);
    for name in ["edits", "edits32"] {
        let place = Place::new();
        place.module(name);
        assert_eq!(place.highwater(&format!("image run {name}.wasm --call prepare(3) --snapshot a.img")).code, 0);
        assert_eq!(place.highwater("image export a.img -o d").code, 0);
        let edited = place.run(["image", "edit", "d", &format!("title=\"{long}\""), "-o", "e"]);
        assert_eq!(edited.code, 0, "{name}: {}", edited.stderr);
        let metadata = document(&fs::read_to_string(place.file("e/metadata.json")).unwrap());
        let length = fs::metadata(place.file("e/wasm_memory.bin")).unwrap().len();
        assert_eq!(metadata["wasm_memory_size"], length, "{name}");
        let heap = place.json("image heap e");
        assert_eq!(heap["damage_count"], 0, "{name}");
        let shown = place.run(["image", "run", "--load", "e", "--call", "waste(20, 10_000)", "--call", "show()"]);
        assert!(shown.stdout.contains(&long), "{name}: {}", &shown.stderr);
    }
}

#[test]
fn a_gzipped_module_is_a_module_everywhere() {
    let place = exported("regions");
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&fs::read(place.file("regions.wasm")).unwrap()).unwrap();
    place.write("regions.wasm.gz", packed.finish().unwrap());
    place.highwater("image heap a.img --module regions.wasm.gz").stdout_has(&["users.data"]);
    assert_eq!(place.highwater("image run regions.wasm.gz --load d").code, 0);
    assert_eq!(place.highwater("image export a.img --module regions.wasm.gz -o packed").code, 0);
    assert_eq!(fs::read(place.file("packed/wasm_module.bin")).unwrap()[..2], [0x1f, 0x8b]);
    let wanted = "read(21) → (4711 : nat64, opt \"kept in stable memory\")\n";
    assert_eq!(read_back(&place, "image run --load packed"), wanted);
    place.highwater("image show packed count").stdout_has(&["way     count"]);
}

/// Changes one member of a folder's metadata.
fn change(folder: &Path, member: &str, value: Value) {
    let path = folder.join("metadata.json");
    let mut metadata = document(&fs::read_to_string(&path).unwrap());
    metadata[member] = value;
    fs::write(path, metadata.to_string()).unwrap();
}

#[test]
fn bad_folders_are_refused_in_one_line() {
    let place = exported("regions");
    let copy = |name: &str| {
        let folder = place.file(name);
        fs::create_dir_all(folder.join("wasm_chunk_store")).unwrap();
        for file in ["metadata.json", "wasm_module.bin", "wasm_memory.bin", "stable_memory.bin"] {
            fs::copy(place.file(&format!("d/{file}")), folder.join(file)).unwrap();
        }
        folder
    };
    let cut = |name: &str, file: &str| {
        let folder = copy(name);
        fs::File::options().write(true).open(folder.join(file)).unwrap().set_len(1000).unwrap();
    };
    cut("half", "wasm_memory.bin");
    cut("halfstable", "stable_memory.bin");
    fs::remove_file(copy("nomodule").join("wasm_module.bin")).unwrap();
    change(&copy("globals"), "globals", json!([{"i64": 1}]));
    change(&copy("odd"), "wasm_memory_size", json!("many"));
    change(&copy("pages"), "wasm_memory_size", json!(5_308_417));
    change(&copy("chunk"), "wasm_chunk_store", json!([{"hash": [1, 2]}]));
    fs::write(copy("text").join("metadata.json"), "hello").unwrap();
    fs::write(copy("foreign").join("metadata.json"), "{\"name\": \"package\"}").unwrap();
    fs::write(copy("broken").join("wasm_module.bin"), [0x1f, 0x8b, 0, 0]).unwrap();
    change(&place.file("broken"), "wasm_module_size", json!(4));
    fs::create_dir(place.file("empty")).unwrap();
    for (name, words) in [
        ("half", &["wasm_memory.bin has 1000 bytes", "--resume"][..]),
        ("halfstable", &["stable_memory.bin has 1000 bytes", "--resume"]),
        ("nomodule", &["wasm_module.bin is missing", "--resume"]),
        ("globals", &["the globals are not those of wasm_module.bin"]),
        ("odd", &["'wasm_memory_size' is missing, or is not a whole number"]),
        ("pages", &["not a number of pages"]),
        ("chunk", &["0102.bin is missing"]),
        ("text", &["metadata.json", "expected value"]),
        ("foreign", &["not the metadata of a canister snapshot"]),
        ("broken", &["wasm_module.bin", "gzip"]),
        ("empty", &["is a folder, and no canister snapshot"]),
    ] {
        for line in [format!("image heap {name}"), format!("report {name}"), format!("image run --load {name}")] {
            place.highwater(&line).is_one_clear_line_about(words);
        }
    }
}

#[test]
fn what_cannot_be_exported_is_refused_and_leaves_nothing() {
    let place = exported("regions");
    place.highwater("image export d -o f").is_one_clear_line_about(&["d", "is the folder of a snapshot already"]);
    place.highwater("image export a.img -o d").is_one_clear_line_about(&["d", "not an empty folder"]);
    fs::rename(place.file("regions.wasm"), place.file("elsewhere.wasm")).unwrap();
    place.highwater("image export a.img -o f").is_one_clear_line_about(&["--module"]);
    assert!(!place.file("f").exists());
    assert!(!place.names().iter().any(|name| name.contains("unfinished")), "{:?}", place.names());
    place.module("leaky_c");
    assert_eq!(place.highwater("image run leaky_c.wasm --snapshot plain.img").code, 0);
    place.highwater("image export plain.img -o f").is_one_clear_line_about(&["is no image of a canister"]);
}
