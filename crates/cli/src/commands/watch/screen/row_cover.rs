//! The chosen row in full: the whole stack of a site; of a function its callers, its callees and its sites; of another row its sites.

use super::super::changes::{Compared, Watched};
use super::picture::Canvas;
use super::view::WatchView;
use crate::print::bytes::count;
use crate::print::colour::Style;
use crate::print::rows::{RowName, add_row};
use crate::print::site_line::SiteLine;
use crate::print::stack::{Depth, SiteView};
use crate::print::table::{Align, Cell, Table};
use crate::print::text::shell_word;
use highwater_model::groups::{GroupBy, GroupKey, Row, StackKeys};
use highwater_model::{FrameText, SiteTypes, StackId};
use highwater_query::{NeighbourAnswer, Query, callers, key_text};
use highwater_store::history::{History, Work};
use std::sync::Arc;

/// The most callers, callees and sites.
const MOST: usize = 200;

/// The chosen row in one line, without its figures.
pub fn in_a_line(view: &WatchView, canvas: Canvas) -> String {
    let (Some(compared), Some(chosen)) = (view.compared(), view.chosen()) else { return String::new() };
    let look = compared.look;
    match &chosen.row.key {
        GroupKey::Site(stack) => SiteLine::new(&look.naming, &look.snapshot.catalog, *stack, "")
            .fitted(canvas.width)
            .render(canvas.paint, canvas.width),
        key => canvas.line(Style::Plain, &key_text(&look.naming, &look.snapshot.catalog, key)),
    }
}

/// All lines about the chosen row.
pub fn lines(view: &WatchView, canvas: Canvas) -> Vec<String> {
    let (Some(compared), Some(chosen)) = (view.compared(), view.chosen()) else {
        return vec![canvas.line(Style::Plain, "There is no row any more.")];
    };
    let mut lines = vec![figures(&compared, chosen, canvas)];
    match &chosen.row.key {
        GroupKey::Site(_) => {
            let sites = SiteView { depth: Depth::Full, naming: &compared.look.naming };
            let mut table = Table::default().column(Align::Left, "");
            let catalog = &*compared.look.snapshot.catalog;
            let whole = RowName::Site(String::new());
            add_row(&mut table, Vec::new(), catalog, &chosen.row.key, sites, &whole);
            let text = table.render(canvas.paint, Some(canvas.width));
            lines.extend(text.lines().map(str::to_owned));
        }
        key => {
            let catalog = &*compared.look.snapshot.catalog;
            lines.push(canvas.line(Style::Bold, &key_text(&compared.look.naming, catalog, key)));
            lines.extend(around(view, &compared, &chosen.row, canvas));
        }
    }
    lines
}

fn figures(compared: &Compared<'_>, Watched { row, growth, lately, .. }: &Watched, canvas: Canvas) -> String {
    let units = compared.units();
    let mut parts = vec![
        format!("live {}", units.bytes(row.figures.live_bytes())),
        format!("growth {}", units.signed_bytes(*growth)),
        format!("lately {}", units.signed_bytes(*lately)),
        units.counted(row.figures.live_blocks(), "block"),
    ];
    if compared.by.has_callees() {
        parts.push(format!("with callees {}", units.bytes(row.inclusive.live_bytes())));
    }
    canvas.line(Style::Plain, &parts.join("  "))
}

/// The callers and callees of a function, and the sites of the row.
fn around(view: &WatchView, compared: &Compared<'_>, row: &Row, canvas: Canvas) -> Vec<String> {
    let look = compared.look;
    let mut lines = Vec::new();
    if view.by == GroupBy::Function {
        let history = Arc::new(History::of_snapshot(look.snapshot.clone()));
        let query = Query { naming: (*look.naming).clone(), ..Query::new(history) };
        let function = key_text(&look.naming, &look.snapshot.catalog, &row.key);
        match callers(&query, &function, &Work::quiet()) {
            Ok(answer) => {
                lines.extend(neighbours("callers", &answer.callers, compared, canvas));
                lines.extend(neighbours("callees", &answer.callees, compared, canvas));
            }
            Err(error) => lines.push(canvas.line(Style::Red, &error.to_string())),
        }
    }
    match sites_of(compared, row) {
        Some(sites) => lines.extend(site_lines(&sites, compared, canvas)),
        None => {
            // Figures of sites and of threads are separate in a look: only a snapshot with every block has both.
            let name = match &row.key {
                GroupKey::Thread(thread) => thread.0.to_string(),
                key => key_text(&look.naming, &look.snapshot.catalog, key),
            };
            let filter = shell_word(&format!("{}:{name}", view.by.key()));
            lines.push(String::new());
            lines.push(canvas.line(Style::Plain, &format!("Its sites are in a snapshot with every block:")));
            lines.push(
                canvas.line(Style::Bold, &format!("highwater snapshot --pid {} --filter {filter}", view.process.pid)),
            );
        }
    }
    lines
}

fn neighbours(what: &str, all: &[NeighbourAnswer], compared: &Compared<'_>, canvas: Canvas) -> Vec<String> {
    let units = compared.units();
    let mut table =
        Table::default().column(Align::Right, "live").column(Align::Right, "blocks").column(Align::Left, what);
    for NeighbourAnswer { function, value, blocks } in all.iter().take(MOST) {
        let name = compared.look.naming.shown(function);
        table.row(vec![units.bytes(*value).into(), units.count(*blocks).into(), Cell::new(Style::Bold, &name)]);
    }
    titled(table, all.len(), what, canvas)
}

fn site_lines(sites: &[(StackId, u64, u64)], compared: &Compared<'_>, canvas: Canvas) -> Vec<String> {
    let (units, look) = (compared.units(), compared.look);
    let mut table =
        Table::default().column(Align::Right, "live").column(Align::Right, "blocks").column(Align::Left, "sites");
    for (_, live, blocks) in sites.iter().take(MOST) {
        table.row(vec![units.bytes(*live).into(), units.count(*blocks).into(), Cell::default()]);
    }
    let room = table.room(canvas.width);
    for (at, (stack, ..)) in sites.iter().take(MOST).enumerate() {
        table.set_last(at, SiteLine::new(&look.naming, &look.snapshot.catalog, *stack, "").fitted(room));
    }
    titled(table, sites.len(), "sites", canvas)
}

fn titled(table: Table, number: usize, what: &str, canvas: Canvas) -> Vec<String> {
    if number == 0 {
        return vec![String::new(), canvas.line(Style::Dim, &format!("no {what}"))];
    }
    let text = table.render(canvas.paint, Some(canvas.width));
    let more = (number > MOST).then(|| canvas.line(Style::Dim, &format!("… {} more", count((number - MOST) as u64))));
    [String::new()].into_iter().chain(text.lines().map(str::to_owned)).chain(more).collect()
}

/// The sites of a row with their live bytes and blocks, largest first; `None` if the look does not know them.
fn sites_of(compared: &Compared<'_>, row: &Row) -> Option<Vec<(StackId, u64, u64)>> {
    let (by, look) = (compared.by, compared.look);
    let (catalog, naming) = (&*look.snapshot.catalog, &*look.naming);
    let mut types = match by {
        GroupBy::Function | GroupBy::File | GroupBy::Module | GroupBy::Line => None,
        GroupBy::Type if look.snapshot.has_site_types() => Some(SiteTypes::new(catalog, naming)),
        _ => return None,
    };
    let mut is_in_row = |stack: StackId| match &mut types {
        Some(types) => matches!(&row.key, GroupKey::Name(name) if *types.of(catalog, stack).name == **name),
        None => {
            let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).collect();
            StackKeys::of(&frames, naming, by).all.into_iter().any(|key| GroupKey::from(key) == row.key)
        }
    };
    let live = look.snapshot.accounts.sites().iter().filter(|(_, figures)| figures.live_bytes() > 0);
    let found = live.filter(|(stack, _)| is_in_row(*stack));
    let mut found: Vec<(StackId, u64, u64)> =
        found.map(|(stack, figures)| (stack, figures.live_bytes(), figures.live_blocks())).collect();
    found.sort_by_key(|(_, live, _)| std::cmp::Reverse(*live));
    Some(found)
}
