//! The mappings at the end of a text, in the form of `/proc/PID/maps` or shorter:
//!
//! ```text
//! 55dc20ee4000-55dc20ee5000 r-xp 00001000 fe:00 10084418   /opt/app
//! 0x40000-0x80000 /opt/app (@ff00) abc123456
//! ```

/// A mapping of an executable or a library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextMapping<'a> {
    pub start: u64,
    /// Exclusive.
    pub end: u64,
    pub file_offset: u64,
    pub path: &'a str,
    /// Empty if it is not known.
    pub build_id: &'a str,
}

/// The mapping of code that a line describes; `None` for data and for lines of another form.
pub(super) fn mapping(line: &str) -> Option<TextMapping<'_>> {
    let (range, rest) = word(line)?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (hexadecimal(start)?, hexadecimal(end.trim_end_matches(':'))?);
    let is_permissions = |word: &str| word.len() == 4 && word.bytes().all(|byte| b"-rwxps".contains(&byte));
    let place = TextMapping { start, end, ..TextMapping::default() };
    let mapping = match word(rest) {
        Some((permissions, _)) if is_permissions(permissions) && !permissions.contains('x') => return None,
        Some((permissions, rest)) if is_permissions(permissions) && in_full(rest).is_some() => {
            let (file_offset, path) = in_full(rest)?;
            TextMapping { file_offset, path, ..place }
        }
        Some((permissions, rest)) if is_permissions(permissions) => in_brief(rest, place)?,
        _ => in_brief(rest, place)?,
    };
    (!mapping.path.is_empty()).then_some(mapping)
}

/// The offset and the path, after permissions. The path may have blanks.
fn in_full(line: &str) -> Option<(u64, &str)> {
    let (offset, rest) = word(line)?;
    let (_device, rest) = word(rest).filter(|(device, _)| device.contains(':'))?;
    let (_inode, path) = word(rest)?;
    Some((hexadecimal(offset)?, path.trim()))
}

/// The path, perhaps with an offset and a build id.
fn in_brief<'a>(line: &'a str, place: TextMapping<'a>) -> Option<TextMapping<'a>> {
    let (path, rest) = word(line)?;
    let mut mapping = TextMapping { path, ..place };
    for part in rest.split_whitespace().take(2) {
        match part.strip_prefix("(@").and_then(|offset| offset.strip_suffix(')')) {
            Some(offset) => mapping.file_offset = hexadecimal(offset)?,
            None => mapping.build_id = part,
        }
    }
    Some(mapping)
}

/// The first word of a line, and what follows.
fn word(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    (end > 0).then(|| line.split_at(end))
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // `from_str_radix` accepts a sign.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_plain { u64::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_have_several_forms() {
        let full = "55dc20ee4000-55dc20ee5000 r-xp 00001000 fe:00 10084418                   /opt/my app";
        let app = TextMapping {
            start: 0x55dc_20ee_4000,
            end: 0x55dc_20ee_5000,
            file_offset: 0x1000,
            path: "/opt/my app",
            build_id: "",
        };
        assert_eq!(mapping(full), Some(app));
        let brief = TextMapping { start: 0x40000, end: 0x80000, file_offset: 0xff00, path: "/app", build_id: "abc123" };
        assert_eq!(mapping("  0x40000-0x80000 /app (@ff00) abc123"), Some(brief));
        assert_eq!(mapping("40000-80000: /app"), Some(TextMapping { file_offset: 0, build_id: "", ..brief }));
        for other in ["55d-55e rw-p 0 fe:00 1 /app", "55d-55e r-xp 0 00:00 0", "55d /app", "x-y r-xp", "", "-"] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }
}
