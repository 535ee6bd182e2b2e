//! `highwater fleet top`.

use super::ask::{FleetAskArgs, FleetRowsArgs, time};
use super::rows::{AnswerRow, mark, sites};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::bytes::{bytes, counted, share};
use crate::print::heading::Heading;
use crate::print::table::{Align, Table};
use clap::Args;
use highwater_fleet::questions::FleetInstant;
use highwater_fleet::slot_in_words;

/// The arguments of `highwater fleet top`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet top /lake                             at the fleet's peak
  highwater fleet top /lake --at latest                 now
  highwater fleet top /lake --where service=checkout --since 24h
  highwater fleet top /lake --at 2026-11-18T09:30:00Z --top 50
  highwater fleet top /lake --json | jq '.rows[0].function'

The peak is the slot in which all processes that pass the filters together held the most. 'latest' is the last slot that most \
processes have sent already.")]
pub struct FleetTop {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// The instant: peak, latest, or a time
    #[arg(long, value_name = "WHEN", default_value = "peak", value_parser = instant)]
    at: FleetInstant,
    #[command(flatten)]
    rows: FleetRowsArgs,
}

fn instant(text: &str) -> Result<FleetInstant, String> {
    match text {
        "peak" => Ok(FleetInstant::Peak),
        "latest" => Ok(FleetInstant::Latest),
        _ => time(text).map(FleetInstant::At).map_err(|line| format!("{line}; or 'peak' or 'latest'")),
    }
}

impl FleetTop {
    /// Prints the sites that hold the most.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let asked = self.ask.open()?;
        let scope = asked.kept_scope()?;
        let found = asked.top(&scope, self.at, self.rows.rows(self.ask.json))?;
        if self.ask.json {
            return output.json(asked.document("fleet top", &scope, None, &found));
        }
        let rows: Vec<AnswerRow> = found.answer.objects().map(AnswerRow).collect();
        let mut head = Heading::default();
        let mut table = Table::default()
            .column(Align::Right, "live")
            .column(Align::Right, "share")
            .column(Align::Right, "blocks")
            .column(Align::Right, "processes")
            .column(Align::Right, "hosts")
            .column(Align::Left, "site");
        if let Some(first) = rows.first() {
            let when = match self.at {
                FleetInstant::Peak => " (the peak)",
                FleetInstant::Latest => " (the latest)",
                FleetInstant::At(_) => "",
            };
            head.line("at", format!("{}{when}", slot_in_words(first.whole("slot"))));
            let number = |name| first.whole(name).max(0) as u64;
            let (processes, hosts) = (number("fleet_processes"), number("fleet_hosts"));
            let total = bytes(number("fleet_bytes"));
            let mark = mark(first.is_fleet_estimate());
            head.line(
                "live",
                format!("{mark}{total} in {} on {}", counted_processes(processes), counted(hosts, "host")),
            );
        }
        for (row, site) in rows.iter().zip(sites(&rows)) {
            let part = share(row.whole("bytes").max(0) as u64, row.whole("fleet_bytes").max(0) as u64);
            table.row(vec![
                row.bytes("bytes"),
                format!("{}{part}", mark(row.is_fleet_estimate())).into(),
                row.estimated_count("blocks"),
                row.count("processes"),
                row.count("hosts"),
                site,
            ]);
        }
        asked.print(output, &found, head, &scope, &table)
    }
}

/// `1 process`, `3 processes`.
pub fn counted_processes(number: u64) -> String {
    if number == 1 { "1 process".into() } else { format!("{} processes", crate::print::bytes::count(number)) }
}
