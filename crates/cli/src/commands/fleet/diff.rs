//! `highwater fleet diff`.

use super::ask::{FleetAskArgs, FleetRowsArgs, table_in_words, time};
use super::rows::{AnswerRow, sites};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::heading::Heading;
use crate::print::table::{Align, Table};
use clap::Args;
use highwater_fleet::FleetScope;
use highwater_fleet::questions::{SiteTable, diff_sql, joint};
use serde_json::json;

/// The arguments of `highwater fleet diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet diff /lake --a region=eu-west-1 --b region=us-west-2
  highwater fleet diff /lake --a version=1.42.0 --b version=1.43.0 --where service=api
  highwater fleet diff /lake --a 'host=web-1*' --b 'host=web-2*'
  highwater fleet diff /lake --a since=2d,until=1d --b since=1d     yesterday and today
  highwater fleet diff /lake --a region=eu,since=1d --b region=us,since=1d --json

Both figures are means over all slots of all processes of the part, by service, so that parts of different sizes can be \
compared. Only services that both parts have are shown, unless --a or --b names services.")]
pub struct FleetDiff {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// The first part: filters as in --where, since=TIME and until=TIME, separated by commas
    #[arg(long, value_name = "PART", value_parser = part)]
    a: FleetScope,
    /// The second part
    #[arg(long, value_name = "PART", value_parser = part)]
    b: FleetScope,
    #[command(flatten)]
    rows: FleetRowsArgs,
}

/// `region=eu,since=2h`. A comma that no name and sign follow belongs to the value before it.
fn part(text: &str) -> Result<FleetScope, String> {
    let mut pieces: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match pieces.last_mut() {
            Some(last) if !piece.contains('=') => {
                last.push(',');
                last.push_str(piece);
            }
            _ => pieces.push(piece.to_owned()),
        }
    }
    let mut scope = FleetScope::default();
    for piece in pieces {
        match piece.split_once('=') {
            Some(("since", value)) => scope.since = Some(time(value)?),
            Some(("until", value)) => scope.until = Some(time(value)?),
            _ => scope
                .labels
                .push(piece.parse().map_err(|error: highwater_fleet::label_filter::BadLabelFilter| error.to_string())?),
        }
    }
    Ok(scope)
}

impl FleetDiff {
    /// Prints what differs.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let asked = self.ask.open()?;
        let both = joint(&asked.scope, &self.a, &self.b);
        let (source, _) = asked.lake.site_table(&both, false)?;
        let has_whole_hours = [&asked.scope, &self.a, &self.b].iter().all(|scope| scope.has_whole_hours());
        let has_own_times = [&self.a, &self.b].iter().any(|part| part.since.is_some() || part.until.is_some());
        // Widened hours of the two parts could overlap, and each part has ends of its own.
        let source = match source {
            SiteTable::Edges if !has_own_times => source,
            _ if has_whole_hours => source,
            _ => SiteTable::Minutes,
        };
        let sql = diff_sql(&asked.scope, &self.a, &self.b, source, self.rows.rows(self.ask.json));
        let found = asked.ask_sites(&sql, &both, source)?;
        if self.ask.json {
            let mut document = asked.document("fleet diff", &asked.scope, Some(source), &found);
            (document["a"], document["b"]) = (part_document(&self.a), part_document(&self.b));
            return output.json(document);
        }
        if found.answer.rows.is_empty() {
            for (name, part) in [("--a", &self.a), ("--b", &self.b)] {
                let mut scope = joint(&asked.scope, part, part);
                scope.labels.extend(part.labels.iter().cloned());
                let sql = format!("SELECT count(*) AS n FROM processes WHERE {}", scope.process_condition());
                let seen = asked.ask(&sql, &scope, 1)?;
                if seen.answer.rows.first().is_none_or(|row| row[0].as_i64() == Some(0)) {
                    output.line(&format!("No process is in the part {name}."))?;
                    return asked.print_nothing(output, &scope, "");
                }
            }
            return output.line("No rows: no service is in both parts, or they hold the same.");
        }
        let mut head = Heading::default();
        head.line("mean of", table_in_words(source));
        let mut table = Table::default()
            .column(Align::Right, "b − a")
            .column(Align::Right, "a")
            .column(Align::Right, "b")
            .column(Align::Left, "service")
            .column(Align::Left, "site");
        let rows: Vec<AnswerRow> = found.answer.objects().map(AnswerRow).collect();
        for (row, site) in rows.iter().zip(sites(&rows)) {
            let service = row.text("service").into();
            table.row(vec![row.signed_bytes("more"), row.bytes("a_mean"), row.bytes("b_mean"), service, site]);
        }
        asked.print(output, &found, head, &asked.scope, &table)
    }
}

fn part_document(part: &FleetScope) -> serde_json::Value {
    let filters: Vec<String> = part.labels.iter().map(ToString::to_string).collect();
    json!({ "since": part.since, "until": part.until, "where": filters })
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_part_has_labels_and_times() {
        let scope = part("region=eu,host!=a,b,since=2026-11-18,until=2026-11-19").unwrap();
        let labels: Vec<String> = scope.labels.iter().map(ToString::to_string).collect();
        assert_eq!(labels, ["region=eu", "host!=a,b"]);
        assert_eq!(scope.until.unwrap() - scope.since.unwrap(), 86_400);
        assert!(part("since=tomorrow").unwrap_err().contains("no time"));
        assert!(part("zone=1").unwrap_err().contains("no label"));
    }
}
