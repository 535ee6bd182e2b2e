//! A filled chart for the terminal: one value per column, with a resolution of an eighth of a cell.

use super::colour::{Paint, Style};
use super::text::width_of;
use std::fmt::Write;

/// The data and layout of a chart.
pub struct Chart<'a> {
    /// One value per column, left to right.
    pub values: &'a [u64],
    /// The value at the bottom.
    pub base: u64,
    /// The height of the filling, in lines.
    pub height: usize,
    /// Formats a value for the axis.
    pub label: fn(u64) -> String,
    /// The style of the filling.
    pub style: Style,
    /// The width of the labels at the axis, so that charts below each other line up.
    pub label_width: usize,
}

/// The width of the labels of a chart that reaches up to `top`.
pub fn label_width(top: u64, label: fn(u64) -> String) -> usize {
    [0, top / 2, top].map(|value| width_of(&label(value))).into_iter().max().unwrap_or(0)
}

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Chart<'_> {
    /// The value at the top of the chart.
    fn top(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or(0)
    }

    /// The filling with its labels, without the axis below.
    pub fn lines(&self, paint: Paint) -> String {
        let mut text = String::new();
        for line in 0..self.height {
            let from_below = self.height - 1 - line;
            let cells: String = self.values.iter().map(|&value| self.cell(value, from_below)).collect();
            let label = self.label_at(line);
            let tick = if label.is_empty() { '│' } else { '┤' };
            let width = self.label_width;
            let filling = paint.paint(self.style, cells.trim_end());
            let _ = writeln!(text, "{label:>width$} {tick}{filling}");
        }
        text
    }

    fn label_at(&self, line: usize) -> String {
        let top = self.top();
        match line {
            0 => (self.label)(top),
            // The middle of the chart lies on the lower edge of the line above the middle.
            _ if self.height.is_multiple_of(2) && line == self.height / 2 && top.saturating_sub(self.base) > 1 => {
                (self.label)(self.base + (top - self.base.min(top)) / 2)
            }
            _ => String::new(),
        }
    }

    /// The part of a column's filling that lies in one line.
    fn cell(&self, value: u64, from_below: usize) -> char {
        let top = self.top();
        if value == 0 || value < self.base || top == 0 {
            return ' ';
        }
        let steps = (self.height * 8) as f64;
        // Every value above zero is visible.
        let part = (value - self.base) as f64 / (top - self.base).max(1) as f64;
        let filled = ((part * steps).round() as usize).max(1);
        EIGHTHS[filled.saturating_sub(from_below * 8).min(8)]
    }

    /// The line below the filling, with `signs` on it at their columns.
    pub fn axis(&self, signs: &[(usize, char)], paint: Paint) -> String {
        let mut cells: Vec<String> = vec!["─".to_owned(); self.values.len()];
        for &(column, sign) in signs {
            if let Some(cell) = cells.get_mut(column) {
                *cell = paint.paint(Style::Yellow, sign.encode_utf8(&mut [0; 4])).into_owned();
            }
        }
        let width = self.label_width;
        format!("{:>width$} └{}\n", (self.label)(self.base), cells.concat())
    }

    /// A line with `text` and an arrow that points down at a column.
    pub fn pointer(&self, column: usize, text: &str, paint: Paint) -> String {
        let indent = self.label_width + 2;
        let fits_right = column + 2 + width_of(text) <= self.values.len();
        let fits_left = column > width_of(text);
        if fits_right || !fits_left {
            let text = paint.paint(Style::Bold, text);
            return format!("{:1$}▼ {text}\n", "", indent + column);
        }
        let start = indent + column - 1 - width_of(text);
        format!("{:start$}{} ▼\n", "", paint.paint(Style::Bold, text))
    }

    /// A line of texts, each centred under its column as far as there is room; overlapping texts are left out.
    pub fn captions(&self, captions: &[(usize, String)]) -> String {
        let indent = self.label_width + 2;
        let end = indent + self.values.len();
        let mut line = String::new();
        for (column, caption) in captions {
            let width = width_of(caption);
            let centred = (indent + column).saturating_sub(width / 2);
            let start = centred.min(end.saturating_sub(width)).max(indent);
            let used = width_of(&line);
            if used == 0 || start > used {
                let _ = write!(line, "{:1$}{caption}", "", start - used);
            }
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[u64]) -> Chart<'_> {
        Chart { values, base: 0, height: 2, label: |value| value.to_string(), style: Style::Plain, label_width: 2 }
    }

    #[test]
    fn the_highest_value_fills_its_column_and_the_smallest_can_be_seen() {
        let text = chart(&[16, 8, 4, 1, 0, 16]).lines(Paint::plain());
        assert_eq!(text, "16 ┤█    █\n 8 ┤██▄▁ █\n");
    }

    #[test]
    fn a_chart_may_begin_above_zero() {
        let values = [116, 108, 104, 100, 116];
        let text = Chart { base: 100, label_width: 3, ..chart(&values) }.lines(Paint::plain());
        assert_eq!(text, "116 ┤█   █\n108 ┤██▄▁█\n");
        assert_eq!(Chart { base: 7, ..chart(&[7, 7]) }.lines(Paint::plain()), " 7 ┤\n   │▁▁\n");
    }

    #[test]
    fn nothing_but_zeros_is_an_empty_chart() {
        assert_eq!(chart(&[0, 0]).lines(Paint::plain()), " 0 ┤\n   │\n");
        assert_eq!(chart(&[]).lines(Paint::plain()), " 0 ┤\n   │\n");
    }

    #[test]
    fn signs_stand_on_the_axis_and_those_outside_are_left_out() {
        assert_eq!(chart(&[1, 2, 3]).axis(&[(1, 'a'), (9, 'b')], Paint::plain()), " 0 └─a─\n");
    }

    #[test]
    fn the_pointer_turns_to_the_side_that_has_room() {
        let values = [0; 20];
        let pointer = |column| chart(&values).pointer(column, "peak 5 B", Paint::plain());
        assert_eq!(pointer(0), "    ▼ peak 5 B\n");
        assert_eq!(pointer(19), "              peak 5 B ▼\n");
    }

    #[test]
    fn captions_stay_within_the_chart_and_do_not_overlap() {
        let values = [0; 20];
        let captions = [(0, "0s".to_owned()), (1, "hidden".to_owned()), (19, "10.00s".to_owned())];
        assert_eq!(chart(&values).captions(&captions), "    0s            10.00s\n");
    }
}
