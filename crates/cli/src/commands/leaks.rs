//! `highwater leaks`: blocks that are live at the end.

use crate::args::{FileArgs, Grouping, Instant, Reading, Selection};
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open;
use crate::output::Output;
use crate::print::bytes::{count, share};
use crate::print::colour::Style;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::rows::{Layout, RowName, add_row, unnamed};
use crate::print::stack::{Depth, SiteView};
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_formats::json::{self, DocumentStacks};
use highwater_model::groups::{GroupBy, GroupKey, Metric, Row, rows_named};
use highwater_model::{Catalog, Naming, Nanos, Snapshot, When};
use highwater_query::oldest_births;
use std::collections::BTreeMap;

/// The arguments of `highwater leaks`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater leaks app.hw                 what was never given back
  highwater leaks app.hw --stacks full   with whole call stacks
  highwater leaks app.hw --filter cache  only what the cache kept
  highwater leaks app.hw --filter 'allocated:..1s'   only what is older than that
  highwater leaks app.hw --by task       by async task or span; or by type …
  highwater leaks app.hw --at mark:done  live when the program said so
  highwater leaks app.hw --json | jq '.totals.live_bytes'

What is live at the end is not always a leak: caches and globals live as long as their program. What keeps growing \
is another question: highwater growth app.hw")]
pub struct Leaks {
    #[command(flatten)]
    input: FileArgs,
    #[command(flatten)]
    instant: Instant,
    #[command(flatten)]
    grouping: Grouping,
    #[command(flatten)]
    selection: Selection,
    /// How much of each call stack is shown
    #[arg(long, value_enum, default_value_t, value_name = "DEPTH")]
    stacks: Depth,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    reading: Reading,
}

impl Leaks {
    /// Prints the blocks that are live at the end.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let opened = open::open(&self.input.path, self.reading.on_damage())?;
        let snapshot = opened.snapshot_of(&self.instant.when, &self.selection.filters.of_blocks())?;
        let keep = self.selection.filters.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        // The figures of the end are at hand, and need not be held twice.
        let is_whole_end = self.instant.when == When::End && self.selection.filters.of_blocks().is_empty();
        let naming = if is_whole_end { self.names.of_snapshot(&snapshot)? } else { self.names.of(&opened)? };
        let mut rows = rows_named(&snapshot, self.grouping.by, Metric::Live, keep, &naming);
        // Blocks of zero bytes count, too.
        rows.retain(|row| row.figures.live_blocks() > 0);
        let births = oldest_births(&snapshot, self.grouping.by, &naming);
        if self.reading.json {
            return self.print_json(&snapshot, &rows, &births, output);
        }
        output.text(&self.head(&snapshot).render(output.paint, output.width))?;
        output.text(&self.body((&snapshot, &naming), &rows, &births, output))?;
        output.text(&heading::oddities(snapshot.accounts.anomalies(), output.paint))?;
        output.text(&heading::sampling(&snapshot))?;
        output.text(heading::missing_names(&snapshot))
    }

    fn print_json(
        &self,
        snapshot: &Snapshot,
        rows: &[Row],
        births: &BTreeMap<GroupKey, Nanos>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let document = json::document("leaks", snapshot).into();
        let chosen = &rows[..rows.len().min(self.selection.json_rows())];
        let stacks = DocumentStacks::of(&snapshot.catalog, json::sites_among(chosen)).map_err(Failure::fault)?;
        let elements = chosen.iter().map(|row| {
            let mut element = json::row(snapshot, self.grouping.by, row, &stacks);
            if let Some(birth) = births.get(&row.key) {
                element["oldest_at_ns"] = birth.0.into();
                element["oldest_age_ns"] = age(snapshot, *birth).0.into();
            }
            element
        });
        let sites = (self.grouping.by == GroupBy::Site).then_some(&stacks);
        output.json_with_list(document, Some((self.grouping.by.list_key(), elements)), sites)
    }

    fn body(
        &self,
        (snapshot, naming): (&Snapshot, &Naming),
        rows: &[Row],
        births: &BTreeMap<GroupKey, Nanos>,
        output: &Output,
    ) -> String {
        if rows.is_empty() {
            let filters = &self.selection.filters;
            return match filters.is_empty() {
                false => format!("\nNothing that is live matches '{filters}'.\n"),
                true if snapshot.accounts.totals().figures.live_blocks() > 0 => {
                    format!("\n{}\n", unnamed(self.grouping.by).unwrap_or("Nothing is known of what is live."))
                }
                true if self.instant.when != When::End => format!("\nNothing is live at {}.\n", self.instant.when),
                true if snapshot.source.snapshot => "\nNothing is live.\n".to_owned(),
                true => "\nNothing is live at the end: no leaks.\n".to_owned(),
            };
        }
        let (first, rest) = rows.split_at(self.selection.table_rows().min(rows.len()));
        let units = Units::of_snapshot(snapshot);
        let whole = snapshot.accounts.totals().figures.live_bytes();
        let mut table = Table::default().column(Align::Right, "share").column(Align::Right, "live");
        if units.has_intervals() {
            table = table.column(Align::Right, "95% range").column(Align::Right, "samples");
        }
        if units.has_blocks() {
            table = table.column(Align::Right, "blocks");
        }
        // Ages are known only if the snapshot has single blocks.
        let has_ages = !snapshot.source.aggregated;
        if has_ages {
            table = table.column(Align::Right, "oldest");
        }
        table = table.column(Align::Left, self.grouping.by.key());
        let sites = SiteView { depth: self.stacks, naming };
        let keys: Vec<(&Catalog, &GroupKey)> = first.iter().map(|row| (&*snapshot.catalog, &row.key)).collect();
        for (row, name) in first.iter().zip(RowName::all(self.grouping.by, sites, &keys)) {
            let live = row.figures.live_bytes();
            let age =
                births.get(&row.key).map_or_else(String::new, |birth| snapshot.source.length(age(snapshot, *birth)));
            let mut cells: Vec<Cell> = vec![share(live, whole).into(), units.bytes(live).into()];
            if units.has_intervals() {
                cells.push(units.interval(Metric::Live, &row.figures).into());
                cells.push(count(row.figures.live_samples()).into());
            }
            if units.has_blocks() {
                cells.push(units.count(row.figures.live_blocks()).into());
            }
            if has_ages {
                cells.push(Cell::new(Style::Dim, &age));
            }
            add_row(&mut table, cells, &snapshot.catalog, &row.key, sites, &name);
        }
        let layout = Layout { by: self.grouping.by, metric: Metric::Live, sites, units, whole, details: None };
        format!("\n{}{}", table.render(output.paint, output.width), layout.remainder(rest))
    }

    fn head(&self, snapshot: &Snapshot) -> Heading {
        let units = Units::of_snapshot(snapshot);
        let totals = snapshot.accounts.totals();
        let mut head = Heading::default();
        heading::add_program(&mut head, &snapshot.source);
        if let Some(filters) = self.selection.filters.in_words() {
            head.line("only", filters);
        }
        heading::add_sampling(&mut head, &snapshot.source, &totals.figures);
        let live = heading::live(units, &totals.figures);
        if snapshot.source.snapshot {
            head.line("live", live);
        } else {
            head.line(
                "live",
                format!("{live} at {}", heading::instant(&snapshot.source, &self.instant.when, snapshot.at)),
            );
            head.line("peak", heading::peak(&snapshot.source, units, totals));
        }
        heading::add_profile_notes(&mut head, &snapshot.source);
        head
    }
}

fn age(snapshot: &Snapshot, birth: Nanos) -> Nanos {
    Nanos(snapshot.at.0.saturating_sub(birth.0))
}
