//! Texts that fit a terminal and do it no harm.

use std::io::IsTerminal;

/// The text with every control character made visible: names come from files, and a file may want to move the cursor.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// How many columns a text takes.
pub fn width_of(text: &str) -> usize {
    text.chars().count()
}

/// The text cut to `room` columns, with an ellipsis where something is missing.
pub fn fitted(text: &str, room: usize) -> String {
    if width_of(text) <= room {
        return text.to_owned();
    }
    match room.checked_sub(1) {
        Some(kept) => text.chars().take(kept).chain(['…']).collect(),
        None => String::new(),
    }
}

/// A word as a shell takes it: in quotes where it has anything special.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Narrower terminals are left to wrap lines: nothing would be left of them.
const NARROWEST: usize = 40;
/// What a terminal that does not tell its width is taken to have.
const USUAL_WIDTH: usize = 80;

/// How wide a line may be: the terminal's width, or no limit where the output is no terminal.
pub fn line_limit() -> Option<usize> {
    let stdout = std::io::stdout();
    let known = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0).max(NARROWEST));
    known.or(stdout.is_terminal().then_some(USUAL_WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_with_an_ellipsis_only_when_it_must_be() {
        assert_eq!(fitted("short", 5), "short");
        assert_eq!(fitted("shorter", 5), "shor…");
        assert_eq!(fitted("shorter", 0), "");
    }
}
