//! What people install: the version that the command states, and crates that a registry would take.
#![allow(missing_docs)]

#[path = "../commit.rs"]
mod commit;
mod support;

use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use support::Place;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn is_commit(text: &str) -> bool {
    let Some((commit, day)) = text.split_once(", ") else { return false };
    let is_day = day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    commit.len() >= 10 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) && is_day
}

#[test]
fn the_version_names_the_commit_and_the_formats() {
    let place = Place::new();
    let version = place.highwater("--version").stdout;
    let (first, formats) = version.split_once('\n').unwrap();
    let expected = format!(
        ".hw files   {}\nlive table  {}\nattach      {}\n",
        highwater_store::FORMAT_VERSION,
        highwater_shm::live_hello_v1::VERSION,
        highwater_shm::attach_v1::VERSION
    );
    assert_eq!(formats, expected);
    let plain = concat!("highwater ", env!("CARGO_PKG_VERSION"));
    match commit::of(Path::new(ROOT)) {
        // Not compared: a commit can have been made since the build.
        Some(_) => {
            let commit = first.strip_prefix(plain).and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(')'));
            assert!(commit.is_some_and(is_commit), "{version}");
        }
        None => assert_eq!(first, plain),
    }
    assert_eq!(place.highwater("-V").stdout, format!("{plain}\n"));
}

#[test]
fn the_commit_is_that_of_our_own_checkout_or_none() {
    let place = Place::new();
    let checkout = place.path().join("checkout");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=tester", "-c", "user.email=tester@localhost", "-C"]).arg(&checkout).args(arguments);
        let done = git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let unpacked = checkout.join("unpacked");
    std::fs::create_dir_all(&unpacked).unwrap();
    assert!(commit::of(&checkout).is_none(), "no checkout at all");
    git(&["init", "--quiet"]);
    assert!(commit::of(&checkout).is_none(), "no commit yet");
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let found = commit::of(&checkout).unwrap();
    assert!(is_commit(&found.text) && git(&["rev-parse", "HEAD"]).starts_with(&found.text[..10]), "{found:?}");
    let logs = found.changes_with.iter().find(|file| file.ends_with("logs/HEAD")).unwrap();
    let before = std::fs::read(logs).unwrap();
    git(&["commit", "--quiet", "--allow-empty", "--message", "second"]);
    assert_ne!(std::fs::read(logs).unwrap(), before, "the build script runs again after a commit");
    assert_ne!(commit::of(&checkout).unwrap().text, found.text);
    assert!(commit::of(&unpacked).is_none(), "an archive that is unpacked inside of another checkout");
}

/// What cargo says of the workspace, by the names of the packages.
fn packages() -> HashMap<String, Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut asked = Command::new(cargo);
    asked.args(["metadata", "--no-deps", "--locked", "--offline", "--format-version", "1"]).current_dir(ROOT);
    let answer: Value = serde_json::from_slice(&asked.output().unwrap().stdout).unwrap();
    let each = answer["packages"].as_array().unwrap().iter();
    each.map(|package| (package["name"].as_str().unwrap().to_owned(), package.clone())).collect()
}

/// A registry refuses a package without these, or one whose dependencies it does not have.
#[test]
fn published_crates_depend_on_published_crates_and_describe_themselves() {
    let packages = packages();
    let is_published = |package: &Value| package["publish"].is_null();
    for name in ["highwater", "highwater-tracing", "highwater-model", "highwater-store", "highwater-formats"] {
        assert!(is_published(&packages[name]), "{name}");
    }
    for (name, package) in packages.iter().filter(|(_, package)| is_published(package)) {
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let readme = package["readme"].as_str().unwrap_or_else(|| panic!("{name} has no readme"));
        assert!(folder.join(readme).is_file(), "{name}: {readme}");
        for field in ["description", "license"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            let count = package[field].as_array().unwrap().len();
            assert!((1..=most).contains(&count), "{name} has {count} {field}");
        }
        for dependency in package["dependencies"].as_array().unwrap().iter() {
            let (of, required) = (dependency["name"].as_str().unwrap(), dependency["req"].as_str().unwrap());
            let Some(ours) = packages.get(of) else { continue };
            // Cargo leaves out dependencies of tests that have no version.
            if dependency["kind"] == "dev" && required == "*" {
                continue;
            }
            assert!(is_published(ours), "{name} depends on {of}, which is not published");
            assert_eq!(required, format!("^{}", ours["version"].as_str().unwrap()), "{name} depends on {of}");
        }
    }
}

/// The sources without fixtures: what a registry gets of a crate with megabytes of them.
#[test]
fn packages_have_no_fixtures() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for (package, fixtures) in [("highwater-formats", "tests/fixtures"), ("highwater-image", "tests/fixtures")] {
        assert!(Path::new(ROOT).join("crates").join(&package["highwater-".len()..]).join(fixtures).is_dir());
        let mut asked = Command::new(&cargo);
        asked.args(["package", "--list", "--offline", "--allow-dirty", "--package", package]).current_dir(ROOT);
        let answer = asked.output().unwrap();
        let listed = String::from_utf8(answer.stdout).unwrap();
        assert!(listed.contains("src/lib.rs") && listed.contains("README.md"), "{listed}{:?}", answer.stderr);
        assert!(!listed.contains("tests/"), "{listed}");
    }
}
