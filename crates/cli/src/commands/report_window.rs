//! `highwater report --from … --to …`: the events in a window of time.

use crate::args::{Reading, must_be_known};
use crate::commands::report::ReportView;
use crate::failure::Failure;
use crate::open::Opened;
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::rows::Layout;
use crate::print::stack::SiteView;
use clap::Args;
use highwater_formats::json::{self, DocumentStacks, WindowDocument};
use highwater_model::groups::{GroupBy, Metric, Row, rows_named};
use highwater_model::{Figures, Naming, Nanos, Snapshot, When, Window};
use highwater_query::{Filter, PeakInstant, Query, filtered_snapshot, moment, peak};
use highwater_store::history::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The window of interest.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// Report a window: the first instant, included [default: start]
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["when", "lifetimes"])]
    from: Option<When>,
    /// The last instant of the window, included [default: end]
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["when", "lifetimes"])]
    to: Option<When>,
}

impl WindowArgs {
    /// True if a window was given.
    pub fn is_wanted(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Prints the report of the window.
    pub fn report(
        &self,
        opened: &Opened,
        view: &ReportView,
        reading: &Reading,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if opened.source().is_states() {
            let why = "the file has states at several instants, and not what happened between them; --at shows one";
            return Err(Failure::in_file(opened.path(), why));
        }
        let metric = view.ranking.metric;
        if metric == Metric::OwnPeak {
            return Err(Failure::Usage(
                "rows of a window have no peaks of their own; choose another --metric".to_owned(),
            ));
        }
        let filters = view.selection.filters.of_blocks();
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
        let at =
            |moment: Moment| opened.ask_history(|history, work| filtered_snapshot(history, moment, &filters, work));
        let history = opened.history()?;
        let (before, after) = (at(history.moment_before(window.from))?, at(history.moment_at(window.to))?);
        let query = Query { window, filters: filters.clone(), ..Query::new(Arc::clone(history)) };
        let peak = opened.ask_history(|_, work| peak(&query, work))?;
        let highest = match (filters.is_empty(), peak.filtered) {
            (true, _) => peak.whole,
            (false, Some(filtered)) => filtered,
            (false, None) => {
                let why = "too many blocks pass these filters to find their peak; choose a shorter window, or filters without freed:, live: and lifetime:";
                return Err(Failure::in_file(opened.path(), why));
            }
        };
        must_be_known(metric, &after)?;
        let counters = after.since(&before);
        // The blocks whose live bytes are shown.
        let live = match metric {
            Metric::Peak => opened.ask_history(|history, work| {
                let moment = moment(history, window, When::Peak)?;
                filtered_snapshot(history, moment, &filters, work)
            })?,
            Metric::Leaked => opened.ask_history(|history, work| {
                let born: Filter = format!("allocated:{}..{}", window.from.0, window.to.0).parse()?;
                let filters: Vec<Filter> = filters.iter().cloned().chain([born]).collect();
                filtered_snapshot(history, Moment::End, &filters, work)
            })?,
            _ => Arc::clone(&after),
        };
        let keep = view.selection.filters.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let by = view.grouping.by;
        let naming = view.names.of(opened)?;
        let ranked = |snapshot: &Snapshot| rows_named(snapshot, by, metric, keep, &naming);
        if !reading.json {
            let shown = if metric.is_live() { &*live } else { &counters };
            output.text(&head(window, &after, &counters, highest, view).render(output.paint, output.width))?;
            return output.text(&body(view, &naming, shown, ranked(shown), output));
        }
        let document =
            WindowDocument::new(window, &after, &counters, (highest.bytes, Nanos(highest.at_ns)), (by, &naming));
        let mut members = json::head("report", &after);
        members.extend(document.members());
        members.insert("anomalies".to_owned(), json::anomalies(counters.accounts.anomalies()));
        members.insert("by".to_owned(), by.key().into());
        members.insert("metric".to_owned(), metric.key().into());
        let (mut chosen, live) = (ranked(&counters), ranked(&live));
        // Rows that were live before the window and had no events in it are still live at its end.
        let idle: Vec<Row> = {
            let known: BTreeSet<_> = chosen.iter().map(|row| &row.key).collect();
            let is_idle = |row: &&Row| row.inclusive.live_blocks() > 0 && !known.contains(&row.key);
            let nothing = Figures::default();
            let idle = live.iter().filter(is_idle);
            idle.map(|row| Row { key: row.key.clone(), figures: nothing, inclusive: nothing }).collect()
        };
        chosen.extend(idle);
        if metric.is_live() {
            let order: BTreeMap<_, _> = live.iter().enumerate().map(|(at, row)| (&row.key, at)).collect();
            chosen.sort_by_key(|row| order.get(&row.key).copied().unwrap_or(usize::MAX));
        }
        chosen.truncate(view.selection.json_rows());
        let stacks = DocumentStacks::of(&counters.catalog, json::sites_among(&chosen)).map_err(Failure::fault)?;
        let elements = chosen.iter().map(|row| document.row(row, &stacks));
        let stacks = (by == GroupBy::Site).then_some(&stacks);
        output.json_with_list(members.into(), Some((by.list_key(), elements)), stacks)
    }
}

fn head(window: Window, after: &Snapshot, counters: &Snapshot, highest: PeakInstant, view: &ReportView) -> Heading {
    let units = Units::of_snapshot(after);
    let figures = &counters.accounts.totals().figures;
    let mut head = Heading::default();
    heading::add_program(&mut head, &after.source);
    if let Some(filters) = view.selection.filters.in_words() {
        head.line("only", filters);
    }
    let events = counted(counters.accounts.events(), "event");
    let instant = |at| after.source.instant(at);
    head.line("window", format!("{events} from {} to {}", instant(window.from), instant(window.to)));
    head.line("peak", format!("{} at {} in the window", units.bytes(highest.bytes), instant(Nanos(highest.at_ns))));
    head.line("live", format!("{} at its end", heading::live(units, &after.accounts.totals().figures)));
    head.line("allocated", heading::allocated(units, figures));
    head.line("freed", format!("{} in {}", units.bytes(figures.freed_bytes), units.counted(figures.frees, "free")));
    head
}

fn body(view: &ReportView, naming: &Naming, snapshot: &Snapshot, rows: Vec<Row>, output: &Output) -> String {
    let metric = view.ranking.metric;
    let shown: Vec<Row> = rows.into_iter().filter(|row| metric.of(&row.inclusive) > 0).collect();
    if shown.is_empty() {
        return format!("\nNo {} in the window.\n", metric.in_words());
    }
    let units = Units::of_snapshot(snapshot);
    let whole = metric.of(&snapshot.accounts.totals().figures);
    let sites = SiteView { depth: view.stacks, naming };
    let layout = Layout { by: view.grouping.by, metric, sites, units, whole, details: None };
    let (first, rest) = shown.split_at(view.selection.table_rows().min(shown.len()));
    let table = layout.table(first, &snapshot.catalog).render(output.paint, output.width);
    format!("\n{table}{}", layout.remainder(rest))
}
