//! Recognizes event lines by the first bytes of a file.

/// True if the first line that is neither empty nor a comment looks like an event.
///
/// The beginning of a file is sufficient; the line need not be complete.
pub fn looks_like_events(first_bytes: &[u8]) -> bool {
    let text = first_bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first_bytes);
    let mut lines = text.split(|&byte| byte == b'\n').map(|line| line.trim_ascii());
    lines.find(|line| !is_skipped(line)).is_some_and(|line| {
        let name = b"\"event\"";
        line.starts_with(b"{") && line.windows(name.len()).any(|window| window == name)
    })
}

/// Some editors write this before UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// True for empty lines and comments. `line` has no white space around it.
pub(super) fn is_skipped(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b"#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_event_lines_from_other_text() {
        for yes in ["{\"event\":\"mark\"", "\n# made by hand\r\n\r\n  {\"time_ns\":1,\"event\":", "\u{feff}{\"event\""]
        {
            assert!(looks_like_events(yes.as_bytes()), "{yes:?}");
        }
        for no in ["", "\n#\n", "[\"event\"]", "{\"schema\":1}\n{\"event\":1}", "main;parse 3", "\u{1f}\u{8b}"] {
            assert!(!looks_like_events(no.as_bytes()), "{no:?}");
        }
    }
}
