//! How a call site is shown: the program's own innermost function with its source location, and its callers below. Frames of allocators and language
//! runtimes come first in every stack and say nothing. Only a full stack shows them, as callees of that function.

use super::bytes::count;
use super::colour::{Paint, Style};
use super::table::{Align, Cell, Table};
use super::text::fitted;
use highwater_model::{Catalog, FrameText, Naming, StackId};
use rustc_hash::FxHashMap;

/// How much of a stack is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Depth {
    /// Only the first function of the program's own.
    Top,
    /// That function and its nearest callers, on one line.
    #[value(skip)]
    Line,
    /// That function and the callers nearest to it.
    #[default]
    Brief,
    /// The whole stack, with whole paths.
    Full,
}

/// On a single line, longer names are cut: those of templates and closures can fill a page.
const LONGEST_NAME: usize = 60;
/// The number of callers that `Depth::Brief` shows.
pub(super) const BRIEF_CALLERS: usize = 3;
/// The maximum number of lines of a table with whole stacks; further stacks are brief. The stacks of a deep recursion have millions of lines.
const MOST_LINES: usize = 200_000;

impl Depth {
    /// The number of callers that can be seen.
    pub fn visible_callers(self) -> usize {
        if self == Self::Line { BRIEF_CALLERS } else { self.callers() }
    }

    fn callers(self) -> usize {
        match self {
            Self::Top | Self::Line => 0,
            Self::Brief => BRIEF_CALLERS,
            Self::Full => usize::MAX,
        }
    }
}

/// How sites are shown.
#[derive(Clone, Copy)]
pub struct SiteView<'a> {
    /// How much of a stack is shown.
    pub depth: Depth,
    /// How it is named.
    pub naming: &'a Naming,
}

/// Adds a row for a stack to a table whose last column is for sites: the given figures, then the stack. `detail` tells it from a row that would look the
/// same.
pub fn add_site_row(
    table: &mut Table,
    mut figures: Vec<Cell>,
    catalog: &Catalog,
    stack: StackId,
    SiteView { depth, naming }: SiteView<'_>,
    detail: &str,
) {
    let room = MOST_LINES.saturating_sub(table.lines());
    let depth = if room == 0 && depth == Depth::Full { Depth::Brief } else { depth };
    let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).collect();
    let site = naming.site(&frames);
    let (passing, own) = frames.split_at(site.passing.min(frames.len()));
    let callers = own.get(1..).unwrap_or_default();
    // A few lines only have room for the programmer's own frames.
    let wanted = |frame: &&FrameText<'_>| depth == Depth::Full || !naming.is_background(frame);
    // One line shows a few callers; stacks are deep, and there may be thousands of them.
    let most = if depth == Depth::Line { BRIEF_CALLERS } else { usize::MAX };
    let callers: Vec<&FrameText<'_>> = callers.iter().filter(wanted).take(most).collect();
    let name_of = |frame: &FrameText<'_>| {
        let name = name_of(naming, frame);
        if depth == Depth::Line { fitted(&name, LONGEST_NAME) } else { name }
    };
    let named = |frame: &FrameText<'_>| match site.pool {
        Some(pool) => Cell::new(Style::Bold, pool).and(Style::Plain, &format!(" · {}", name_of(frame))),
        None => Cell::new(Style::Bold, &name_of(frame)),
    };
    let mut site = own
        .first()
        .map_or_else(|| Cell::new(Style::Dim, "(no call stack)"), |frame| located(named(frame), frame, depth));
    if !detail.is_empty() {
        site = site.and(Style::Plain, &format!("  {detail}"));
    }
    if depth == Depth::Line {
        for frame in callers.iter().take(BRIEF_CALLERS) {
            site = site.and(Style::Dim, &format!(" ← {}", name_of(frame)));
        }
    }
    figures.push(site);
    table.row(figures);
    if depth == Depth::Full {
        for frame in passing.iter().rev() {
            let cell = Cell::new(Style::Dim, "  → ").and(Style::Dim, &name_of(frame));
            table.continuation(located(cell, frame, depth));
        }
    }
    let shown = depth.callers().min(room.max(BRIEF_CALLERS));
    // "1 more caller" would take the line of that caller.
    let shown = if depth == Depth::Brief && callers.len() == shown + 1 { shown + 1 } else { shown };
    for frame in callers.iter().take(shown) {
        let cell = Cell::new(Style::Dim, "  ← ").and(Style::Plain, &name_of(frame));
        table.continuation(located(cell, frame, depth));
    }
    if matches!(depth, Depth::Brief | Depth::Full) && callers.len() > shown {
        table.continuation(Cell::new(
            Style::Dim,
            &format!("  … {} more callers", count((callers.len() - shown) as u64)),
        ));
    }
    if depth == Depth::Full && room > 0 && table.lines() >= MOST_LINES {
        let most = count(MOST_LINES as u64);
        table.continuation(Cell::new(Style::Dim, &format!("(whole stacks end here: the limit is {most} lines)")));
    }
}

/// Numbers the lines by which [`Depth::Line`] shows stacks: stacks that look the same have the same number.
///
/// There may be a million stacks, so their texts are not built: a line is identified by the frames that it shows. The exception is long names that
/// are shortened or cut: they may look the same though they differ.
pub struct LineNumbers<'a> {
    naming: &'a Naming,
    stacks: FxHashMap<StackId, usize>,
    frames: FxHashMap<Vec<(Text, Text, u64)>, usize>,
    cut: FxHashMap<String, usize>,
    count: usize,
    /// Whether a frame of this function, file and module is background.
    background: FxHashMap<(Text, Text, Text), bool>,
}

/// A text of a catalog. A catalog has each text once, so its address and length identify it.
type Text = (usize, usize);

fn identity(text: &str) -> Text {
    if text.is_empty() { (0, 0) } else { (text.as_ptr() as usize, text.len()) }
}

impl<'a> LineNumbers<'a> {
    /// No lines yet.
    pub fn new(naming: &'a Naming) -> Self {
        let (stacks, frames, cut, background) = Default::default();
        Self { naming, stacks, frames, cut, count: 0, background }
    }

    /// How stacks are named.
    pub fn naming(&self) -> &'a Naming {
        self.naming
    }

    /// The number of a stack's line. All stacks must be of one catalog.
    pub fn number(&mut self, catalog: &Catalog, stack: StackId) -> usize {
        if let Some(known) = self.stacks.get(&stack) {
            return *known;
        }
        let number = self.find(catalog, stack);
        self.stacks.insert(stack, number);
        number
    }

    fn find(&mut self, catalog: &Catalog, stack: StackId) -> usize {
        // The frames that are shown are nearly always among the innermost ones.
        const NEAR: usize = 8;
        let mut shown = Vec::new();
        for most in [NEAR, usize::MAX] {
            let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(most).collect();
            let own = frames.get(self.naming.passing_frames(&frames)..).unwrap_or_default();
            let callers = own.iter().skip(1).filter(|frame| {
                let key = (identity(frame.function), identity(frame.file), identity(frame.module));
                !*self.background.entry(key).or_insert_with(|| self.naming.is_background(frame))
            });
            shown = own.first().into_iter().chain(callers.take(BRIEF_CALLERS)).copied().collect();
            if shown.len() > BRIEF_CALLERS || frames.len() < most {
                break;
            }
        }
        // A frame without a name shows its address; callers show no source line.
        let looks = |(position, frame): (usize, &FrameText<'_>)| {
            let file = if position == 0 { frame.file } else { "" };
            let place = if position == 0 && !frame.function.is_empty() { frame.line.into() } else { 0 };
            (identity(frame.function), identity(file), if frame.function.is_empty() { frame.address } else { place })
        };
        let key: Vec<(Text, Text, u64)> = shown.iter().enumerate().map(looks).collect();
        if let Some(known) = self.frames.get(&key) {
            return *known;
        }
        let next = self.count;
        let is_changed = |name: &str| name.len() > LONGEST_NAME || self.naming.shown(name) != name;
        let is_cut = shown.iter().any(|frame| is_changed(frame.function));
        let number =
            if is_cut { *self.cut.entry(site_in_a_line(self.naming, catalog, stack)).or_insert(next) } else { next };
        self.count += usize::from(number == next);
        self.frames.insert(key, number);
        number
    }
}

/// A stack as [`Depth::Line`] shows it, without a table.
fn site_in_a_line(naming: &Naming, catalog: &Catalog, stack: StackId) -> String {
    let mut table = Table::default().column(Align::Left, "");
    add_site_row(&mut table, Vec::new(), catalog, stack, SiteView { depth: Depth::Line, naming }, "");
    table.render(Paint::plain(), None)
}

/// The name of a frame: its function, or else the offset of its code in its module, or its address.
pub fn name_of(naming: &Naming, frame: &FrameText<'_>) -> String {
    if let Some(code) = frame.unnamed_code() {
        return code.to_string();
    }
    match (frame.function, frame.address, frame.module) {
        ("", 0, "") => "(unknown function)".to_owned(),
        ("", 0, module) => format!("(unknown function in {})", last_parts(module, 1)),
        ("", address, "") => format!("0x{address:x}"),
        ("", address, module) => format!("0x{address:x} in {}", last_parts(module, 1)),
        (function, ..) => naming.shown(function).into_owned(),
    }
}

fn located(cell: Cell, frame: &FrameText<'_>, depth: Depth) -> Cell {
    if frame.file.is_empty() {
        return cell;
    }
    let file = if depth == Depth::Full { frame.file } else { last_parts(frame.file, 2) };
    let place = if frame.line == 0 { file.to_owned() } else { format!("{file}:{}", frame.line) };
    cell.and(Style::Dim, &format!("  {place}"))
}

/// The last `count` parts of a path.
pub(super) fn last_parts(path: &str, count: usize) -> &str {
    let start = path.rmatch_indices('/').nth(count - 1).map_or(0, |(at, _)| at + 1);
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn rendered(frames: &[FrameText<'_>], depth: Depth) -> String {
        let mut catalog = Catalog::default();
        let stack = catalog.intern_stack(frames);
        let mut table = Table::default().column(Align::Right, "").column(Align::Left, "");
        add_site_row(&mut table, vec!["1".into()], &catalog, stack, SiteView { depth, naming: &Naming::default() }, "");
        table.render(Paint::plain(), None)
    }

    fn frame<'a>(function: &'a str, file: &'a str, line: u32) -> FrameText<'a> {
        FrameText { function, file, line, ..FrameText::default() }
    }

    #[test]
    fn a_brief_stack_shows_the_nearest_callers_and_counts_the_rest() {
        let frames = ["inner", "a", "b", "c", "d", "e"].map(|name| frame(name, "/home/x/src/lib.rs", 3));
        let text = rendered(&frames, Depth::Brief);
        assert!(text.starts_with("1  inner  src/lib.rs:3\n     ← a  src/lib.rs:3\n"), "{text}");
        assert!(text.ends_with("     ← c  src/lib.rs:3\n     … 2 more callers\n"), "{text}");
        assert_eq!(rendered(&frames, Depth::Full).lines().count(), 6);
        assert_eq!(rendered(&frames, Depth::Top).lines().count(), 1);
        assert_eq!(rendered(&frames[..2], Depth::Top).lines().count(), 1);
        assert_eq!(rendered(&frames[..2], Depth::Line), "1  inner  src/lib.rs:3 ← a\n");
    }

    /// For arbitrary stacks: two have the same number exactly if they look the same. Names that are cut are excepted.
    #[test]
    fn stacks_with_the_same_number_look_the_same_and_others_do_not() {
        let names = ["malloc", "operator new(unsigned long)", "load", "main", "", "__libc_start_main"];
        let mut catalog = Catalog::default();
        let mut stacks = Vec::new();
        for number in 0..2000u32 {
            let frame = |position: u32| {
                let pick = number.wrapping_mul(2_654_435_761).rotate_left(position * 5) % 12;
                let (function, line) = (names[pick as usize % 6], pick / 6 + 1);
                FrameText { function, file: "src/a.c", line, address: u64::from(pick) + 1, ..FrameText::default() }
            };
            let frames: Vec<FrameText<'_>> = (0..number % 14).map(frame).collect();
            stacks.push(catalog.intern_stack(&frames));
        }
        let naming = Naming::default();
        let mut numbers = LineNumbers::new(&naming);
        let mut looks: HashMap<usize, String> = HashMap::new();
        for stack in stacks {
            let text = site_in_a_line(&naming, &catalog, stack);
            assert_eq!(looks.entry(numbers.number(&catalog, stack)).or_insert_with(|| text.clone()), &text);
        }
        let different: std::collections::HashSet<&String> = looks.values().collect();
        assert!(different.len() > 50 && different.len() == looks.len(), "{} of {}", different.len(), looks.len());
    }

    #[test]
    fn whole_stacks_end_at_a_limit_of_lines_and_are_brief_beyond_it() {
        let mut catalog = Catalog::default();
        let stack = catalog.intern_stack(&vec![frame("recurse", "", 0); 150_001]);
        let mut table = Table::default().column(Align::Left, "");
        let view = SiteView { depth: Depth::Full, naming: &Naming::default() };
        (0..3).for_each(|_| add_site_row(&mut table, Vec::new(), &catalog, stack, view, ""));
        let text = table.render(Paint::plain(), None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 200_000 + 3 + 5);
        assert_eq!(lines[200_001], "  … 100,001 more callers");
        assert_eq!(lines[200_002], "(whole stacks end here: the limit is 200,000 lines)");
        assert_eq!(lines[200_007], "  … 149,997 more callers");
    }

    #[test]
    fn allocators_do_not_give_a_site_its_name_and_only_a_full_stack_shows_them() {
        let frames = ["malloc", "operator new(unsigned long)", "load", "main"].map(|name| frame(name, "", 0));
        assert_eq!(rendered(&frames, Depth::Brief), "1  load\n     ← main\n");
        let full = "1  load\n     → operator new\n     → malloc\n     ← main\n";
        assert_eq!(rendered(&frames, Depth::Full), full);
        assert_eq!(rendered(&frames[..1], Depth::Top), "1  malloc\n");
    }

    #[test]
    fn a_frame_without_a_name_is_shown_by_address_and_module() {
        let unnamed = FrameText { address: 0x7f10, module: "/usr/lib/libz.so.1", ..FrameText::default() };
        assert_eq!(name_of(&Naming::default(), &unnamed), "0x7f10 in libz.so.1");
        assert_eq!(name_of(&Naming::default(), &FrameText::default()), "(unknown function)");
        assert_eq!(rendered(&[], Depth::Brief), "1  (no call stack)\n");
    }
}
