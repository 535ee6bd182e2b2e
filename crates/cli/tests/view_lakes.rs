//! `highwater view` on lakes: in a folder, in an object store, without rows, with damaged files, and without the programs that it needs.

#[path = "../../s3/tests/support/moto.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod moto;
#[path = "../../lake/tests/support/mod.rs"]
mod rows;
mod support;

use highwater_lake::Lake;
use highwater_lake::rows::Batch;
use highwater_lake::store::FolderStore;
use moto::Moto;
use rows::{process, snapshot};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::viewer::Viewer;
use support::{Place, Run};

const SLOT: i64 = 1_794_873_600;

/// A file beside this command, or where `crates/fleet/tools` puts what tests need.
fn beside(name: &str) -> PathBuf {
    let debug = Path::new(env!("CARGO_BIN_EXE_highwater")).parent().unwrap();
    let path = if name.contains('/') { debug.with_file_name(name) } else { debug.join(name) };
    assert!(path.is_file(), "{} is missing: build the workspace, and run crates/fleet/tools", path.display());
    path
}

fn fill(lake: &Path) {
    let lake = Lake::create_or_open(Arc::new(FolderStore::new(lake))).unwrap();
    for host in ["h1", "h2"] {
        let mut batch = Batch::default();
        for minute in 0..40 {
            for (pid, service) in [(1, "api"), (2, "a/b ä%")] {
                snapshot(&mut batch, &process(service, host, pid), SLOT + minute * 60, 12);
            }
        }
        lake.add(host, &batch).unwrap();
    }
}

/// The viewer with the engine, and with nothing else from the environment that has to do with lakes.
fn command(place: &Place, line: &str) -> Command {
    let mut command = place.command(line.split_whitespace());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("AWS_") || name.starts_with("HIGHWATER_")) {
            command.env_remove(name);
        }
    }
    command.env("HIGHWATER_FLEET", beside("highwater-fleet"));
    command.env("HIGHWATER_DUCKDB", beside("tools/duckdb/libduckdb.so"));
    command
}

fn view(lakes: &str) -> String {
    format!("view --no-open --socket nowhere {lakes}")
}

/// The same with an object store on this machine.
fn with_store(mut command: Command, moto: &Moto, place: &Place) -> Command {
    command.env("HIGHWATER_S3", beside("highwater-s3")).env("HIGHWATER_LAKE_CACHE", place.file("cache"));
    command.env("AWS_ENDPOINT_URL", format!("http://{}", moto.address)).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

fn refused(mut command: Command) -> Run {
    Run::of(command.output().unwrap())
}

const QUESTIONS: [&str; 6] = [
    "fleet/timeline?source=0&by=host",
    "fleet/sites?source=0",
    "fleet/leaks?source=0",
    "fleet/processes?source=0&where=service%3Dapi",
    "overview?source=0",
    "rows?source=0&at=peak&by=function",
];

#[test]
fn a_lake_in_an_object_store_is_that_in_a_folder() {
    let (place, moto) = (Place::new(), Moto::start());
    fill(&place.file("lake"));
    moto.put_folder(&place.file("lake"), "lakes/fleet");
    let folder = Viewer::start(&mut command(&place, &view("lake")));
    let downloads = || -> usize {
        moto.requests().iter().filter(|request| request.starts_with("GET ") && request.contains(".parquet")).count()
    };
    let mut first = 0;
    for round in 0..2 {
        let store = Viewer::start(&mut with_store(command(&place, &view("s3://lakes/fleet")), &moto, &place));
        for question in QUESTIONS {
            assert_eq!(store.ask(question), folder.ask(question), "{question}");
        }
        let opened = store.post("fleet/open?source=0&where=service%3Dapi");
        assert!(opened["source"]["duration_ns"].as_u64().unwrap() > 0, "{opened}");
        // The list is asked for every few seconds, and a lake in a store is no file on this machine.
        for _ in 0..3 {
            let source = store.source(0);
            assert_eq!((source["kind"].as_str(), &source["problem"]), (Some("fleet"), &Value::Null));
            assert_eq!(source["path"], "s3://lakes/fleet");
        }
        match round {
            0 => first = downloads(),
            _ => assert_eq!(downloads(), first, "files that did not change are not brought again"),
        }
    }
    assert!(first > 0);
}

#[test]
fn what_is_missing_for_a_store_is_one_line() {
    let (place, moto) = (Place::new(), Moto::start());
    let open = || command(&place, &view("s3://lakes/fleet"));
    let mut bare = open();
    bare.env("HIGHWATER_S3", beside("highwater-s3"));
    refused(bare).is_one_clear_line_about(&["s3://lakes/fleet: no credentials", "AWS_ACCESS_KEY_ID"]);
    let mut missing = with_store(open(), &moto, &place);
    missing.env("HIGHWATER_S3", place.file("nowhere"));
    refused(missing).is_one_clear_line_about(&["nowhere: is no program", "HIGHWATER_S3"]);
    assert_eq!(moto.requests(), [""; 0]);
    refused(with_store(open(), &moto, &place)).is_one_clear_line_about(&["s3://lakes/fleet: no lake"]);
    let elsewhere = with_store(command(&place, &view("s3://nowhere/fleet")), &moto, &place);
    refused(elsewhere).is_one_clear_line_about(&["s3://nowhere/fleet: there is no bucket nowhere"]);
    refused(command(&place, &view("gs://lakes/fleet"))).is_one_clear_line_about(&["no store is known for gs://"]);
}

#[test]
fn without_an_engine_the_line_names_the_command_that_installs_it() {
    let place = Place::new();
    fill(&place.file("lake"));
    let mut program = command(&place, &view("lake"));
    program.env("HIGHWATER_FLEET", place.file("nowhere"));
    refused(program).is_one_clear_line_about(&["nowhere: is no program, and HIGHWATER_FLEET names it"]);
    let mut library = command(&place, &view("lake"));
    library.env_remove("HIGHWATER_DUCKDB").env("HOME", place.path()).env_remove("XDG_DATA_HOME");
    refused(library).is_one_clear_line_about(&["lake: ", "DuckDB", "'highwater fleet install'"]);
}

#[test]
fn a_lake_without_rows_says_so() {
    let place = Place::new();
    Lake::create_or_open(Arc::new(FolderStore::new(&place.file("lake")))).unwrap();
    refused(command(&place, &view("lake")))
        .is_one_clear_line_about(&["lake: the lake has no rows yet", "highwater ship"]);
    fill(&place.file("lake"));
    let nothing = refused(command(&place, &view("lake --where service=other")));
    nothing.is_one_clear_line_about(&["no process passes the filters", "2026-11-17"]);
}

#[test]
fn a_lake_with_damaged_files_is_shown_and_they_are_named() {
    let place = Place::new();
    fill(&place.file("lake"));
    let whole = Viewer::start(&mut command(&place, &view("lake"))).ask("fleet/timeline?source=0&by=host");
    let files = parquet_files(&place.file("lake/incoming"));
    // Of one host: its processes are cut, and what another file has is no Parquet.
    let (cut, foreign) = (named(&files, "processes", "h1"), named(&files, "sites", "h1"));
    let content = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &content[..content.len() / 2]).unwrap();
    std::fs::write(&foreign, "hello").unwrap();
    let viewer = Viewer::start(&mut command(&place, &view("lake")));
    let timeline = viewer.ask("fleet/timeline?source=0&by=host");
    let left_out = timeline["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert!(left_out[0].as_str().unwrap().contains(cut.file_name().unwrap().to_str().unwrap()), "{left_out:?}");
    let bytes = |timeline: &Value| timeline["total_bytes"][0].as_i64().unwrap();
    assert_eq!(bytes(&timeline) * 2, bytes(&whole));
    let sites = viewer.ask("fleet/sites?source=0");
    assert!(sites["left_out"].to_string().contains(foreign.file_name().unwrap().to_str().unwrap()), "{sites}");
    assert!(!sites["rows"].as_array().unwrap().is_empty());
}

#[test]
fn a_lake_whose_sites_have_expired_shows_its_total_over_time_and_says_so() {
    let place = Place::new();
    fill(&place.file("lake"));
    let timeline = "fleet/timeline?source=0&by=host";
    let whole = Viewer::start(&mut command(&place, &view("lake"))).ask(timeline);
    // As 'lake expire' leaves it.
    std::fs::remove_dir_all(place.file("lake/incoming/sites")).unwrap();
    let viewer = Viewer::start(&mut command(&place, &view("lake")));
    assert_eq!(viewer.ask(timeline), whole);
    let overview = viewer.ask("overview?source=0").to_string();
    assert!(overview.contains("keeps no call sites of this time"), "{overview}");
}

fn parquet_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        match entry.unwrap().path() {
            path if path.is_dir() => found.extend(parquet_files(&path)),
            path => found.push(path),
        }
    }
    found
}

fn named(files: &[PathBuf], table: &str, host: &str) -> PathBuf {
    let is_it = |path: &&PathBuf| {
        let text = path.to_str().unwrap();
        text.contains(&format!("/{table}/")) && text.contains(host)
    };
    files.iter().find(is_it).unwrap_or_else(|| panic!("no file of {table} and {host}: {files:?}")).clone()
}
