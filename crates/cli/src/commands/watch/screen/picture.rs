//! The lines of the screen. What matters less goes first where there is little room: the chart, the resident memory, the line of the chosen row.

use super::header;
use super::keys::{self, BINDINGS};
use super::row_cover;
use super::row_table::row_table;
use super::view::{Cover, Typed, WatchView};
use crate::print::colour::{Paint, Style};
use crate::print::table::{Align, Cell, Table};
use crate::print::text::{fitted, printable, width_of, wrapped};

/// Below this height there is no line about the chosen row.
const ENOUGH_FOR_DETAIL: usize = 16;

/// The screen.
pub struct Picture {
    pub lines: Vec<String>,
    /// The rows, or lines of a cover, that fit.
    pub page: usize,
    /// How far a cover can be scrolled at most.
    pub last_scroll: usize,
}

/// Where the picture is drawn.
#[derive(Clone, Copy)]
pub struct Canvas {
    pub width: usize,
    pub height: usize,
    pub paint: Paint,
}

impl Canvas {
    /// Parts in lines, with two spaces between them: a part is never divided.
    pub fn flowed(&self, style: Style, parts: &[String]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for part in parts.iter().map(|part| printable(part)) {
            match lines.last_mut() {
                Some(line) if width_of(line) + 2 + width_of(&part) <= self.width => {
                    line.push_str("  ");
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
        lines.iter().map(|line| self.line(style, line)).collect()
    }

    /// A sentence in lines.
    pub fn wrapped(&self, style: Style, text: &str) -> Vec<String> {
        wrapped(&printable(text), self.width).iter().map(|line| self.line(style, line)).collect()
    }

    /// A line with any content, cut where it must be.
    pub fn line(&self, style: Style, text: &str) -> String {
        self.paint.paint(style, &fitted(&printable(text), self.width)).into_owned()
    }
}

/// The picture of a view. `message` is the latest line for standard error.
pub fn picture(view: &WatchView, canvas: Canvas, message: Option<&str>) -> Picture {
    let mut lines = header::header(view, canvas);
    lines.extend(status(view, canvas, message));
    let foot = foot(view, canvas);
    let room = canvas.height.saturating_sub(lines.len() + foot.len()).max(1);
    let (body, page, last_scroll) = match view.cover {
        Some(cover) => {
            let all = match cover {
                Cover::Help => help(canvas),
                Cover::Row => row_cover::lines(view, canvas),
            };
            let last = all.len().saturating_sub(room);
            let from = view.scrolled.min(last);
            (all.into_iter().skip(from).take(room).collect(), room, last)
        }
        None => {
            let page = room.saturating_sub(1).max(1);
            (row_table(view, canvas, page), page, 0)
        }
    };
    lines.extend(body);
    lines.truncate(canvas.height.saturating_sub(foot.len()));
    lines.resize(canvas.height.saturating_sub(foot.len()), String::new());
    lines.extend(foot);
    Picture { lines, page, last_scroll }
}

/// What is unusual: trouble, the end, a pause, a filter, a message.
fn status(view: &WatchView, canvas: Canvas, message: Option<&str>) -> Option<String> {
    if let Some(Typed { text, error }) = &view.typed {
        return Some(match error {
            Some(error) => canvas.line(Style::Red, &format!("filter: {text}▏ {error}")),
            None => canvas.line(Style::Bold, &format!("filter (part of a name, or /regex/): {text}▏")),
        });
    }
    let mut parts = Vec::new();
    if let Some(trouble) = &view.trouble {
        parts.push(format!("no look, trying again: {trouble}"));
    }
    if view.is_over() {
        parts.push("exited: this is what it held at its end".to_owned());
    }
    if view.is_paused {
        parts.push("paused".to_owned());
    }
    if !view.filter.is_empty() {
        parts.push(format!("filter: {}", view.filter));
    }
    if let Some(message) = message {
        parts.push(message.to_owned());
    }
    let style = if view.trouble.is_some() { Style::Red } else { Style::Yellow };
    (!parts.is_empty()).then(|| canvas.line(style, &parts.join("  ·  ")))
}

/// The chosen row in full, as far as it fits, and the keys.
fn foot(view: &WatchView, canvas: Canvas) -> Vec<String> {
    let mut lines = Vec::new();
    if canvas.height >= ENOUGH_FOR_DETAIL && view.cover.is_none() {
        lines.push(row_cover::in_a_line(view, canvas));
    }
    let keys = match (&view.typed, view.cover) {
        (Some(_), _) => "Enter applies  Esc leaves it as it was  Ctrl-U clears".to_owned(),
        (None, Some(_)) => "Esc back  ↑↓ PgUp PgDn scroll  q quit".to_owned(),
        (None, None) => keys::brief(canvas.width),
    };
    lines.push(canvas.line(Style::Dim, &keys));
    lines
}

fn help(canvas: Canvas) -> Vec<String> {
    let mut table = Table::default().column(Align::Left, "").column(Align::Left, "");
    for binding in &BINDINGS {
        table.row(vec![Cell::new(Style::Bold, binding.keys), binding.about.into()]);
    }
    for (keys, about) in [("Ctrl-Z", "suspend; 'fg' comes back"), ("Ctrl-L", "draw the screen anew")] {
        table.row(vec![Cell::new(Style::Bold, keys), about.into()]);
    }
    let notes = [
        "",
        "live    bytes that are allocated and not freed",
        "growth  change of live since watching began, or since '0' was pressed",
        "lately  change of live since the last look",
        "~       an estimate: the process is sampled",
    ];
    let table = table.render(canvas.paint, Some(canvas.width));
    table.lines().map(str::to_owned).chain(notes.iter().map(|note| canvas.line(Style::Plain, note))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_flow_into_lines_and_are_not_divided() {
        let flowed = |width| {
            let parts = ["server (pid 1)", "1.4 MiB in 2 blocks", "exact"].map(str::to_owned);
            Canvas { width, height: 24, paint: Paint::plain() }.flowed(Style::Plain, &parts)
        };
        assert_eq!(flowed(80), ["server (pid 1)  1.4 MiB in 2 blocks  exact"]);
        assert_eq!(flowed(30), ["server (pid 1)", "1.4 MiB in 2 blocks  exact"]);
        assert_eq!(flowed(10), ["server (p…", "1.4 MiB i…", "exact"]);
    }
}
