//! Programs without symbols: unnamed code is identified by its module and its offset there, in every run.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use support::Place;
use support::viewer::Viewer;

const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
static void *volatile kept[64];
__attribute__((noinline)) static void parse(int i) { kept[i] = malloc(1000 + i); }
__attribute__((noinline)) static void fill(int i) { kept[i] = malloc(300); }
int main(int count, char **words) {
    int moved = atoi(words[1]), more = count > 2 ? atoi(words[2]) : 0;
    /* Libraries lie elsewhere in each run, also where the system does not see to it. */
    mmap(0, 4096 * moved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 10; i++) parse(i);
    for (int i = 10; i < 20 + more; i++) fill(i);
    void *library = dlopen("./plugin.so", RTLD_NOW);
    void *(*make)(int) = library ? (void *(*)(int))dlsym(library, "make") : 0;
    return make && (kept[40] = make(777)) ? 0 : 1;
}
"#;

const LIBRARY: &str = r"
#include <stdlib.h>
__attribute__((noinline)) static void *inner(int size) { void *volatile block = malloc(size); return block; }
void *make(int size) { void *volatile block = inner(size); return block; }
";

fn compiled(place: &Place, arguments: &[&str]) {
    let done = Command::new("cc").args(arguments).current_dir(place.path()).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn with_programs() -> Place {
    let place = Place::new();
    place.write("app.c", PROGRAM);
    place.write("plugin.c", LIBRARY);
    let common = ["-O1", "-s", "-fno-builtin", "-Wl,--build-id"];
    compiled(&place, &[&common[..], &["-fPIE", "-pie", "app.c", "-o", "app", "-ldl"]].concat());
    compiled(&place, &[&common[..], &["-fPIC", "-shared", "plugin.c", "-o", "plugin.so"]].concat());
    place
}

fn recorded(place: &Place, arguments: &str, file: &str) {
    let run = place.highwater(&format!("record --no-mmap -o {file} -- ./app {arguments}"));
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// Three runs: two identical, and one that allocates three more blocks at one site.
fn three_runs() -> Place {
    let place = with_programs();
    recorded(&place, "1", "a.hw");
    recorded(&place, "300", "b.hw");
    recorded(&place, "20 3", "more.hw");
    place
}

fn start_of(place: &Place, file: &str, module: &str) -> String {
    let info = place.json(&format!("info {file}"));
    let modules = info["modules"].as_array().unwrap();
    let found = modules.iter().find(|each| each["path"].as_str().unwrap().ends_with(module)).expect("it was loaded");
    found["start"].as_str().unwrap().to_owned()
}

#[test]
fn two_equal_runs_do_not_differ_wherever_their_code_was_loaded() {
    let place = three_runs();
    assert_ne!(start_of(&place, "a.hw", "plugin.so"), start_of(&place, "b.hw", "plugin.so"));
    for by in ["site", "function", "module"] {
        let diff = place.json(&format!("diff a.hw b.hw --by {by}"));
        assert_eq!(diff[format!("{by}s")], Value::Array(Vec::new()), "{by}");
        place.highwater(&format!("diff a.hw b.hw --by {by}")).stdout_has(&["Nothing changed."]);
    }
    for format in ["folded", "flamegraph"] {
        for file in ["a", "b"] {
            let run = place.highwater(&format!("export {file}.hw --to {format} -o {file}.{format}"));
            assert_eq!(run.code, 0, "{}", run.stderr);
        }
    }
    let text = |file: &str| std::fs::read_to_string(place.file(file)).unwrap();
    assert_eq!(text("a.folded"), text("b.folded"));
    assert!(text("a.folded").contains(";app+0x") && text("a.folded").contains(";plugin.so+0x"), "{}", text("a.folded"));
    assert!(text("a.flamegraph").contains("plugin.so+0x"));

    let viewer = Viewer::new(&place, "a.hw b.hw more.hw");
    for by in ["site", "function", "module"] {
        let same = viewer.ask(&format!("compare?a=0@end&b=1@end&by={by}"));
        assert_eq!((&same["count"], &same["rows"]), (&0.into(), &Value::Array(Vec::new())), "{by}");
        assert!(same["before"]["live_bytes"].as_u64().unwrap() > 10_000, "{same}");
    }
    let names = viewer.ask("compare?a=0@end&b=1@end&library=1")["tree"].to_string();
    assert!(names.contains("\"app+0x") && names.contains("\"plugin.so+0x"), "{names}");
}

#[test]
fn a_change_in_one_place_is_one_difference() {
    let place = three_runs();
    let diff = place.json("diff a.hw more.hw");
    let sites = diff["sites"].as_array().unwrap();
    assert_eq!(sites.len(), 1, "{diff}");
    assert_eq!((&sites[0]["change"], &sites[0]["live_bytes_delta"]), (&"grew".into(), &900.into()));
    let shown = place.highwater("diff a.hw more.hw");
    shown.stdout_has(&["+900 B", "+3", "grew", "app+0x"]);

    let viewer = Viewer::new(&place, "a.hw more.hw");
    let compared = viewer.ask("compare?a=0@end&b=1@end&by=site");
    let row = &compared["rows"][0];
    assert_eq!((&compared["count"], &row["change"], &row["what"]), (&1.into(), &900.into(), &"grew".into()));
    let name = row["key"].as_str().unwrap();
    assert!(name.starts_with("app+0x"), "{name}");
    // A filter can use the displayed name.
    let filter = name.replace('+', "%2B");
    let inside = viewer.ask(&format!("rows?source=0&by=site&at=end&filter=inside:equal:{filter}"));
    assert_eq!(inside["total"]["value"], 3000, "{inside}");
    let report = place.json(&format!("report a.hw --filter {}", name.replace('+', "\\+")));
    assert_eq!(report["sites"][0]["live_bytes"], 3000, "{report}");
}

#[test]
fn another_build_at_the_same_place_is_other_code() {
    let place = with_programs();
    recorded(&place, "1", "a.hw");
    // One constant differs: every offset is the same.
    place.write("app.c", PROGRAM.replace("malloc(300)", "malloc(301)"));
    compiled(&place, &["-O1", "-s", "-fno-builtin", "-Wl,--build-id", "-fPIE", "-pie", "app.c", "-o", "app", "-ldl"]);
    recorded(&place, "1", "b.hw");
    let diff = place.json("diff a.hw b.hw --by function");
    let names: Vec<&str> =
        diff["functions"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    let distinct: BTreeSet<&&str> = names.iter().collect();
    assert!(names.len() == 2 * distinct.len() && names.iter().all(|name| name.starts_with("app+0x")), "{names:?}");
}

#[test]
fn reports_name_the_module_and_the_offset_and_json_has_the_address_as_well() {
    let place = three_runs();
    place.highwater("report a.hw --stacks full").stdout_has(&["app+0x", "plugin.so+0x"]);
    place.highwater("report a.hw --by function").stdout_has(&["app+0x", "plugin.so+0x"]);
    place.highwater("leaks a.hw").stdout_has(&["app+0x"]);
    let report = place.json("report a.hw");
    let site =
        report["sites"].as_array().unwrap().iter().find(|site| site["live_bytes"] == 777).expect("the library's");
    let frame = &site["stack"][0];
    let number = |value: &Value| u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    assert!(Path::new(frame["module"].as_str().unwrap()).ends_with("plugin.so"), "{frame}");
    assert_eq!(frame["function"], Value::Null);
    assert!(number(&frame["address"]) > number(&frame["offset"]), "{frame}");
}
