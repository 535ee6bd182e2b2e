//! The tokens of Candid's text format.

use super::{CandidError, error};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum CandidToken {
    /// A name or a keyword.
    Word(String),
    /// A token that begins with a digit or a sign.
    Number(String),
    /// `"…"`: bytes, because texts and blobs are written alike.
    Quoted(Vec<u8>),
    /// Anything else: one character, or `->`.
    Sign(char),
    /// `->`
    Arrow,
}

/// The tokens of a text, each with its offset.
pub fn tokens(text: &str) -> Result<Vec<(CandidToken, usize)>, CandidError> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let begin = at;
        let rest = &text[at..];
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            _ if rest.starts_with("//") => at += rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => {
                at += rest.find("*/").ok_or_else(|| CandidError("a comment does not end".into()))? + 2;
            }
            b'"' => {
                let (content, length) = quoted(rest)?;
                at += length;
                found.push((CandidToken::Quoted(content), begin));
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                at += bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                found.push((CandidToken::Word(text[begin..at].to_owned()), begin));
            }
            _ if rest.starts_with("->") => {
                at += 2;
                found.push((CandidToken::Arrow, begin));
            }
            b'0'..=b'9' | b'-' | b'+' => {
                at += number_length(&bytes[at..]);
                found.push((CandidToken::Number(text[begin..at].to_owned()), begin));
            }
            _ => {
                let sign = rest.chars().next().unwrap_or('?');
                at += sign.len_utf8();
                if !"(){};:,=.".contains(sign) {
                    return error(format!("'{sign}' at character {begin} is not expected"));
                }
                found.push((CandidToken::Sign(sign), begin));
            }
        }
    }
    Ok(found)
}

fn number_length(bytes: &[u8]) -> usize {
    let mut length = 1;
    while let Some(&byte) = bytes.get(length) {
        let is_exponent_sign =
            matches!(byte, b'-' | b'+') && matches!(bytes[length - 1], b'e' | b'E') && !bytes.starts_with(b"0x");
        // `0..1` does not occur in Candid, so a point always belongs to the number.
        if !(byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.' || is_exponent_sign) {
            break;
        }
        length += 1;
    }
    length
}

/// The content of the quoted text at the beginning of `text`, and its length including the quotes.
fn quoted(text: &str) -> Result<(Vec<u8>, usize), CandidError> {
    let mut content = Vec::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((content, at + 1)),
            '\\' => {
                let (at, escaped) = characters.next().ok_or_else(|| CandidError("a text does not end".into()))?;
                match escaped {
                    'n' => content.push(b'\n'),
                    'r' => content.push(b'\r'),
                    't' => content.push(b'\t'),
                    '\\' | '"' | '\'' => content.push(escaped as u8),
                    'u' => {
                        let rest = &text[at + 1..];
                        let digits = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                        let digits = digits.map(|(digits, _)| digits).filter(|digits| digits.len() <= 8);
                        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                        let character = code.and_then(char::from_u32);
                        let character =
                            character.ok_or_else(|| CandidError("a \\u{…} in a text is no character".into()))?;
                        content.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
                        let skipped = digits.map_or(0, |digits| digits.chars().count() + 2);
                        characters.by_ref().take(skipped).for_each(drop);
                    }
                    _ => {
                        let second = characters.next().map(|(_, character)| character);
                        let digits = (escaped.to_digit(16), second.and_then(|second| second.to_digit(16)));
                        let (Some(high), Some(low)) = digits else {
                            return error(format!("'\\{escaped}' in a text has no meaning"));
                        };
                        content.push((high << 4 | low) as u8);
                    }
                }
            }
            _ => content.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    error("a text does not end")
}
