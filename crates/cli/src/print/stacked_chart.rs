//! A stacked chart for the terminal: each cell has the sign of the band that covers its middle, so it also reads without colour.

use super::colour::{Paint, Style};
use std::fmt::Write;

/// The data and layout of a stacked chart.
pub struct StackedChart<'a> {
    /// For each column the values of the bands from the bottom up, the rest last.
    pub columns: &'a [Vec<u64>],
    /// The height in lines.
    pub height: usize,
    /// Formats a value for the axis.
    pub label: fn(u64) -> String,
    /// The width of the labels at the axis.
    pub label_width: usize,
}

/// The signs of bands: nine digits, then letters.
const SIGNS: &str = "123456789abcdefghijklmnopqrstuvwxyz";
/// The sign of the rest.
pub const REST: char = '·';
/// The most bands that have a sign of their own.
pub const MOST_SIGNS: usize = SIGNS.len();

/// The sign of a band, and its style.
pub fn sign(band: usize, bands: usize) -> (char, Style) {
    const STYLES: [Style; 4] = [Style::Blue, Style::Green, Style::Yellow, Style::Red];
    match SIGNS.chars().nth(band).filter(|_| band < bands) {
        Some(sign) => (sign, STYLES[band % STYLES.len()]),
        None => (REST, Style::Dim),
    }
}

impl StackedChart<'_> {
    fn top(&self) -> u64 {
        self.columns.iter().map(|column| column.iter().sum()).max().unwrap_or(0)
    }

    /// The band that covers the middle of a cell; `None` above all of them.
    fn band(&self, column: &[u64], from_below: usize) -> Option<usize> {
        let total: u64 = column.iter().sum();
        let middle = (from_below as f64 + 0.5) * self.top() as f64 / self.height as f64;
        // Every value above zero is visible.
        let middle = if from_below == 0 { middle.min(total as f64 - 0.5) } else { middle };
        let mut sum = 0;
        (0..column.len()).filter(|_| total > 0).find(|band| {
            sum += column[*band];
            middle < sum as f64
        })
    }

    /// The filling with its labels, without the axis below.
    pub fn lines(&self, paint: Paint) -> String {
        let (mut text, top, width) = (String::new(), self.top(), self.label_width);
        for line in 0..self.height {
            let label = match line {
                0 => (self.label)(top),
                _ if self.height.is_multiple_of(2) && line == self.height / 2 && top > 1 => (self.label)(top / 2),
                _ => String::new(),
            };
            let tick = if label.is_empty() { '│' } else { '┤' };
            let _ = writeln!(text, "{label:>width$} {tick}{}", self.cells(self.height - 1 - line, paint));
        }
        text
    }

    fn cells(&self, from_below: usize, paint: Paint) -> String {
        let bands: Vec<Option<usize>> = self.columns.iter().map(|column| self.band(column, from_below)).collect();
        let filled = bands.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let run = |run: &[Option<usize>]| match run.first().copied().flatten() {
            Some(band) => {
                let own = self.columns.first().map_or(0, |column| column.len().saturating_sub(1));
                let (sign, style) = sign(band, own);
                paint.paint(style, &sign.to_string().repeat(run.len())).into_owned()
            }
            None => " ".repeat(run.len()),
        };
        bands[..filled].chunk_by(|a, b| a == b).map(run).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_lie_upon_each_other_and_every_value_is_visible() {
        let columns = [vec![10, 20, 10], vec![0, 0, 0], vec![0, 1, 0], vec![40, 0, 0], vec![10, 0, 5]];
        let chart = StackedChart { columns: &columns, height: 4, label: |value| value.to_string(), label_width: 3 };
        let expected = " 40 ┤·  1\n    │2  1\n 20 ┤2  1\n    │1 211\n";
        assert_eq!(chart.lines(Paint::plain()), expected);
        assert_eq!((sign(0, 1).0, sign(9, 30).0, sign(3, 3).0), ('1', 'a', REST));
    }
}
