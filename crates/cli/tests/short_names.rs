//! Short forms of the names of real libraries: whatever a compiler wrote, a row shows something that can be read.

use highwater_model::short_name;
use highwater_symbols::demangle;
use std::path::PathBuf;
use std::process::Command;

/// The demangled names of the functions that a file exports, or has.
fn functions_of(path: &PathBuf, which: &str) -> Vec<String> {
    let output = Command::new("nm").args([which, "--defined-only"]).arg(path).output().expect("binutils has 'nm'");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let function = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let is_function = words.next().is_some_and(|kind| matches!(kind, "T" | "t" | "W" | "w"));
        let name = words.next()?.split('@').next()?;
        is_function.then(|| demangle(name))
    };
    text.lines().filter_map(function).collect()
}

/// Whether round, square, curly and angle brackets match, without those of operators and arrows.
fn is_balanced(name: &str) -> bool {
    let mut name = name.replace("->", "");
    for operator in ["<=>", "<<=", ">>=", "()", "[]", "<<", ">>", "<=", ">=", "<", ">"] {
        name = name.replace(&format!("operator{operator}"), "operator");
    }
    let mut open = Vec::new();
    name.chars().all(|c| match c {
        '(' | '[' | '{' | '<' => {
            open.push(c);
            true
        }
        ')' => open.pop() == Some('('),
        ']' => open.pop() == Some('['),
        '}' => open.pop() == Some('{'),
        '>' => open.pop() == Some('<'),
        _ => true,
    }) && open.is_empty()
}

#[test]
fn every_function_of_real_libraries_has_a_short_form_that_can_be_read() {
    // C++ of many authors, and Rust with both manglings: the standard library's names are of the newer one.
    let libraries = ["libstdc++.so.6", "libicui18n.so.72", "libboost_regex.so", "libLLVM-14.so.1"];
    let folder = PathBuf::from("/usr/lib/x86_64-linux-gnu");
    let mut names: Vec<String> = Vec::new();
    for library in libraries.map(|name| folder.join(name)).iter().filter(|path| path.exists()) {
        names.extend(functions_of(library, "-D"));
    }
    names.extend(functions_of(&std::env::current_exe().unwrap(), "-a"));
    assert!(names.len() > 5000, "only {} names", names.len());
    for name in &names {
        let short = short_name(name);
        assert!(!short.is_empty() && short.len() <= name.len(), "{name}: {short}");
        assert!(is_balanced(&short) || !is_balanced(name), "{name}: {short}");
        assert_eq!(short_name(&short), short, "{name}");
        let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_hashed = short.rsplit_once("::h").is_some_and(|(_, hash)| is_hash(hash));
        assert!(!is_hashed && !short.contains("{{"), "{name}: {short}");
    }
    // Only a conversion to a pointer to a member function keeps its arguments.
    let with_arguments: Vec<&String> = names.iter().filter(|name| short_name(name).ends_with(") const")).collect();
    assert!(with_arguments.iter().all(|name| name.contains("::operator ")), "{with_arguments:?}");
}
