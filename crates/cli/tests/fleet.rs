//! `highwater fleet` over a small lake whose answers are worked out by hand: `support/small_lake.rs`.

mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::live::Collector;
use support::small_lake::{MAIL, NOON, add_next_day, files_below, small_lake};
use support::{Place, Run, programs};

/// What `crates/fleet/tools` has installed.
fn tools() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = target.join("tools");
    assert!(tools.join("duckdb/libduckdb.so").is_file(), "run 'crates/fleet/tools {}'", tools.display());
    tools
}

/// The command, with DuckDB's library.
fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    command.env("HIGHWATER_DUCKDB", tools().join("duckdb/libduckdb.so")).stdin(Stdio::null());
    command
}

fn fleet(place: &Place, arguments: &[&str]) -> Run {
    Run::of(command(place, &[&["fleet"], arguments].concat()).output().unwrap())
}

/// The document of a question that succeeds.
#[track_caller]
fn asked(place: &Place, arguments: &[&str]) -> Value {
    let run = fleet(place, &[arguments, &["--json"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{arguments:?}");
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&document["schema"], &document["command"]), (&json!(2), &json!(format!("fleet {}", arguments[0]))));
    document
}

/// Some columns of all rows of a document.
fn columns(document: &Value, names: &[&str]) -> Vec<Value> {
    let row = |row: &Value| names.iter().map(|name| row[*name].clone()).collect();
    document["rows"].as_array().unwrap().iter().map(row).collect()
}

/// Every question of this page.
fn questions() -> Vec<Vec<&'static str>> {
    let mut all: Vec<Vec<&str>> =
        ["top", "growth", "leaks", "processes", "timeline"].iter().map(|name| vec![*name, "lake"]).collect();
    all.push(vec!["diff", "lake", "--a", "region=eu", "--b", "region=us"]);
    all.push(vec![
        "sql",
        "lake",
        "SELECT host, count(*) AS n, sum(live_bytes) AS bytes FROM sites GROUP BY host ORDER BY host",
    ]);
    all
}

#[test]
fn figures_are_those_that_were_added() {
    let place = Place::new();
    small_lake(&place, "lake");

    let top = asked(&place, &["top", "lake"]);
    let of_top = ["function", "bytes", "blocks", "processes", "hosts", "fleet_bytes", "slot"];
    let peak = NOON + 79 * 60;
    assert_eq!(
        columns(&top, &of_top),
        [
            json!(["fill", 200_000, 200, 2, 2, 274_000, peak]),
            json!(["open", 69_000, 138, 2, 2, 274_000, peak]),
            json!(["<b>send</b>", 5000, 50, 1, 1, 274_000, peak]),
        ]
    );
    let text = fleet(&place, &["top", "lake", "--top", "2"]);
    text.stdout_has(&[
        "2025-11-17 13:19 UTC (the peak)",
        "267.6 KiB in 3 processes on 2 hosts",
        "195.3 KiB  73.0%",
        "fill",
        "open",
    ]);
    assert!(!text.stdout.contains("send"), "{}", text.stdout);

    // 60 minutes of two processes: the mean of a is 5000 + 1000 × 29.5, that of b 5000.
    let growth = asked(&place, &["growth", "lake"]);
    let of_growth = [
        "service",
        "from_version",
        "to_version",
        "function",
        "old_mean",
        "new_mean",
        "grew",
        "hosts_grew",
        "hosts_seen",
    ];
    assert_eq!(columns(&growth, &of_growth), [json!(["shop", "1.0", "2.0", "open", 5000.0, 19_750.0, 14_750.0, 1, 2])]);
    fleet(&place, &["growth", "lake"]).stdout_has(&[
        "shop 1.0 → 2.0",
        "+14.4 KiB",
        "4.9 KiB",
        "19.3 KiB",
        "1/2",
        "open ← main",
    ]);
    let by_host = asked(&place, &["growth", "lake", "--by-host"]);
    assert_eq!(columns(&by_host, &["host", "function", "grew"]), [json!(["a", "open", 29_500.0])]);
    let back = asked(&place, &["growth", "lake", "--from-version", "2.0", "--to-version", "1.0"]);
    assert!(columns(&back, &["function"]).is_empty());

    // Two blocks a minute.
    let leaks = asked(&place, &["leaks", "lake"]);
    let leak = &columns(&leaks, &["service", "function", "hosts"])[..];
    assert_eq!(leak, [json!(["shop", "open", 1])]);
    let (fastest, r2) = (leaks["rows"][0]["fastest"].as_f64().unwrap(), leaks["rows"][0]["r2"].as_f64().unwrap());
    assert!((fastest - 120.0).abs() < 1e-6 && (r2 - 1.0).abs() < 1e-9, "{fastest} {r2}");
    fleet(&place, &["leaks", "lake"]).stdout_has(&["~58.6 KiB/h", "120", "1.000", "open ← main"]);
    fleet(&place, &["leaks", "lake", "--rate", "121"]).stdout_has(&["No rows: no site grows by 121 blocks an hour"]);

    // In eu 20 minutes of 5000 and 60 of 34,500 on the mean; in us 5000.
    let diff = asked(&place, &["diff", "lake", "--a", "region=eu", "--b", "region=us"]);
    assert_eq!(
        columns(&diff, &["service", "function", "a_mean", "b_mean", "more"]),
        [json!(["shop", "open", 27_125.0, 5000.0, -22_125.0])]
    );
    fleet(&place, &["diff", "lake", "--a", "region=eu", "--b", "region=us"]).stdout_has(&[
        "-21.6 KiB",
        "26.5 KiB",
        "4.9 KiB",
        "open ← main",
    ]);

    // 60,000 bytes an hour; (1,000,000 − 328,000) bytes are left.
    let processes = asked(&place, &["processes", "lake", "--sort", "limit"]);
    assert_eq!(processes["rows"].as_array().unwrap().len(), 5);
    let fastest = &processes["rows"][0];
    assert_eq!(
        (&fastest["host"], &fastest["version"], &fastest["pid"], &fastest["live_bytes"]),
        (&json!("a"), &json!("2.0"), &json!(120), &json!(164_000))
    );
    let slope = fastest["bytes_per_hour"].as_f64().unwrap();
    // Its line is fitted to steps of 1 KiB.
    assert!((slope - 60_000.0).abs() < 600.0, "{slope}");
    assert!((fastest["hours_to_limit"].as_f64().unwrap() - 672_000.0 / slope).abs() < 1e-6, "{fastest}");
    fleet(&place, &["processes", "lake"]).stdout_has(&["160.2 KiB", "320.3 KiB", "976.6 KiB", "11 h", "120", "shop"]);

    let timeline = asked(&place, &["timeline", "lake", "--by", "version", "--buckets", "80"]);
    let last: Vec<Value> =
        columns(&timeline, &["slot", "grp", "bytes"]).into_iter().filter(|row| row[0] == peak).collect();
    let mut last: Vec<(String, i64)> =
        last.iter().map(|row| (row[1].as_str().unwrap().to_owned(), row[2].as_i64().unwrap())).collect();
    last.sort();
    assert_eq!(last, [("".to_owned(), 5000), ("2.0".to_owned(), 269_000)]);
    fleet(&place, &["timeline", "lake", "--by", "version"]).stdout_has(&[
        "267.6 KiB at 2025-11-17 13:19 UTC",
        "262.7 KiB",
        "(not known)",
        "3 processes",
    ]);

    fleet(&place, &["flamegraph", "lake", "-o", "peak.folded"])
        .stdout_has(&["peak.folded: 267.6 KiB live at 2025-11-17 13:19 UTC"]);
    let mut lines: Vec<String> =
        fs::read_to_string(place.file("peak.folded")).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            format!("[service {MAIL}];main;<b>send</b>;malloc 5000"),
            "[service shop];main;fill;malloc 200000".into(),
            "[service shop];main;open;malloc 69000".into()
        ]
    );
    fleet(&place, &["flamegraph", "lake", "-o", "peak.svg"]).stdout_has(&["peak.svg"]);
    let svg = fs::read_to_string(place.file("peak.svg")).unwrap();
    assert!(svg.contains("&lt;b&gt;send") && !svg.contains("<b>send"), "names are escaped");

    let sql = "SELECT service, count(*) AS n FROM processes GROUP BY service ORDER BY service";
    assert_eq!(asked(&place, &["sql", "lake", sql])["rows"], json!([[MAIL, 80], ["shop", 160]]));
    assert_eq!(fleet(&place, &["sql", "lake", sql, "--csv"]).stdout, "service,n\r\n\"m\"\"a'il\",80\r\nshop,160\r\n");
    fleet(&place, &["sql", "lake", sql]).stdout_has(&["service    n\n", "shop     160\n", "\n2 rows\n"]);
}

#[test]
fn answers_are_the_same_after_compaction_but_for_the_files() {
    let place = Place::new();
    small_lake(&place, "lake");
    let without_files = |arguments: &Vec<&str>| {
        let mut document = asked(&place, arguments);
        document.as_object_mut().unwrap().remove("files");
        document
    };
    // The time has whole hours, so that sums by hour answer once they are there.
    let before: Vec<Value> = questions().iter().map(without_files).collect();
    assert_eq!(place.highwater("lake compact lake").code, 0);
    let after: Vec<Value> = questions().iter().map(without_files).collect();
    for ((question, before), after) in questions().iter().zip(before).zip(after) {
        assert_eq!(before["rows"], after["rows"], "{question:?}");
        assert_ne!(before["rows"], json!([]), "{question:?}");
    }
    // Days of slots expire first; sums by hour still answer.
    let growth = asked(&place, &["growth", "lake"])["rows"].clone();
    place.highwater("lake expire lake --minutes 7d --hours 100000d").stdout_has(&["sites of 2025-11-17"]);
    let hours = asked(&place, &["growth", "lake"]);
    assert_eq!((&hours["rows"], &hours["table"]), (&growth, &json!("sites_hour")));
}

#[test]
fn days_whose_sites_have_expired_are_no_peak() {
    let place = Place::new();
    let lake = small_lake(&place, "lake");
    add_next_day(&lake);
    let kept = now_in_seconds() - (NOON + 86_400);
    let expire = format!("lake expire lake --minutes {kept}s --hours 100000d");
    place.highwater(&expire).stdout_has(&["sites of 2025-11-17"]);
    let line = "call sites are kept by slot from 2025-11-18 12:00 UTC on; earlier slots do not count";
    for when in ["peak", "latest"] {
        let top = fleet(&place, &["top", "lake", "--at", when, "--json"]);
        assert_eq!((top.code, top.stderr.trim_end()), (0, &*format!("highwater: {line}")), "{when}");
        let document: Value = serde_json::from_str(&top.stdout).unwrap();
        let row = json!(["fill", 1000, NOON + 86_400]);
        assert_eq!(columns(&document, &["function", "bytes", "slot"]), [row], "{when}");
    }
    let flames = fleet(&place, &["flamegraph", "lake", "-o", "peak.folded"]);
    flames.stdout_has(&["peak.folded: 1000 B live at 2025-11-18 12:00 UTC"]);
    assert!(flames.stderr.contains(line), "{}", flames.stderr);
    // All days: one line, and what still answers.
    place.highwater("lake expire lake --minutes 0d --hours 100000d").stdout_has(&["sites of 2025-11-18"]);
    for question in [&["top", "lake"][..], &["flamegraph", "lake", "-o", "none.folded"]] {
        fleet(&place, question).is_one_clear_line_about(&["keeps no call sites of this time", "growth"]);
    }
    assert_ne!(asked(&place, &["processes", "lake"])["rows"], json!([]));
}

#[test]
fn a_select_sees_the_rows_of_its_scope() {
    let place = Place::new();
    small_lake(&place, "lake");
    let rows = |sql: &str, filters: &[&str]| asked(&place, &[&["sql", "lake", sql], filters].concat())["rows"].clone();
    for is_compacted in [false, true] {
        if is_compacted {
            assert_eq!(place.highwater("lake compact lake").code, 0);
        }
        let by_host = "SELECT host, count(*) AS n FROM processes GROUP BY host ORDER BY host";
        assert_eq!(rows(by_host, &[]), json!([["a", 160], ["b", 80]]));
        assert_eq!(rows(by_host, &["--where", "host=b"]), json!([["b", 80]]));
        let half_hour = ["--since", "2025-11-17T12:30:00Z", "--until", "2025-11-17T13:00:00Z"];
        assert_eq!(rows(by_host, &half_hour), json!([["a", 60], ["b", 30]]));
        let counted = "SELECT count(*) AS n, max(slot) AS last FROM sites";
        assert_eq!(rows(counted, &half_hour), json!([[60 + 30 + 60, NOON + 59 * 60]]));
        assert_eq!(rows(counted, &["--where", "host=b", "--where", "version=1.0"]), json!([[40, NOON + 19 * 60]]));
        // Only processes have containers.
        assert_eq!(rows(counted, &["--where", "container=x"]), json!([[0, null]]));
        assert_eq!(rows("SELECT count(*) AS n FROM sites", &["--where", "container!=x"]), json!([[160 + 80 + 160]]));
        let names = "SELECT function FROM stacks ORDER BY function";
        assert_eq!(rows(names, &["--where", &format!("service={MAIL}")]), json!([["<b>send</b>"]]));
        assert_eq!(rows(names, &["--since", "2025-11-17T13:00:00Z"]), json!([["<b>send</b>"], ["fill"], ["open"]]));
        let hours = rows("SELECT DISTINCT hour FROM sites_hour ORDER BY hour", &["--since", "2025-11-17T13:00:00Z"]);
        assert_eq!(hours, if is_compacted { json!([[NOON + 3600]]) } else { json!([]) });
    }
}

#[test]
fn long_ages_are_counted_in_whole_hours() {
    let place = Place::new();
    small_lake(&place, "lake");
    assert_eq!(place.highwater("lake compact lake").code, 0);
    let minutes = (now_in_seconds() - NOON) / 60 + 90;
    for (since, table, said) in [
        (format!("{minutes}m"), "sites_hour", true),
        // Whole hours from the roll-up, slots before and after them.
        ("2025-11-17T11:30:00Z".to_owned(), "sites_hour, sites", false),
        ("2025-11-17T11:00:00Z".to_owned(), "sites_hour", false),
    ] {
        for question in ["growth", "leaks"] {
            let run = fleet(&place, &[question, "lake", "--since", &since, "--json"]);
            let document: Value = serde_json::from_str(&run.stdout).unwrap();
            assert_eq!(document["table"], table, "{question} {since}: {}", run.stderr);
            assert_eq!(run.stderr.contains("whole hours are counted: from 2025-11-17 1"), said, "{}", run.stderr);
            assert_eq!(document["since"].as_i64().unwrap() % 3600 == 0, table == "sites_hour");
            assert_ne!(document["rows"], json!([]), "{question} {since}");
        }
    }
    // An age that is short, and a question about one slot, are taken as they are.
    let short = fleet(&place, &["growth", "lake", "--since", "90m", "--json"]);
    assert_eq!((short.code, short.stderr.as_str()), (0, ""));
    let top = fleet(&place, &["top", "lake", "--since", &format!("{minutes}m"), "--json"]);
    assert_eq!((top.code, top.stderr.as_str()), (0, ""));
}

/// Now, in seconds since the Unix epoch.
fn now_in_seconds() -> i64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs().cast_signed()
}

#[test]
fn filters_choose_processes_and_times() {
    let place = Place::new();
    small_lake(&place, "lake");
    let top = |filters: &[&str]| {
        let document = asked(&place, &[&["top", "lake"], filters].concat());
        columns(&document, &["function", "bytes"])
    };
    assert_eq!(top(&["--where", &format!("service={MAIL}")]), [json!(["<b>send</b>", 5000])]);
    assert_eq!(top(&["--where", "service!=shop"]), [json!(["<b>send</b>", 5000])]);
    assert_eq!(top(&["--where", "region=us"]), [json!(["fill", 100_000]), json!(["open", 5000])]);
    assert_eq!(
        top(&["--where", "host=?", "--where", "version=1.*"]),
        [json!(["fill", 200_000]), json!(["open", 10_000])]
    );
    assert_eq!(
        top(&["--where", "host=b", "--where", "host=a", "--where", "pid=120"]),
        [json!(["fill", 200_000]), json!(["open", 69_000])]
    );
    // The end does not count: minute 29 is the last, with 10 + 18 blocks.
    assert_eq!(
        top(&["--until", "2025-11-17T12:30:00Z", "--where", "host=a", "--where", "service=shop"]),
        [json!(["fill", 100_000]), json!(["open", 14_000])]
    );
    assert_eq!(
        top(&["--at", "2025-11-17T12:05:30Z", "--where", "region=us"]),
        [json!(["fill", 100_000]), json!(["open", 5000])]
    );
    assert_eq!(top(&["--at", "latest"])[1], json!(["open", 69_000]));
    for is_compacted in [false, true] {
        if is_compacted {
            assert_eq!(place.highwater("lake compact lake").code, 0);
        }
        fleet(&place, &["top", "lake", "--where", "service=nobody"]).stdout_has(&[
            "No rows: no service passes the filter; the lake has",
            MAIL,
            "shop",
        ]);
        let days = "No rows: no process was seen in this part; the lake has the day 2025-11-17, of the services";
        fleet(&place, &["top", "lake", "--since", "2025-11-18"]).stdout_has(&[days, MAIL, "shop"]);
    }
    for (arguments, words) in [
        (&["top", "lake", "--where", "colour=red"][..], "there is no label 'colour'"),
        (&["top", "lake", "--where", "shop"], "is no filter"),
        (&["top", "lake", "--since", "tomorrow"], "'tomorrow' is no time"),
        (&["top", "lake", "--since", "2025-11-18", "--until", "2025-11-17"], "--since is not before --until"),
        (&["growth", "lake", "--from-version", "1", "--to-version", "1"], "are the same"),
        (&["leaks", "lake", "--r2", "2"], "no number from 0 to 1"),
        (&["top", "lake", "--master", "local[1]"], "--master is for --engine spark"),
        (&["top", "lake", "--engine", "spark"], "--master"),
        (&["flamegraph", "lake", "-o", "peak.nothing"], "no format has this name"),
    ] {
        let refused = fleet(&place, arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(refused.stderr.contains(words), "{arguments:?}: {}", refused.stderr);
    }
}

#[test]
fn hostile_lakes_are_one_line_and_bad_files_a_line_each() {
    let place = Place::new();
    fs::create_dir(place.file("empty")).unwrap();
    small_lake(&place, "newer");
    place.write("newer/lake.json", r#"{"schema":2}"#);
    for question in questions() {
        for (lake, words) in
            [("empty", &["empty: no lake"][..]), ("nowhere", &["nowhere: no lake"]), ("newer", &["newer", "schema 2"])]
        {
            let arguments: Vec<&str> = question.iter().map(|word| if *word == "lake" { lake } else { *word }).collect();
            fleet(&place, &arguments).is_one_clear_line_about(words);
        }
    }
    // A file without a column, one that is cut, one of a newer schema: the rest answers.
    let lake = small_lake(&place, "lake");
    let add = |from: &Path, letter: &str| {
        let name = from.file_name().unwrap().to_str().unwrap().replacen('a', letter, 1);
        let file = from.with_file_name(name);
        fs::copy(from, &file).unwrap();
        file
    };
    let sites = files_below(&lake.join("incoming/sites")).remove(0);
    let (cut, lacking, newer) = (add(&sites, "x"), add(&sites, "y"), add(&sites, "z"));
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 20]).unwrap();
    let change = "import sys, pyarrow.parquet as pq\n\
        for path, change in [(sys.argv[1], lambda t: t.drop_columns(['stack_id'])),\n\
                             (sys.argv[2], lambda t: t.replace_schema_metadata({'highwater.schema': '9'}))]:\n\
        \x20   pq.write_table(change(pq.read_table(path, partitioning=None)), path, compression='zstd')\n";
    let python = tools().join("python/bin/python");
    assert!(Command::new(python).args(["-c", change]).args([&lacking, &newer]).status().unwrap().success());
    // Of an hour in which they are: files of other hours are not read.
    let run = fleet(&place, &["top", "lake", "--at", "2025-11-17T12:30:00Z", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(columns(&document, &["function", "bytes"])[0], json!(["fill", 200_000]));
    assert_eq!((run.stderr.lines().count(), document["left_out"].as_array().unwrap().len()), (3, 3), "{}", run.stderr);
    assert_eq!(asked(&place, &["top", "lake"])["left_out"], json!([]), "the peak is an hour later");
    for (file, words) in [(&cut, "damaged"), (&lacking, "has no column 'stack_id'"), (&newer, "has schema 9")] {
        let key = file.strip_prefix(&lake).unwrap().to_str().unwrap();
        let line =
            run.stderr.lines().find(|line| line.contains(key)).unwrap_or_else(|| panic!("{key}: {}", run.stderr));
        assert!(line.starts_with("highwater: ") && line.contains(words), "{line}");
    }
}

/// No older schema than 1 was ever released: files of a schema 0 with the columns of today stand for one.
#[test]
fn an_older_lake_is_read_and_added_to() {
    let place = Place::new();
    let lake = small_lake(&place, "lake");
    let before: Vec<Value> = questions().iter().map(|question| asked(&place, question)["rows"].clone()).collect();
    place.write("lake/lake.json", r#"{"schema":0,"from":"an older version"}"#);
    let change = "import sys, pyarrow.parquet as pq\n\
        for path in sys.argv[1:]:\n\
        \x20   table = pq.read_table(path, partitioning=None)\n\
        \x20   about = {**table.schema.metadata, b'highwater.schema': b'0'}\n\
        \x20   pq.write_table(table.replace_schema_metadata(about), path, compression='zstd')\n";
    let files = files_below(&lake.join("incoming"));
    assert!(
        Command::new(tools().join("python/bin/python")).args(["-c", change]).args(&files).status().unwrap().success()
    );
    for is_compacted in [false, true] {
        if is_compacted {
            assert_eq!(place.highwater("lake compact lake").code, 0);
        }
        for (question, before) in questions().iter().zip(&before) {
            assert_eq!(asked(&place, question)["rows"], *before, "{question:?}");
        }
        place.highwater("lake check lake").stdout_has(&["sound: "]);
    }
    // Rows of today beside those of then.
    add_next_day(&lake);
    let next_day = asked(&place, &["top", "lake", "--at", "2025-11-18T13:00:00Z"]);
    assert_eq!(columns(&next_day, &["function", "bytes"]), [json!(["fill", 1000])]);
}

#[test]
fn what_is_missing_is_one_line_that_says_the_command() {
    let place = Place::new();
    small_lake(&place, "lake");
    let without = |variable: &str, value: &str, arguments: &[&str]| {
        let mut command = command(&place, &[&["fleet"], arguments].concat());
        command.env_remove("HIGHWATER_DUCKDB").env("XDG_DATA_HOME", place.path()).env("XDG_CACHE_HOME", place.path());
        Run::of(command.env(variable, value).output().unwrap())
    };
    for question in questions() {
        without("HIGHWATER_NOTHING", "", &question)
            .is_one_clear_line_about(&["DuckDB's library is not installed; 'highwater fleet install' fetches it"]);
    }
    without("HIGHWATER_DUCKDB", "/nowhere/libduckdb.so", &["top", "lake"])
        .is_one_clear_line_about(&["/nowhere/libduckdb.so"]);
    without("HIGHWATER_FLEET", "/nowhere/highwater-fleet", &["top", "lake"])
        .is_one_clear_line_about(&["/nowhere/highwater-fleet", "HIGHWATER_FLEET"]);
    // Spark: no Python, and a Python without pyspark.
    let spark = ["top", "lake", "--engine", "spark", "--master", "local[1]"];
    without("HIGHWATER_PYTHON", "/nowhere/python", &spark)
        .is_one_clear_line_about(&["/nowhere/python", "pip install pyspark"]);
    let bare = place.file("bare");
    fs::write(&bare, "#!/bin/sh\nexec /usr/bin/python3 -I -S \"$@\"\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&bare).status().unwrap().success());
    without("HIGHWATER_PYTHON", bare.to_str().unwrap(), &spark).is_one_clear_line_about(&["pyspark"]);
}

#[test]
fn spark_answers_as_duckdb_does() {
    let place = Place::new();
    let lake = small_lake(&place, "lake");
    assert_eq!(place.highwater("lake compact lake").code, 0);
    // What a host has sent since.
    add_next_day(&lake);
    let by_slot = ["leaks", "lake", "--since", "2025-11-17T12:01:00Z", "--json"];
    for question in [&["top", "lake", "--where", "service=shop"][..], &by_slot] {
        let embedded = fleet(&place, question);
        assert_eq!((embedded.code, embedded.stderr.as_str()), (0, ""), "{question:?}");
        let on_spark = [&["fleet"], question, &["--engine", "spark", "--master", "local[1]"]].concat();
        let mut spark = place.command(&on_spark[..]);
        // No DuckDB can be the one that answers.
        spark.env("HIGHWATER_FLEET", "/nowhere").env("HIGHWATER_DUCKDB", "/nowhere").stdin(Stdio::null());
        let spark = Run::of(spark.env("HIGHWATER_PYTHON", tools().join("python/bin/python")).output().unwrap());
        assert_eq!((spark.code, spark.stderr.as_str()), (0, ""), "{question:?}");
        assert_eq!(spark.stdout, embedded.stdout, "{question:?}");
    }
    assert_ne!(asked(&place, &by_slot[..4])["rows"], json!([]));
}

#[test]
fn the_library_is_installed_from_a_file_if_it_is_the_right_one() {
    let place = Place::new();
    small_lake(&place, "lake");
    let install = |arguments: &[&str]| {
        let mut command = command(&place, &[&["fleet", "install"], arguments].concat());
        Run::of(command.env_remove("HIGHWATER_DUCKDB").env("XDG_DATA_HOME", place.path()).output().unwrap())
    };
    let target = place.file("highwater/libduckdb.so");
    let library = tools().join("duckdb/libduckdb.so");
    place.write("text.so", "no library");
    place.write("broken.tgz", "no package");
    let mut changed = fs::read(&library).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    place.write("changed.so", changed);
    for (arguments, words) in [
        (&["--from", "text.so"][..], &["text.so", "is not the library that is expected: its SHA-256 is "][..]),
        (&["--from", "changed.so"], &["changed.so", "is not the library that is expected"]),
        (&["--from", "nothing.so"], &["nothing.so", "No such file"]),
        (&["--from", "broken.tgz"], &["broken.tgz", "has no package/libduckdb.so"]),
    ] {
        install(arguments).is_one_clear_line_about(words);
        assert!(!target.exists(), "{arguments:?}");
    }
    // Any build that is a library: this one is none.
    let forced = install(&["--from", "text.so", "--any-build"]);
    assert_eq!(forced.code, 1);
    assert!(forced.stderr.contains("cannot be loaded") && !target.exists(), "{}", forced.stderr);
    assert_eq!(install(&["--any-build"]).code, 2, "--any-build needs --from");

    let done = install(&["--from", library.to_str().unwrap()]);
    done.stdout_has(&["answers questions now, with DuckDB v1.5.6 in ", "highwater/libduckdb.so\n"]);
    assert_eq!(fs::metadata(&target).unwrap().len(), fs::metadata(&library).unwrap().len());
    assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
    let mut top = command(&place, &["fleet", "top", "lake"]);
    Run::of(top.env_remove("HIGHWATER_DUCKDB").env("XDG_DATA_HOME", place.path()).output().unwrap())
        .stdout_has(&["267.6 KiB"]);
    // A wrong file leaves an installed library as it is.
    install(&["--from", "text.so"]).is_one_clear_line_about(&["text.so"]);
    assert!(target.exists());
}

/// From a program to the answer: shipped while it runs, compacted, asked.
#[test]
fn a_live_program_is_in_the_answer_with_what_it_holds() {
    let collector = Collector::new();
    let mut run = collector.command(["run", "-q", "--"]);
    run.arg(programs::c("holder"))
        .env("OTEL_SERVICE_NAME", "shop;\"'")
        .env("OTEL_RESOURCE_ATTRIBUTES", "service.version=7");
    let mut program = support::live::Holder::start(run);
    assert_eq!(program.holds("keep 1000 100"), (1000, 100_000));
    collector
        .highwater("ship --to lake --spool spool --once --every 1s --jitter 0s --region eu --host web-1")
        .succeeded();
    let held = collector.json(&format!("snapshot --pid {}", program.pid))["totals"].clone();
    let place = &collector.place;
    let check = |when: &str| {
        let rows = asked(
            place,
            &["top", "lake", "--where", "service=shop;\"'", "--where", "version=7", "--where", "host=web-1"],
        );
        let all = rows["rows"].as_array().unwrap();
        let own = all.iter().find(|row| row["function"] == "keep_blocks").unwrap_or_else(|| panic!("{when}: {rows}"));
        assert_eq!((&own["bytes"], &own["blocks"]), (&json!(100_000), &json!(1000)), "{when}");
        let sum: i64 = all.iter().map(|row| row["bytes"].as_i64().unwrap()).sum();
        assert_eq!(
            (sum, &rows["rows"][0]["fleet_bytes"]),
            (held["live_bytes"].as_i64().unwrap(), &held["live_bytes"]),
            "{when}"
        );
    };
    check("as it was sent");
    assert_eq!(place.highwater("lake compact lake --until 0s").code, 0);
    check("after a compaction, which leaves an hour that is not over");
    place.highwater("lake check lake").stdout_has(&["sound: "]);
}

/// The rows of a Parquet file, by pyarrow.
fn read_rows(file: &Path) -> Vec<Value> {
    let program = "import sys, json, pyarrow.parquet as pq\nprint(json.dumps(pq.read_table(sys.argv[1], partitioning=None).to_pylist(), default=str))";
    let output = Command::new(tools().join("python/bin/python")).args(["-c", program]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_export_to_parquet_has_the_rows_of_the_report() {
    let place = support::in_the_kitchen();
    for at in ["peak", "end", "1.5s"] {
        let _ = fs::remove_file(place.file("kitchen.parquet"));
        let exported = place.highwater(&format!("export kitchen.hw --at {at} --to parquet -o kitchen.parquet"));
        assert_eq!(exported.code, 0, "{}", exported.stderr);
        let rows = read_rows(&place.file("kitchen.parquet"));
        let report = place.json(&format!("report kitchen.hw --at {at} --top 0"));
        let reported: Vec<(Vec<String>, i64, i64)> = report["sites"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|site| site["live_blocks"] != 0)
            .map(|site| {
                let names = site["stack"].as_array().unwrap().iter().rev();
                let names = names.map(|frame| frame["function"].as_str().unwrap().to_owned()).collect();
                (names, site["live_bytes"].as_i64().unwrap(), site["live_blocks"].as_i64().unwrap())
            })
            .collect();
        let mut reported = reported;
        reported.sort();
        let mut found: Vec<(Vec<String>, i64, i64)> = rows
            .iter()
            .map(|row| {
                let names = row["stack"].as_str().unwrap().split(';').map(str::to_owned).collect();
                (names, row["live_bytes"].as_i64().unwrap(), row["live_blocks"].as_i64().unwrap())
            })
            .filter(|row: &(_, i64, i64)| row.2 != 0)
            .collect();
        found.sort();
        assert_eq!(found, reported, "{at}");
        assert!(!found.is_empty(), "{at}");
        assert!(
            rows.iter().all(|row| row["service"] == "kitchen" && row["host"] == "home" && row["pid"] == 7),
            "{rows:?}"
        );
        let live: i64 = found.iter().map(|row| row.1).sum();
        assert_eq!(
            live,
            match at {
                "peak" => 5500,
                "end" => 800,
                _ => 1000,
            }
        );
    }
}
