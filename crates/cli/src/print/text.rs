//! Makes text safe for a terminal and fits it to the width.

use highwater_model::disturbs_text;
use std::borrow::Cow;
use std::io::IsTerminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text with every [disturbing character](disturbs_text) made visible. Names come from files, and a malicious file may try to move the cursor or
/// to display something false.
pub fn printable(text: &str) -> String {
    replaced(text, disturbs_text).into_owned()
}

/// The same for a text that we have laid out ourselves, with lines and colours.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| !c.is_ascii() && disturbs_text(c))
}

fn replaced(text: &str, is_meant: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_meant) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_meant(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
}

/// The number of columns of a text: Chinese characters and most emoji take two, combining marks none.
pub fn width_of(text: &str) -> usize {
    text.width()
}

/// The text cut to `room` columns, with an ellipsis where something is missing.
pub fn fitted(text: &str, room: usize) -> String {
    if width_of(text) <= room {
        return text.to_owned();
    }
    let Some(kept) = room.checked_sub(1) else { return String::new() };
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= kept
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// The text in lines of at most `room` columns, divided between words. A longer word is divided too.
pub fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word;
        let used = lines.last().map_or(0, |line| width_of(line));
        if used > 0 && used + 1 + width_of(word) > room {
            lines.push(String::new());
        }
        while let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            let end = end_within(word, room - width_of(line).min(room));
            line.push_str(&word[..end]);
            word = &word[end..];
            if word.is_empty() {
                break;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Where the part of a text ends that takes at most `room` columns; at least one character.
fn end_within(text: &str, room: usize) -> usize {
    let mut used = 0;
    let over = |(_, c): &(usize, char)| {
        used += c.width().unwrap_or(0);
        used > room
    };
    let end = text.char_indices().find(over).map_or(text.len(), |(at, _)| at);
    end.max(text.chars().next().map_or(0, char::len_utf8))
}

/// A word quoted for a shell, if it has special characters.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// In narrower terminals lines are left to wrap: cutting them would leave nothing.
const NARROWEST: usize = 40;
/// The assumed width of a terminal that does not report one.
const USUAL_WIDTH: usize = 80;

/// The maximum width of a line: the terminal's width, or no limit if the output is not a terminal.
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

    #[test]
    fn a_text_is_divided_between_words_and_a_long_word_anywhere() {
        assert_eq!(wrapped("one two three", 20), ["one two three"]);
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("a /very/long/path end", 8), ["a", "/very/lo", "ng/path", "end"]);
        assert_eq!(wrapped("漢字漢字 x", 5), ["漢字", "漢字", "x"]);
        assert_eq!((wrapped("", 5), wrapped("ab", 0)), (vec![String::new()], vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(wrapped("any  text", usize::MAX), ["any  text"]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        assert_eq!((width_of("漢字"), width_of("e\u{301}"), width_of("ab")), (4, 1, 2));
        assert_eq!(fitted("漢字漢字", 8), "漢字漢字");
        // Half of a wide character cannot be shown.
        assert_eq!((fitted("漢字漢字", 7), fitted("漢字漢字", 6)), ("漢字漢…".to_owned(), "漢字…".to_owned()));
    }

    #[test]
    fn what_disturbs_the_text_around_it_is_replaced() {
        assert_eq!(printable("a\u{202e}b\u{2028}c\u{1b}d\u{200b}\n"), "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}\u{fffd}");
        assert_eq!(printable("漢字 é →"), "漢字 é →");
        assert_eq!(printable_lines("\x1b[1mbold\x1b[0m\n\u{2066}x\u{85}"), "\x1b[1mbold\x1b[0m\n\u{fffd}x\u{fffd}");
    }
}
