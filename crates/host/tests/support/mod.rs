//! Modules for tests.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]

use highwater_host::call::ProgramCall;
use highwater_host::module::HostModule;
use highwater_host::program::{CallReply, Failed, HostedProgram, ProgramOptions};

/// A module of this crate's fixtures, or of the images'.
pub fn module(name: &str) -> HostModule {
    HostModule::new(&format!("{name}.wasm"), &module_bytes(name)).unwrap()
}

/// The bytes of its file.
pub fn module_bytes(name: &str) -> Vec<u8> {
    let here = env!("CARGO_MANIFEST_DIR");
    let folders = ["tests/fixtures", "../image/tests/fixtures/motoko", "../image/tests/fixtures/wasm"];
    let mut paths = folders.iter().map(|folder| format!("{here}/{folder}/{name}.wasm.zst"));
    let file = paths.find_map(|path| std::fs::File::open(path).ok()).expect("the fixture is there");
    zstd::decode_all(file).unwrap()
}

pub fn start(name: &str) -> HostedProgram {
    HostedProgram::start(module(name), &ProgramOptions::default()).unwrap()
}

pub fn call(program: &mut HostedProgram, text: &str) -> Result<CallReply, Failed> {
    program.call(&text.parse::<ProgramCall>().unwrap())
}

#[track_caller]
pub fn reply(program: &mut HostedProgram, text: &str) -> String {
    match call(program, text) {
        Ok(answer) => answer.reply.unwrap_or_default(),
        Err(failed) => panic!("{text}: {}", failed.line),
    }
}

#[track_caller]
pub fn refusal(program: &mut HostedProgram, text: &str) -> String {
    match call(program, text) {
        Ok(answer) => panic!("{text} was answered: {answer:?}"),
        Err(failed) => failed.line,
    }
}

pub fn hash(program: &HostedProgram) -> String {
    program.capture(None).unwrap().sha256()
}
