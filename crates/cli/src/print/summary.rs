//! The summary after a recording, one screen high: totals, peak, largest sites, and commands to try next.

use super::bytes::{bytes, count, counted, share};
use super::colour::{Paint, Style};
use super::figures::Units;
use super::heading::{self, Heading};
use super::stack::{Depth, LineNumbers, SiteView, add_site_row};
use super::table::{Align, Table};
use super::text::printable;
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open::{self, OnDamage};
use highwater_model::groups::Metric;
use highwater_model::{AddressSpace, Catalog, Snapshot, StackId, When};
use highwater_recorder::{Finished, LastFigures, RecordingOutcome};
use highwater_session::Reason;
use highwater_store::{Written, is_special};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The number of sites in each list.
const SITES: usize = 3;

/// Prints a summary of a program and its children on standard error.
pub fn print(
    main: &Finished,
    outcome: &RecordingOutcome,
    keep_children: u64,
    lasted: Duration,
    width: Option<usize>,
    names: &NameArgs,
) -> Result<(), Failure> {
    let paint = Paint::for_stderr();
    // Measured before this summary does work of its own.
    let cost = cost(main);
    let Some(path) = &main.path else { return Ok(()) };
    if is_special(path) {
        // Data written to a pipe or a device cannot be read again.
        let events = main.written.as_ref().map_or(0, |written| written.events);
        let _ = writeln!(std::io::stderr(), "recorded   {}: {}", path.display(), counted(events, "event"));
        list(outcome, Some(main), keep_children);
        return Ok(());
    }
    let seen = match (&main.figures, &main.written) {
        (Some(figures), Ok(written)) => SummarizedSites::by_recorder(figures, written),
        // The recording is incomplete, so the summary shows the figures of the file.
        _ => SummarizedSites::in_file(path)?,
    };
    let end = &*seen.end;
    let units = Units::of(&end.source);
    let totals = end.accounts.totals();
    let mut head = Heading::default();
    // A script, 'make' or 'cargo build' does little itself: the process of interest is a child.
    let larger = largest_child(main, outcome).filter(|child| child.peak_bytes > main.peak_bytes);
    if let Some(child) = larger {
        head.line("most memory", format!("in a child: {}", about_child(child, units)));
    }
    let file = path.display();
    let size = format!("{} in {}", counted(seen.events, "event"), bytes(seen.file_bytes));
    let each = seen.file_bytes as f64 / seen.events.max(1) as f64;
    head.line("recorded", format!("{file}: {size} ({each:.1} bytes each), {:.2} s", lasted.as_secs_f64()));
    head.line("program", heading::program(&end.source));
    head.line("peak", heading::peak_in_full(&end.source, units, totals));
    head.line("allocated", heading::allocated(units, &totals.figures));
    let (at_end, most_at_end) = match main.written.is_ok() && !main.lives_on {
        true => ("at exit", "most at exit"),
        // A recording that was not written to its end does not include the exit, or there was none.
        false => ("at its end", "most at the recording's end"),
    };
    head.line(at_end, heading::live(units, &totals.figures));
    heading::add_given_back(&mut head, seen.space_at_end);
    heading::add_not_counted(&mut head, seen.space_at_peak);
    if let Some((Reason::Filter, at)) = main.ended {
        head.line(
            "ended",
            format!("at {at}: the program installed a seccomp filter, which may forbid what recording needs"),
        );
    }
    head.line("cost", cost);
    let mut text = format!("{}\n", head.render(paint, width));
    let naming = names.of_snapshot(end)?;
    let mut lines = LineNumbers::new(&naming);
    for (title, sites, whole, metric) in [
        ("most at the peak", &seen.peak, totals.figures.peak_bytes, Metric::Live),
        (most_at_end, &sites_of(end, Metric::Live), totals.figures.live_bytes(), Metric::Live),
        ("most allocated", &sites_of(end, Metric::Allocated), totals.figures.allocated_bytes, Metric::Allocated),
    ] {
        text.push_str(&list_of_sites(title, end, sites, whole, metric, &mut lines, (paint, width)));
    }
    text.push_str(&heading::oddities(end.accounts.anomalies(), paint));
    text.push_str(&heading::sampling(end));
    text.push_str(&names_note(main));
    let _ = write!(std::io::stderr(), "{text}");
    list(outcome, Some(main), keep_children);
    let next = larger.and_then(|child| child.path.as_ref()).unwrap_or(path);
    let quoted = super::text::shell_word(&next.to_string_lossy());
    let next =
        format!("next: highwater view {quoted}  ·  highwater report {quoted} --at peak  ·  highwater leaks {quoted}");
    let _ = writeln!(std::io::stderr(), "{}", paint.paint(Style::Dim, &printable(&next)));
    Ok(())
}

/// The cost of the recording itself.
fn cost(main: &Finished) -> String {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let recorder = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    let events = main.written.as_ref().map_or(0, |written| written.events);
    let symbols = &main.symbols;
    format!(
        "{recorder:.2} s of processor time outside of the program ({} events, {} of {} addresses named)",
        count(events),
        count(symbols.named as u64),
        count(symbols.addresses as u64)
    )
}

/// The figures of a recording that are printed.
struct SummarizedSites<'a> {
    end: Cow<'a, Snapshot>,
    /// The bytes of each site at the peak.
    peak: Vec<(StackId, u64)>,
    space_at_peak: AddressSpace,
    space_at_end: AddressSpace,
    events: u64,
    file_bytes: u64,
}

impl<'a> SummarizedSites<'a> {
    /// The figures that the recorder has in memory, without reading the file.
    fn by_recorder(figures: &'a LastFigures, written: &Written) -> Self {
        let LastFigures { end, space_at_peak, space_at_end } = figures;
        let peak = end.accounts.live_at_peak().filter(|(_, live)| *live > 0).collect();
        let Written { events, bytes } = *written;
        let (space_at_peak, space_at_end) = (*space_at_peak, *space_at_end);
        Self { end: Cow::Borrowed(end), peak, space_at_peak, space_at_end, events, file_bytes: bytes }
    }

    /// The figures of the part that is in the file.
    fn in_file(path: &Path) -> Result<Self, Failure> {
        let opened = open::open(path, OnDamage::Warn)?;
        let (end, peak) = (opened.snapshot(&When::End)?, opened.snapshot(&When::Peak)?);
        let stats = opened.stats();
        Ok(Self {
            peak: sites_of(&peak, Metric::Live),
            space_at_peak: peak.source.address_space,
            space_at_end: end.source.address_space,
            events: stats.events,
            file_bytes: stats.file_bytes,
            end: Cow::Owned(Arc::unwrap_or_clone(end)),
        })
    }
}

/// Sites with their values of the metric.
fn sites_of(snapshot: &Snapshot, metric: Metric) -> Vec<(StackId, u64)> {
    let sites = snapshot.accounts.sites().iter().map(|(stack, figures)| (stack, metric.of(figures)));
    sites.filter(|(_, own)| *own > 0).collect()
}

fn list_of_sites(
    title: &str,
    snapshot: &Snapshot,
    sites: &[(StackId, u64)],
    whole: u64,
    metric: Metric,
    lines: &mut LineNumbers<'_>,
    (paint, width): (Paint, Option<usize>),
) -> String {
    if sites.is_empty() {
        return format!("{}: nothing\n", paint.paint(Style::Dim, title));
    }
    let units = Units::of(&snapshot.source);
    let mut table = Table::default().column(Align::Right, "").column(Align::Right, "").column(Align::Left, "");
    for (stack, own) in biggest(sites, &snapshot.catalog, lines) {
        let cells = vec![units.metric(metric, own).into(), share(own, whole).into()];
        add_site_row(
            &mut table,
            cells,
            &snapshot.catalog,
            stack,
            SiteView { depth: Depth::Line, naming: lines.naming() },
            "",
        );
    }
    format!("{}\n{}", paint.paint(Style::Bold, title), table.render(paint, width))
}

/// The biggest lines, largest first. Sites that look the same are merged, and their figures added.
fn biggest(all: &[(StackId, u64)], catalog: &Catalog, lines: &mut LineNumbers<'_>) -> Vec<(StackId, u64)> {
    let mut sums: FxHashMap<usize, (StackId, u64)> = FxHashMap::default();
    for &(stack, own) in all {
        sums.entry(lines.number(catalog, stack)).or_insert((stack, 0)).1 += own;
    }
    let mut biggest: Vec<(usize, (StackId, u64))> = sums.into_iter().collect();
    biggest.sort_unstable_by_key(|&(line, (_, own))| (std::cmp::Reverse(own), line));
    biggest.into_iter().take(SITES).map(|(_, sum)| sum).collect()
}

fn names_note(main: &Finished) -> String {
    let symbols = &main.symbols;
    let mut text = String::new();
    for problem in symbols.problems.iter().take(3) {
        text.push_str(&format!("\nno names: {problem}\n"));
    }
    if symbols.addresses > 0 && symbols.with_lines * 4 < symbols.addresses {
        text.push_str(
            "\nno debug info for most frames; 'highwater symbolize FILE --debug-dir DIR' adds names and lines from debug files\n",
        );
    }
    text
}

/// The name of a process: its file, or its program.
pub fn name(one: &Finished) -> String {
    let program = one.about.name();
    one.path.as_ref().map_or_else(|| format!("{program} (pid {})", one.about.pid), |path| path.display().to_string())
}

/// Every other process whose recording was kept.
fn children<'a>(main: Option<&'a Finished>, outcome: &'a RecordingOutcome) -> impl Iterator<Item = &'a Finished> {
    let is_main = move |one: &Finished| main.is_some_and(|main| main.path == one.path);
    outcome.finished.iter().filter(move |one| one.path.is_some() && !is_main(one))
}

fn largest_child<'a>(main: &'a Finished, outcome: &'a RecordingOutcome) -> Option<&'a Finished> {
    children(Some(main), outcome).max_by_key(|one| one.peak_bytes)
}

/// `cc1plus, peak 312.4 MiB: build.children/4711-cc1plus.hw`.
fn about_child(one: &Finished, units: Units) -> String {
    format!("{}, peak {}: {}", one.about.name(), units.bytes(one.peak_bytes), name(one))
}

/// Lists the recordings of children, the largest first.
pub fn list(outcome: &RecordingOutcome, main: Option<&Finished>, keep_children: u64) {
    const SHOWN: usize = 8;
    let mut by_size: Vec<&Finished> = children(main, outcome).collect();
    if by_size.is_empty() && outcome.small == 0 && outcome.preludes == 0 && outcome.unrecorded.count() == 0 {
        return;
    }
    by_size.sort_by_key(|one| std::cmp::Reverse(one.peak_bytes));
    let mut text = format!("children: {} recorded", count(by_size.len() as u64));
    if outcome.small > 0 {
        text.push_str(&format!(
            ", {} not kept (peak below {}; --keep-children 0 keeps all)",
            count(outcome.small),
            bytes(keep_children)
        ));
    }
    if outcome.preludes > 0 {
        text.push_str(&format!(", {} that only began another program", counted(outcome.preludes, "fork")));
    }
    text.push('\n');
    let mut table = Table::default().column(Align::Right, "").column(Align::Left, "").column(Align::Left, "");
    for one in by_size.iter().take(SHOWN) {
        let events = one.written.as_ref().map_or(0, |written| written.events);
        let mut about = format!("{} ({}", name(one), counted(events, "event"));
        if one.inherited_frees > 0 {
            about.push_str(&format!(", and {} of its parent's given back", counted(one.inherited_frees, "block")));
        }
        let estimate = if one.about.sample_rate.is_some() { "~" } else { "" };
        let peak = format!("  {estimate}{}", bytes(one.peak_bytes));
        table.row(vec![peak.into(), one.about.name().into(), format!("{about})").into()]);
    }
    text.push_str(&table.render(Paint::for_stderr(), None));
    if by_size.len() > SHOWN {
        text.push_str(&format!("  … {} more\n", by_size.len() - SHOWN));
    }
    for sentence in outcome.unrecorded.sentences() {
        text.push_str(&format!("{}\n", printable(&sentence)));
    }
    let _ = write!(std::io::stderr(), "{text}");
}
