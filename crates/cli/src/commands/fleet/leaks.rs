//! `highwater fleet leaks`.

use super::ask::{FleetAskArgs, FleetRowsArgs, table_in_words};
use super::rows::{AnswerRow, sites};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::bytes::bytes;
use crate::print::heading::Heading;
use crate::print::table::{Align, Table};
use clap::Args;
use highwater_fleet::questions::{LeakRule, leaks_sql};

/// The arguments of `highwater fleet leaks`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet leaks /lake                      all sites that grow in a straight line
  highwater fleet leaks /lake --since 12h --where service=checkout
  highwater fleet leaks /lake --r2 0.99 --rate 10  straighter, but slower
  highwater fleet leaks /lake --slots 240          only processes that were seen for long
  highwater fleet leaks /lake --json | jq '.rows[] | {function, hosts, fastest}'

A line is fitted to the live blocks of each call stack of each process. r² is the part of their variance that the line explains: \
1 is a straight line. A site that grows in many processes and on many hosts is a leak; one that grows in few may be a load.")]
pub struct FleetLeaks {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// Slots that a process and a site in it must have
    #[arg(long, value_name = "N", default_value_t = LeakRule::default().slots)]
    slots: u64,
    /// The least r²
    #[arg(long, value_name = "PART", default_value_t = LeakRule::default().r2, value_parser = part)]
    r2: f64,
    /// The least growth, in blocks an hour
    #[arg(long, value_name = "N", default_value_t = LeakRule::default().blocks_per_hour, value_parser = rate)]
    rate: f64,
    #[command(flatten)]
    rows: FleetRowsArgs,
}

fn part(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("'{text}' is no number from 0 to 1"))
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number < 1e18);
    number.ok_or_else(|| format!("'{text}' is no number above 0"))
}

impl FleetLeaks {
    /// Prints what leaks.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let asked = self.ask.open()?;
        let rule = LeakRule { slots: self.slots, r2: self.r2, blocks_per_hour: self.rate };
        let (source, scope) = asked.line_table()?;
        let sql = leaks_sql(&scope, source, rule, self.rows.rows(self.ask.json));
        let found = asked.ask_sites(&sql, &scope, source)?;
        if self.ask.json {
            return output.json(asked.document("fleet leaks", &scope, Some(source), &found));
        }
        if found.answer.rows.is_empty() {
            let otherwise = format!(
                "no site grows by {} blocks an hour or more with r² of at least {}, in processes with {} slots or more",
                self.rate, self.r2, self.slots
            );
            return asked.print_nothing(output, &scope, &otherwise);
        }
        let mut head = Heading::default();
        head.line("fitted to", table_in_words(source));
        let mut table = Table::default()
            .column(Align::Right, "fastest")
            .column(Align::Right, "blocks/h")
            .column(Align::Right, "slowest")
            .column(Align::Right, "r²")
            .column(Align::Right, "hosts")
            .column(Align::Right, "processes")
            .column(Align::Left, "service")
            .column(Align::Left, "site");
        let rows: Vec<AnswerRow> = found.answer.objects().map(AnswerRow).collect();
        for (row, site) in rows.iter().zip(sites(&rows)) {
            let per_hour = row.number("fastest").unwrap_or(0.0) * row.number("bytes_per_block").unwrap_or(0.0);
            table.row(vec![
                format!("~{}/h", bytes(per_hour.max(0.0).round() as u64)).into(),
                row.estimated_count("fastest"),
                row.estimated_count("slowest"),
                format!("{:.3}", row.number("r2").unwrap_or(0.0)).into(),
                row.part("hosts", "hosts_seen"),
                row.part("processes", "processes_seen"),
                row.text("service").into(),
                site,
            ]);
        }
        asked.print(output, &found, head, &scope, &table)
    }
}
