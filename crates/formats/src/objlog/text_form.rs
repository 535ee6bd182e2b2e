//! Parses one line in the text form, and reads no more of it than is needed.
//!
//! ```text
//! @ ALLOCATE <bytes> <file>:<line> <type> <id>
//! @ DROP <bytes> <type> <id>
//! @ RESIZE <bytes> <type> <id>
//! @ MEMORY <bytes> [<label>]
//! @ MARK <label>
//! ```
//!
//! Types and files may contain spaces: the size is the first field after the verb, the id is the last, and the place ends at the first `:digits `.
//! Place and type stay together here (*site*): most sites were seen before, and are looked up by their text.

use super::fault::ObjectLineFault;

/// A line that begins with `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextLine<'a> {
    Allocate {
        bytes: u64,
        /// `file:line type`; not split.
        site: &'a [u8],
        id: u64,
    },
    Drop {
        bytes: u64,
        type_name: &'a [u8],
        id: u64,
    },
    Resize {
        bytes: u64,
        id: u64,
    },
    Memory {
        bytes: u64,
        label: &'a [u8],
    },
    Mark {
        label: &'a [u8],
    },
    /// The JSON form, from its brace on.
    Json(&'a [u8]),
}

/// Parses a line that begins with `@`.
#[inline]
pub(super) fn parse(line: &[u8]) -> Result<TextLine<'_>, ObjectLineFault> {
    if let Some(rest) = line.strip_prefix(b"@ ALLOCATE ") {
        let (bytes, rest) = size(rest)?;
        let (site, id) = text_and_id(rest, ObjectLineFault::Place)?;
        return Ok(TextLine::Allocate { bytes, site, id });
    }
    if let Some(rest) = line.strip_prefix(b"@ DROP ") {
        let (bytes, rest) = size(rest)?;
        let (type_name, id) = text_and_id(rest, ObjectLineFault::Type)?;
        return Ok(TextLine::Drop { bytes, type_name, id });
    }
    parse_rare(line)
}

#[cold]
fn parse_rare(line: &[u8]) -> Result<TextLine<'_>, ObjectLineFault> {
    let rest = line.strip_prefix(b"@ ").ok_or(ObjectLineFault::NoVerb)?.trim_ascii_end();
    if rest.is_empty() {
        return Err(ObjectLineFault::NoVerb);
    }
    if rest.starts_with(b"{") {
        return Ok(TextLine::Json(rest));
    }
    let (verb, rest) = split_at_space(rest);
    match verb {
        b"ALLOCATE" | b"DROP" => Err(ObjectLineFault::Size),
        b"RESIZE" => {
            let (bytes, rest) = size(rest)?;
            let (_, id) = text_and_id(rest, ObjectLineFault::Type)?;
            Ok(TextLine::Resize { bytes, id })
        }
        b"MEMORY" => {
            let (bytes, label) = split_at_space(rest);
            Ok(TextLine::Memory { bytes: number(bytes).ok_or(ObjectLineFault::Size)?, label: label.trim_ascii() })
        }
        b"MARK" if rest.trim_ascii().is_empty() => Err(ObjectLineFault::Label),
        b"MARK" => Ok(TextLine::Mark { label: rest.trim_ascii() }),
        _ => Err(ObjectLineFault::UnknownVerb),
    }
}

fn split_at_space(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|&byte| byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// The number that the whole text represents.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let add = |value: u64, &byte: &u8| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    };
    digits.iter().try_fold(0, add).filter(|_| !digits.is_empty())
}

/// The size at the front, and the text after the space that follows it.
#[inline]
fn size(text: &[u8]) -> Result<(u64, &[u8]), ObjectLineFault> {
    let mut value = 0u64;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            // Nineteen digits always fit.
            b'0'..=b'9' if at < 19 => value = value * 10 + u64::from(byte - b'0'),
            b' ' if at > 0 => return Ok((value, &text[at + 1..])),
            b'0'..=b'9' => return long_size(text),
            _ => return Err(ObjectLineFault::Size),
        }
    }
    // Nothing follows. The parser of the next field reports what is missing.
    if text.is_empty() { Err(ObjectLineFault::Size) } else { Ok((value, &[])) }
}

#[cold]
fn long_size(text: &[u8]) -> Result<(u64, &[u8]), ObjectLineFault> {
    let (digits, rest) = split_at_space(text);
    number(digits).map(|value| (value, rest)).ok_or(ObjectLineFault::Size)
}

/// The id at the end, and the text before it; `missing` if there is none.
#[inline]
fn text_and_id(text: &[u8], missing: ObjectLineFault) -> Result<(&[u8], u64), ObjectLineFault> {
    let text = match text.last() {
        Some(b'0'..=b'9') => text,
        _ => text.trim_ascii_end(),
    };
    let (mut value, mut scale) = (0u64, 1u64);
    for (at, &byte) in text.iter().enumerate().rev() {
        match byte {
            b'0'..=b'9' if text.len() - at <= 19 => {
                value += u64::from(byte - b'0') * scale;
                scale = scale.wrapping_mul(10);
            }
            b' ' if at + 1 < text.len() => {
                return if at == 0 { Err(missing) } else { Ok((&text[..at], value)) };
            }
            b'0'..=b'9' => return text_and_long_id(text, missing),
            _ => break,
        }
    }
    Err(if text.is_empty() { missing } else { ObjectLineFault::Id })
}

#[cold]
fn text_and_long_id(text: &[u8], missing: ObjectLineFault) -> Result<(&[u8], u64), ObjectLineFault> {
    let space = text.iter().rposition(|&byte| byte == b' ').ok_or(ObjectLineFault::Id)?;
    let id = number(&text[space + 1..]).ok_or(ObjectLineFault::Id)?;
    if space == 0 { Err(missing) } else { Ok((&text[..space], id)) }
}

/// Splits `file:line type`: the place ends at the first `:digits `.
pub(super) fn split_site(site: &[u8]) -> Result<(&[u8], &[u8]), ObjectLineFault> {
    let mut from = 0;
    while let Some(colon) = site[from..].iter().position(|&byte| byte == b':') {
        let digits = from + colon + 1;
        let count = site[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = digits + count;
        if count > 0 && (end == site.len() || site[end] == b' ') {
            let type_name = site.get(end + 1..).unwrap_or_default();
            return if type_name.trim_ascii().is_empty() {
                Err(ObjectLineFault::Type)
            } else {
                Ok((&site[..end], type_name))
            };
        }
        from = digits;
    }
    Err(ObjectLineFault::Place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(line: &str) -> Result<(u64, &str, &str, u64), ObjectLineFault> {
        match parse(line.as_bytes())? {
            TextLine::Allocate { bytes, site, id } => {
                let (place, type_name) = split_site(site)?;
                let text = |bytes| std::str::from_utf8(bytes).expect("the line is UTF-8");
                Ok((bytes, text(place), text(type_name), id))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_may_have_spaces_and_colons() {
        assert_eq!(allocate("@ ALLOCATE 64 src/a.rs:7 T 0"), Ok((64, "src/a.rs:7", "T", 0)));
        assert_eq!(
            allocate("@ ALLOCATE 48 src/cache dir/index.rs:9 HashMap<String, Vec<u8>> 12"),
            Ok((48, "src/cache dir/index.rs:9", "HashMap<String, Vec<u8>>", 12))
        );
        assert_eq!(
            allocate("@ ALLOCATE 0 C:\\a:b.rs:10 app::Session<'static, dyn Fn() -> u8> 3"),
            Ok((0, "C:\\a:b.rs:10", "app::Session<'static, dyn Fn() -> u8>", 3))
        );
        assert_eq!(allocate("@ ALLOCATE 1 a.rs:1 [u8; 32] 18446744073709551615").map(|line| line.3), Ok(u64::MAX));
        assert_eq!(
            allocate("@ ALLOCATE 18446744073709551615 a.rs:1 T 007\r").map(|line| (line.0, line.3)),
            Ok((u64::MAX, 7))
        );
    }

    #[test]
    fn everything_else_is_distinguished() {
        assert_eq!(parse(b"@ DROP 8 a b 9"), Ok(TextLine::Drop { bytes: 8, type_name: b"a b", id: 9 }));
        assert_eq!(parse(b"@ RESIZE 80 a b 9"), Ok(TextLine::Resize { bytes: 80, id: 9 }));
        assert_eq!(parse(b"@ MEMORY 65536"), Ok(TextLine::Memory { bytes: 65536, label: b"" }));
        assert_eq!(parse(b"@ MEMORY 65536 after load\r"), Ok(TextLine::Memory { bytes: 65536, label: b"after load" }));
        assert_eq!(parse(b"@ MARK one"), Ok(TextLine::Mark { label: b"one" }));
        assert_eq!(parse(b"@ {}"), Ok(TextLine::Json(b"{}")));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("@", ObjectLineFault::NoVerb),
            ("@ ", ObjectLineFault::NoVerb),
            ("@ALLOCATE 8 src/a.rs:1 T 900000003", ObjectLineFault::NoVerb),
            ("@ ALLOCATE", ObjectLineFault::Size),
            ("@ ALLOCATE twelve src/a.rs:1 T 5", ObjectLineFault::Size),
            ("@ ALLOCATE -5 src/a.rs:1 T 900000001", ObjectLineFault::Size),
            ("@ ALLOCATE 99999999999999999999999 src/a.rs:1 T 900000002", ObjectLineFault::Size),
            ("@ ALLOCATE 18446744073709551616 src/a.rs:1 T 2", ObjectLineFault::Size),
            ("@ ALLOCATE 12", ObjectLineFault::Place),
            ("@ ALLOCATE 12 7", ObjectLineFault::Id),
            ("@ ALLOCATE 12 src/a.rs T 7", ObjectLineFault::Place),
            ("@ ALLOCATE 12 src/a.rs:9 7", ObjectLineFault::Type),
            ("@ ALLOCATE 640 src/tail.rs:9 TailType", ObjectLineFault::Id),
            ("@ DROP 12 T", ObjectLineFault::Id),
            ("@ DROP 12", ObjectLineFault::Type),
            ("@ DROP 8 T id9", ObjectLineFault::Id),
            ("@ DROP 8 T 18446744073709551616", ObjectLineFault::Id),
            ("@ FREE 12 T 7", ObjectLineFault::UnknownVerb),
            ("@ MEMORY", ObjectLineFault::Size),
            ("@ MEMORY many", ObjectLineFault::Size),
            ("@ MARK ", ObjectLineFault::Label),
        ];
        for (line, fault) in cases {
            let found = match parse(line.as_bytes()) {
                Ok(TextLine::Allocate { site, .. }) => split_site(site).err(),
                other => other.err(),
            };
            assert_eq!(found, Some(fault), "{line}");
        }
    }
}
