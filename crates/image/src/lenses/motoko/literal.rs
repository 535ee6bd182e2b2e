//! New values, as the user writes them: in the syntax of Motoko, and as `highwater image show` prints them.

use super::types::ValueType;

/// Splits `200 : Nat8` into value and type.
pub(super) fn with_type(text: &str) -> (&str, Option<ValueType>) {
    let split = text.rsplit_once(':').and_then(|(value, name)| Some((value.trim(), Some(ValueType::parse(name)?))));
    split.unwrap_or((text.trim(), None))
}

/// A whole number of at most 128 bits.
pub(super) fn integer(text: &str) -> Result<i128, String> {
    text.replace('_', "").parse().map_err(|_| format!("'{text}' is no whole number"))
}

/// A character, quoted or not.
pub(super) fn character(text: &str) -> Option<char> {
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
    let mut characters = inner.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// The bytes of a text. Only a quoted one has escapes.
pub(super) fn text_of(text: &str) -> Result<Vec<u8>, String> {
    let Some(inner) = quoted(text) else { return Ok(text.as_bytes().to_vec()) };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        bytes.extend(&rest.as_bytes()[..at]);
        rest = escape(&rest[at + 1..], &mut bytes).ok_or_else(|| format!("'{}' is no escape", first(&rest[at..])))?;
    }
    bytes.extend(rest.as_bytes());
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(bytes),
        Err(_) => Err("it is not valid UTF-8".to_owned()),
    }
}

/// The bytes of a blob: `\CA\FE`, quoted or not.
pub(super) fn blob_of(text: &str) -> Option<Vec<u8>> {
    let text = quoted(text).unwrap_or(text);
    let digits = text.split('\\').skip(1);
    let bytes: Option<Vec<u8>> =
        digits.map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2)).collect();
    bytes.filter(|_| text.is_empty() || text.starts_with('\\'))
}

/// An array: whether it says that it is mutable, and its elements.
pub(super) fn array_of(text: &str) -> Option<(bool, Vec<&str>)> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?.trim();
    let mutable = inside.strip_prefix("var").filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    let inside = mutable.unwrap_or(inside).trim();
    let (mut quote, mut is_escaped) = (None, false);
    let at_comma = |character: char| {
        match (quote, character) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
        quote.is_none() && character == ','
    };
    let elements: Vec<&str> = inside.split(at_comma).map(str::trim).collect();
    Some((mutable.is_some(), if inside.is_empty() { Vec::new() } else { elements }))
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// Reads what follows a backslash: appends the bytes, and returns the rest.
fn escape<'t>(text: &'t str, bytes: &mut Vec<u8>) -> Option<&'t str> {
    if let Some(rest) = text.strip_prefix("u{") {
        let (digits, rest) = rest.split_once('}')?;
        let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
        bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
        return Some(rest);
    }
    let pair = text.get(..2).filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if let Some(byte) = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
        bytes.push(byte);
        return Some(&text[2..]);
    }
    bytes.push(match text.bytes().next()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'0' => 0,
        same @ (b'\\' | b'"' | b'\'') => same,
        _ => return None,
    });
    Some(&text[1..])
}

/// The first characters of a text.
fn first(text: &str) -> String {
    text.chars().take(4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_shown() {
        for text in ["", "plain", "a \"quote\" and a \\", "line\nline\ttab\r\0", "été 🌊\u{7f}\u{1b}"] {
            assert_eq!(text_of(&format!("{text:?}")), Ok(text.as_bytes().to_vec()));
        }
        assert_eq!(text_of("\"\\c3\\A9\""), Ok("é".into()));
        assert_eq!(text_of("no \\quotes"), Ok("no \\quotes".into()));
        for wrong in ["\"\\q\"", "\"\\u{110000}\"", "\"\\u{\"", "\"\\\"", "\"\\ff\""] {
            assert!(text_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn arrays_are_split_at_their_commas() {
        assert_eq!(array_of("[1, 2,3 ]"), Some((false, vec!["1", "2", "3"])));
        assert_eq!(array_of("[var \"a,b\", \"c\\\",\", ',']"), Some((true, vec!["\"a,b\"", "\"c\\\",\"", "','"])));
        assert_eq!((array_of("[]"), array_of("[var]")), (Some((false, vec![])), Some((true, vec![]))));
        assert_eq!(
            (array_of("[variable]"), array_of("[1"), array_of("1]")),
            (Some((false, vec!["variable"])), None, None)
        );
    }

    #[test]
    fn a_type_may_follow() {
        assert_eq!(with_type("null : ?Text"), ("null", ValueType::parse("?Text")));
        assert_eq!(with_type("[1] : [Nat]").0, "[1]");
        assert_eq!((with_type("\"a : Nat8\""), with_type("a: b")), (("\"a : Nat8\"", None), ("a: b", None)));
        assert_eq!(
            (blob_of("\"\\CA\\fe\""), blob_of("\\1"), blob_of("")),
            (Some(vec![0xca, 0xfe]), None, Some(vec![]))
        );
    }
}
