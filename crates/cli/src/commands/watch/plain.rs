//! One table after the other: for pipes, and for terminals with `--plain`.

use super::Watch;
use super::changes::{Compared, SINCE_THE_BEGINNING, Watched, WatchedFigures, rows_of, style_of, watched};
use super::looks::Looker;
use crate::failure::Failure;
use crate::output::Output;
use crate::print::colour::Style;
use crate::print::rows::{RowName, add_row};
use crate::print::rss;
use crate::print::site_line::fit_names;
use crate::print::stack::{Depth, SiteView};
use crate::print::table::{Align, Cell, Table};
use crate::print::text::{fitted, printable, wrapped};
use highwater_collector::protocol::ProcessInfo;
use highwater_model::groups::GroupKey;
use highwater_model::{Catalog, Nanos, RowIdentities};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often signals are checked while waiting.
const NAP: Duration = Duration::from_millis(20);

impl Watch {
    /// Prints a table, or a document, for each look.
    pub(super) fn print(
        &self,
        process: &ProcessInfo,
        mut looker: Looker,
        stop: &AtomicBool,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let mut identities = RowIdentities::default();
        let (mut first, mut last): (Option<WatchedFigures>, Option<WatchedFigures>) = (None, None);
        for number in 1.. {
            let began = Instant::now();
            let look = looker.look()?;
            let rows = rows_of(&look, self.grouping.by, &mut identities).map_err(Failure::fault)?;
            let seen = WatchedFigures::of(&look, &rows);
            let mut rows = watched(rows, first.as_ref(), last.as_ref());
            self.sort.sort(&mut rows, &look);
            let compared = Compared {
                process,
                by: self.grouping.by,
                look: &look,
                rows: &rows,
                seen: &seen,
                first: first.as_ref().unwrap_or(&seen),
                since: SINCE_THE_BEGINNING,
                last: last.as_ref(),
            };
            if self.json {
                output.text(&format!("{}\n", self.document(&compared).map_err(Failure::fault)?))?;
            } else {
                let gap = if number == 1 { "" } else { "\n" };
                output.text(&format!("{gap}{}", self.text(&compared, output)))?;
            }
            output.flush()?;
            if look.cut.exited || self.count == Some(number) || !rest(stop, began + self.interval) {
                break;
            }
            match &first {
                None => first = Some(seen),
                Some(_) => last = Some(seen),
            }
        }
        Ok(())
    }

    /// The rows that are printed.
    pub(super) fn chosen<'a>(&self, compared: &Compared<'a>) -> &'a [Watched] {
        let wanted = if self.top == 0 { usize::MAX } else { self.top };
        &compared.rows[..compared.rows.len().min(wanted)]
    }

    /// A look as a table below its heading.
    pub(super) fn text(&self, compared: &Compared<'_>, output: &Output) -> String {
        let (units, by) = (compared.units(), compared.by);
        let mut table = Table::default()
            .column(Align::Right, "live")
            .column(Align::Right, "growth")
            .column(Align::Right, "lately")
            .column(Align::Right, "blocks")
            .column(Align::Left, by.key());
        let chosen = self.chosen(compared);
        let catalog = &*compared.look.snapshot.catalog;
        let keys: Vec<(&Catalog, &GroupKey)> = chosen.iter().map(|one| (catalog, &one.row.key)).collect();
        let sites = SiteView { depth: Depth::Line, naming: &compared.look.naming };
        let names = RowName::all(by, sites, &keys);
        for (Watched { row, growth, lately, .. }, name) in chosen.iter().zip(&names) {
            let cells: Vec<Cell> = vec![
                units.bytes(row.figures.live_bytes()).into(),
                Cell::new(style_of(*growth), &units.signed_bytes(*growth)),
                Cell::new(style_of(*lately), &units.signed_bytes(*lately)),
                units.count(row.figures.live_blocks()).into(),
            ];
            add_row(&mut table, cells, catalog, &row.key, sites, name);
        }
        if let Some(width) = output.width {
            fit_names(&mut table, width, sites.naming, &keys, &names);
        }
        format!("{}{}", heading(compared, output), table.render(output.paint, output.width))
    }
}

fn heading(compared: &Compared<'_>, output: &Output) -> String {
    let units = compared.units();
    let ProcessInfo { name, pid, .. } = compared.process;
    let mut parts =
        vec![format!("{name} (pid {pid})"), Nanos(compared.elapsed().as_nanos() as u64).to_string(), compared.live()];
    if !compared.elapsed().is_zero() {
        parts.push(format!("{} {}", units.signed_bytes(compared.growth().0), compared.since));
    }
    if let Some(rate) = compared.rate() {
        parts.push(format!("{}/s", units.counted(rate, "allocation")));
    }
    parts.extend(compared.flaws());
    let exited = if compared.look.cut.exited { output.paint.paint(Style::Yellow, "  exited") } else { "".into() };
    let resident = compared.look.resident.as_ref().map(|resident| {
        let line = rss::in_a_line(resident);
        format!("{}\n", output.width.map_or_else(|| line.clone(), |width| fitted(&line, width)))
    });
    let line = printable(&parts.join("  "));
    let line = output.width.map_or_else(|| line.clone(), |width| wrapped(&line, width).join("\n"));
    let line = output.paint.paint(Style::Bold, &line).into_owned();
    format!("{line}{exited}\n{}", resident.unwrap_or_default())
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
