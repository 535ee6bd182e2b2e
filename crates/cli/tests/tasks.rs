//! Memory by task, as a user asks for it: a program that counts itself, under `record` and `run`, in every command that has `--by` and filters.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::Place;

/// `cargo test` builds the examples; with `--test` it does not.
fn program() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_highwater")).parent().unwrap().join("examples/tasks");
    assert!(path.exists(), "{} is not built: cargo build -p highwater --examples", path.display());
    path
}

/// The numbers in the line that the program prints: bytes of pages, pages, bytes of sessions, sessions.
fn counted(line: &str) -> Vec<u64> {
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().unwrap()).collect()
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {rows}"))
}

#[test]
fn a_recorded_program_has_its_tasks_in_every_command() {
    let place = Place::new();
    let run = place.run(["record".as_ref(), "-o".as_ref(), "tasks.hw".as_ref(), program().as_os_str()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let counted = counted(run.stdout.lines().find(|line| line.starts_with("fetch holds")).unwrap());
    let [cached, 100, of_sessions, 1000] = counted[..] else { panic!("{counted:?}") };

    let report = place.json("report tasks.hw --by task --top 0");
    let sessions = row(&report["tasks"], "log_in: session");
    assert_eq!([&sessions["live_bytes"], &sessions["live_blocks"]], [of_sessions, 1000]);
    // The queue of pages grows in the same task.
    let pages = place.json("report tasks.hw --by site --filter task:fetch --top 0");
    let live: u64 = pages["sites"].as_array().unwrap().iter().map(|site| site["live_bytes"].as_u64().unwrap()).sum();
    assert_eq!(row(&report["tasks"], "fetch")["live_bytes"], live);
    assert!((cached..cached + 5000).contains(&live), "{live} {cached}");
    let sum = report["tasks"].as_array().unwrap().iter().map(|row| row["live_bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(report["totals"]["live_bytes"], sum);

    place.highwater("report tasks.hw --by task").stdout_has(&["log_in: session", "fetch", "[no task]"]);
    let window = place.json("report tasks.hw --by task --from 0% --to 100% --top 0 --metric allocations");
    assert_eq!(row(&window["tasks"], "log_in: session")["allocations"], 1000);
    let diff = place.json("diff tasks.hw@start tasks.hw --by task --top 0");
    assert_eq!(row(&diff["tasks"], "log_in: session")["live_bytes_delta"], of_sessions);
    let leaks = place.json("leaks tasks.hw --by task --top 0");
    assert_eq!(row(&leaks["tasks"], "log_in: session")["live_blocks"], 1000);
    place.highwater("leaks tasks.hw --by task").stdout_has(&["log_in: session", "oldest"]);
    let growth = place.json("growth tasks.hw --by task --top 0");
    let grown = growth["sites"].as_array().unwrap().iter().find(|row| row["key"] == "log_in: session").unwrap();
    assert_eq!([&grown["live_bytes"], &grown["live_blocks"]], [of_sessions, 1000]);
    place.highwater("growth tasks.hw --by task --top 0").stdout_has(&["log_in: session", "[no task]"]);
    assert_eq!(place.highwater("export tasks.hw --to json -o all.json").code, 0);
    let exported: Value = serde_json::from_slice(&std::fs::read(place.file("all.json")).unwrap()).unwrap();
    let of_task = |block: &&Value| block["task"] == "log_in: session";
    assert_eq!(exported["blocks"].as_array().unwrap().iter().filter(of_task).count(), 1000);
    let none = place.highwater("report tasks.hw --by task --filter task:nothing");
    none.stdout_has(&["Nothing matches"]);
}

#[test]
fn a_source_without_tasks_is_no_riddle() {
    let place = support::in_the_kitchen();
    place.highwater("growth kitchen.hw --by task").stdout_has(&["No block belongs to a task"]);
    place.highwater("leaks kitchen.hw --by task").stdout_has(&["No block belongs to a task"]);
    place.highwater("report kitchen.hw --by task").stdout_has(&["No block belongs to a task"]);
}
