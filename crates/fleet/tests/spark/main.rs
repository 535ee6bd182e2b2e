//! Questions on a real standalone Spark cluster: a master and two workers on this machine. Answers equal DuckDB's byte for byte.

mod cluster;
mod lake;

use cluster::{Cluster, python, wait_for};
use highwater_fleet::label_filter::FleetLabel;
use highwater_fleet::protocol::{EngineAnswer, EngineRequest};
use highwater_fleet::questions::{
    FleetInstant, LeakRule, ProcessOrder, SiteTable, VersionPair, diff_sql, growth_sql, leaks_sql, processes_sql,
    timeline_sql, top_sql,
};
use highwater_fleet::{FleetEngine, FleetError, FleetScope, SparkEngine};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder of this test, removed at its end.
struct SparkFolder(PathBuf);

impl SparkFolder {
    fn new(name: &str) -> Self {
        // Paths of a lake may have characters that are patterns elsewhere.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("spark-{name}-{} [a]{{b}}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for SparkFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn spark(master: &str, settings: &[&str]) -> SparkEngine {
    let small = ["spark.driver.memory=512m", "spark.executor.memory=512m"];
    let settings = small.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
    SparkEngine::new(master.to_owned(), settings).with_python(python().into())
}

fn ask(engine: &SparkEngine, request: &EngineRequest) -> Result<EngineAnswer, FleetError> {
    engine.ask(request, &|| true)
}

/// All questions, with and without a limit, from minutes and from hours.
fn questions() -> Vec<(&'static str, String)> {
    let part = |filters: &[&str]| FleetScope {
        labels: filters.iter().map(|filter| filter.parse().unwrap()).collect(),
        ..FleetScope::default()
    };
    let all = FleetScope::default();
    let odd = part(&["service=a/b'c\\d ${x} é", "host!=host-2"]);
    let numeric = part(&["service=007"]);
    let late = FleetScope { since: Some(lake::START + 3600), until: Some(lake::START + 2 * 3600), ..all.clone() };
    let ragged = FleetScope { since: Some(lake::START + 1234), until: Some(lake::START + 8000), ..all.clone() };
    let (eu, us) = (part(&["region=eu-*"]), part(&["region=us-west-?"]));
    let given = VersionPair::Given("1.42.0".into(), "1.43.0".into());
    let rule = LeakRule::default();
    let (minutes, hours) = (SiteTable::Minutes, SiteTable::Hours);
    vec![
        ("top", top_sql(&all, FleetInstant::Peak, 20)),
        ("top of all", top_sql(&all, FleetInstant::Latest, 0)),
        ("top of an odd service", top_sql(&odd, FleetInstant::At(lake::START + 4000), 0)),
        ("top of a number", top_sql(&numeric, FleetInstant::Peak, 0)),
        ("top of null", top_sql(&part(&["service=null"]), FleetInstant::Peak, 0)),
        ("top of Hive's null", top_sql(&part(&["service=__HIVE_DEFAULT_PARTITION__"]), FleetInstant::Peak, 0)),
        ("growth", growth_sql(&all, minutes, &given, false, 20)),
        ("growth of all hosts", growth_sql(&all, minutes, &VersionPair::Latest, true, 0)),
        ("growth by hours", growth_sql(&all, hours, &given, false, 0)),
        ("leaks", leaks_sql(&all, minutes, rule, 20)),
        ("leaks of all", leaks_sql(&all, minutes, LeakRule { r2: 0.0, blocks_per_hour: -1e9, ..rule }, 0)),
        ("leaks by hours", leaks_sql(&late, hours, rule, 0)),
        ("leaks around whole hours", leaks_sql(&ragged, SiteTable::Edges, rule, 0)),
        ("growth around whole hours", growth_sql(&ragged, SiteTable::Edges, &given, false, 0)),
        ("diff", diff_sql(&all, &eu, &us, minutes, 0)),
        ("diff of services", diff_sql(&all, &numeric, &odd, hours, 20)),
        ("processes", processes_sql(&all, ProcessOrder::Slope, 10, 0)),
        ("processes by limit", processes_sql(&late, ProcessOrder::Limit, 2, 5)),
        ("timeline", timeline_sql(&all, FleetLabel::Region, 30)),
        ("frames", "SELECT * FROM frames ORDER BY site_id, depth".into()),
        (
            "times and nulls",
            "SELECT service, version, process_id, pid, CAST(sum(alloc_bytes) AS BIGINT) AS bytes, count(alloc_blocks) AS counted, \
             max(sample_period) AS period FROM sites GROUP BY service, version, process_id, pid ORDER BY process_id"
                .into(),
        ),
    ]
}

/// DuckDB's answers to requests.
fn duckdb(requests: &[EngineRequest]) -> Vec<EngineAnswer> {
    let mut command = Command::new(python());
    command.args(["-c", include_str!("duckdb.py")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines: Vec<String> = requests.iter().map(|request| serde_json::to_string(request).unwrap() + "\n").collect();
    let writer = std::thread::spawn(move || stdin.write_all(lines.concat().as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_same(question: &str, spark: &EngineAnswer, duckdb: &EngineAnswer) {
    let text = |answer: &EngineAnswer| serde_json::to_string(answer).unwrap();
    assert_eq!(text(spark), text(duckdb), "{question}");
}

#[test]
fn a_cluster_answers_as_duckdb_does_also_when_a_worker_is_killed() {
    let folder = SparkFolder::new("cluster");
    let lake = lake::make(&folder.0.join("lake"));
    let (names, requests): (Vec<_>, Vec<_>) =
        questions().into_iter().map(|(name, sql)| (name, lake::request(&lake, sql))).unzip();
    let expected = duckdb(&requests);

    let mut cluster = Cluster::start(&folder.0);
    let engine = spark(&cluster.address, &[]);
    for ((name, request), expected) in names.iter().zip(&requests).zip(&expected) {
        assert!(!expected.rows.is_empty(), "{name} has no answer that could be wrong");
        assert_same(name, &ask(&engine, request).unwrap(), expected);
    }
    drop(engine);

    let leaks = names.iter().position(|name| *name == "leaks of all").unwrap();
    // A worker can be killed between two tasks: nothing is lost then, and nothing proved.
    let lost = (1..=5).any(|attempt| {
        cluster.replace_killed_workers(&folder.0);
        let log = folder.0.join(format!("events-{attempt}"));
        let answer = ask_and_kill_a_worker(&mut cluster, &log, &requests[leaks]);
        assert_same("leaks of all, with a killed worker", &answer, &expected[leaks]);
        lost_a_task(&log)
    });
    assert!(lost, "no task was lost in five attempts");
}

/// The answer to a question during which a worker was killed, if the question took long enough.
fn ask_and_kill_a_worker(cluster: &mut Cluster, log: &Path, request: &EngineRequest) -> EngineAnswer {
    // Many tasks, so that the question runs long enough; with shuffle files on both workers, so that some are lost with one.
    std::fs::create_dir_all(log).unwrap();
    let settings = [
        "spark.sql.shuffle.partitions=200",
        "spark.sql.adaptive.enabled=false",
        "spark.sql.autoBroadcastJoinThreshold=-1",
        "spark.ui.enabled=true",
        "spark.ui.port=0",
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",
        "spark.eventLog.rolling.enabled=false",
        &format!("spark.eventLog.dir={}", log.display()),
    ];
    let engine = spark(&cluster.address, &settings);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&engine, request));
        let busy = wait_for("tasks on both executors", || {
            let is_busy = cluster.busy_executors() == Some(2);
            (is_busy || asked.is_finished()).then_some(is_busy)
        });
        if busy {
            cluster.kill_worker();
        }
        asked.join().unwrap().unwrap()
    })
}

/// Whether Spark's log of events has a task that ended with its executor.
fn lost_a_task(log: &Path) -> bool {
    let mut files = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    let events = std::fs::read_to_string(files.next().unwrap()).unwrap();
    let has = |line: &str, what: &str| line.contains(what);
    let lost = events.lines().any(|line| has(line, "SparkListenerTaskEnd") && has(line, "ExecutorLostFailure"));
    lost && events.contains("SparkListenerExecutorRemoved")
}

#[test]
fn errors_are_one_line() {
    let folder = SparkFolder::new("errors");
    let lake = lake::make(&folder.0.join("lake"));
    let said = |engine: &SparkEngine, request: &EngineRequest| ask(engine, request).unwrap_err().to_string();
    let good = lake::request(&lake, "SELECT count(*) AS n FROM sites".into());

    let no_python = spark("local[1]", &[]).with_python("/nowhere/python3".into());
    let text = said(&no_python, &good);
    assert!(text.starts_with("cannot run /nowhere/python3:") && text.contains("pip install pyspark"), "{text}");
    // The system's own Python has no pyspark.
    let bare = spark("local[1]", &[]).with_python("/usr/bin/python3".into());
    assert_eq!(said(&bare, &good), "pyspark is not installed for this Python: pip install pyspark==4.3.0");
    let text = said(&spark("spark://127.0.0.1:1", &[]), &good);
    assert!(text.starts_with("no Spark master at spark://127.0.0.1:1:"), "{text}");
    let text = said(&spark("local[1]", &["executor.memory=1g"]), &good);
    assert_eq!(text, "'executor.memory=1g' is not a setting such as spark.executor.memory=2g");

    let engine = spark("local[1]", &[]);
    for (sql, expected) in [
        ("SELECT nothing FROM sites", "`nothing`"),
        ("DROP VIEW sites", "Syntax error"),
        ("SELECT 1 AS a; SELECT 2 AS a", "Syntax error"),
        ("SELECT sum(9223372036854775807) AS n FROM sites", "overflow"),
        ("SELECT * FROM parquet.`/etc`", "cannot be found"),
    ] {
        let text = said(&engine, &lake::request(&lake, sql.into()));
        assert!(text.contains(expected) && !text.contains('\n'), "{text}");
    }
    // A session lives on after an error, and leaves out rows beyond the limit.
    let many = EngineRequest { max_rows: 3, ..lake::request(&lake, "SELECT slot FROM processes ORDER BY slot".into()) };
    let answer = ask(&engine, &many).unwrap();
    assert_eq!((answer.rows.len(), answer.truncated), (3, true));
    let slow = "SELECT count(*) AS n FROM sites a CROSS JOIN sites b CROSS JOIN sites c WHERE a.live_bytes % 7 = b.live_bytes * c.live_bytes % 11";
    let slow = EngineRequest { seconds: 3, ..lake::request(&lake, slow.into()) };
    assert_eq!(said(&engine, &slow), "no answer within 3 seconds");
    // The client has disconnected: the program is ended. The next question starts another.
    assert!(matches!(engine.ask(&EngineRequest { seconds: 600, ..slow }, &|| false), Err(FleetError::Cancelled)));
    let path = good.tables["sites"].incoming[0].clone();
    std::fs::write(&path, b"PAR1 is not enough").unwrap();
    let text = said(&engine, &good);
    assert!(text.contains("is not a Parquet file") && !text.contains('\n'), "{text}");
    let answer = ask(&engine, &lake::request(&lake, "SELECT count(*) AS n FROM processes".into())).unwrap();
    assert_eq!(answer.rows, [[serde_json::json!(4 * 5 * 150)]]);
}
