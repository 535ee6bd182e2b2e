//! Our files, read by three independent implementations of Parquet.

mod support;

use highwater_lake::Table;
use highwater_lake::rows::Batch;
use support::{TestFolder, paths, process, run_python, snapshot};

const SLOT: i64 = 1_794_873_600;

fn sample_lake(folder: &TestFolder) {
    let lake = folder.lake();
    for minute in 0..3 {
        let mut batch = Batch::default();
        snapshot(&mut batch, &process("api/ä", "host-1", 7), SLOT + minute * 60, 40);
        snapshot(&mut batch, &process("db", "host-1", 8), SLOT + minute * 60, 11);
        lake.add("host-1", &batch).unwrap();
    }
}

const ALL: &str = r#"
import json, sys, glob
engine, folder = sys.argv[1], sys.argv[2]
out = {}
for table in ["sites", "processes", "stacks", "frames"]:
    files = sorted(glob.glob(folder + "/incoming/" + table + "/*/*.parquet"))
    if engine == "pyarrow":
        import pyarrow.parquet as pq, pyarrow as pa
        data = pa.concat_tables([pq.read_table(f, partitioning=None) for f in files])
        names, rows = data.column_names, [tuple(r.values()) for r in data.to_pylist()]
    elif engine == "duckdb":
        import duckdb
        what = "* REPLACE (epoch_us(start) AS start)" if table in ["sites", "processes"] else "*"
        found = duckdb.connect().execute("SELECT " + what + " FROM read_parquet($1, hive_partitioning=false)", [files])
        names, rows = [d[0] for d in found.description], found.fetchall()
    else:
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false") \
            .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1") \
            .config("spark.sql.session.timeZone", "UTC").getOrCreate()
        data = spark.read.parquet(*files)
        names, rows = data.columns, [tuple(r) for r in data.collect()]
    def plain(v):
        if hasattr(v, "timestamp"):
            import datetime
            if v.tzinfo is None:
                v = v.astimezone()
            return (v - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
        return v
    rows = sorted(json.dumps([plain(v) for v in r]) for r in rows)
    out[table] = {"names": names, "rows": rows}
print(json.dumps(out))
"#;

#[test]
fn three_engines_read_the_same_rows() {
    let folder = TestFolder::new();
    sample_lake(&folder);
    let place = folder.path().to_str().unwrap();
    let [arrow, duckdb, spark] = ["pyarrow", "duckdb", "spark"].map(|engine| run_python(ALL, &[engine, place]));
    assert_eq!(arrow, duckdb);
    assert_eq!(arrow, spark);

    let found: serde_json::Value = serde_json::from_str(&arrow).unwrap();
    let names = found["sites"]["names"].as_array().unwrap();
    assert_eq!(names.first().unwrap(), "slot");
    assert_eq!(names.last().unwrap(), "service");
    let rows = found["sites"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 51);
    // By hand: slot, labels, pid, start in microseconds, the three ids, exact, five blocks of 64 bytes, nothing known of allocations.
    let id = process("api/ä", "host-1", 7).process_id;
    let second = (SLOT / 60) % 10;
    let blocks = 5 + second;
    let wanted = serde_json::json!([
        SLOT,
        "1.42.0",
        "eu",
        "host-1",
        7,
        1_790_000_000_123_463_i64,
        id,
        1_005,
        -2,
        0,
        blocks * 64,
        blocks,
        null,
        null,
        "api/ä"
    ]);
    let parsed: Vec<serde_json::Value> =
        rows.iter().map(|row| serde_json::from_str(row.as_str().unwrap()).unwrap()).collect();
    assert!(parsed.contains(&wanted), "{wanted}");
    assert_eq!(found["frames"]["rows"].as_array().unwrap().len(), 3 * 51 * 2);
    assert_eq!(paths(&folder.lake(), Table::Stacks).len(), 3);
}
