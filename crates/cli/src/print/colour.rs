//! Colour, only where it helps: on a terminal, unless `NO_COLOR` is set.

use std::borrow::Cow;
use std::io::IsTerminal;

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    #[default]
    Plain,
    /// Strong: for the most important text.
    Bold,
    /// Faint: for secondary text.
    Dim,
    /// Grew, or wrong.
    Red,
    /// Shrank, or right.
    Green,
    /// Worth a look.
    Yellow,
    /// The filling of a chart.
    Blue,
    /// Where the user is.
    Selected,
}

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Dim => Some("2"),
            Self::Red => Some("31"),
            Self::Green => Some("32"),
            Self::Yellow => Some("33"),
            Self::Blue => Some("34"),
            Self::Selected => Some("7"),
        }
    }
}

/// Whether styles are shown at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    shown: bool,
}

impl Paint {
    /// For standard output, by the rules of <https://no-color.org>.
    pub fn for_stdout() -> Self {
        Self { shown: std::io::stdout().is_terminal() && colour_is_welcome() }
    }

    /// For standard error, by the same rules.
    pub fn for_stderr() -> Self {
        Self { shown: std::io::stderr().is_terminal() && colour_is_welcome() }
    }

    /// For text that no terminal will show.
    pub fn plain() -> Self {
        Self { shown: false }
    }

    /// The text in this style.
    pub fn paint<'a>(self, style: Style, text: &'a str) -> Cow<'a, str> {
        match style.code() {
            Some(code) if self.shown && !text.is_empty() => Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m")),
            _ => Cow::Borrowed(text),
        }
    }
}

fn colour_is_welcome() -> bool {
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    unset("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_show_only_where_colour_is_welcome() {
        assert_eq!(Paint { shown: false }.paint(Style::Red, "grew"), "grew");
        assert_eq!(Paint { shown: true }.paint(Style::Red, "grew"), "\x1b[31mgrew\x1b[0m");
        assert_eq!(Paint { shown: true }.paint(Style::Plain, "same"), "same");
    }
}
