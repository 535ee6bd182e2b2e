//! `highwater report`: which sites hold the memory at an instant.

use super::report_window::WindowArgs;
use crate::args::{FileArgs, Grouping, Instant, Ranking, Reading, Selection, must_be_known, must_have_rows};
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open::{self, Opened};
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::rows::{Layout, unnamed};
use crate::print::stack::{Depth, SiteView};
use clap::Args;
use highwater_formats::json::{self, DocumentStacks};
use highwater_model::groups::{GroupBy, GroupKey, Metric, Row, rows_named};
use highwater_model::{Lifetimes, Naming, Snapshot, Source, Totals, TypeDetails, When, type_details};
use highwater_query::lifetimes;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

/// The arguments of `highwater report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater report app.hw                          live at the end, by call site
  highwater report app.hw --at peak                when there was most of it
  highwater report app.hw --at mark:loaded         when the program said so
  highwater report app.hw --by type                which types hold how much
  highwater report app.hw --by thread              which thread holds how much
  highwater report app.hw --by task                which async task or span does
  highwater report app.hw --metric temporary       what died at once
  highwater report app.hw --from 2s --to 3s        what happened in that window
  highwater report app.hw --filter 'parse|lex'     only stacks through these
  highwater report app.hw --filter heap:mmap       only what it mapped itself
  highwater report app.hw --filter size:1MiB.. --filter '!thread:7'
  highwater report app.hw --lifetimes              how long blocks live
  highwater report app.hw --json | jq '.sites[0]'  the biggest site")]
pub struct Report {
    #[command(flatten)]
    input: FileArgs,
    #[command(flatten)]
    instant: Instant,
    #[command(flatten)]
    between: WindowArgs,
    #[command(flatten)]
    view: ReportView,
    /// Show how long freed blocks lived. Reads the recording from its start
    #[arg(long)]
    lifetimes: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What a report shows, and how: of a file or of a live process.
#[derive(Debug, Args)]
pub struct ReportView {
    #[command(flatten)]
    pub grouping: Grouping,
    #[command(flatten)]
    pub ranking: Ranking,
    #[command(flatten)]
    pub selection: Selection,
    /// How much of each call stack is shown
    #[arg(long, value_enum, default_value_t, value_name = "DEPTH")]
    pub stacks: Depth,
    #[command(flatten)]
    pub names: NameArgs,
}

/// The subject of a report.
pub struct Subject<'a> {
    /// The command that prints it.
    pub command: &'static str,
    /// The number of events of the whole recording.
    pub events: u64,
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The instant, as the user named it.
    pub when: &'a When,
    /// The totals at the end of the recording.
    pub whole: Totals,
    /// Lifetimes of blocks, if requested.
    pub lifetimes: Option<Lifetimes>,
    /// How rows are named.
    pub naming: Naming,
    /// Additional members of the JSON document.
    pub more: Map<String, Value>,
}

impl Report {
    /// Prints the report.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let opened = open::open(&self.input.path, self.reading.on_damage())?;
        self.report(&opened, output)
    }

    /// Prints the report of an opened file.
    pub fn report(&self, opened: &Opened, output: &mut Output) -> Result<(), Failure> {
        if self.between.is_wanted() {
            return self.between.report(opened, &self.view, &self.reading, output);
        }
        let filters = self.view.selection.filters.of_blocks();
        let when = &self.view.instant_of_metric(&self.instant.when, opened.source())?;
        let snapshot = &*opened.snapshot_of(when, &filters)?;
        let whole = match filters.is_empty() {
            true => opened.final_totals()?,
            false => *opened.snapshot_of(&When::End, &filters)?.accounts.totals(),
        };
        let events = opened.steps()?;
        let lifetimes = match self.lifetimes {
            true => Some(opened.ask_history(|history, work| lifetimes(history, snapshot.at, &filters, work))?),
            false => None,
        };
        let more = lifetimes.iter().map(|lifetimes| ("lifetimes".to_owned(), json::lifetimes(lifetimes))).collect();
        let naming = self.view.names.of(opened)?;
        let subject = Subject { command: "report", events, snapshot, when, whole, lifetimes, naming, more };
        self.view.print(subject, self.reading.json, output)
    }
}

/// What is known of types beyond their figures, if they are those that stacks show.
fn details_of(by: GroupBy, snapshot: &Snapshot, naming: &Naming) -> Option<FxHashMap<String, TypeDetails>> {
    (by == GroupBy::Type && snapshot.has_site_types()).then(|| type_details(snapshot, naming))
}

impl ReportView {
    /// The instant of the metric: the peak and the end are instants themselves.
    fn instant_of_metric(&self, when: &When, source: &Source) -> Result<When, Failure> {
        match (self.ranking.metric, when) {
            // It has neither metric, and says so.
            _ if source.snapshot => Ok(when.clone()),
            (Metric::Peak, When::End | When::Peak) => Ok(When::Peak),
            (Metric::Peak, _) => {
                Err(Failure::Usage("--metric peak is about the instant of the peak; leave out --at".to_owned()))
            }
            (Metric::Leaked, When::End) => Ok(When::End),
            (Metric::Leaked, _) => Err(Failure::Usage("--metric leaked is about the end; leave out --at".to_owned())),
            _ => Ok(when.clone()),
        }
    }

    /// Prints the report.
    pub fn print(&self, subject: Subject<'_>, json: bool, output: &mut Output) -> Result<(), Failure> {
        let snapshot = subject.snapshot;
        must_be_known(self.ranking.metric, snapshot)?;
        must_have_rows(self.grouping.by, &snapshot.source)?;
        let keep = self.selection.filters.keep();
        let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
        let rows = rows_named(snapshot, self.grouping.by, self.ranking.metric, keep, &subject.naming);
        if json {
            return self.print_json(subject, &rows, output);
        }
        output.text(&self.head(&subject).render(output.paint, output.width))?;
        output.text(&self.body(&subject, &rows, output))?;
        output.text(&heading::oddities(snapshot.accounts.anomalies(), output.paint))?;
        output.text(&heading::sampling(snapshot))?;
        output.text(heading::missing_names(snapshot))
    }

    fn print_json(&self, subject: Subject<'_>, rows: &[Row], output: &mut Output) -> Result<(), Failure> {
        let Subject { command, events, snapshot, when, whole, more, naming, .. } = subject;
        let by = self.grouping.by;
        let mut document: Value = json::document(command, snapshot).into();
        document["by"] = by.key().into();
        document["metric"] = self.ranking.metric.key().into();
        document["when"] = when.to_string().into();
        let recording = || {
            json!({
                "events": events,
                "peak_bytes": whole.figures.peak_bytes,
                "peak_blocks": whole.peak_blocks,
                "peak_at_ns": whole.peak_at.0,
            })
        };
        document["recording"] = (!snapshot.source.snapshot).then(recording).into();
        for (name, value) in more {
            document[name] = value;
        }
        let chosen = &rows[..rows.len().min(self.selection.json_rows())];
        let stacks = DocumentStacks::of(&snapshot.catalog, json::sites_among(chosen)).map_err(Failure::fault)?;
        let details = details_of(by, snapshot, &naming);
        let elements = chosen.iter().map(|row| {
            let mut element = json::row(snapshot, by, row, &stacks);
            if let (Some(details), GroupKey::Name(name)) = (&details, &row.key) {
                let TypeDetails { elements, slack_bytes } = details.get(name).copied().unwrap_or_default();
                (element["elements"], element["slack_bytes"]) = (elements.into(), slack_bytes.into());
            }
            element
        });
        let stacks = (by == GroupBy::Site).then_some(&stacks);
        output.json_with_list(document, Some((by.list_key(), elements)), stacks)
    }

    fn head(&self, subject: &Subject<'_>) -> Heading {
        let Subject { events, snapshot, whole, when, .. } = subject;
        let units = Units::of_snapshot(snapshot);
        let figures = &snapshot.accounts.totals().figures;
        let mut head = Heading::default();
        heading::add_program(&mut head, &snapshot.source);
        if let Some(filters) = self.selection.filters.in_words() {
            head.line("only", filters);
        }
        heading::add_sampling(&mut head, &snapshot.source, figures);
        if snapshot.source.snapshot {
            if snapshot.source.has_past {
                let peak = heading::peak_in_full(&snapshot.source, units, snapshot.accounts.totals());
                head.line("peak", format!("{peak}, until then"));
            }
            head.line("live", heading::live(units, figures));
        } else {
            let what = if snapshot.source.is_states() { "state" } else { "event" };
            let events = counted(*events, what);
            head.line("recorded", format!("{events} in {}", snapshot.source.length(snapshot.source.duration)));
            head.line("peak", heading::peak_in_full(&snapshot.source, units, whole));
            let instant = heading::instant(&snapshot.source, when, snapshot.at);
            head.line("live", format!("{} at {instant}", heading::live(units, figures)));
        }
        if let Some(usable) = heading::usable(units, snapshot) {
            head.line("usable", usable);
        }
        // An image has no history.
        if snapshot.source.knows_allocated() {
            head.line("allocated", heading::allocated(units, figures));
        }
        heading::add_address_space(&mut head, snapshot.source.address_space);
        heading::add_notes(&mut head, &snapshot.source);
        if let Some(lifetimes) = &subject.lifetimes {
            head.line("lifetimes", heading::lifetimes(&snapshot.source, units, lifetimes));
        }
        head
    }

    fn body(&self, subject: &Subject<'_>, rows: &[Row], output: &Output) -> String {
        let snapshot = subject.snapshot;
        let metric = self.ranking.metric;
        let units = Units::of_snapshot(snapshot);
        let shown: Vec<Row> = rows.iter().filter(|row| metric.of(&row.inclusive) > 0).cloned().collect();
        if shown.is_empty() {
            return format!("\n{}\n", self.why_empty(subject, rows));
        }
        let whole = metric.of(&snapshot.accounts.totals().figures);
        let details = details_of(self.grouping.by, snapshot, &subject.naming).filter(|_| metric.is_live());
        let sites = SiteView { depth: self.stacks, naming: &subject.naming };
        let layout = Layout { by: self.grouping.by, metric, sites, units, whole, details: details.as_ref() };
        let (first, rest) = shown.split_at(self.selection.table_rows().min(shown.len()));
        let mut text = format!("\n{}", layout.table(first, &snapshot.catalog).render(output.paint, output.width));
        text.push_str(&layout.remainder(rest));
        text
    }

    fn why_empty(&self, subject: &Subject<'_>, rows: &[Row]) -> String {
        let Subject { snapshot, when, .. } = subject;
        let figures = &snapshot.accounts.totals().figures;
        if snapshot.source.snapshot && figures.live_blocks() == 0 {
            return "Nothing is live.".to_owned();
        }
        if self.ranking.metric == Metric::Live && figures.live_blocks() == 0 && figures.peak_bytes > 0 {
            return format!("Nothing is live at {}. '--at peak' shows what was at the peak.", when);
        }
        let filters = &self.selection.filters;
        match filters.is_empty() {
            _ if figures.is_empty() && snapshot.accounts.events() == 0 => {
                format!("Nothing had happened yet at {}.", when)
            }
            false if rows.is_empty() => format!("Nothing matches '{filters}'."),
            _ if let Some(why) = unnamed(self.grouping.by).filter(|_| rows.is_empty()) => why.to_owned(),
            is_all => {
                let of_what = if is_all { String::new() } else { format!(" of what matches '{filters}'") };
                let until = if self.ranking.metric.is_live() { "at" } else { "until" };
                format!("No {}{of_what} {until} {}.", self.ranking.metric.in_words(), when)
            }
        }
    }
}
