//! Names resolved after the recording, from files that were missing before.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use support::Place;

const PROGRAM: &str = r"
#include <stdlib.h>
__attribute__((noinline)) static void *hidden_maker(int size) { void *volatile block = malloc(size); return block; }
int main(void) { return hidden_maker(4321) == 0; }
";

fn run(program: &str, arguments: &[&str], folder: &Path) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The recording of a stripped program, and in `debug` the unstripped program under another name.
fn recorded_without_names() -> Place {
    let place = Place::new();
    place.write("maker.c", PROGRAM);
    run("cc", &["-O1", "-g", "-Wl,--build-id", "maker.c", "-o", "maker"], place.path());
    std::fs::create_dir(place.file("debug")).unwrap();
    std::fs::copy(place.file("maker"), place.file("debug/another-name")).unwrap();
    run("strip", &["maker"], place.path());
    let run = place.highwater("record -o maker.hw -- ./maker");
    assert_eq!(run.code, 0, "{}", run.stderr);
    place
}

/// The frame nearest to `main` of the site with that size.
fn innermost(report: &Value) -> Value {
    let sites = report["sites"].as_array().unwrap();
    let site = sites.iter().find(|site| site["live_bytes"] == 4321).expect("the block is there");
    site["stack"][0].clone()
}

#[test]
fn a_stripped_program_gets_its_names_from_a_copy_with_the_same_build_id() {
    let place = recorded_without_names();
    assert_eq!(innermost(&place.json("report maker.hw"))["function"], Value::Null);

    let run = place.highwater("symbolize maker.hw --debug-dir debug -o named.hw");
    run.stdout_has(&["named.hw: ", "have a name"]);
    let frame = innermost(&place.json("report named.hw"));
    assert_eq!((&frame["function"], &frame["line"]), (&"hidden_maker".into(), &3.into()));
    assert_eq!(place.highwater("check named.hw").code, 0);
    // The recording itself is unchanged; without -o it is replaced.
    assert_eq!(innermost(&place.json("report maker.hw"))["function"], Value::Null);
    assert_eq!(place.highwater("symbolize maker.hw --debug-dir debug").code, 0);
    assert_eq!(innermost(&place.json("report maker.hw"))["function"], "hidden_maker");
}

#[test]
fn frames_with_a_name_get_a_better_one_and_keep_it() {
    let place = Place::new();
    place.write("maker.c", PROGRAM);
    run("cc", &["-O1", "-g", "-Wl,--build-id", "maker.c", "-o", "maker"], place.path());
    std::fs::create_dir(place.file("debug")).unwrap();
    std::fs::copy(place.file("maker"), place.file("debug/maker")).unwrap();
    run("strip", &["--strip-debug", "maker"], place.path());
    assert_eq!(place.highwater("record -o maker.hw -- ./maker").code, 0);
    let name_and_line = || {
        let frame = innermost(&place.json("report maker.hw"));
        (frame["function"].clone(), frame["line"].clone())
    };
    // From the symbol table.
    assert_eq!(name_and_line(), ("hidden_maker".into(), Value::Null));
    let with_lines = place.highwater("symbolize maker.hw --debug-dir debug").stdout;
    assert_eq!(name_and_line(), ("hidden_maker".into(), 3.into()));
    // The debug file is not there any more, and then the program is gone, too.
    assert_eq!(place.highwater("symbolize maker.hw").stdout, with_lines);
    assert_eq!(name_and_line(), ("hidden_maker".into(), 3.into()));
    std::fs::remove_file(place.file("maker")).unwrap();
    assert_eq!(place.highwater("symbolize maker.hw").code, 0);
    assert_eq!(name_and_line(), ("hidden_maker".into(), 3.into()));
    assert_eq!(place.highwater("check maker.hw").code, 0);
}

#[test]
fn a_copy_of_another_build_is_not_believed() {
    let place = recorded_without_names();
    place.write("maker.c", PROGRAM.replace("4321", "1234"));
    run("cc", &["-O1", "-g", "-Wl,--build-id", "maker.c", "-o", "debug/another-name"], place.path());
    let run = place.highwater("symbolize maker.hw --debug-dir debug");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(innermost(&place.json("report maker.hw"))["function"], Value::Null);
}

#[test]
fn what_has_no_addresses_gets_no_names() {
    let place = support::in_the_kitchen();
    place.highwater("symbolize kitchen.hw").is_one_clear_line_about(&["kitchen.hw", "no addresses"]);
    place.highwater("symbolize missing.hw").is_one_clear_line_about(&["missing.hw"]);
    place.highwater("symbolize kitchen.hw --debug-dir nowhere").is_one_clear_line_about(&["nowhere", "--debug-dir"]);
}

#[test]
fn a_profile_of_addresses_says_how_it_gets_names_and_gets_them() {
    let place = Place::new();
    place.write("maker.c", PROGRAM);
    run("cc", &["-O1", "-g", "-no-pie", "maker.c", "-o", "maker"], place.path());
    let symbols = Command::new("nm").arg(place.file("maker")).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let address = symbols.lines().find_map(|line| line.strip_suffix(" t hidden_maker")).unwrap();
    let address = u64::from_str_radix(address, 16).unwrap();
    // The linker places code one page after the beginning of the file and of the program.
    let (page, path) = (address & !0xfff, place.file("maker"));
    let heap = format!(
        "heap profile: 1: 4321 [2: 5000] @ heapprofile\n1: 4321 [2: 5000] @ {:#x}\n\nMAPPED_LIBRARIES:\n{page:x}-{:x} r-xp {:08x} 00:00 7 {}\n",
        address + 8,
        page + 0x1000,
        page - 0x40_0000,
        path.display()
    );
    place.write("maker.heap", &heap);
    let before = place.highwater("report maker.heap");
    before.stdout_has(&["profile    of maker", "maker+0x", "'highwater symbolize' finds its names"]);
    assert_eq!(place.highwater("import maker.heap -o maker.hw").code, 0);
    place.highwater("symbolize maker.hw").stdout_has(&["1 of 1 address have a name"]);
    let report = place.json("report maker.hw");
    let frame = innermost(&report);
    assert_eq!((&frame["function"], &frame["line"]), (&"hidden_maker".into(), &3.into()));
    assert_eq!(report["sites"][0]["allocated_bytes"], 5000);
    assert!(!place.highwater("report maker.hw").stdout.contains("finds its names"));
}
