//! Hostile texts and files: one clear line, and nothing outside the lake is read or written.

mod support;

use highwater_fleet::protocol::EngineRequest;
use highwater_fleet::{DuckDbProgram, EngineLimits, FleetEngine, FleetError, FleetLake, FleetScope};
use highwater_lake::Lake;
use highwater_lake::store::FolderStore;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use support::{Folder, engine, library, open, random_lake};

fn error(lake: &FleetLake, sql: &str) -> String {
    let asked = lake.ask(sql, &FleetScope::default(), 1000, &|| true);
    let line = asked.expect_err(sql).to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

#[test]
fn a_text_reads_nothing_but_the_lake_and_writes_nothing() {
    let folder = Folder::new("texts");
    let lake_folder = folder.0.join("lake");
    random_lake(&lake_folder, 7);
    let lake = open(&lake_folder);
    let before = files_below(&folder.0);
    let outside = folder.0.join("outside.csv");
    let inside = lake_folder.join("new.parquet");
    let (out, into) = (outside.display(), inside.display());
    for sql in [
        "SELECT * FROM read_csv('/etc/passwd')".to_owned(),
        "SELECT * FROM read_text('/etc/passwd'), processes".to_owned(),
        format!("SELECT * FROM read_blob('{}/../outside.csv')", lake_folder.display()),
        "SELECT * FROM '/etc/passwd'".to_owned(),
        "SELECT * FROM glob('/etc/*')".to_owned(),
        "SELECT * FROM sniff_csv('/etc/passwd')".to_owned(),
        "SELECT * FROM query('COPY processes TO ''/tmp/x''')".to_owned(),
        format!("COPY (SELECT 1) TO '{out}'"),
        format!("COPY (SELECT 1) TO '{into}'"),
        format!("COPY processes TO '{into}' (FORMAT parquet)"),
        format!("ATTACH '{out}' AS other"),
        format!("ATTACH '{into}' AS other"),
        "INSTALL httpfs".to_owned(),
        "LOAD httpfs".to_owned(),
        "SELECT * FROM 'https://127.0.0.1:1/x.parquet'".to_owned(),
        "SET enable_external_access = true".to_owned(),
        "SET allowed_directories = ['/']".to_owned(),
        "SET lock_configuration = false".to_owned(),
        "RESET lock_configuration".to_owned(),
        "PRAGMA enable_external_access".to_owned(),
        "CALL enable_logging()".to_owned(),
        "CREATE TABLE x AS SELECT 1".to_owned(),
        "DROP VIEW processes".to_owned(),
        format!("EXPORT DATABASE '{out}'"),
        "SELECT 1; SELECT 2".to_owned(),
        format!("SELECT 1; COPY (SELECT 1) TO '{into}'"),
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/x'".to_owned(),
        "PREPARE p AS SELECT 1".to_owned(),
        String::new(),
        "nonsense".to_owned(),
        "SELECT * FROM nowhere".to_owned(),
        "SELECT [1, 2] AS list".to_owned(),
    ] {
        error(&lake, &sql);
    }
    assert_eq!(files_below(&folder.0), before);
    let found = lake.ask("SELECT count(*) AS n FROM processes", &FleetScope::default(), 10, &|| true).unwrap();
    assert!(found.answer.rows[0][0].as_i64().unwrap() > 0);
}

#[test]
fn values_of_all_kinds_come_back_and_long_answers_are_cut() {
    let folder = Folder::new("kinds");
    random_lake(&folder.0, 8);
    let lake = open(&folder.0);
    let sql = "SELECT 9223372036854775807 AS big, CAST(1 AS HUGEINT) << 100 AS huge, 0.1e0 + 0.2e0 AS f, 1.50 AS d, true AS t, NULL AS n, \
               'a text that is longer than twelve bytes é' AS s, DATE '2026-11-18' AS day, TIMESTAMP '2026-11-18 09:30:00.5' AS at, 1e0 / 0 AS inf";
    let found = lake.ask(sql, &FleetScope::default(), 10, &|| true).unwrap();
    let row = serde_json::to_string(&found.answer.rows).unwrap();
    assert_eq!(
        row,
        "[[9223372036854775807,\"1267650600228229401496703205376\",0.30000000000000004,\"1.50\",true,null,\
         \"a text that is longer than twelve bytes é\",\"2026-11-18\",\"2026-11-18T09:30:00.500000Z\",null]]"
    );
    let cut = lake.ask("SELECT * FROM range(100000)", &FleetScope::default(), 5000, &|| true).unwrap();
    assert_eq!((cut.answer.rows.len(), cut.answer.truncated), (5000, true));
}

#[test]
fn bad_files_are_left_out_with_a_line_each() {
    let folder = Folder::new("files");
    let rows = random_lake(&folder.0, 9);
    let files = files_below(&folder.0.join("processes"));
    let incoming = files_below(&folder.0.join("incoming/processes"));
    // Cut, foreign, another table, and rows that are damaged though the footer is not.
    let truncated = std::fs::read(&incoming[0]).unwrap();
    std::fs::write(&incoming[0], &truncated[..truncated.len() / 2]).unwrap();
    std::fs::write(&incoming[1], "not Parquet at all").unwrap();
    let stack = files_below(&folder.0.join("stacks"));
    std::fs::copy(&stack[0], &incoming[2]).unwrap();
    let mut damaged = std::fs::read(&files[0]).unwrap();
    damaged[4..200].fill(0xff);
    std::fs::write(&files[0], damaged).unwrap();
    let lake = open(&folder.0);
    let sql = "SELECT count(*) AS n, sum(live_bytes) AS bytes FROM processes";
    let found = lake.ask(sql, &FleetScope::default(), 10, &|| true).unwrap();
    assert_eq!(found.left_out.len(), 4, "{:?}", found.left_out);
    for file in [&incoming[0], &incoming[1], &incoming[2], &files[0]] {
        let key = file.strip_prefix(&folder.0).unwrap().to_str().unwrap();
        assert!(found.left_out.iter().any(|line| line.starts_with(key) && !line.contains('\n')), "{key}");
    }
    assert!(found.answer.rows[0][0].as_i64().unwrap() < rows.processes.len() as i64);
}

#[test]
fn names_that_are_patterns_are_names() {
    let folder = Folder::new("patterns");
    let lake_folder = folder.0.join("a lake [1]*?");
    random_lake(&lake_folder, 11);
    let sql = "SELECT count(*) AS n, CAST(sum(live_bytes) AS BIGINT) AS bytes FROM processes_incoming";
    let answer = || {
        let found = open(&lake_folder).ask(sql, &FleetScope::default(), 10, &|| true).unwrap();
        assert_eq!(found.left_out, [""; 0]);
        found.answer.rows
    };
    let before = answer();
    // As a pattern it means all files of its day, and as one in brackets another.
    for host in ["*", "[a-z]*", "web-?"] {
        let files = files_below(&lake_folder.join("incoming/processes"));
        let file = files.iter().find(|file| !file.file_name().unwrap().to_string_lossy().contains(host)).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let minute = name.rsplit('-').nth(1).unwrap();
        let suffix = if host == "*" { "*".to_owned() } else { format!("{minute}0") };
        std::fs::rename(file, file.with_file_name(format!("{host}-{minute}-{suffix}.parquet"))).unwrap();
        assert_eq!(answer(), before, "{host}");
    }
}

#[test]
fn a_question_that_takes_too_long_is_stopped() {
    let folder = Folder::new("long");
    random_lake(&folder.0, 10);
    let lake = Lake::open(Arc::new(FolderStore::new(&folder.0))).unwrap();
    let limits = EngineLimits { seconds: 1, threads: 1, ..EngineLimits::default() };
    let lake = FleetLake::new(lake, Box::new(engine()), limits);
    let forever = "SELECT count(*) FROM range(1000000000000) a, range(1000000) b WHERE a.range % 7 = b.range % 5";
    assert_eq!(error(&lake, forever), "the question took longer than 1 s");
    let asked = std::cell::Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        asked.get() < 5
    };
    assert!(matches!(lake.ask(forever, &FleetScope::default(), 1, &go_on), Err(FleetError::Cancelled)));
}

#[test]
fn too_little_memory_is_one_line() {
    let folder = Folder::new("memory");
    random_lake(&folder.0, 11);
    let lake = Lake::open(Arc::new(FolderStore::new(&folder.0))).unwrap();
    let limits = EngineLimits { memory_bytes: 24 << 20, threads: 1, seconds: 60 };
    let lake = FleetLake::new(lake, Box::new(engine()), limits);
    let line = error(&lake, "SELECT list(a.range || b.range) IS NULL AS x FROM range(100000) a, range(10000) b");
    assert!(line.contains("Out of Memory"), "{line}");
}

#[test]
fn a_child_that_dies_or_says_nothing_is_one_line() {
    let folder = Folder::new("children");
    for (script, expected) in [
        ("kill -9 $$", "the engine was ended by signal 9: perhaps this machine ran out of memory"),
        ("kill -SEGV $$", "the engine was ended by signal 11"),
        ("echo no good >&2; exit 3", "the engine ended without an answer: no good"),
        ("echo '[1, 2'", "the engine's answer cannot be read"),
    ] {
        let program = folder.0.join("engine");
        let _ = std::fs::remove_file(&program);
        let mut file = std::fs::File::create(folder.0.join("new")).unwrap();
        write!(file, "#!/bin/sh\nread line\n{script}\n").unwrap();
        drop(file);
        Command::new("chmod").arg("+x").arg(folder.0.join("new")).status().unwrap();
        std::fs::rename(folder.0.join("new"), &program).unwrap();
        let said = DuckDbProgram::new(program).ask(&EngineRequest::default(), &|| true).unwrap_err().to_string();
        assert_eq!(said, expected);
    }
    let missing = DuckDbProgram::new(folder.0.join("nothing")).ask(&EngineRequest::default(), &|| true);
    assert!(missing.unwrap_err().to_string().contains("cannot be started"));
}

#[test]
fn a_missing_or_wrong_library_says_the_command() {
    let folder = Folder::new("library");
    let program = env!("CARGO_BIN_EXE_highwater-fleet");
    let said = |library: Option<&Path>| {
        let mut command = Command::new(program);
        command.arg("--library").env("XDG_DATA_HOME", &folder.0).env_remove("HIGHWATER_DUCKDB").stdin(Stdio::null());
        command.envs(library.map(|library| ("HIGHWATER_DUCKDB", library)));
        let output = command.output().unwrap();
        (
            output.status.success(),
            String::from_utf8(if output.stdout.is_empty() { output.stderr } else { output.stdout }).unwrap(),
        )
    };
    assert_eq!(said(None), (false, "DuckDB's library is not installed; 'highwater fleet install' fetches it\n".into()));
    let (is_good, line) = said(Some(&library()));
    assert!(is_good && line.starts_with("DuckDB v1.5."), "{line}");
    let text = folder.0.join("text");
    std::fs::write(&text, "no library").unwrap();
    let (is_good, line) = said(Some(&text));
    assert!(!is_good && line.contains("cannot be loaded") && line.lines().count() == 1, "{line}");
}
