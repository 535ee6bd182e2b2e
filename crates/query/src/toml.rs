//! TOML files of projects, which may be anyone's: nesting is bounded before the parser, which recurses, sees them.

use serde::de::DeserializeOwned;
use std::iter::Peekable;
use std::str::Bytes;

/// The deepest nesting: brackets and parts of dotted keys together.
const DEEPEST: usize = 64;

/// A text that is no TOML file.
#[derive(Debug, thiserror::Error)]
pub enum BadToml {
    /// The parser refuses it.
    #[error(transparent)]
    Refused(#[from] basic_toml::Error),
    /// It is not passed to the parser.
    #[error("line {line}: it is nested more than {DEEPEST} deep")]
    TooDeep {
        /// The line, from 1.
        line: usize,
    },
}

/// Reads a TOML file.
pub fn parse_toml<T: DeserializeOwned>(text: &str) -> Result<T, BadToml> {
    match too_deep(text) {
        Some(line) => Err(BadToml::TooDeep { line }),
        None => Ok(basic_toml::from_str(text)?),
    }
}

/// The line on which a text is nested too deeply. Brackets and dots count outside of strings and comments only; a dot counts until the end of its line, or
/// of the outermost bracket that it is in.
fn too_deep(text: &str) -> Option<usize> {
    let (mut line, mut brackets, mut dots) = (1, 0usize, 0);
    let mut letters = text.bytes().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            b'\n' => {
                line += 1;
                dots = if brackets == 0 { 0 } else { dots };
            }
            b'#' => while letters.next_if(|letter| *letter != b'\n').is_some() {},
            b'[' | b'{' => brackets += 1,
            b']' | b'}' => brackets = brackets.saturating_sub(1),
            b'.' => dots += 1,
            quote @ (b'"' | b'\'') => line += skip_string(&mut letters, quote),
            _ => {}
        }
        if brackets + dots > DEEPEST {
            return Some(line);
        }
    }
    None
}

/// Skips a string whose first quote has been read. Returns the number of lines in it.
fn skip_string(letters: &mut Peekable<Bytes<'_>>, quote: u8) -> usize {
    let is_long = match skip_quotes(letters, quote, 2) {
        0 => false,
        1 => return 0,
        _ => true,
    };
    let mut lines = 0;
    while let Some(letter) = letters.next() {
        match letter {
            b'\\' if quote == b'"' => lines += usize::from(letters.next() == Some(b'\n')),
            b'\n' if is_long => lines += 1,
            // The parser refuses it.
            b'\n' => return lines + 1,
            // Up to two quotes before the last three belong to the text.
            _ if letter == quote && (!is_long || skip_quotes(letters, quote, 4) >= 2) => return lines,
            _ => {}
        }
    }
    lines
}

/// Skips at most this many quotes. Returns how many there were.
fn skip_quotes(letters: &mut Peekable<Bytes<'_>>, quote: u8, most: usize) -> usize {
    (0..most).take_while(|_| letters.next_if_eq(&quote).is_some()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IgnoredAny;

    #[test]
    fn deep_nesting_is_refused_with_its_line() {
        for deep in [
            "[".repeat(100_000),
            format!("a = {}", "[".repeat(100_000)),
            format!("a = {}", "{a = ".repeat(100_000)),
            format!("a = [\n{}", "[\n".repeat(100_000)),
            format!("[{}]", "a.".repeat(100_000)),
            format!("a = [\n{}", "{a.a = [\n".repeat(100_000)),
            format!("a = \"\"\"\"x\"\"\"\"\"\nb = {}", "[".repeat(100_000)),
            format!("a = '\\'\nb = {}", "[".repeat(100_000)),
        ] {
            let error = parse_toml::<IgnoredAny>(&deep).unwrap_err().to_string();
            assert!(error.starts_with("line ") && error.ends_with("nested more than 64 deep"), "{error}");
        }
        assert_eq!(too_deep(&format!("a = \"\"\"\n\n\"\"\"\nb = {}", "[".repeat(65))), Some(4));
    }

    #[test]
    fn brackets_and_dots_in_strings_and_comments_are_text() {
        let many = "[".repeat(1_000);
        let text = format!(
            "# {many}\na = \"{many}\\\"{many}\"\nb = '{many}'\nc = \"\"\"{many}\"\n\"\"{many}\"\"\"\"\"\nd = '''{many}''''\n\
             e = [{}]\n{}",
            "\"x.y\", ".repeat(1_000),
            "[[t.u]]\nf = 1.5\n".repeat(100),
        );
        assert_eq!(too_deep(&text), None);
        parse_toml::<IgnoredAny>(&text).unwrap();
    }
}
