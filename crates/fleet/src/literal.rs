//! Texts inside SQL, in a form that all engines read alike.

use std::fmt::Write;

/// A text as an SQL expression.
///
/// Engines differ in what a backslash means, and Spark replaces `${…}` in the whole text before it parses it. So these characters, quotes and control characters are
/// written by number: `'it' || chr(39) || 's'`.
pub fn text(value: &str) -> String {
    let is_plain = |c: char| !c.is_control() && !matches!(c, '\'' | '\\' | '$');
    if value.chars().all(is_plain) {
        return format!("'{value}'");
    }
    let mut parts: Vec<String> = Vec::new();
    let mut plain = String::new();
    for c in value.chars() {
        if is_plain(c) || !c.is_ascii() {
            plain.push(c);
            continue;
        }
        if !plain.is_empty() {
            parts.push(format!("'{}'", std::mem::take(&mut plain)));
        }
        parts.push(format!("chr({})", u32::from(c)));
    }
    if !plain.is_empty() {
        parts.push(format!("'{plain}'"));
    }
    format!("({})", parts.join(" || "))
}

/// A finite number as an SQL expression of the type DOUBLE: without an exponent some engines read a DECIMAL.
pub fn double(value: f64) -> String {
    format!("{value:e}")
}

/// A pattern with `*` and `?` as a condition on a column.
pub fn matches_glob(column: &str, glob: &str) -> String {
    let mut pattern = String::new();
    for c in glob.chars() {
        match c {
            '*' => pattern.push('%'),
            '?' => pattern.push('_'),
            '%' | '_' | '!' => {
                let _ = write!(pattern, "!{c}");
            }
            other => pattern.push(other),
        }
    }
    format!("{column} LIKE {} ESCAPE '!'", text(&pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_ends_a_text_or_is_replaced_in_it() {
        assert_eq!(text("plain ünï %"), "'plain ünï %'");
        assert_eq!(text(""), "''");
        assert_eq!(text("it's"), "('it' || chr(39) || 's')");
        assert_eq!(text("\\"), "(chr(92))");
        assert_eq!(text("${env:HOME}\n"), "(chr(36) || '{env:HOME}' || chr(10))");
    }

    #[test]
    fn a_glob_has_two_special_characters() {
        assert_eq!(matches_glob("host", "web-*?"), "host LIKE 'web-%_' ESCAPE '!'");
        assert_eq!(matches_glob("host", "50%_!"), "host LIKE '50!%!_!!' ESCAPE '!'");
    }

    #[test]
    fn a_double_has_an_exponent() {
        assert_eq!(double(0.9), "9e-1");
        assert_eq!(double(60.0), "6e1");
    }
}
