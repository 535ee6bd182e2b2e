//! `highwater report --from … --to …`: the events in a window of time.

use crate::args::{RankBy, Reading};
use crate::commands::report::View;
use crate::failure::Failure;
use crate::open::Opened;
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::rows::Layout;
use clap::Args;
use highwater_formats::json::{self, Stacks, WindowDocument};
use highwater_model::groups::{GroupBy, Row, rows};
use highwater_model::{Figures, Snapshot, When, Window};
use highwater_store::{Highest, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// The window of interest.
#[derive(Debug, Args)]
pub struct Between {
    /// Tell what happened from this instant on, itself included, rather than all that did until --at
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["when", "lifetimes"])]
    from: Option<When>,
    /// The last instant of that [default: end]
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["when", "lifetimes"])]
    to: Option<When>,
}

impl Between {
    /// True if a window was given.
    pub fn is_wanted(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Prints the report of the window.
    pub fn report(&self, opened: &Opened, view: &View, reading: &Reading, output: &mut Output) -> Result<(), Failure> {
        if view.selection.heap().is_some() {
            return Err(Failure::Usage("a window is told of all heaps; leave out --filter heap:NAME".to_owned()));
        }
        if view.metric == RankBy::Peak {
            return Err(Failure::Usage("rows of a window have no peaks; choose another --metric".to_owned()));
        }
        for when in self.from.iter().chain(&self.to) {
            opened.must_know(when)?;
        }
        let window = opened.ask(|recording| {
            let time = |when: &Option<When>, default: When| recording.time_of(when.as_ref().unwrap_or(&default));
            Ok(Window { from: time(&self.from, When::Start)?, to: time(&self.to, When::End)? })
        })?;
        if window.from > window.to {
            return Err(Failure::Usage(format!(
                "the window ends at {}, before it begins at {}",
                opened.source().instant(window.to),
                opened.source().instant(window.from)
            )));
        }
        let (before, after) = opened.ask(|recording| recording.snapshots_around(window))?;
        let mut highest = opened.ask(|recording: &Recording| Ok(recording.highest_between(window.from, window.to)?))?;
        // If the state at the beginning of the window is its highest point, it was reached earlier: the beginning is reported.
        highest.at = highest.at.max(window.from);
        view.metric.must_be_known(&after)?;
        let counters = after.since(&before);
        let keep = view.selection.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let by = view.by.group();
        let ranked = |snapshot: &Snapshot| rows(snapshot, by, view.metric.metric(), keep);
        if !reading.json {
            let shown = if view.metric == RankBy::Live { &after } else { &counters };
            output.text(&head(window, &after, &counters, highest).render(output.paint, output.width))?;
            return output.text(&body(view, shown, ranked(shown), output));
        }
        let told = WindowDocument::new(window, &after, &counters, (highest.bytes, highest.at), by);
        let mut members = json::head("report", &after);
        members.extend(told.members());
        members.insert("anomalies".to_owned(), json::anomalies(counters.accounts.anomalies()));
        members.insert("by".to_owned(), view.by.singular().into());
        members.insert("metric".to_owned(), view.metric.name().into());
        let (mut chosen, live) = (ranked(&counters), ranked(&after));
        // Rows that were live before the window and had no events in it are still live at its end.
        let idle: Vec<Row> = {
            let known: BTreeSet<_> = chosen.iter().map(|row| &row.key).collect();
            let is_idle = |row: &&Row| row.inclusive.live_blocks() > 0 && !known.contains(&row.key);
            let nothing = Figures::default();
            let idle = live.iter().filter(is_idle);
            idle.map(|row| Row { key: row.key.clone(), figures: nothing, inclusive: nothing }).collect()
        };
        chosen.extend(idle);
        if view.metric == RankBy::Live {
            let order: BTreeMap<_, _> = live.iter().enumerate().map(|(at, row)| (&row.key, at)).collect();
            chosen.sort_by_key(|row| order.get(&row.key).copied().unwrap_or(usize::MAX));
        }
        chosen.truncate(view.selection.json_rows());
        let stacks = Stacks::of(&counters.catalog, json::sites_among(&chosen)).map_err(Failure::fault)?;
        let elements = chosen.iter().map(|row| told.row(row, &stacks));
        let stacks = (by == GroupBy::Site).then_some(&stacks);
        output.json_with_list(members.into(), Some((json::list_name(by), elements)), stacks)
    }
}

fn head(window: Window, after: &Snapshot, counters: &Snapshot, highest: Highest) -> Heading {
    let units = Units::of_snapshot(after);
    let figures = &counters.accounts.totals().figures;
    let mut head = Heading::default();
    heading::add_program(&mut head, &after.source);
    let events = counted(counters.accounts.events(), "event");
    let instant = |at| after.source.instant(at);
    head.line("window", format!("{events} from {} to {}", instant(window.from), instant(window.to)));
    head.line("peak", format!("{} at {} in the window", units.bytes(highest.bytes), instant(highest.at)));
    head.line("live", format!("{} at its end", heading::live(units, &after.accounts.totals().figures)));
    head.line("allocated", heading::allocated(units, figures));
    head.line("freed", format!("{} in {}", units.bytes(figures.freed_bytes), units.counted(figures.frees, "free")));
    head
}

fn body(view: &View, snapshot: &Snapshot, rows: Vec<Row>, output: &Output) -> String {
    let metric = view.metric.metric();
    let shown: Vec<Row> = rows.into_iter().filter(|row| metric.of(&row.inclusive) > 0).collect();
    if shown.is_empty() {
        return format!("\nNo {} in the window.\n", view.metric.in_words());
    }
    let units = Units::of_snapshot(snapshot);
    let whole = metric.of(&snapshot.accounts.totals().figures);
    let layout = Layout { by: view.by, metric, depth: view.stacks, units, whole };
    let (first, rest) = shown.split_at(view.selection.table_rows().min(shown.len()));
    let table = layout.table(first, &snapshot.catalog).render(output.paint, output.width);
    format!("\n{table}{}", layout.remainder(rest))
}
