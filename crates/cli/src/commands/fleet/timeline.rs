//! `highwater fleet timeline`.

use super::ask::{FleetAskArgs, MOST_ROWS};
use super::rows::{AnswerRow, mark};
use super::top::counted_processes;
use crate::args::keyed_parser;
use crate::failure::Failure;
use crate::output::Output;
use crate::print::bytes::bytes;
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::stacked_chart::{StackedChart, sign};
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use clap::builder::TypedValueParser;
use highwater_fleet::label_filter::FleetLabel;
use highwater_fleet::questions::timeline_sql;
use highwater_fleet::slot_in_words;
use std::collections::BTreeMap;

/// The arguments of `highwater fleet timeline`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet timeline /lake                       stacked by service
  highwater fleet timeline /lake --by version --where service=checkout --since 7d
  highwater fleet timeline /lake --by host --top 5
  highwater fleet timeline /lake --by region --json | jq '.rows[]'

The time is divided into buckets. Each shows one slot, the one in which all processes together held the most, so that its \
parts add up to what was held then.")]
pub struct FleetTimelineArgs {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// The label whose values are stacked
    #[arg(long, value_name = "LABEL", default_value = "service", value_parser = label_parser())]
    by: FleetLabel,
    /// The number of buckets [default: the width of the terminal, with --json 120]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    buckets: Option<u32>,
    /// How many values are shown one by one
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
}

fn label_parser() -> impl TypedValueParser<Value = FleetLabel> {
    keyed_parser([
        ("service", "the service", FleetLabel::Service),
        ("version", "the version of the service", FleetLabel::Version),
        ("region", "the region", FleetLabel::Region),
        ("host", "the host", FleetLabel::Host),
        ("container", "the container or pod", FleetLabel::Container),
    ])
}

const HEIGHT: usize = 12;
const LABEL_WIDTH: usize = 10;
/// The chart's width if the output is not a terminal.
const WIDTH: usize = 78;

/// What some processes held at a slot.
#[derive(Clone, Copy, Default)]
struct SlotFigures {
    bytes: i64,
    processes: i64,
    is_estimate: bool,
}

impl SlotFigures {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.processes += other.processes;
        self.is_estimate |= other.is_estimate;
    }

    fn marked_bytes(&self) -> String {
        format!("{}{}", mark(self.is_estimate), bytes(self.bytes.max(0) as u64))
    }
}

/// What one value held: at each slot, and at the slot at which it held the most.
#[derive(Default)]
struct LabelCurve {
    most: SlotFigures,
    slots: BTreeMap<i64, SlotFigures>,
}

impl LabelCurve {
    fn insert(&mut self, slot: i64, held: SlotFigures) {
        if held.bytes > self.most.bytes {
            self.most = held;
        }
        self.slots.insert(slot, held);
    }

    fn at(&self, slot: i64) -> SlotFigures {
        self.slots.get(&slot).copied().unwrap_or_default()
    }
}

impl FleetTimelineArgs {
    /// Prints the chart.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let asked = self.ask.open()?;
        let width = output.width.unwrap_or(WIDTH).saturating_sub(LABEL_WIDTH + 2).max(10) as u32;
        let buckets = self.buckets.unwrap_or(if self.ask.json { 120 } else { width });
        let sql = timeline_sql(&asked.scope, self.by, buckets);
        let found = asked.ask(&sql, &asked.scope, MOST_ROWS)?;
        if self.ask.json {
            let mut document = asked.document("fleet timeline", &asked.scope, None, &found);
            document["by"] = self.by.key().into();
            return output.json(document);
        }
        let mut curves: BTreeMap<String, LabelCurve> = BTreeMap::new();
        let mut totals: BTreeMap<i64, SlotFigures> = BTreeMap::new();
        for row in found.answer.objects().map(AnswerRow) {
            let slot = row.whole("slot");
            let held = SlotFigures {
                bytes: row.whole("bytes"),
                processes: row.whole("processes"),
                is_estimate: row.is_estimate(),
            };
            totals.entry(slot).or_default().add(held);
            curves.entry(row.text("grp").to_owned()).or_default().insert(slot, held);
        }
        let Some(last) = totals.keys().next_back().copied() else {
            return asked.print_nothing(output, &asked.scope, "");
        };
        let peak = totals.iter().max_by_key(|(slot, held)| (held.bytes, -**slot));
        let mut order: Vec<(&String, &LabelCurve)> = curves.iter().collect();
        order.sort_by_key(|(name, curve)| (std::cmp::Reverse(curve.most.bytes), (*name).clone()));
        let shown = order.len().min(self.top.max(1));
        let at = |curve: &LabelCurve, slot: i64| curve.at(slot).bytes.max(0) as u64;
        let columns: Vec<Vec<u64>> = totals
            .keys()
            .map(|slot| {
                let mut column: Vec<u64> = order[..shown].iter().map(|(_, curve)| at(curve, *slot)).collect();
                column.push(order[shown..].iter().map(|(_, curve)| at(curve, *slot)).sum());
                column
            })
            .collect();
        let chart = StackedChart { columns: &columns, height: HEIGHT, label: bytes, label_width: LABEL_WIDTH };
        let mut head = Heading::default();
        if let Some((slot, held)) = peak {
            head.line("peak", format!("{} at {}", held.marked_bytes(), slot_in_words(*slot)));
        }
        let first = totals.keys().next().copied().unwrap_or(0);
        head.line("slots", format!("{} to {}", slot_in_words(first), slot_in_words(last)));
        let mut table = Table::default()
            .column(Align::Left, "")
            .column(Align::Right, "at most")
            .column(Align::Right, "at last")
            .column(Align::Right, "processes")
            .column(Align::Left, self.by.key());
        for (index, (name, curve)) in order.iter().take(shown).enumerate() {
            let (sign, style) = sign(index, shown);
            let held = curve.at(last);
            table.row(vec![
                Cell::new(style, &sign.to_string()),
                curve.most.marked_bytes().into(),
                held.marked_bytes().into(),
                held.processes.to_string().into(),
                if name.is_empty() { Cell::new(Style::Dim, "(not known)") } else { name.as_str().into() },
            ]);
        }
        if order.len() > shown {
            let mut rest = SlotFigures::default();
            order[shown..].iter().for_each(|(_, curve)| rest.add(curve.at(last)));
            let (sign, style) = sign(shown, shown);
            let cells = [sign.to_string(), String::new(), rest.marked_bytes(), rest.processes.to_string()];
            let mut cells: Vec<Cell> = cells.iter().map(|text| Cell::new(style, text)).collect();
            cells.push(Cell::new(style, &format!("{} more", order.len() - shown)));
            table.row(cells);
        }
        let all = totals.get(&last).map_or(0, |held| held.processes);
        head.line("at last", counted_processes(all.max(0) as u64));
        asked.print(output, &found, head, &asked.scope, &Table::default())?;
        output.text(&format!("{}\n{}", chart.lines(output.paint), table.render(output.paint, output.width)))
    }
}
