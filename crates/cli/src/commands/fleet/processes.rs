//! `highwater fleet processes`.

use super::ask::{FleetAskArgs, FleetRowsArgs, MOST_ROWS};
use super::rows::{AnswerRow, mark};
use crate::args::keyed_parser;
use crate::failure::Failure;
use crate::output::Output;
use crate::print::age::in_one_unit;
use crate::print::bytes::bytes;
use crate::print::heading::Heading;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use clap::builder::TypedValueParser;
use highwater_fleet::questions::{ProcessOrder, processes_sql};

/// The arguments of `highwater fleet processes`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet processes /lake                    the fastest growth first
  highwater fleet processes /lake --sort limit --since 2h
  highwater fleet processes /lake --sort live --where service=checkout
  highwater fleet processes /lake --json | jq '.rows[] | select(.hours_to_limit < 2)'

Growth is the slope of a line through a process's live bytes. The time to the limit is how long it takes until the resident set \
reaches the limit of its cgroup, if it goes on like this. The limit is that of the whole cgroup: processes that share one reach it \
earlier.")]
pub struct FleetProcesses {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// The order
    #[arg(long, value_name = "FIGURE", default_value = "slope", value_parser = order_parser())]
    sort: ProcessOrder,
    /// Slots that a process must have
    #[arg(long, value_name = "N", default_value_t = 3)]
    slots: u64,
    #[command(flatten)]
    rows: FleetRowsArgs,
}

fn order_parser() -> impl TypedValueParser<Value = ProcessOrder> {
    let about = |order| match order {
        ProcessOrder::Slope => "the fastest growth first",
        ProcessOrder::Live => "the most live bytes first",
        ProcessOrder::Rss => "the largest resident set first",
        ProcessOrder::Limit => "the shortest time to the limit first",
    };
    keyed_parser(ProcessOrder::ALL.map(|order| (order.key(), about(order), order)))
}

impl FleetProcesses {
    /// Prints the processes.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let asked = self.ask.open()?;
        let sql = processes_sql(&asked.scope, self.sort, self.slots, self.rows.rows(self.ask.json));
        let found = asked.ask(&sql, &asked.scope, MOST_ROWS)?;
        if self.ask.json {
            return output.json(asked.document("fleet processes", &asked.scope, None, &found));
        }
        if found.answer.rows.is_empty() {
            let otherwise = format!("no process has {} slots or more", self.slots);
            return asked.print_nothing(output, &asked.scope, &otherwise);
        }
        let mut table = Table::default()
            .column(Align::Right, "per hour")
            .column(Align::Right, "live")
            .column(Align::Right, "rss")
            .column(Align::Right, "limit")
            .column(Align::Right, "limit in")
            .column(Align::Left, "service")
            .column(Align::Left, "version")
            .column(Align::Right, "pid")
            .column(Align::Left, "host");
        for row in found.answer.objects().map(AnswerRow) {
            let known = |name: &str| match row.number(name) {
                Some(number) => bytes(number.max(0.0) as u64).into(),
                None => Cell::default(),
            };
            let limit_in = row
                .number("hours_to_limit")
                .map(|hours| in_one_unit((hours * 3600.0).clamp(0.0, 1e15) as u64))
                .map_or_else(Cell::default, |time| format!("{}{time}", mark(row.is_estimate())).into());
            table.row(vec![
                row.signed_bytes("bytes_per_hour"),
                row.bytes("live_bytes"),
                known("rss_bytes"),
                known("limit_bytes"),
                limit_in,
                row.text("service").into(),
                row.text("version").into(),
                row.whole("pid").to_string().into(),
                row.text("host").into(),
            ]);
        }
        asked.print(output, &found, Heading::default(), &asked.scope, &table)
    }
}
