//! What is said after a recording, one screen high: how much, when, who, and what to type next.

use super::bytes::{bytes, count, counted, share};
use super::colour::{Paint, Style};
use super::figures::Units;
use super::heading::{self, Heading};
use super::stack::{Depth, add_site_row, site_in_a_line};
use super::table::{Align, Table};
use crate::failure::Failure;
use crate::open::{self, OnDamage};
use highwater_model::groups::{GroupBy, GroupKey, Metric, Row, rows};
use highwater_model::{Catalog, Snapshot, StackId, When};
use highwater_recorder::Finished;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Sites of each list.
const SITES: usize = 3;

/// Tells on standard error what became of a program and its children.
pub fn print(
    main: &Finished,
    all: &[Finished],
    preludes: u64,
    lasted: Duration,
    width: Option<usize>,
) -> Result<(), Failure> {
    let paint = Paint::for_stderr();
    let Some(path) = &main.path else { return Ok(()) };
    let opened = open::open(path, OnDamage::Warn)?;
    let end = opened.snapshot(&When::End)?;
    let stats = opened.stats();
    let units = Units::of(&end.source);
    let totals = end.accounts.totals();
    let mut head = Heading::default();
    let file = path.display();
    let size = format!("{} in {}", counted(stats.events, "event"), bytes(stats.file_bytes));
    let each = stats.file_bytes as f64 / stats.events.max(1) as f64;
    head.line("recorded", format!("{file}: {size} ({each:.1} bytes each), {:.2} s", lasted.as_secs_f64()));
    head.line("program", heading::program(&end.source));
    head.line("peak", heading::peak_in_full(&end.source, units, totals));
    head.line("allocated", heading::allocated(units, &totals.figures));
    head.line("at exit", heading::live(units, &totals.figures));
    head.line("cost", cost(main));
    let mut text = format!("{}\n", head.render(paint, width));
    let peak = opened.snapshot(&When::Peak)?;
    for (title, snapshot, metric) in [
        ("most at the peak", &peak, Metric::Live),
        ("most at exit", &end, Metric::Live),
        ("most allocated", &end, Metric::Allocated),
    ] {
        text.push_str(&list_of_sites(title, snapshot, metric, paint, width));
    }
    text.push_str(&heading::oddities(end.accounts.anomalies(), paint));
    text.push_str(&heading::sampling(&end));
    text.push_str(&names_note(main));
    let _ = write!(std::io::stderr(), "{text}");
    if all.len() > 1 || preludes > 0 {
        let others: Vec<&Finished> = all.iter().filter(|one| one.path != main.path).collect();
        list_of_processes(&others, preludes);
    }
    let quoted = super::text::shell_word(&path.to_string_lossy());
    let next = format!(
        "next: highwater report {quoted} --at peak  ·  highwater leaks {quoted}  ·  highwater timeline {quoted}\n"
    );
    let _ = write!(std::io::stderr(), "{}", paint.paint(Style::Dim, &next));
    Ok(())
}

/// What the recording itself took.
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

fn list_of_sites(title: &str, snapshot: &Snapshot, metric: Metric, paint: Paint, width: Option<usize>) -> String {
    let mut rows = rows(snapshot, GroupBy::Site, metric, None);
    rows.retain(|row| metric.of(&row.figures) > 0);
    if rows.is_empty() {
        return format!("{}: nothing\n", paint.paint(Style::Dim, title));
    }
    let units = Units::of(&snapshot.source);
    let whole = metric.of(&snapshot.accounts.totals().figures);
    let mut table = Table::default().column(Align::Right, "").column(Align::Right, "").column(Align::Left, "");
    for (stack, own) in merged(&rows, metric, &snapshot.catalog).into_iter().take(SITES) {
        let cells = vec![units.metric(metric, own).into(), share(own, whole).into()];
        add_site_row(&mut table, cells, &snapshot.catalog, stack, Depth::Line);
    }
    format!("{}\n{}", paint.paint(Style::Bold, title), table.render(paint, width))
}

/// Sites that would look the same as one: with the figures of all of them, biggest first.
fn merged(rows: &[Row], metric: Metric, catalog: &Catalog) -> Vec<(StackId, u64)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut sites: Vec<(StackId, u64)> = Vec::new();
    for row in rows {
        let GroupKey::Site(stack) = row.key else { continue };
        let own = metric.of(&row.figures);
        let looks = site_in_a_line(catalog, stack);
        let place = *places.entry(looks).or_insert(sites.len());
        match sites.get_mut(place) {
            Some((_, sum)) => *sum += own,
            None => sites.push((stack, own)),
        }
    }
    sites.sort_by_key(|&(_, own)| std::cmp::Reverse(own));
    sites
}

fn names_note(main: &Finished) -> String {
    let symbols = &main.symbols;
    let mut text = String::new();
    for problem in symbols.problems.iter().take(3) {
        text.push_str(&format!("\nno names: {problem}\n"));
    }
    if symbols.addresses > 0 && symbols.with_lines * 4 < symbols.addresses {
        text.push_str(
            "\nfew source lines are known; 'highwater symbolize FILE --debug-dir DIR' adds them from debug files\n",
        );
    }
    text
}

/// What a process is called: its file, or its program.
pub fn name(one: &Finished) -> String {
    let program = Path::new(&one.about.executable).file_name().unwrap_or_default().to_string_lossy();
    one.path.as_ref().map_or_else(|| format!("{program} (pid {})", one.about.pid), |path| path.display().to_string())
}

/// Names the recordings of children.
pub fn list(all: &[Finished], preludes: u64) {
    list_of_processes(&all.iter().collect::<Vec<_>>(), preludes);
}

fn list_of_processes(processes: &[&Finished], preludes: u64) {
    const SHOWN: usize = 8;
    let mut text = String::from("children\n");
    let mut by_size: Vec<&&Finished> = processes.iter().collect();
    let events = |one: &Finished| one.written.as_ref().map_or(0, |written| written.events);
    by_size.sort_by_key(|one| std::cmp::Reverse(events(one)));
    for one in by_size.iter().take(SHOWN) {
        let inherited = match one.inherited_frees {
            0 => String::new(),
            frees => format!(", and {} of its parent's given back", counted(frees, "block")),
        };
        text.push_str(&format!("  {}: {}{inherited}\n", name(one), counted(events(one), "event")));
    }
    if processes.len() > SHOWN {
        text.push_str(&format!("  … {} more\n", processes.len() - SHOWN));
    }
    if preludes > 0 {
        text.push_str(&format!("  {} that only began another program\n", counted(preludes, "fork")));
    }
    let _ = write!(std::io::stderr(), "{text}");
}
