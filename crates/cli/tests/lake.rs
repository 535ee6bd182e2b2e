//! `highwater lake`: what a user sees of compaction, expiry, counts and checks.

mod support;

use std::fs;
use support::Place;
use support::small_lake::{MAIL, NOON, files_below, small_lake};

#[test]
fn compaction_halves_nothing_but_the_bytes() {
    let place = Place::new();
    let lake = small_lake(&place, "lake");
    let before = place.json("lake info lake");
    let table = |about: &serde_json::Value, name: &str| {
        let tables = about["tables"].as_array().unwrap();
        tables.iter().find(|table| table["table"] == name).unwrap_or_else(|| panic!("{name} in {about}")).clone()
    };
    // 80 minutes of 2 + 2 + 1 sites, of 3 processes at a time.
    for (name, rows) in [("sites", 400), ("processes", 240)] {
        let of_table = table(&before, name);
        assert_eq!(of_table["incoming"]["rows"], rows, "{of_table}");
        assert_eq!(of_table["compacted"]["rows"], 0);
        assert_eq!(of_table["days"], serde_json::json!(["2025-11-17"]));
    }
    let compacted = place.highwater("lake compact lake");
    compacted.stdout_has(&["files with", "rows in", "became"]);
    assert_eq!(compacted.stderr, "");
    let after = place.json("lake info lake");
    for (name, rows) in [("sites", 400), ("processes", 240)] {
        let of_table = table(&after, name);
        assert_eq!(
            (of_table["incoming"]["rows"].clone(), of_table["compacted"]["rows"].clone()),
            (0.into(), rows.into())
        );
        assert_eq!(of_table["services"], serde_json::json!([MAIL, "shop"]));
        let bytes = of_table["compacted"]["bytes"].as_f64().unwrap();
        assert_eq!(of_table["bytes_per_row"].as_f64().unwrap(), bytes / f64::from(rows));
    }
    // Two hours of the five series of the first and second version, and of one that has both.
    assert_eq!(table(&after, "sites_hour")["compacted"]["rows"], 4 + 4 + 4 + 2);
    // The text has the same figures.
    let text = place.highwater("lake info lake");
    let line = text.stdout.lines().find(|line| line.starts_with("sites ")).unwrap();
    assert!(line.contains(" 400 "), "{line}");
    assert_eq!(place.highwater("lake compact lake").stdout, "nothing to compact\n");
    assert!(files_below(&lake.join("incoming")).is_empty());
    place.highwater("lake check lake").stdout_has(&["sound: "]);
    let checked = place.json("lake check lake");
    assert_eq!((&checked["sound"], &checked["problems"]), (&true.into(), &serde_json::json!([])));
}

#[test]
fn an_hour_that_is_not_over_is_left_where_it_is() {
    let place = Place::new();
    small_lake(&place, "lake");
    // As if it were noon and a half.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let line = format!("lake compact lake --until {}s", since - NOON - 1800);
    assert_eq!(place.highwater(&line).stdout, "nothing to compact\n");
}

#[test]
fn expiry_says_what_it_deletes_and_a_dry_run_deletes_nothing() {
    let place = Place::new();
    let lake = small_lake(&place, "lake");
    place.highwater("lake compact lake").stdout_has(&["became"]);
    let before = files_below(&lake);
    let said = place.highwater("lake expire lake --minutes 7d --hours 100000d --dry-run");
    said.stdout_has(&["sites of 2025-11-17: ", "would be deleted"]);
    assert_eq!(files_below(&lake), before);
    let done = place.highwater("lake expire lake --minutes 7d --hours 100000d");
    assert_eq!(done.stdout, said.stdout.replace("would be deleted", "deleted"));
    assert_eq!(files_below(&lake.join("sites")), [""; 0].map(std::path::PathBuf::from));
    assert!(!files_below(&lake.join("sites_hour")).is_empty());
    assert_eq!(place.highwater("lake expire lake --minutes 7d --hours 100000d").stdout, "nothing to delete\n");
    // A lake whose slots are expired is sound.
    place.highwater("lake check lake").stdout_has(&["sound: "]);
    place.highwater("lake expire lake --hours 30d").stdout_has(&["processes of 2025-11-17: ", "deleted"]);
    assert!(files_below(&lake.join("processes")).is_empty());
}

#[test]
fn a_bad_file_is_named_and_stops_nothing() {
    let place = Place::new();
    let lake = small_lake(&place, "lake");
    let files = files_below(&lake.join("incoming/sites"));
    let bytes = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &bytes[..bytes.len() / 2]).unwrap();
    let key = files[0].strip_prefix(&lake).unwrap().to_str().unwrap();
    let checked = place.highwater("lake check lake");
    assert_eq!(checked.code, 1);
    assert!(checked.stdout.contains(key) && checked.stdout.contains("not sound: "), "{}", checked.stdout);
    let document = place.highwater("lake check lake --json");
    assert_eq!((document.code, document.stderr.as_str()), (1, ""));
    let problems = support::document(&document.stdout)["problems"].clone();
    assert!(problems.as_array().unwrap().iter().any(|line| line.as_str().unwrap().starts_with(key)), "{problems}");
    let compacted = place.highwater("lake compact lake");
    assert_eq!(compacted.code, 0, "{}", compacted.stderr);
    assert!(compacted.stderr.contains(key) && compacted.stderr.contains("left where it is"), "{}", compacted.stderr);
    assert_eq!(compacted.stderr.lines().count(), 1, "{}", compacted.stderr);
    assert!(files[0].exists());
}

#[test]
fn what_is_no_lake_is_one_clear_line() {
    let place = Place::new();
    fs::create_dir(place.file("empty")).unwrap();
    small_lake(&place, "newer");
    place.write("newer/lake.json", r#"{"schema":2}"#);
    small_lake(&place, "senseless");
    place.write("senseless/lake.json", "[");
    for command in ["compact", "expire", "info", "check"] {
        for (lake, words) in [
            ("empty", &["empty", "no lake"][..]),
            ("nowhere", &["nowhere", "no lake"]),
            ("newer", &["newer", "schema 2", "reads up to 1"]),
            ("senseless", &["lake.json"]),
            ("gopher://lake", &["gopher://"]),
        ] {
            place.highwater(&format!("lake {command} {lake}")).is_one_clear_line_about(words);
        }
    }
    assert!(!place.file("nowhere").exists());
    for (line, words) in [
        ("lake expire lake --minutes soon", "not a time"),
        ("lake expire lake --minutes 30d --hours 7d", "--hours is less than --minutes"),
        ("lake compact lake --memory much", "--memory"),
        ("lake mend lake", "mend"),
    ] {
        let refused = place.highwater(line);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{line}");
        assert!(refused.stderr.contains(words), "{line}: {}", refused.stderr);
    }
}
