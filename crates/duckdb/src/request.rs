//! The request, and the statements that are made of it. docs: `protocol.rs` of the crate `highwater-fleet`.

use serde_json::Value;
use std::fmt::Write;

/// A request whose fields have the right types.
pub struct Request {
    pub base: String,
    pub sql: String,
    pub max_rows: u64,
    pub memory_bytes: u64,
    pub threads: u64,
    pub seconds: u64,
    /// `CREATE VIEW` statements: the relations first.
    pub views: Vec<String>,
}

impl Request {
    /// Reads a request.
    pub fn parse(line: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("the request is no JSON: {error}"))?;
        let text =
            |name: &str| value[name].as_str().map(str::to_owned).ok_or(format!("the request has no text '{name}'"));
        let number = |name: &str, missing| value[name].as_u64().unwrap_or(missing);
        let mut views = Vec::new();
        for (table, files) in value["tables"].as_object().into_iter().flatten() {
            let columns = columns(&files["columns"]).ok_or(format!("the request has no columns of '{table}'"))?;
            for (kind, has_partitions) in [("compacted", true), ("incoming", false)] {
                let files = paths(&files[kind]).ok_or(format!("the {kind} files of '{table}' are no list of texts"))?;
                let name = identifier(&format!("{table}_{kind}"));
                views.push(format!("CREATE VIEW {name} AS {}", relation(&columns, &files, has_partitions)));
            }
        }
        for (name, text) in value["views"].as_object().into_iter().flatten() {
            let text = text.as_str().ok_or(format!("the view '{name}' is no text"))?;
            views.push(format!("CREATE VIEW {} AS {text}", identifier(name)));
        }
        Ok(Self {
            base: text("base")?,
            sql: text("sql")?,
            max_rows: number("max_rows", u64::MAX),
            memory_bytes: number("memory_bytes", 1 << 30),
            threads: number("threads", 1).max(1),
            seconds: number("seconds", 0),
            views,
        })
    }
}

fn columns(list: &Value) -> Option<Vec<(String, &'static str)>> {
    let column = |column: &Value| {
        let kind = match column["type"].as_str()? {
            "BIGINT" => "BIGINT",
            "INT" => "INTEGER",
            "STRING" => "VARCHAR",
            "TIMESTAMP" => "TIMESTAMPTZ",
            _ => return None,
        };
        Some((column["name"].as_str()?.to_owned(), kind))
    };
    list.as_array()?.iter().map(column).collect()
}

fn paths(list: &Value) -> Option<Vec<&str>> {
    list.as_array()?.iter().map(Value::as_str).collect()
}

/// Files as a `SELECT` with the given columns.
fn relation(columns: &[(String, &'static str)], files: &[&str], has_partitions: bool) -> String {
    let mut text = String::from("SELECT ");
    for (index, (name, kind)) in columns.iter().enumerate() {
        let name = identifier(name);
        let value = if files.is_empty() { "NULL" } else { &name };
        let _ = write!(text, "{}CAST({value} AS {kind}) AS {name}", if index == 0 { "" } else { ", " });
    }
    if files.is_empty() {
        return text + " WHERE 1 = 0";
    }
    let files: Vec<String> = files.iter().map(|file| literal(&escaped_path(file))).collect();
    // A partition's value is a text, also if it looks like a number.
    let partitions = if has_partitions {
        "hive_partitioning = true, hive_types_autocast = false"
    } else {
        "hive_partitioning = false"
    };
    text + &format!(" FROM read_parquet([{}], {partitions})", files.join(", "))
}

/// A path as DuckDB takes it: it would expand patterns, and read other files, or one twice.
pub fn escaped_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for char in path.chars() {
        match char {
            '*' | '?' | '[' => escaped.extend(['[', char, ']']),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// A name in quotes.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in quotes.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
