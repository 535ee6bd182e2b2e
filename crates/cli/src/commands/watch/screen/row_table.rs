//! The rows of the screen.

use super::super::changes::{WatchOrder, Watched, style_of};
use super::picture::Canvas;
use super::view::WatchView;
use crate::print::bytes::count;
use crate::print::colour::{Paint, Style};
use crate::print::figures::Units;
use crate::print::rows::{RowName, add_row, unnamed};
use crate::print::site_line::fit_names;
use crate::print::stack::{Depth, SiteView};
use crate::print::table::{Align, Cell, Table};
use crate::print::text::{fitted, width_of};
use highwater_model::Catalog;
use highwater_model::groups::GroupKey;

/// Stands before each row; the chosen one has [`CHOSEN`].
const NOT_CHOSEN: &str = " ";
const CHOSEN: &str = "›";

/// A column of figures.
struct FigureColumn {
    order: WatchOrder,
    heading: &'static str,
    /// Usual figures are not wider: the columns do not move with each look.
    width: usize,
    /// Left out on narrower screens.
    least_width: usize,
    cell: fn(Units, &Watched) -> Cell,
}

const COLUMNS: [FigureColumn; 4] = [
    FigureColumn {
        order: WatchOrder::Live,
        heading: "live",
        width: 9,
        least_width: 0,
        cell: |units, one| units.bytes(one.row.figures.live_bytes()).into(),
    },
    FigureColumn {
        order: WatchOrder::Growth,
        heading: "growth",
        width: 10,
        least_width: 0,
        cell: |units, one| Cell::new(style_of(one.growth), &units.signed_bytes(one.growth)),
    },
    FigureColumn {
        order: WatchOrder::Lately,
        heading: "lately",
        width: 9,
        least_width: 66,
        cell: |units, one| Cell::new(style_of(one.lately), &units.signed_bytes(one.lately)),
    },
    FigureColumn {
        order: WatchOrder::Blocks,
        heading: "blocks",
        width: 6,
        least_width: 54,
        cell: |units, one| units.count(one.row.figures.live_blocks()).into(),
    },
];

/// The column names and a page of rows, the chosen one among them.
pub fn row_table(view: &WatchView, canvas: Canvas, page: usize) -> Vec<String> {
    let Some(compared) = view.compared() else { return Vec::new() };
    // One column is that of the sign before the chosen row.
    let width = canvas.width.saturating_sub(1);
    let columns: Vec<&FigureColumn> = COLUMNS.iter().filter(|column| canvas.width >= column.least_width).collect();
    let from = (view.cursor + 1).saturating_sub(page);
    let shown: Vec<&Watched> = view.found().skip(from).take(page).collect();
    let mut table = Table::default();
    for column in &columns {
        let name =
            if column.order == view.order { format!("{}▼", column.heading) } else { column.heading.to_owned() };
        let padding = column.width.saturating_sub(width_of(&name));
        table = table.column(Align::Right, &format!("{:padding$}{name}", ""));
    }
    table = table.column(Align::Left, &names_heading(view));
    let catalog = &*compared.look.snapshot.catalog;
    let sites = SiteView { depth: Depth::Top, naming: &compared.look.naming };
    let keys: Vec<(&Catalog, &GroupKey)> = shown.iter().map(|one| (catalog, &one.row.key)).collect();
    let names = RowName::all(view.by, SiteView { depth: Depth::Line, ..sites }, &keys);
    let units = compared.units();
    for (one, name) in shown.iter().zip(&names) {
        let cells: Vec<Cell> = columns.iter().map(|column| (column.cell)(units, one)).collect();
        add_row(&mut table, cells, catalog, &one.row.key, sites, name);
    }
    fit_names(&mut table, width, sites.naming, &keys, &names);
    let mut lines = marked(&table, canvas, view.cursor - from.min(view.cursor));
    if shown.is_empty() {
        let reason = match view.counts() {
            (_, 0) => unnamed(view.by).unwrap_or("Nothing is live."),
            _ => "The filter finds nothing. Esc removes it.",
        };
        lines.push(canvas.line(Style::Plain, reason));
    }
    lines
}

/// What the rows are, and how many there are.
fn names_heading(view: &WatchView) -> String {
    let order = if view.order == WatchOrder::Name { "▲" } else { "" };
    let number = match view.counts() {
        (found, all) if found == all => count(all as u64),
        (found, all) => format!("{} of {}", count(found as u64), count(all as u64)),
    };
    format!("{}{order} ({number})", view.by.key())
}

/// The lines of the table, the chosen row marked: with a sign, for screens without colours.
fn marked(table: &Table, canvas: Canvas, chosen: usize) -> Vec<String> {
    let width = canvas.width.saturating_sub(1);
    let (styled, plain) = (table.render(canvas.paint, Some(width)), table.render(Paint::plain(), Some(width)));
    let line = |(at, (styled, plain)): (usize, (&str, &str))| match at {
        0 => canvas.paint.paint(Style::Dim, &fitted(&format!("{NOT_CHOSEN}{plain}"), canvas.width)).into_owned(),
        at if at == chosen + 1 => {
            let padding = width.saturating_sub(width_of(plain));
            canvas.paint.paint(Style::Selected, &format!("{CHOSEN}{plain}{:padding$}", "")).into_owned()
        }
        _ => format!("{NOT_CHOSEN}{styled}"),
    };
    styled.lines().zip(plain.lines()).enumerate().map(line).collect()
}
