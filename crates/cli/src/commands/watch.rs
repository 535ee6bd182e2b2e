//! `highwater watch`: repeated snapshots of a live process.

use crate::args::Grouping;
use crate::failure::{Failure, reason};
use crate::live::{Asking, ProcessChoice, TakenSnapshot};
use crate::name_sources::NameSources;
use crate::naming::NameArgs;
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::colour::Style;
use crate::print::figures::{Units, blocks_handed_out};
use crate::print::heading;
use crate::print::rows::{RowName, add_row};
use crate::print::rss;
use crate::print::screen::Screen;
use crate::print::stack::{Depth, SiteView};
use crate::print::table::{Align, Cell, Table};
use crate::print::text::{fitted, printable};
use clap::{Args, ValueEnum};
use highwater_collector::protocol::{CutInfo, Detail, ProcessInfo};
use highwater_collector::take::SnapshotRequest;
use highwater_collector::{CollectorClient, PageDetail};
use highwater_formats::json::{self, DocumentStacks, StacksTooLarge};
use highwater_model::groups::{GroupBy, GroupKey, Metric, Row, rows_named};
use highwater_model::{
    Catalog, CatalogIdentities, Naming, Nanos, RowIdentities, RowIdentity, RssBreakdown, Snapshot, TooManyCalls,
    parse_duration,
};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The arguments of `highwater watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater watch --name server                    once a second, until Ctrl-C
  highwater watch --pid 4711 --sort growth         what grew most comes first
  highwater watch --pid 4711 --by thread --interval 5
  highwater watch --pid 4711 --count 60 > log.txt  one table after the other

Growth is shown since watching began, and since the last look.")]
pub struct Watch {
    #[command(flatten)]
    choice: ProcessChoice,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// How many looks [default: until the process ends, or Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// How many rows; 0 for all [default: 10]
    #[arg(long, value_name = "N", default_value_t = 10, hide_default_value = true)]
    top: usize,
    #[command(flatten)]
    grouping: Grouping,
    /// Which rows come first
    #[arg(long, value_enum, default_value_t, value_name = "FIGURE")]
    sort: WatchOrder,
    #[command(flatten)]
    names: NameArgs,
    /// Print one JSON document ("schema": 2) a line, one for each look, instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sources: NameSources,
    #[command(flatten)]
    collector: Asking,
}

/// Which rows come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum WatchOrder {
    /// Those that hold most
    #[default]
    Live,
    /// Those that grew most since watching began
    Growth,
}

/// How often signals are checked while waiting.
const NAP: Duration = Duration::from_millis(20);
/// Lines of a terminal that are not available to rows: the heading, the resident memory, the column names, and the cursor's line.
const OTHER_LINES: usize = 5;
/// Reading pages takes at most this part of the time.
const PAGES_SHARE: u32 = 100;

/// The maximum number of different calls in the stacks of one document. A document is a single line, so it is held in memory until it is printed.
const MOST_CALLS: usize = 1 << 20;

/// Seconds, or a time with its unit.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let interval = seconds.or_else(|| parse_duration(text).map(|time| Duration::from_nanos(time.0)));
    let sensible = |interval: &Duration| (Duration::from_millis(10)..=Duration::from_secs(86_400)).contains(interval);
    interval.filter(sensible).ok_or_else(|| "not a time; such as 1, 0.5, 500ms, 2m".to_owned())
}

/// The figures of one snapshot.
struct WatchedFigures {
    at: Instant,
    live_bytes: u64,
    live_blocks: u64,
    handed_out: u64,
    /// The live bytes of each row, by its displayed name.
    rows: HashMap<RowIdentity, u64>,
}

/// A row with its changes.
struct Watched {
    row: Row,
    growth: i128,
    lately: i128,
}

/// One snapshot, with the earlier ones to compare it with.
struct Look<'a> {
    process: &'a ProcessInfo,
    snapshot: &'a Snapshot,
    naming: &'a Naming,
    cut: &'a CutInfo,
    /// Where the resident memory was when pages were last read.
    resident: Option<&'a RssBreakdown>,
    rows: Vec<Watched>,
    seen: &'a WatchedFigures,
    first: &'a WatchedFigures,
    last: Option<&'a WatchedFigures>,
}

impl Watch {
    /// Takes snapshots until the count is reached, the process ends, or a signal stops it.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut client = self.collector.connect()?;
        let processes = client.processes_among(&self.choice.which()).map_err(Failure::fault)?;
        let process = self.choice.of(&processes)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let mut screen = Screen::new();
        let watched = self.watch(&mut client, process, &stop, &mut screen, output);
        let left = screen.leave(output);
        watched.and(left)
    }

    fn watch(
        &self,
        client: &mut CollectorClient,
        process: &ProcessInfo,
        stop: &AtomicBool,
        screen: &mut Screen,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let mut symbolizer = self.sources.symbolizer();
        let mut identities = RowIdentities::default();
        let (mut first, mut last): (Option<WatchedFigures>, Option<WatchedFigures>) = (None, None);
        // The first look decides: the name of a row does not change while it is watched.
        let mut naming: Option<Naming> = None;
        let mut pages_seen = PagesSeen::default();
        for number in 1.. {
            let began = Instant::now();
            let pages = pages_seen.are_due(began).then_some(PageDetail::Rows);
            let wanted = SnapshotRequest { detail: Detail::Sites, contents: None, pages };
            let taken = client.snapshot_with(process.pid, wanted).map_err(Failure::fault)?;
            let opened = TakenSnapshot::open(taken.file, &[], &mut symbolizer)?;
            let (snapshot, breakdown) = (opened.snapshot, opened.breakdown);
            pages_seen.note(began, &taken.cut, breakdown);
            let naming = match &mut naming {
                Some(naming) => naming,
                unknown => unknown.insert(self.names.of_snapshot(&snapshot)?),
            };
            let compared = self.compare((&snapshot, naming), &mut identities, first.as_ref(), last.as_ref());
            let (seen, rows) = compared.map_err(Failure::fault)?;
            let look = Look {
                process,
                snapshot: &snapshot,
                naming,
                cut: &taken.cut,
                resident: pages_seen.latest.as_ref(),
                rows,
                seen: &seen,
                first: first.as_ref().unwrap_or(&seen),
                last: last.as_ref(),
            };
            if self.json {
                output.text(&format!("{}\n", self.document(&look).map_err(Failure::fault)?))?;
                output.flush()?;
            } else {
                screen.show(self.text(&look, screen.height(), output), output)?;
            }
            if taken.cut.exited || self.count == Some(number) || !rest(stop, began + self.interval) {
                break;
            }
            match &first {
                None => first = Some(seen),
                Some(_) => last = Some(seen),
            }
        }
        Ok(())
    }

    /// The current figures, and the rows with their changes.
    fn compare(
        &self,
        (snapshot, naming): (&Snapshot, &Naming),
        identities: &mut RowIdentities,
        first: Option<&WatchedFigures>,
        last: Option<&WatchedFigures>,
    ) -> Result<(WatchedFigures, Vec<Watched>), TooManyCalls> {
        let figures = &snapshot.accounts.totals().figures;
        let mut seen = WatchedFigures {
            at: Instant::now(),
            live_bytes: figures.live_bytes(),
            live_blocks: figures.live_blocks(),
            handed_out: blocks_handed_out(figures),
            rows: HashMap::new(),
        };
        // Rows with the same displayed name are merged.
        let mut merged: Vec<(RowIdentity, Row)> = Vec::new();
        let mut indexes: HashMap<RowIdentity, usize> = HashMap::new();
        let mut known = CatalogIdentities::default();
        for row in rows_named(snapshot, self.grouping.by, Metric::Live, None, naming) {
            let identity = identities.of(&snapshot.catalog, &mut known, &row.key)?;
            match indexes.get(&identity) {
                Some(&index) => {
                    merged[index].1.figures.add(&row.figures);
                    merged[index].1.inclusive.add(&row.inclusive);
                }
                None => {
                    indexes.insert(identity, merged.len());
                    merged.push((identity, row));
                }
            }
        }
        let mut watched = Vec::new();
        for (identity, row) in merged {
            let live = row.figures.live_bytes();
            let since = |then: Option<&WatchedFigures>| {
                then.map_or(0, |then| i128::from(live) - i128::from(then.rows.get(&identity).copied().unwrap_or(0)))
            };
            watched.push(Watched { growth: since(first), lately: since(last.or(first)), row });
            seen.rows.insert(identity, live);
        }
        watched.sort_by_key(|one| {
            let live = i128::from(one.row.figures.live_bytes());
            std::cmp::Reverse(if self.sort == WatchOrder::Live { (live, one.growth) } else { (one.growth, live) })
        });
        watched.retain(|one| one.row.figures.live_bytes() > 0 || one.growth != 0 || one.lately != 0);
        Ok((seen, watched))
    }

    fn text(&self, look: &Look<'_>, height: Option<usize>, output: &Output) -> String {
        let units = Units::of_snapshot(look.snapshot);
        let mut table = Table::default()
            .column(Align::Right, "live")
            .column(Align::Right, "growth")
            .column(Align::Right, "lately")
            .column(Align::Right, "blocks")
            .column(Align::Left, self.grouping.by.key());
        let wanted = if self.top == 0 { usize::MAX } else { self.top };
        let room = height.map_or(usize::MAX, |height| height.saturating_sub(OTHER_LINES).max(1));
        let first = &look.rows[..look.rows.len().min(wanted.min(room))];
        let catalog = &*look.snapshot.catalog;
        let keys: Vec<(&Catalog, &GroupKey)> = first.iter().map(|one| (catalog, &one.row.key)).collect();
        let sites = SiteView { depth: Depth::Line, naming: look.naming };
        let names = RowName::all(self.grouping.by, sites, &keys);
        for (Watched { row, growth, lately }, name) in first.iter().zip(names) {
            let cells: Vec<Cell> = vec![
                units.bytes(row.figures.live_bytes()).into(),
                Cell::new(style_of(*growth), &units.signed_bytes(*growth)),
                Cell::new(style_of(*lately), &units.signed_bytes(*lately)),
                units.count(row.figures.live_blocks()).into(),
            ];
            add_row(&mut table, cells, catalog, &row.key, sites, &name);
        }
        format!("{}{}", self.heading(look, units, output), table.render(output.paint, output.width))
    }

    fn heading(&self, look: &Look<'_>, units: Units, output: &Output) -> String {
        let ProcessInfo { name, pid, .. } = look.process;
        let figures = &look.snapshot.accounts.totals().figures;
        let mut parts = vec![
            format!("{name} (pid {pid})"),
            Nanos(look.elapsed().as_nanos() as u64).to_string(),
            heading::live(units, figures),
        ];
        if !look.elapsed().is_zero() {
            parts.push(format!("{} since watching began", units.signed_bytes(look.growth().0)));
        }
        if let Some(rate) = look.rate() {
            parts.push(format!("{}/s", units.counted(rate, "allocation")));
        }
        if look.cut.untracked > 0 {
            parts.push(format!("{} not followed", counted(look.cut.untracked, "block")));
        }
        if !look.cut.verified {
            parts.push("not verified".to_owned());
        }
        let line = parts.join("  ");
        let exited = if look.cut.exited { output.paint.paint(Style::Yellow, "  exited") } else { "".into() };
        let resident = look.resident.map(|resident| {
            let line = rss::in_a_line(resident);
            format!("{}\n", output.width.map_or_else(|| line.clone(), |width| fitted(&line, width)))
        });
        let line = output.paint.paint(Style::Bold, &printable(&line)).into_owned();
        format!("{line}{exited}\n{}", resident.unwrap_or_default())
    }

    fn document(&self, look: &Look<'_>) -> Result<Value, StacksTooLarge> {
        let by = self.grouping.by;
        let mut document: Value = json::head("watch", look.snapshot).into();
        let (growth_bytes, growth_blocks) = look.growth();
        document["name"] = look.process.name.as_str().into();
        document["pid"] = look.process.pid.into();
        document["by"] = self.grouping.by.key().into();
        document["elapsed_ns"] = (look.elapsed().as_nanos() as u64).into();
        document["totals"] = json::totals(look.snapshot);
        document["growth_bytes"] = number(growth_bytes);
        document["growth_blocks"] = number(growth_blocks);
        document["allocations_per_second"] = look.rate().into();
        document["cut"] = look.cut.to_json();
        if let Some(resident) = look.resident {
            document["rss"] = resident_rows(resident);
        }
        let wanted = if self.top == 0 { usize::MAX } else { self.top };
        let chosen = &look.rows[..look.rows.len().min(wanted)];
        let mut stacks = DocumentStacks::with_most([&*look.snapshot.catalog], MOST_CALLS);
        json::sites_among(chosen.iter().map(|one| &one.row)).try_for_each(|stack| stacks.add(0, stack))?;
        let row = |Watched { row, growth, lately }: &Watched| {
            let mut value = json::row(look.snapshot, by, row, &stacks);
            value["growth_bytes"] = number(*growth);
            value["growth_bytes_lately"] = number(*lately);
            value
        };
        document[by.list_key()] = chosen.iter().map(row).collect();
        if by == GroupBy::Site {
            let table = stacks.table();
            (document["frames"], document["stacks"]) = (json!(table.frames), json!(table.stacks));
        }
        Ok(document)
    }
}

impl Look<'_> {
    /// Time since watching began.
    fn elapsed(&self) -> Duration {
        self.seen.at - self.first.at
    }

    /// The change in bytes and blocks since watching began.
    fn growth(&self) -> (i128, i128) {
        let between = |now: u64, then: u64| i128::from(now) - i128::from(then);
        (between(self.seen.live_bytes, self.first.live_bytes), between(self.seen.live_blocks, self.first.live_blocks))
    }

    /// Allocations per second since the last snapshot.
    fn rate(&self) -> Option<u64> {
        let then = self.last.unwrap_or(self.first);
        let seconds = (self.seen.at - then.at).as_secs_f64();
        let allocations = self.seen.handed_out.saturating_sub(then.handed_out);
        (seconds > 0.0).then(|| (allocations as f64 / seconds) as u64)
    }
}

/// When pages were last read, and what was found.
#[derive(Default)]
struct PagesSeen {
    latest: Option<RssBreakdown>,
    next: Option<Instant>,
}

impl PagesSeen {
    fn are_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Notes the pages of a snapshot, if they were read. Those of a large process are read less often.
    fn note(&mut self, began: Instant, cut: &CutInfo, breakdown: Option<RssBreakdown>) {
        if let Some(breakdown) = breakdown {
            self.latest = Some(breakdown);
            self.next = Some(began + Duration::from_nanos(cut.pages_ns).saturating_mul(PAGES_SHARE));
        } else if !cut.no_pages.is_empty() {
            self.latest = None;
        }
    }
}

/// The rows of the resident memory, by their keys.
fn resident_rows(breakdown: &RssBreakdown) -> Value {
    let rows: Map<String, Value> =
        breakdown.rows.iter().map(|row| (row.kind.key().to_owned(), row.resident.into())).collect();
    json!({
        "at_ns": breakdown.at.0,
        "rss_bytes": breakdown.process.rss,
        "sum_bytes": breakdown.sum(),
        "free_bytes": breakdown.knows_every_block.then(|| breakdown.free()),
        "rows": rows,
    })
}

fn number(number: i128) -> Value {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX }).into()
}

fn style_of(change: i128) -> Style {
    match change {
        0 => Style::Dim,
        1.. => Style::Red,
        _ => Style::Green,
    }
}

/// Waits until the given time; returns false if `stop` was set.
fn rest(stop: &AtomicBool, until: Instant) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_in_seconds_or_has_its_unit() {
        assert_eq!(parse_interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "soon", "nan", "1e9"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
