//! A site in one line of a given width. What tells sites apart stays longest: the name with its source line, and the callers. Directories go first, then
//! the leading parts of names, then the outer callers; the nearest caller stays.

use super::colour::Style;
use super::rows::RowName;
use super::stack::{BRIEF_CALLERS, last_parts, name_of};
use super::table::{Cell, Table};
use super::text::{fitted, width_of};
use highwater_model::groups::GroupKey;
use highwater_model::{Catalog, FrameText, Naming, StackId};

/// The parts of the line.
pub struct SiteLine {
    pool: Option<&'static str>,
    name: String,
    file: String,
    line: u32,
    /// What tells the site from one that looks the same.
    detail: String,
    callers: Vec<String>,
}

/// How the source location is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    /// With the file's directory.
    Directory,
    File,
    /// The number of the line alone.
    Line,
}

/// One step from the whole line to the shortest.
#[derive(Clone, Copy)]
struct Shortening {
    location: Location,
    /// How many parts of the name.
    name: usize,
    /// The same of the callers' names.
    caller_names: usize,
    callers: usize,
    /// The most columns of the detail.
    detail: usize,
}

const fn step(location: Location, name: usize, caller_names: usize, callers: usize, detail: usize) -> Shortening {
    Shortening { location, name, caller_names, callers, detail }
}

const WHOLE: usize = usize::MAX;
const STEPS: [Shortening; 12] = [
    step(Location::Directory, WHOLE, WHOLE, BRIEF_CALLERS, WHOLE),
    step(Location::File, WHOLE, WHOLE, BRIEF_CALLERS, WHOLE),
    step(Location::Line, WHOLE, WHOLE, BRIEF_CALLERS, WHOLE),
    step(Location::Line, WHOLE, 2, BRIEF_CALLERS, WHOLE),
    step(Location::Line, WHOLE, 1, BRIEF_CALLERS, WHOLE),
    step(Location::Line, 2, 1, BRIEF_CALLERS, WHOLE),
    step(Location::Line, 2, 1, BRIEF_CALLERS, 16),
    step(Location::Line, 2, 1, 2, 16),
    step(Location::Line, 1, 1, 2, 16),
    step(Location::Line, 1, 1, 2, 10),
    step(Location::Line, 1, 1, 1, 10),
    step(Location::Line, 1, 1, 1, 0),
];

impl SiteLine {
    /// The parts of a stack's line.
    pub fn new(naming: &Naming, catalog: &Catalog, stack: StackId, detail: &str) -> Self {
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).collect();
        let site = naming.site(&frames);
        let own = frames.get(site.passing..).unwrap_or_default();
        let callers = own.iter().skip(1).filter(|frame| !naming.is_background(frame)).take(BRIEF_CALLERS);
        Self {
            pool: site.pool,
            name: own.first().map_or_else(|| "(no call stack)".to_owned(), |frame| name_of(naming, frame)),
            file: own.first().map(|frame| frame.file.to_owned()).unwrap_or_default(),
            line: own.first().map_or(0, |frame| frame.line),
            detail: detail.to_owned(),
            callers: callers.map(|frame| name_of(naming, frame)).collect(),
        }
    }

    /// The line in at most `room` columns.
    pub fn fitted(&self, room: usize) -> Cell {
        let fits = |cell: &Cell| cell.width() <= room;
        STEPS.iter().map(|step| self.cell(*step)).find(fits).unwrap_or_else(|| self.cut(room))
    }

    fn cell(&self, step: Shortening) -> Cell {
        let mut cell = self.named(last_segments(&self.name, step.name), step.location);
        if !self.detail.is_empty() && step.detail > 0 {
            cell = cell.and(Style::Plain, &format!("  {}", fitted(&self.detail, step.detail)));
        }
        for caller in self.callers.iter().take(step.callers) {
            cell = cell.and(Style::Dim, &format!(" ← {}", last_segments(caller, step.caller_names)));
        }
        cell
    }

    fn named(&self, name: &str, location: Location) -> Cell {
        let cell = match self.pool {
            Some(pool) => Cell::new(Style::Bold, pool).and(Style::Plain, &format!(" · {name}")),
            None => Cell::new(Style::Bold, name),
        };
        let line = if self.line == 0 { String::new() } else { format!(":{}", self.line) };
        match location {
            Location::Line => cell.and(Style::Dim, &line),
            _ if self.file.is_empty() => cell,
            Location::Directory => cell.and(Style::Dim, &format!("  {}{line}", last_parts(&self.file, 2))),
            Location::File => cell.and(Style::Dim, &format!("  {}{line}", last_parts(&self.file, 1))),
        }
    }

    /// Cuts the name, so that the nearest caller has at least a third of the line.
    fn cut(&self, room: usize) -> Cell {
        let caller = self.callers.first().map(|caller| format!(" ← {}", last_segments(caller, 1))).unwrap_or_default();
        let name_room = room - width_of(&caller).min(room / 3);
        let whole = self.named(last_segments(&self.name, 1), Location::Line);
        let name = match whole.width() <= name_room {
            true => whole,
            false => Cell::new(Style::Bold, &fitted(last_segments(&self.name, 1), name_room)),
        };
        let left = room.saturating_sub(name.width());
        name.and(Style::Dim, &fitted(&caller, left))
    }
}

/// Fits the names of a table's rows, in its last column, to lines of this width.
pub fn fit_names(table: &mut Table, width: usize, naming: &Naming, rows: &[(&Catalog, &GroupKey)], names: &[RowName]) {
    let room = table.room(width);
    for (at, ((catalog, key), name)) in rows.iter().zip(names).enumerate() {
        match (key, name) {
            (GroupKey::Site(stack), RowName::Site(detail)) => {
                table.set_last(at, SiteLine::new(naming, catalog, *stack, detail).fitted(room));
            }
            (GroupKey::Name(key), RowName::Named(name)) if !key.is_empty() => {
                table.set_last(at, Cell::new(Style::Bold, &fitted_name(name, room)));
            }
            _ => {}
        }
    }
}

/// A name in at most `room` columns: its leading parts go first.
fn fitted_name(name: &str, room: usize) -> String {
    let lengths = [usize::MAX, 3, 2, 1];
    let fitting = lengths.iter().map(|count| last_segments(name, *count)).find(|name| width_of(name) <= room);
    fitting.map_or_else(|| fitted(last_segments(name, 1), room), str::to_owned)
}

/// The last `count` segments of a path such as `a::b<c::d>::e`. What stands in brackets is not divided.
fn last_segments(name: &str, count: usize) -> &str {
    let mut depth = 0usize;
    let mut starts = vec![0];
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && name.as_bytes()[at - 1] == b':' => starts.push(at + 1),
            _ => {}
        }
    }
    let start = starts[starts.len().saturating_sub(count)];
    if start < name.len() { &name[start..] } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::colour::Paint;

    fn line(detail: &str) -> SiteLine {
        let mut catalog = Catalog::default();
        let frame = |function, line| FrameText { function, file: "/home/x/src/server.rs", line, ..Default::default() };
        let frames = [frame("server::Session::open", 21), frame("server::serve", 40), frame("server::main", 54)];
        let stack = catalog.intern_stack(&frames);
        SiteLine::new(&Naming::default(), &catalog, stack, detail)
    }

    #[test]
    fn callers_stay_when_the_line_gets_shorter() {
        let shown = |room| line("").fitted(room).render(Paint::plain(), room);
        assert_eq!(shown(80), "server::Session::open  src/server.rs:21 ← server::serve ← server::main");
        assert_eq!(shown(66), "server::Session::open  server.rs:21 ← server::serve ← server::main");
        assert_eq!(shown(56), "server::Session::open:21 ← server::serve ← server::main");
        assert_eq!(shown(50), "server::Session::open:21 ← serve ← main");
        assert_eq!(shown(34), "Session::open:21 ← serve ← main");
        assert_eq!(shown(24), "open:21 ← serve ← main");
        assert_eq!(shown(18), "open:21 ← serve");
        assert_eq!(shown(12), "open:21 ← s…");
        for room in 0..80 {
            assert!(width_of(&shown(room)) <= room, "{room}");
        }
        let detailed = |room| line("String → String::write_fmt").fitted(room).render(Paint::plain(), room);
        assert_eq!(detailed(60), "Session::open:21  String → String::write_fmt ← serve ← main");
        assert_eq!(detailed(50), "Session::open:21  String → String… ← serve ← main");
        assert_eq!(detailed(34), "open:21  String → … ← serve ← main");
        assert_eq!(detailed(20), "open:21 ← serve");
    }

    #[test]
    fn names_are_divided_outside_of_brackets_only() {
        assert_eq!(last_segments("a::b<c::d>::e", 1), "e");
        assert_eq!(last_segments("a::b<c::d>::e", 2), "b<c::d>::e");
        assert_eq!(last_segments("<a::B as c::D>::e::f", 2), "e::f");
        assert_eq!(last_segments("std::", 1), "std::");
        assert_eq!(last_segments("malloc", 3), "malloc");
        assert_eq!((fitted_name("a::bc::def", 7), fitted_name("a::bc::defghi", 4)), ("bc::def".into(), "def…".into()));
    }
}
