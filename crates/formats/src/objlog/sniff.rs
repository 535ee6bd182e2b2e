//! Recognizes an object log by its first bytes.

use super::text_form;
use memchr::memchr_iter;

/// True if a line at the beginning of the file is a line of an object log. Any text may come before it, but no binary data.
pub fn looks_like_object_log(first_bytes: &[u8]) -> bool {
    let mut start = 0;
    let ends = memchr_iter(b'\n', first_bytes).chain([first_bytes.len()]);
    for end in ends {
        let line = &first_bytes[start..end];
        if line.contains(&0) {
            return false;
        }
        // The last line may be incomplete.
        let is_whole = end < first_bytes.len();
        if line.starts_with(b"@ ") && (text_form::parse(line).is_ok() || !is_whole && is_begun(line)) {
            return true;
        }
        start = end + 1;
    }
    false
}

fn is_begun(line: &[u8]) -> bool {
    [b"@ ALLOCATE ".as_slice(), b"@ DROP ", b"@ MEMORY "].iter().any(|verb| line.starts_with(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_log_among_noise() {
        for yes in ["@ ALLOCATE 1 a:1 T 0\n", "ready.\n\n@ DROP 1 T 0\n", "@ {\"event\":\"MARK\"}\nx", "@ MEMORY 65536"]
        {
            assert!(looks_like_object_log(yes.as_bytes()), "{yes:?}");
        }
        for no in ["", "no object here\n", "  @ DROP 1 T 0\n", "@media print {\n", "\0\0\n@ DROP 1 T 0\n"] {
            assert!(!looks_like_object_log(no.as_bytes()), "{no:?}");
        }
    }
}
