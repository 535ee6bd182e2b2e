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
