//! Names that people recognise: rows named after the function that needed the memory, and no two rows that look alike.

mod support;

use serde_json::{Value, json};
use support::Place;

fn allocation(address: u64, size: u64, stack: &[&str]) -> Value {
    json!({"event": "allocate", "address": address, "size": size, "stack": stack, "time_ns": address})
}

/// A server that gets all its memory through wrappers.
fn server() -> Vec<Value> {
    vec![
        json!({"event": "source", "program": "server"}),
        allocation(
            0x1000,
            4000,
            &["malloc", "ztrymalloc_usable_internal.constprop.0", "zmalloc", "createClient", "main"],
        ),
        allocation(0x3000, 3000, &["malloc", "server_alloc", "parse(char const*, int)", "main"]),
        allocation(0x5000, 2000, &["malloc", "server_alloc", "parse(char const*, int)", "reload", "main"]),
        allocation(0x7000, 1000, &["mmap", "ggc_internal_alloc(unsigned long)", "make_node", "main"]),
    ]
}

#[test]
fn rows_are_named_after_the_first_function_that_is_no_wrapper_and_the_stack_keeps_it() {
    let place = Place::new();
    place.import("server.hw", &server());
    let report = place.highwater("report server.hw --stacks top");
    report.stdout_has(&["createClient\n", "server_alloc  ← main\n", "GCC garbage collector · ggc_internal_alloc\n"]);
    assert!(!report.stdout.contains("zmalloc"), "{}", report.stdout);
    place.highwater("report server.hw --stacks full").stdout_has(&["→ zmalloc\n", "→ malloc\n"]);
    place
        .highwater("report server.hw --by function")
        .stdout_has(&["createClient\n", "GCC garbage collector · ggc_internal_alloc\n"]);
    place.highwater("leaks server.hw --stacks top").stdout_has(&["createClient\n"]);
    place.highwater("export server.hw --to csv -o -").stdout_has(&[",createClient,"]);
}

#[test]
fn a_user_and_a_project_name_further_allocators() {
    let place = Place::new();
    place.import("server.hw", &server());
    place
        .highwater("report server.hw --stacks top --allocator server_alloc")
        .stdout_has(&["parse  ← main\n", "parse  ← reload\n"]);
    place
        .highwater("report server.hw --by function --allocator server_*")
        .stdout_has(&["4.9 KiB       4.9 KiB       2  parse\n"]);
    place.write("highwater.toml", "[names]\nallocators = [\"server_*\"]\n");
    for command in ["report server.hw", "leaks server.hw", "growth server.hw --top 0", "diff server.hw@start server.hw"]
    {
        place.highwater(&format!("{command} --stacks top")).stdout_has(&["parse  ← main\n", "parse  ← reload\n"]);
    }
    place.highwater("export server.hw --to csv -o -").stdout_has(&[",\"parse(char const*, int)\","]);
    place.write("highwater.toml", "[names]\nallocator = []\n");
    let wrong = place.highwater("report server.hw");
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("highwater.toml: unknown field `allocator`"), "{}", wrong.stderr);
    let none = place.highwater("report server.hw --allocator *");
    assert!(none.code == 2 && none.stderr.contains("names no allocator"), "{}", none.stderr);
}

#[test]
fn raw_names_are_whole_and_of_the_innermost_function() {
    let place = Place::new();
    place.import("server.hw", &server());
    let raw = place.highwater("report server.hw --stacks full --raw-names");
    raw.stdout_has(&["malloc\n", "← ztrymalloc_usable_internal.constprop.0\n", "← parse(char const*, int)\n"]);
    let json = place.json("report server.hw");
    assert_eq!(json["sites"][1]["stack"][2]["function"], "parse(char const*, int)", "JSON has whole names");
}

#[test]
fn rows_of_one_line_show_the_library_call_that_differs() {
    let place = Place::new();
    let line = |address: u64, size: u64, call: &str| {
        let stack = json!([
            {"function": "operator new(unsigned long)"},
            {"function": call},
            {"function": "main", "file": "/src/main.cpp", "line": 21},
        ]);
        json!({"event": "allocate", "address": address, "size": size, "stack": stack, "time_ns": address})
    };
    let events = [
        json!({"event": "source", "program": "containers"}),
        line(
            0x1000,
            64,
            "std::map<int, int, std::less<int>, std::allocator<std::pair<int const, int> > >::operator[](int const&)",
        ),
        line(0x2000, 48, "std::shared_ptr<Node> std::make_shared<Node>()"),
        line(0x3000, 32, "std::vector<int, std::allocator<int> >::push_back(int&&)"),
    ];
    place.import("containers.hw", &events);
    let details =
        ["→ std::map<int, int>::operator[]\n", "→ std::make_shared<Node>\n", "→ std::vector<int>::push_back\n"];
    place.highwater("report containers.hw").stdout_has(&details);
    place.highwater("leaks containers.hw").stdout_has(&details);
    place.highwater("diff containers.hw@start containers.hw").stdout_has(&details);
}
