//! Aligned tables.

use super::colour::{Paint, Style};
use super::text::{fitted, printable, width_of};
use std::fmt::Write;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For names.
    Left,
    /// For figures.
    Right,
}

/// One cell: pieces of text, each in its style.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pieces: Vec<(Style, String)>,
}

impl Cell {
    /// A cell of one piece.
    pub fn new(style: Style, text: &str) -> Self {
        Self::default().and(style, text)
    }

    /// The cell with one more piece.
    pub fn and(mut self, style: Style, text: &str) -> Self {
        self.pieces.push((style, printable(text)));
        self
    }

    /// The cell in at most `room` columns.
    pub fn render(&self, paint: Paint, room: usize) -> String {
        let mut text = String::new();
        self.write(paint, room, &mut text);
        text
    }

    /// The number of columns that it takes.
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| width_of(text)).sum()
    }

    /// Writes at most `room` columns of it.
    fn write(&self, paint: Paint, room: usize, line: &mut String) {
        let mut left = room;
        for (style, text) in &self.pieces {
            let text = fitted(text, left);
            left = left.saturating_sub(width_of(&text));
            line.push_str(&paint.paint(*style, &text));
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(Style::Plain, &text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(Style::Plain, text)
    }
}

/// Rows under headings. The last column takes the remaining width, and is cut where a terminal would wrap it.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<(Align, String)>,
    rows: Vec<Vec<Cell>>,
}

const GAP: &str = "  ";

impl Table {
    /// The table with one more column.
    pub fn column(mut self, align: Align, heading: &str) -> Self {
        self.columns.push((align, heading.to_owned()));
        self
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The number of lines, without the headings.
    pub fn lines(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row that fills only the last column.
    pub fn continuation(&mut self, cell: Cell) {
        let mut cells = vec![Cell::default(); self.columns.len().saturating_sub(1)];
        cells.push(cell);
        self.rows.push(cells);
    }

    /// The number of columns that a line of this width has left for the last column.
    pub fn room(&self, width: usize) -> usize {
        let widths = self.widths();
        let others = widths.split_last().map_or(&[][..], |(_, others)| others);
        width.saturating_sub(others.iter().map(|width| width + GAP.len()).sum())
    }

    /// Replaces the last cell of a row.
    pub fn set_last(&mut self, row: usize, cell: Cell) {
        if let Some(last) = self.rows.get_mut(row).and_then(|cells| cells.last_mut()) {
            *last = cell;
        }
    }

    /// The table as lines, each at most `width` columns wide where there is a limit.
    pub fn render(&self, paint: Paint, width: Option<usize>) -> String {
        let widths = self.widths();
        let mut text = String::new();
        if self.columns.iter().any(|(_, heading)| !heading.is_empty()) {
            let headings: Vec<Cell> = self.columns.iter().map(|(_, heading)| Cell::new(Style::Dim, heading)).collect();
            self.write_line(&headings, &widths, paint, width, &mut text);
        }
        for row in &self.rows {
            self.write_line(row, &widths, paint, width, &mut text);
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |column: usize, heading: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(Cell::width);
            cells.max().unwrap_or(0).max(width_of(heading))
        };
        self.columns.iter().enumerate().map(|(column, (_, heading))| widest(column, heading)).collect()
    }

    fn write_line(&self, cells: &[Cell], widths: &[usize], paint: Paint, limit: Option<usize>, text: &mut String) {
        let mut line = String::new();
        let mut used = 0;
        let mut owed_spaces = 0;
        for (column, cell) in cells.iter().enumerate() {
            let align = self.columns.get(column).map_or(Align::Left, |(align, _)| *align);
            let padding = widths.get(column).copied().unwrap_or(0).saturating_sub(cell.width());
            let (before, after) = if align == Align::Right { (padding, 0) } else { (0, padding) };
            let gap = if column > 0 { GAP.len() } else { 0 };
            owed_spaces += gap + before;
            if cell.width() > 0 {
                let _ = write!(line, "{:owed_spaces$}", "");
                used += owed_spaces;
                owed_spaces = 0;
                let room = limit.map_or(usize::MAX, |limit| limit.saturating_sub(used).max(1));
                cell.write(paint, room, &mut line);
                // A wide character that did not fit leaves a column free.
                used += cell.width().min(room);
            }
            owed_spaces += after;
        }
        text.push_str(&line);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::default().column(Align::Right, "bytes").column(Align::Left, "site");
        table.row(vec!["12".into(), "a_rather_long_name".into()]);
        table.continuation("from main".into());
        table.row(vec!["1,024".into(), "b".into()]);
        table
    }

    fn plain() -> Paint {
        Paint::plain()
    }

    #[test]
    fn figures_line_up_right_and_names_left_without_trailing_spaces() {
        let expected = "bytes  site\n   12  a_rather_long_name\n       from main\n1,024  b\n";
        assert_eq!(sample().render(plain(), None), expected);
    }

    #[test]
    fn the_last_column_is_cut_where_a_terminal_would_wrap_it() {
        let text = sample().render(plain(), Some(14));
        assert!(text.contains("   12  a_rath…\n"), "{text}");
        assert!(text.lines().all(|line| width_of(line) <= 14), "{text}");
    }

    #[test]
    fn columns_line_up_under_wide_characters() {
        let mut table = Table::default().column(Align::Left, "thread").column(Align::Right, "live");
        table.row(vec!["工作线程".into(), "12".into()]);
        table.row(vec!["worker".into(), "7".into()]);
        table.row(vec!["e\u{301}".into(), "3".into()]);
        assert_eq!(
            table.render(plain(), None),
            "thread    live\n工作线程    12\nworker       7\ne\u{301}            3\n"
        );
        let mut names = Table::default().column(Align::Left, "");
        names.row(vec!["工作线程".into()]);
        assert_eq!(names.render(plain(), Some(6)), "工作…\n");
    }

    #[test]
    fn names_cannot_send_commands_to_the_terminal() {
        let mut table = Table::default().column(Align::Left, "");
        table.row(vec!["evil\x1b[2Jname".into()]);
        assert_eq!(table.render(plain(), None), "evil\u{fffd}[2Jname\n");
    }
}
