//! Tables in GitHub's and GitLab's dialect of Markdown.

use super::table::Align;
use super::text::printable;

/// A table.
pub struct MarkdownTable {
    columns: usize,
    text: String,
}

impl MarkdownTable {
    /// A table with these headings.
    pub fn new(columns: &[(Align, &str)]) -> Self {
        let mut table = Self { columns: columns.len(), text: String::new() };
        table.row(&columns.iter().map(|(_, heading)| (*heading).to_owned()).collect::<Vec<_>>());
        let rule = |align: &Align| if *align == Align::Right { "---:" } else { ":---" }.to_owned();
        table.row(&columns.iter().map(|(align, _)| rule(align)).collect::<Vec<_>>());
        table
    }

    /// Adds a row; each cell is Markdown without line breaks and vertical bars.
    pub fn row(&mut self, cells: &[String]) {
        for at in 0..self.columns {
            self.text.push_str("| ");
            self.text.push_str(cells.get(at).map_or("", String::as_str));
            self.text.push(' ');
        }
        self.text.push_str("|\n");
    }

    /// The table as text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A text as code, in a table: nothing in it is Markdown. Names come from any program.
pub fn code(text: &str) -> String {
    let text = printable(text).replace('|', "\\|");
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A backtick at an end would belong to the fence.
    let gap = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    if text.is_empty() { text } else { format!("{fence}{gap}{text}{gap}{fence}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(code("Vec<T>::push"), "`Vec<T>::push`");
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`x"), "`` `x ``");
        assert_eq!(code("a\nb"), "`a\u{fffd}b`");
        assert_eq!(code(""), "");
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_headings() {
        let mut table = MarkdownTable::new(&[(Align::Right, "n"), (Align::Left, "name")]);
        table.row(&["1".to_owned()]);
        assert_eq!(table.finish(), "| n | name |\n| ---: | :--- |\n| 1 |  |\n");
    }
}
