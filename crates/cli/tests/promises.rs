//! The page "What you can rely on" names the test of each promise: those tests must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Collects the text of all tests and unit tests, and the names of the test files.
fn read_all(folder: &Path, text: &mut String, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            read_all(&entry, text, files);
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&entry).unwrap());
            files.insert(entry.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
}

#[test]
fn every_test_that_a_promise_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/what-you-can-rely-on.md")).unwrap();
    let (mut text, mut files) = (String::new(), BTreeSet::new());
    read_all(&root.join("crates"), &mut text, &mut files);
    let is_name =
        |word: &&str| word.contains('_') && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(named.len() > 50, "{named:?}");
    let missing: Vec<&&str> =
        named.iter().filter(|name| !files.contains(**name) && !text.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
