//! `highwater growth`: sites, or owners of blocks, whose memory grows steadily.

use crate::args::{FileArgs, Filters, Reading, grower_parser};
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open;
use crate::output::Output;
use crate::print::bytes::{bytes, counted};
use crate::print::colour::Style;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::rows::{RowName, add_row, unnamed};
use crate::print::stack::{Depth, SiteView};
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_formats::json;
use highwater_model::groups::{GroupBy, GroupKey};
use highwater_model::{Catalog, Clock, Naming, Source, StackId, When, Window};
use highwater_query::{GrowthAnswer, GrowthOptions, GrowthSite, Query, growth, time_of};
use serde_json::Value;
use std::sync::Arc;

/// The arguments of `highwater growth`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater growth app.hw                    what grows, fastest first
  highwater growth app.hw --from mark:warm   after the program has warmed up
  highwater growth app.hw --stacks full      with whole call stacks
  highwater growth app.hw --by task          by async task or span
  highwater growth app.hw --json | jq '.sites[0].growth_per_s'

Of a leak about as many bytes survive from each part of the time: its curve is a line, and its steadiness is near 100 %. What \
was built once and kept, or is replaced all the time, is less steady. What is live at the end, steady or not, is another \
question: highwater leaks app.hw")]
pub struct GrowthArgs {
    #[command(flatten)]
    input: FileArgs,
    /// What the rows are
    #[arg(long, value_name = "WHAT", default_value = "site", value_parser = grower_parser())]
    by: GroupBy,
    /// The first instant that counts [default: start]
    #[arg(long, value_name = "WHEN")]
    from: Option<When>,
    /// The last instant that counts [default: end]
    #[arg(long, value_name = "WHEN")]
    to: Option<When>,
    /// How many rows; 0 for all [default: 10, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    filters: Filters,
    /// How much of each call stack is shown
    #[arg(long, value_enum, default_value_t, value_name = "DEPTH")]
    stacks: Depth,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    reading: Reading,
}

/// The number of points of a curve for people, and for programs.
const SHOWN_POINTS: usize = 16;
const JSON_POINTS: usize = 40;
/// Sites that grow less steadily are not shown unless all are: a single step is no growth.
const LEAST_STEADINESS: f64 = 0.2;
/// The default number of rows, and the most.
const ROWS: usize = 10;
const MOST_ROWS: usize = 10_000;

impl GrowthArgs {
    /// Prints what grows.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let opened = open::open(&self.input.path, self.reading.on_damage())?;
        let json = self.reading.json;
        let default_top = if json { 0 } else { ROWS };
        let options = GrowthOptions {
            by: self.by,
            points: if json { JSON_POINTS } else { SHOWN_POINTS },
            limit: Some(self.top.unwrap_or(default_top)).filter(|top| *top > 0).unwrap_or(MOST_ROWS).min(MOST_ROWS),
            is_ascending: false,
            search: String::new(),
        };
        if opened.source().kind.is_object_graph() {
            let why = "a memory image does not say when its objects were made; 'highwater image diff' compares two";
            return Err(Failure::in_file(opened.path(), why));
        }
        for when in self.from.iter().chain(&self.to) {
            opened.must_know(when)?;
        }
        let naming = self.names.of(&opened)?;
        let answer = opened.ask_history(|history, work| {
            let whole = history.whole();
            let time = |when: &Option<When>, missing| when.as_ref().map_or(Ok(missing), |when| time_of(history, when));
            let window = Window { from: time(&self.from, whole.from)?, to: time(&self.to, whole.to)?.max(whole.from) };
            let (filters, naming) = (self.filters.every(), naming.clone());
            let query = Query { window, filters, naming, ..Query::new(Arc::clone(history)) };
            growth(&query, &options, work)
        })?;
        let end = opened.snapshot(&When::End)?;
        if json {
            let mut document: Value = json::head("growth", &end).into();
            let answer = serde_json::to_value(&answer).map_err(Failure::fault)?;
            answer.as_object().into_iter().flatten().for_each(|(name, value)| document[name] = value.clone());
            return output.json(document);
        }
        let mut head = Heading::default();
        heading::add_program(&mut head, &end.source);
        if !self.filters.is_empty() {
            head.line("only", self.filters.to_string());
        }
        heading::add_profile_notes(&mut head, &end.source);
        output.text(&head.render(output.paint, output.width))?;
        let units = Units::of_snapshot(&end);
        output.text(&self.body(&answer, &end.source, units, (&end.catalog, &naming), output))
    }

    fn body(
        &self,
        answer: &GrowthAnswer,
        source: &Source,
        units: Units,
        (catalog, naming): (&Catalog, &Naming),
        output: &Output,
    ) -> String {
        let least = if self.top == Some(0) { 0.0 } else { LEAST_STEADINESS };
        let growing: Vec<&GrowthSite> = answer.sites.iter().filter(|site| site.steadiness >= least).collect();
        let others = answer.count - growing.len();
        if let Some(why) = unnamed(self.by).filter(|_| answer.count == 0 && self.filters.is_empty()) {
            return format!("\n{why}\n");
        }
        if growing.is_empty() {
            let others = counted(others as u64, self.by.key());
            return format!(
                "\nNothing grows steadily. Of {others} something was built and kept; '--top 0' shows them.\n"
            );
        }
        // A single instruction or byte allocates next to nothing.
        let (per, factor) = match source.clock {
            Clock::Time => ("per second", 1.0),
            Clock::Lines => ("per line", 1.0),
            Clock::Instructions => ("per million instructions", 1e6),
            Clock::Bytes => ("per MiB allocated", 1048576.0),
        };
        let mut table = Table::default()
            .column(Align::Right, per)
            .column(Align::Right, "steady")
            .column(Align::Left, "curve")
            .column(Align::Right, "live")
            .column(Align::Right, if units.has_blocks() { "blocks" } else { "" })
            .column(Align::Left, self.by.key());
        let key_of = |site: &&GrowthSite| match self.by {
            GroupBy::Site => GroupKey::Site(StackId(site.id)),
            _ => GroupKey::Name(site.key.clone()),
        };
        let keys: Vec<GroupKey> = growing.iter().map(key_of).collect();
        let with_catalog: Vec<(&Catalog, &GroupKey)> = keys.iter().map(|key| (catalog, key)).collect();
        let sites = SiteView { depth: self.stacks, naming };
        let names = RowName::all(self.by, sites, &with_catalog);
        for ((site, key), name) in growing.iter().zip(&keys).zip(names) {
            let rate = site.growth_per_s.or(site.growth_per_line).unwrap_or(0.0);
            let cells: Vec<Cell> = vec![
                bytes((rate * factor).round() as u64).into(),
                format!("{:.0} %", site.steadiness * 100.0).into(),
                Cell::new(Style::Blue, &sparkline(&site.curve)),
                units.bytes(site.live_bytes).into(),
                if units.has_blocks() { units.count(site.live_blocks).into() } else { Cell::default() },
            ];
            add_row(&mut table, cells, catalog, key, sites, &name);
        }
        let mut text = format!("\n{}", table.render(output.paint, output.width));
        if others > 0 {
            text.push_str(&format!(
                "\n… {}; '--top 0' shows all.\n",
                counted(others as u64, &format!("more {}", self.by.key()))
            ));
        }
        text
    }
}

/// A curve as a line of blocks.
fn sparkline(curve: &[u64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = curve.iter().copied().max().unwrap_or(0).max(1);
    let level = |value: &u64| (u128::from(*value) * (BLOCKS.len() as u128 - 1)).div_ceil(u128::from(most)) as usize;
    curve.iter().map(|value| BLOCKS[level(value).min(BLOCKS.len() - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_drawn_from_its_lowest_to_its_highest_block() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), "▁▂▅█");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
        assert_eq!(sparkline(&[u64::MAX]), "█");
    }
}
