//! Programs that know the types of their blocks: the types that stacks show are the same, to the byte, and none is wrong, however the program was built.

mod support;

use highwater_model::{Naming, SiteTypes, When};
use highwater_store::Recording;
use std::collections::BTreeMap;
use std::path::Path;
use support::Place;
use support::programs;
use support::recorded::{record, run};

/// Bytes by function and type.
type Bytes = BTreeMap<(String, String), u64>;

/// The live blocks of a recording, by function of the program and type.
struct Typed {
    known: Bytes,
    /// By function: the bytes whose types are not known.
    unknown: BTreeMap<String, u64>,
}

/// What the program says of itself; `None` where it knows the type and not the bytes.
struct Truth(BTreeMap<(String, String), Option<u64>>);

impl Truth {
    fn of(output: &str) -> Self {
        let mut truth: BTreeMap<(String, String), Option<u64>> = BTreeMap::new();
        for line in output.lines().filter_map(|line| line.strip_prefix("TRUTH\t")) {
            let [function, name, bytes] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let bytes = bytes.parse::<i128>().unwrap();
            let bytes = (0..1 << 40).contains(&bytes).then_some(bytes as u64);
            let entry = truth.entry((function.to_owned(), name.to_owned())).or_insert(Some(0));
            *entry = entry.zip(bytes).map(|(known, more)| known + more);
        }
        assert!(truth.len() > 10, "{output}");
        Self(truth)
    }

    fn functions(&self) -> Vec<&str> {
        let mut functions: Vec<&str> = self.0.keys().map(|(function, _)| function.as_str()).collect();
        functions.dedup();
        functions
    }

    /// Blocks that no container owns have no type.
    fn untyped(&self, function: &str) -> u64 {
        self.0.get(&(function.to_owned(), "-".to_owned())).copied().flatten().unwrap_or(0)
    }
}

/// The live blocks at the end, by the innermost function for which `function_of` gives a name.
fn typed(file: &Path, function_of: impl Fn(&str) -> Option<String>) -> Typed {
    let snapshot = Recording::open(file).unwrap().snapshot(&When::End).unwrap();
    let catalog = &*snapshot.catalog;
    let mut types = SiteTypes::new(catalog, &Naming::default());
    let mut typed = Typed { known: Bytes::new(), unknown: BTreeMap::new() };
    for (stack, figures) in snapshot.accounts.sites().iter().filter(|(_, figures)| figures.live_bytes() > 0) {
        let Some(function) = catalog.frame_texts(stack).find_map(|frame| function_of(frame.function)) else { continue };
        let found = types.of(catalog, stack);
        match found.is_known {
            true => *typed.known.entry((function, found.name.clone())).or_default() += figures.live_bytes(),
            false => *typed.unknown.entry(function).or_default() += figures.live_bytes(),
        }
    }
    typed
}

/// Compares a program with its recording. Returns the part of its bytes that have the right type, or rightly none.
fn compare(program: &Path, name_of: impl Fn(&str) -> &str) -> f64 {
    let place = Place::new();
    let ended = run(&mut record(&place, &[], program)).succeeded();
    let truth = Truth::of(&ended.stdout_text());
    let functions = truth.functions();
    let function_of = |function: &str| {
        let own = name_of(function);
        let is_it = |name: &&&str| {
            own == **name
                || own.strip_prefix(**name).is_some_and(|rest| rest.starts_with("::") || rest.starts_with(['<', '#']))
        };
        functions.iter().filter(is_it).max_by_key(|name| name.len()).map(|name| (*name).to_owned())
    };
    let typed = typed(&place.file("recording.hw"), function_of);
    let (mut right, mut wrong) = (0, Vec::new());
    for ((function, name), bytes) in &typed.known {
        // The program knows its own types without the name of its crate.
        let name = name.replace("types::", "");
        match truth.0.get(&(function.clone(), name.clone())) {
            // A part of the blocks may have no type; more than the program has would be another's.
            Some(expected) if expected.is_none_or(|expected| *bytes <= expected) => right += bytes,
            other => wrong.push(format!("{function}: {bytes} bytes of {name}, not {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", program.display());
    let untyped: u64 = typed.unknown.iter().map(|(function, bytes)| truth.untyped(function).min(*bytes)).sum();
    let all: u64 = typed.known.values().chain(typed.unknown.values()).sum();
    (right + untyped) as f64 / all as f64
}

fn in_rust(function: &str) -> &str {
    function.strip_prefix("types::").unwrap_or("")
}

fn in_cpp(function: &str) -> &str {
    function.split('(').next().unwrap_or_default()
}

#[test]
fn a_rust_program_with_debug_information_has_nearly_all_types_and_none_that_is_wrong() {
    let v0 = "-Csymbol-mangling-version=v0";
    let lines = "-Cdebuginfo=line-tables-only";
    let builds: [(&str, &[&str]); 6] = [
        ("plain", &["-g"]),
        ("optimised", &["-O", "-g"]),
        ("lines", &["-O", lines]),
        ("v0", &["-O", "-g", v0]),
        ("v0-lines", &["-O", lines, v0]),
        ("small", &["-Copt-level=s", "-g", "-Ccodegen-units=1"]),
    ];
    for (name, flags) in builds {
        let covered = compare(&programs::rust_as("types", &format!("types-{name}"), flags), in_rust);
        assert!(covered >= 0.98, "{name}: {covered}");
    }
}

#[test]
fn a_rust_program_without_debug_information_has_no_wrong_types() {
    let builds: [(&str, &[&str]); 2] = [("v0", &["-Csymbol-mangling-version=v0"]), ("usual", &[])];
    for (name, flags) in builds {
        let flags = [&["-O", "-Cdebuginfo=0"], flags].concat();
        compare(&programs::rust_as("types", &format!("types-stripped-{name}"), &flags), in_rust);
    }
}

#[test]
fn a_cpp_program_has_nearly_all_types_and_none_that_is_wrong() {
    let builds: [(&str, &[&str], f64); 5] = [
        ("plain", &["-O0", "-g"], 0.98),
        ("optimised", &["-O2", "-g"], 0.98),
        ("more", &["-O3", "-g"], 0.98),
        // What `new` makes is not known without the sizes of types.
        ("lines", &["-O2", "-g1"], 0.90),
        ("stripped", &["-O2", "-g0"], 0.0),
    ];
    for (name, flags, least) in builds {
        let covered = compare(&programs::cpp_as("types", &format!("types-cpp-{name}"), flags), in_cpp);
        assert!(covered >= least, "{name}: {covered}");
    }
}

#[test]
fn containers_of_equal_layout_keep_their_types_when_the_linker_merges_their_functions() {
    let merging: &[&str] = &["-ffunction-sections", "-fuse-ld=gold", "-Wl,--icf=all"];
    for (name, flags) in [("apart", &[][..]), ("merged", merging)] {
        let covered = compare(&programs::cpp_as("same_layout", &format!("same-layout-{name}"), flags), in_cpp);
        assert!(covered >= 0.98, "{name}: {covered}");
    }
}

/// The compiler leaves no second symbol where it merges functions that only one unit can call: the names then claim a type that another one has.
#[test]
fn functions_that_the_compiler_merged_without_a_trace_claim_no_wrong_type() {
    let one_unit = "-Ccodegen-units=1";
    let lines = "-Cdebuginfo=line-tables-only";
    let builds: [(&str, &[&str]); 7] = [
        ("optimised", &["-O", "-g"]),
        ("unit", &["-O", "-g", one_unit]),
        ("small", &["-Copt-level=s", "-g", one_unit]),
        ("smallest", &["-Copt-level=z", "-g", one_unit]),
        ("linked", &["-O", "-g", "-Clto=fat"]),
        ("linked-lines", &["-Copt-level=s", lines, "-Clto=fat", one_unit]),
        ("stripped", &["-Copt-level=s", "-Cdebuginfo=0", "-Csymbol-mangling-version=v0", one_unit]),
    ];
    for (name, flags) in builds {
        let place = Place::new();
        let program = programs::rust_as("merged", &format!("merged-{name}"), flags);
        run(&mut record(&place, &[], program)).succeeded();
        let own = |function: &str| {
            function
                .strip_prefix("merged::")
                .filter(|own| own.starts_with("foo_") || own.starts_with("bar_"))
                .map(str::to_owned)
        };
        let typed = typed(&place.file("recording.hw"), own);
        let is_wrong = |((function, found), _): &(&(String, String), &u64)| {
            let (right, other) = if function.starts_with("foo_") { ("Foo", "Bar") } else { ("Bar", "Foo") };
            found.contains(other) || !found.contains(right) && !matches!(found.as_str(), "String" | "FILE buffer")
        };
        let wrong: Vec<_> = typed.known.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        let bytes: u64 = typed.known.values().chain(typed.unknown.values()).sum();
        assert!(bytes > 500_000, "{name}: {bytes}");
    }
}

/// What a user types.
#[test]
fn types_are_rows_of_reports_leaks_and_filters() {
    let place = Place::new();
    let program = programs::rust_as("types", "types-optimised", &["-O", "-g"]);
    run(&mut record(&place, &[], program)).succeeded();
    let output = |arguments: &[&str]| place.run(arguments.iter().chain(&["recording.hw"])).stdout;
    let report = output(&["report", "--by", "type"]);
    let row = report.lines().find(|line| line.ends_with("  Vec<types::Session>")).unwrap_or_else(|| panic!("{report}"));
    // 1000 + 3 · 200 + 128 + … elements of 96 bytes: the bytes divided by the size that debug information has.
    let figures: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(figures[3..5], ["6", "1,884"], "{row}");
    assert!(report.contains("HashMap<types::Key, types::Session>"), "{report}");
    assert!(output(&["leaks", "--by", "type", "--top", "0"]).contains("BTreeSet<u32>"));
    let only = output(&["report", "--filter", "type:Vec<types::Session>"]);
    assert!(only.contains("types::vec_with_capacity") && !only.contains("types::hash_map"), "{only}");
    // Rows of one line that look alike show the types.
    let sites = output(&["report", "--top", "0", "--filter", "inside:regex:^types::store$"]);
    assert!(sites.contains("Box<types::Session>") && sites.contains("HashMap<u64, Box<types::Session>>"), "{sites}");
}
