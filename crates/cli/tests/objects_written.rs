//! Object logs from other writers: the snippets of the documentation, and a WASM module in node.

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::Place;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The code block for a language in the description of the format.
fn snippet(language: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/objlog.md")).unwrap();
    let start = page.find(&format!("```{language}\n")).expect("a block of that language") + language.len() + 4;
    let end = page[start..].find("```").expect("its end");
    page[start..start + end].to_owned()
}

fn output_of(command: &mut Command) -> Vec<u8> {
    let output = command.stderr(Stdio::inherit()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

fn objects_of(place: &Place, log: &[u8]) -> Value {
    place.write("console.log", log);
    place.json("objects console.log")
}

#[test]
fn the_snippet_in_javascript_writes_a_log() {
    let place = Place::new();
    let script = place.write("snippet.js", snippet("js"));
    let found = objects_of(&place, &output_of(Command::new("node").arg(script)));
    assert_eq!((&found["object_lines"], &found["trust"]["malformed_at_lines"]), (&json!(5), &json!(0)));
    assert_eq!((&found["types"][0]["type"], &found["types"][0]["live_bytes"]), (&json!("Texture"), &json!(4096)));
    assert_eq!(found["perfect"], json!(["Map<string, Mesh>"]));
    assert_eq!(found["trust"]["memory"]["readings"], 2);
}

#[test]
fn the_snippet_in_c_writes_a_log() {
    let place = Place::new();
    let source = place.write("snippet.c", snippet("c"));
    let program = place.file("snippet");
    output_of(Command::new("cc").args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).args([&program, &source]));
    let found = objects_of(&place, &output_of(&mut Command::new(program)));
    assert_eq!((&found["trust"]["verdict"], &found["noise_lines"]), (&json!("yes"), &json!(1)));
    assert_eq!((&found["types"][0]["type"], &found["types"][0]["live_bytes"]), (&json!("point"), &json!(24)));
    assert_eq!(found["perfect"], json!(["label"]));
}

/// Our test module, built with options of cargo.
fn build(place: &Place, options: &[&str]) -> PathBuf {
    let leaky = root().join("crates/leaky");
    let module = place.file("leaky.wasm");
    let mut build = Command::new(leaky.join("build"));
    // Variables of the cargo that runs this test must not reach another cargo.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO") && text != "CARGO_HOME" || text.starts_with("RUST") && !text.starts_with("RUSTUP")
        {
            build.env_remove(&name);
        }
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| root().join("target").into());
    output_of(build.env("CARGO_TARGET_DIR", target).arg(&module).args(options));
    module
}

/// The console output of our test module in node.
fn console(place: &Place, rounds: u64, options: &[&str], tidy: bool) -> Vec<u8> {
    let module = build(place, options);
    let mut node = Command::new("node");
    node.arg(root().join("crates/leaky/run.mjs")).arg(&module).arg(rounds.to_string());
    output_of(node.args(tidy.then_some("tidy")))
}

#[test]
fn a_rust_module_in_node_tells_exactly_what_it_leaks() {
    const ROUNDS: u64 = 6;
    let place = Place::new();
    let found = objects_of(&place, &console(&place, ROUNDS, &[], false));
    let rows = found["types"].as_array().unwrap();
    let of = |name: &str| rows.iter().find(|row| row["type"] == name).unwrap_or_else(|| panic!("no {name}: {found}"));
    // Eight proofs a round, two of which are forgotten; 1500 points of 32 bytes, a text of 12, and headers of 12 and 8.
    let proof = 1500 * 32 + 12 + 20;
    let proofs = of("leaky::Proof");
    let wanted = |row: &Value| {
        [row["allocations"].clone(), row["drops"].clone(), row["live_objects"].clone(), row["live_bytes"].clone()]
    };
    assert_eq!(
        wanted(proofs).map(|figure| figure.as_u64()),
        [8 * ROUNDS, 6 * ROUNDS, 2 * ROUNDS, 2 * ROUNDS * 48_032].map(Some)
    );
    assert_eq!(proof, 48_032);
    // One text per proof, with the capacity it got for growth.
    let texts = of("alloc::string::String");
    assert_eq!((texts["drops"].as_u64(), texts["live_objects"].as_u64()), (Some(0), Some(8 * ROUNDS)));
    assert_eq!(of("leaky::Parameters")["live_bytes"], 64 * 32 + 12);
    let witnesses = of("leaky::Witness");
    assert_eq!((&witnesses["perfect"], &witnesses["drops"]), (&json!(true), &json!(8 * ROUNDS)));
    assert_eq!(witnesses["allocated_bytes"], 12 * 8 * ROUNDS);
    // They grow to 100 and 107 numbers, in one step.
    assert_eq!(witnesses["grown_bytes"], (0..8).map(|number| (100 + number) * 8).sum::<u64>() * ROUNDS);
    let trust = &found["trust"];
    assert_eq!((&trust["verdict"], &trust["memory"]["explanation"]), (&json!("yes"), &json!("explained")), "{trust}");
    let growing = found["iterations"]["types"].as_array().unwrap();
    let proofs = growing.iter().find(|row| row["type"] == "leaky::Proof").unwrap();
    assert_eq!((&proofs["pattern"], &proofs["each"]), (&json!("constant"), &json!({"objects": 2, "bytes": 2 * proof})));
    assert_eq!(found["noise_lines"], ROUNDS);
}

#[test]
fn the_same_module_mended_keeps_only_what_it_must() {
    let place = Place::new();
    let found = objects_of(&place, &console(&place, 4, &["--features", "mended"], true));
    let rows = found["types"].as_array().unwrap();
    let live: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| (row["type"].as_str().unwrap(), row["live_objects"].as_u64().unwrap()))
        .filter(|(_, live)| *live > 0)
        .collect();
    assert_eq!(live, [("leaky::Parameters", 1)]);
    assert_eq!(found["iterations"]["types"][0]["pattern"], "once");
    assert_ne!(found["trust"]["verdict"], "no");
}

#[test]
fn with_the_feature_for_wasm_bindgen_a_module_imports_nothing_that_its_glue_does_not_know() {
    let place = Place::new();
    let imported_from = |options: &[&str]| {
        let script = "const module = new WebAssembly.Module(require('fs').readFileSync(process.argv[1]));
            console.log([...new Set(WebAssembly.Module.imports(module).map((each) => each.module))].join());";
        let modules = output_of(Command::new("node").args(["-e", script]).arg(build(&place, options)));
        String::from_utf8(modules).unwrap().trim().to_owned()
    };
    assert_eq!(imported_from(&[]), "highwater");
    let bindgen = imported_from(&["--features", "wasm-bindgen"]);
    assert!(bindgen.contains("__wbindgen_placeholder__") && !bindgen.contains("highwater"), "{bindgen}");
}

/// A module that frees much, and then leaks into the room that it freed: its memory does not grow.
const REUSE: &str = "
const fs = require('fs');
const [file, first, last] = process.argv.slice(1);
let memory;
const show = (pointer, length) => console.log(Buffer.from(memory.buffer, pointer, length).toString());
WebAssembly.instantiate(fs.readFileSync(file), { highwater: { console: show } }).then(({ instance }) => {
  const { start, prove, free_proof, round_done } = instance.exports;
  memory = instance.exports.memory;
  const image = (name) => fs.writeFileSync(name, new Uint8Array(memory.buffer));
  start();
  const proofs = Array.from({ length: 40 }, (_, number) => prove(100 + number));
  proofs.forEach(free_proof);
  round_done(1);
  image(first);
  for (let number = 0; number < 20; number += 1) prove(100);
  round_done(2);
  image(last);
});";

#[test]
fn objects_in_room_that_was_free_are_no_fault_of_the_method() {
    let place = Place::new();
    let module = build(&place, &[]);
    let (first, last) = (place.file("first.img"), place.file("last.img"));
    let console = output_of(Command::new("node").args(["-e", REUSE]).arg(module).args([&first, &last]));
    // The growth begins after the proofs were freed.
    let log = String::from_utf8(console).unwrap().replacen("@ MEMORY", "(memory)", 1);
    place.write("console.log", &log);

    let alone = &place.json("objects console.log")["trust"];
    assert_eq!((&alone["verdict"], &alone["memory"]["growth_bytes"]), (&json!("unknown"), &json!(0)));
    assert_eq!(alone["memory"]["explanation"], "needs_free_room");
    let leaked = alone["memory"]["never_dropped_bytes"].as_u64().unwrap();
    assert!(leaked > 20 * 48_000);

    let one = &place.json("objects console.log --image last.img")["trust"];
    assert_eq!((&one["verdict"], &one["memory"]["explanation"]), (&json!("yes"), &json!("reused_free_room")));
    assert_eq!((&one["memory"]["excess_bytes"], &one["images"][0]["at"]), (&json!(leaked), &json!("end")));
    let both = &place.json("objects console.log --image first.img --image last.img")["trust"];
    assert_eq!((&both["verdict"], &both["images"][0]["at"]), (&json!("yes"), &json!("start")));
    let room = |image: usize, member: &str| both["images"][image][member].as_u64().unwrap();
    assert!(room(0, "free_bytes") > leaked, "there was room for all of it");
    let grown = room(1, "in_use_bytes") - room(0, "in_use_bytes");
    // Handles lie in a vector that was there before, and chunks have headers.
    assert!(grown.abs_diff(leaked) < 2000, "what is in use grew by {grown}, {leaked} leaked");
    let heap = place.json("image heap last.img");
    assert_eq!(both["images"][1]["in_use_bytes"], heap["kinds"][0]["bytes"], "{heap}");
    let text = place.highwater("objects console.log --image first.img --image last.img");
    text.stdout_has(&["heap     at the start ", "heap     at the end ", "room that was free before", "the largest"]);

    // Sizes that count the same memory again are still found out.
    let (start, end) = log.split_at(log.find("@ MEMORY 2").or(log.rfind("@ MEMORY")).unwrap());
    let again = |id| format!("@ ALLOCATE 48032 src/twice.rs:1 Twice {}\n", 100_000 + id);
    place.write("console.log", format!("{start}{}{end}", (0..20).map(again).collect::<String>()));
    let twice = &place.json("objects console.log --image last.img")["trust"];
    assert_eq!((&twice["verdict"], &twice["memory"]["explanation"]), (&json!("no"), &json!("more_than_in_use")));
    assert_eq!(place.json("objects console.log")["trust"]["verdict"], "unknown", "the log alone cannot know");
}
