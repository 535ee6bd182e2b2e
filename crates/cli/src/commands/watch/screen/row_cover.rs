//! The chosen row in full: the whole stack of a site; of a function its callers, its callees and its sites; of another row its sites.

use super::super::changes::{Compared, Watched};
use super::super::looks::Look;
use super::picture::Canvas;
use super::view::WatchView;
use crate::print::bytes::count;
use crate::print::colour::Style;
use crate::print::rows::RowName;
use crate::print::site_line::SiteLine;
use crate::print::stack::{Depth, SiteView, name_of};
use crate::print::table::{Align, Cell, Table};
use crate::print::text::{fitted, printable, shell_word, width_of};
use highwater_model::groups::{GroupBy, GroupKey, Row, StackKeys};
use highwater_model::{Catalog, FrameText, SiteTypes, StackId};
use highwater_query::{NeighbourAnswer, Query, callers, key_text};
use highwater_store::history::{History, Work};
use std::sync::Arc;

/// The most callers, callees and sites.
const MOST: usize = 200;
/// The most calls of a stack: those of a deep recursion have millions.
const MOST_FRAMES: usize = 10_000;

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
    let mut lines = figures(&compared, chosen, canvas);
    match &chosen.row.key {
        GroupKey::Site(stack) => lines.extend(whole_stack(compared.look, *stack, canvas)),
        key => {
            let name = key_text(&compared.look.naming, &compared.look.snapshot.catalog, key);
            lines.extend(canvas.wrapped(Style::Bold, &name));
            lines.extend(around(view, &compared, &chosen.row, canvas));
        }
    }
    lines
}

/// The function that names the site, its callers, and below them what it called until memory was allocated.
fn whole_stack(look: &Look, stack: StackId, canvas: Canvas) -> Vec<String> {
    let frames: Vec<FrameText<'_>> = look.snapshot.catalog.frame_texts(stack).take(MOST_FRAMES).collect();
    let (passing, own) = frames.split_at(look.naming.site(&frames).passing.min(frames.len()));
    let line = |sign: &str, frame: &FrameText<'_>| frame_line(sign, look, frame, canvas);
    let mut lines: Vec<String> = match own.split_first() {
        Some((first, callers)) => {
            [line("", first)].into_iter().chain(callers.iter().map(|frame| line("  ← ", frame))).collect()
        }
        None => vec![canvas.line(Style::Dim, "(no call stack)")],
    };
    if frames.len() == MOST_FRAMES {
        lines.push(canvas.line(Style::Dim, &format!("  … more than {} callers", count(MOST_FRAMES as u64))));
    }
    if !passing.is_empty() {
        lines.extend([String::new(), canvas.line(Style::Dim, "from there to the allocator")]);
        lines.extend(passing.iter().rev().map(|frame| line("  → ", frame)));
    }
    lines
}

/// A call in one line. The end of a path tells more than its beginning.
fn frame_line(sign: &str, look: &Look, frame: &FrameText<'_>, canvas: Canvas) -> String {
    let place = match (frame.file, frame.line) {
        ("", _) => String::new(),
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    };
    let room = canvas.width.saturating_sub(width_of(sign));
    let name = fitted(&printable(&name_of(&look.naming, frame)), room);
    let place_room = room.saturating_sub(width_of(&name) + 2);
    let style = if sign.is_empty() { Style::Bold } else { Style::Plain };
    let cell = Cell::new(Style::Dim, sign).and(style, &name);
    cell.and(Style::Dim, &format!("  {}", fitted_end(&printable(&place), place_room)))
        .render(canvas.paint, canvas.width)
}

/// The end of a text in at most `room` columns.
fn fitted_end(text: &str, room: usize) -> String {
    if width_of(text) <= room {
        return text.to_owned();
    }
    let mut starts = text.char_indices().map(|(at, _)| at).filter(|at| width_of(&text[*at..]) < room);
    starts.next().map_or_else(String::new, |at| format!("…{}", &text[at..]))
}

fn figures(compared: &Compared<'_>, Watched { row, growth, lately, .. }: &Watched, canvas: Canvas) -> Vec<String> {
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
    canvas.flowed(Style::Plain, &parts)
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
            lines.extend(canvas.wrapped(Style::Plain, "Its sites are in a snapshot with every block:"));
            let command = format!("highwater snapshot --pid {} --filter {filter}", view.process.pid);
            lines.extend(canvas.wrapped(Style::Bold, &command));
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
    let catalog = &*look.snapshot.catalog;
    let keys: Vec<GroupKey> = sites.iter().take(MOST).map(|(stack, ..)| GroupKey::Site(*stack)).collect();
    let keys: Vec<(&Catalog, &GroupKey)> = keys.iter().map(|key| (catalog, key)).collect();
    let names = RowName::all(GroupBy::Site, SiteView { depth: Depth::Line, naming: &look.naming }, &keys);
    for (at, ((stack, ..), name)) in sites.iter().zip(&names).enumerate() {
        let (RowName::Site(detail) | RowName::Named(detail)) = name;
        table.set_last(at, SiteLine::new(&look.naming, catalog, *stack, detail).fitted(room));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_path_stays() {
        assert_eq!(fitted_end("/home/x/src/map.rs:7", 20), "/home/x/src/map.rs:7");
        assert_eq!(fitted_end("/home/x/src/map.rs:7", 10), "…/map.rs:7");
        assert_eq!(fitted_end("/src/漢字.rs", 6), "…字.rs");
        assert_eq!((fitted_end("/src/a.rs", 1), fitted_end("/src/a.rs", 0)), (String::new(), String::new()));
    }
}
