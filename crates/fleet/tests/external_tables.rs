//! The definitions of external tables in `docs/external-tables` have the columns of the lake.

use highwater_fleet::schema;
use std::path::Path;

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
