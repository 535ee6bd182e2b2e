//! Fixtures, unpacked.
#![allow(dead_code)]

use highwater_image::{Image, WasmModule};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut bytes = Vec::new();
    if name.ends_with(".gz") {
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("unpacked");
    } else {
        bytes = zstd::decode_all(file).expect("unpacked");
    }
    bytes
}

/// The bytes of a Motoko image.
pub fn image_bytes(name: &str) -> Vec<u8> {
    unpacked(&format!("motoko/{name}.img.zst"))
}

/// A Motoko image.
pub fn image(name: &str) -> Image {
    Image::from_bytes(image_bytes(name))
}

/// The module of a Motoko image.
pub fn module(name: &str) -> WasmModule {
    let program = name.split('-').next().unwrap_or(name);
    WasmModule::parse(&unpacked(&format!("motoko/{program}.wasm.zst"))).expect("a module")
}

/// The bytes of a module.
pub fn module_bytes(file: &str) -> Vec<u8> {
    unpacked(file)
}

/// The known figures of a Motoko image.
pub fn expected(name: &str) -> Value {
    json(&format!("motoko/{name}.expected.json"))
}

/// A JSON document.
pub fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name)).expect("read")).expect("JSON")
}

/// The bytes of a memory of a C or Rust program.
pub fn memory_bytes(file: &str) -> Vec<u8> {
    unpacked(&format!("wasm/{file}"))
}

/// A memory of a C or Rust program.
pub fn memory(file: &str) -> Image {
    Image::from_bytes(memory_bytes(file))
}

/// The module of a C or Rust program.
pub fn wasm_module(name: &str) -> WasmModule {
    WasmModule::parse(&unpacked(&format!("wasm/{name}.wasm.zst"))).expect("a module")
}
