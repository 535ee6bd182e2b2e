//! `highwater fleet sql`.

use super::ask::FleetAskArgs;
use crate::failure::{Failure, reason};
use crate::output::Output;
use crate::print::bytes::count;
use crate::print::colour::Style;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use serde_json::Value;
use std::io::Read;

/// The arguments of `highwater fleet sql`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet sql /lake 'SELECT service, count(*) FROM processes GROUP BY service'
  highwater fleet sql /lake --csv 'SELECT * FROM stacks' > stacks.csv
  highwater fleet sql /lake - < question.sql
  highwater fleet sql /lake --since 2h 'SELECT max(slot) FROM sites'

The tables are sites, sites_hour, processes, stacks (one row per site_id) and frames (one row per site_id and depth); docs/lake.md \
has their columns. --since, --until and --where choose the rows of sites, sites_hour (by the beginning of the hour) and processes; \
stacks and frames have those of the services. One SELECT can be asked. DuckDB reads nothing but the lake; what Spark may read is for \
its cluster to limit.")]
pub struct FleetSql {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// The text; '-' reads standard input
    #[arg(value_name = "SELECT")]
    text: String,
    /// Print comma-separated values instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// The most rows
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_rows: u64,
}

/// A text is not longer.
const LONGEST: u64 = 16 << 20;

impl FleetSql {
    /// Prints the answer.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut text = self.text.clone();
        if text == "-" {
            text.clear();
            let read = std::io::stdin().lock().take(LONGEST).read_to_string(&mut text);
            read.map_err(|error| Failure::fault(format_args!("standard input: {}", reason(&error))))?;
        }
        let asked = self.ask.open()?;
        let found = asked.ask_within(&text, self.max_rows)?;
        let answer = &found.answer;
        if self.ask.json {
            let mut document = asked.document("fleet sql", &asked.scope, None, &found);
            // Names of columns may repeat.
            document["columns"] = serde_json::to_value(&answer.columns).map_err(Failure::fault)?;
            document["rows"] = serde_json::to_value(&answer.rows).map_err(Failure::fault)?;
            return output.json(document);
        }
        if self.csv {
            let names: Vec<String> = answer.columns.iter().map(|column| quoted(&column.name)).collect();
            output.bytes(format!("{}\r\n", names.join(",")).as_bytes())?;
            for row in &answer.rows {
                let cells: Vec<String> = row.iter().map(|value| quoted(&plain(value))).collect();
                output.bytes(format!("{}\r\n", cells.join(",")).as_bytes())?;
            }
            return Ok(());
        }
        let mut table = Table::default();
        for column in &answer.columns {
            let is_number = matches!(column.kind.as_str(), "INT" | "BIGINT" | "DOUBLE" | "DECIMAL");
            table = table.column(if is_number { Align::Right } else { Align::Left }, &column.name);
        }
        for row in &answer.rows {
            let cell = |value: &Value| match value {
                Value::Null => Cell::new(Style::Dim, "null"),
                other => plain(other).into(),
            };
            table.row(row.iter().map(cell).collect());
        }
        output.text(&table.render(output.paint, output.width))?;
        let rows = answer.rows.len() as u64;
        output.text(&format!("\n{} row{}\n", count(rows), if rows == 1 { "" } else { "s" }))
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A field of RFC 4180.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(
            (quoted("a b"), quoted("a,b"), quoted("a\"b")),
            ("a b".into(), "\"a,b\"".into(), "\"a\"\"b\"".into())
        );
    }
}
