//! The definitions of external tables in `docs/external-tables` have the columns of the lake, and engines that are here run them.

#[path = "spark/lake.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod lake;

use highwater_fleet::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tables, and their names in the definitions.
const TABLES: [(&str, &str); 5] = [
    ("sites", "sites"),
    ("sites_hour", "sites_hour"),
    ("processes", "processes"),
    ("stacks", "stack_files"),
    ("frames", "frame_files"),
];
/// Columns that may be null.
const NULLABLE: [&str; 6] = ["alloc_bytes", "alloc_blocks", "sxy", "syy", "rss_bytes", "limit_bytes"];

fn definitions(engine: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/external-tables/{engine}.sql"));
    std::fs::read_to_string(path).unwrap()
}

/// The columns of the files of a table: all but the service, which is a part of the path.
fn own_columns(table: &str) -> Vec<(String, String)> {
    let all = schema::columns(table).into_iter().filter(|column| column.name != "service");
    all.map(|column| (column.name, column.kind)).collect()
}

/// The text between two others.
#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no '{before}'")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("no '{after}' after '{before}'")).0
}

/// `name type, name type`, with types in our words.
fn columns(list: &str, types: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut text = list.replace('`', "");
    // Their commas separate no columns.
    types.iter().for_each(|(theirs, ours)| text = text.replace(&format!(" {theirs}"), &format!(" {ours}")));
    let column = |column: &str| {
        let (name, kind) = column.trim().split_once(' ').unwrap_or_else(|| panic!("no type: {column}"));
        (name.to_owned(), kind.trim().to_owned())
    };
    text.split(',').map(column).collect()
}

#[test]
fn definitions_have_the_columns_of_the_schema() {
    let partitions = || ["day", "service"].map(|name| (name.to_owned(), "STRING".to_owned()));
    for (table, name) in TABLES {
        let own = own_columns(table);
        let with_partitions: Vec<_> = own.iter().cloned().chain(partitions()).collect();

        let spark = definitions("spark");
        let found = between(&spark, &format!("CREATE TABLE IF NOT EXISTS {name} (\n"), "\n) USING");
        assert_eq!(columns(found, &[]), with_partitions, "{table} in spark.sql");

        let trino = definitions("trino");
        let found = between(&trino, &format!("CREATE TABLE IF NOT EXISTS {name} (\n"), "\n) WITH");
        let types = [("bigint", "BIGINT"), ("varchar", "STRING"), ("integer", "INT"), ("timestamp(6)", "TIMESTAMP")];
        assert_eq!(columns(found, &types), with_partitions, "{table} in trino.sql");

        let athena = definitions("athena");
        let found = between(&athena, &format!("CREATE EXTERNAL TABLE {name} (\n"), "\n) PARTITIONED");
        let types = [("bigint", "BIGINT"), ("string", "STRING"), ("int", "INT"), ("timestamp", "TIMESTAMP")];
        assert_eq!(columns(found, &types), own, "{table} in athena.sql");

        let clickhouse = definitions("clickhouse");
        let view = between(&clickhouse, &format!("VIEW {name} AS\n"), "SETTINGS");
        let found = between(view, "Parquet,\n    '", "')\n");
        let types = [
            ("DateTime64(6, \\'UTC\\')", "TIMESTAMP"),
            ("Nullable(Int64)", "BIGINT NULL"),
            ("Int64", "BIGINT"),
            ("Int32", "INT"),
            ("String", "STRING"),
        ];
        let nullable = |(name, kind): &(String, String)| {
            let kind = if NULLABLE.contains(&&**name) { format!("{kind} NULL") } else { kind.clone() };
            (name.clone(), kind)
        };
        assert_eq!(columns(found, &types), own.iter().map(nullable).collect::<Vec<_>>(), "{table} in clickhouse.sql");

        for (engine, text) in [("spark", spark), ("trino", trino), ("athena", athena), ("clickhouse", clickhouse)] {
            assert!(text.contains(&format!("LAKE/{table}/")) || text.contains(&format!("LAKE/{table}'")), "{engine}");
        }
    }
}

/// Runs a file of definitions, then texts. `sys.argv`: the engine, the file, the lake, a folder for the engine, the texts as JSON.
const PROGRAM: &str = r#"
import json, re, sys
engine, file, lake, folder, texts = sys.argv[1:]
text = re.sub(r"^--.*$", "", open(file).read(), flags=re.MULTILINE).replace("LAKE", lake)
statements = [statement for statement in text.split(";") if statement.strip()]
if engine == "duckdb":
    import duckdb
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for statement in statements:
        database.execute(statement)
    def ask(sql):
        found = database.execute(sql)
        return [column[0] for column in found.description], found.fetchall()
else:
    from pyspark.sql import SparkSession
    settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
                "spark.sql.session.timeZone": "UTC", "spark.sql.warehouse.dir": folder + "/warehouse", "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for statement in statements:
        spark.sql(statement)
    def ask(sql):
        found = spark.sql(sql)
        return found.columns, found.collect()
answers = []
for sql in json.loads(texts):
    names, rows = ask(sql)
    answers.append({"names": names, "rows": [list(row) for row in rows]})
print(json.dumps(answers, default=str))
"#;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What an engine answers to each text, after it has run its definitions.
fn answers(engine: &str, folder: &Path, texts: &[String]) -> Vec<Value> {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
    let python = tools.join("python/bin/python");
    assert!(python.exists(), "no {}: run crates/fleet/tools {}", python.display(), tools.display());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/external-tables/{engine}.sql"));
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, engine]).arg(file).arg(folder.join("lake")).arg(folder);
    command.arg(serde_json::to_string(texts).unwrap()).current_dir(folder).env("SPARK_LOCAL_IP", "127.0.0.1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    // Spark's launcher may say something first.
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn spark_and_duckdb_run_their_definitions_and_agree() {
    let folder = Folder(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("external-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    lake::make(&folder.0.join("lake"));
    let mut texts = Vec::new();
    for (table, name) in TABLES {
        texts.push(format!("SELECT * FROM {name} LIMIT 0"));
        // A column that a definition names wrongly is null everywhere. Services that are not ASCII are others in Spark's tables: docs/fleet-spark.md.
        let own = own_columns(table);
        let counts = own.iter().map(|(name, _)| format!(", count({name}) AS count_{name}"));
        let sums = own.iter().filter(|(name, kind)| kind == "BIGINT" && !name.ends_with("_id"));
        let sums = sums.map(|(name, _)| format!(", CAST(sum({name} % 1000003) AS BIGINT) AS sum_{name}"));
        let all: String = counts.chain(sums).collect();
        texts.push(format!(
            "SELECT day, service, count(*) AS all_rows{all} FROM {name} WHERE service IN ('checkout', '007') GROUP BY day, service ORDER BY day, service"
        ));
    }
    texts.push("SELECT * FROM stacks ORDER BY site_id".into());
    texts.push("SELECT * FROM frames ORDER BY site_id, depth".into());
    let [duckdb, spark] = ["duckdb", "spark"].map(|engine| answers(engine, &folder.0, &texts));
    for (at, (table, _)) in TABLES.iter().enumerate() {
        let names: Vec<Value> = own_columns(table).into_iter().map(|column| column.0.into()).collect();
        let names = [names, vec!["day".into(), "service".into()]].concat();
        for found in [&duckdb, &spark] {
            assert_eq!(found[2 * at]["names"], Value::Array(names.clone()), "{table}");
        }
    }
    for (at, text) in texts.iter().enumerate() {
        assert_eq!(duckdb[at], spark[at], "{text}");
        if !text.ends_with("LIMIT 0") {
            assert_ne!(duckdb[at]["rows"], Value::Array(Vec::new()), "{text}");
        }
    }
    // Two hours are compacted: four hosts with 40 sites, each minute.
    let sites = duckdb[1]["rows"].as_array().unwrap();
    let found: Vec<(&Value, &Value)> = sites.iter().map(|row| (&row[1], &row[2])).collect();
    let rows = Value::from(4 * 40 * 120);
    assert_eq!(found, [(&"007".into(), &rows), (&"checkout".into(), &rows)]);
}
