//! Converts bytes to readable text.

use super::number::WholeNumber;
use super::principal::principal_text;
use super::types::{Simple, label_id};
use super::{CandidError, DEEPEST, error};
use std::collections::HashMap;
use std::rc::Rc;

/// The most values that are shown: a few bytes can claim any number of values without content.
const MOST_VALUES: usize = 1_000_000;
/// The most types in a table.
const MOST_TYPES: usize = 10_000;

/// Converts bytes to text: `(100 : nat)`. `names` are labels that may occur in it.
pub fn decode(bytes: &[u8], names: &[String]) -> Result<String, CandidError> {
    let (mut decoder, codes) = CandidDecoder::begin(bytes, names)?;
    let mut values = Vec::with_capacity(codes.len());
    for code in codes {
        let mut text = String::new();
        decoder.value(code, 0, &mut text)?;
        values.push(text);
    }
    decoder.end()?;
    Ok(format!("({})", values.join(", ")))
}

/// A composite type of the table at the beginning of the bytes.
pub(super) enum TypeEntry {
    Opt(i64),
    Vec(i64),
    Record(Vec<(u32, i64)>),
    Variant(Vec<(u32, i64)>),
    Reference,
}

pub(super) struct CandidDecoder<'a> {
    rest: &'a [u8],
    types: Vec<Rc<TypeEntry>>,
    names: HashMap<u32, &'a str>,
    values: usize,
}

impl<'a> CandidDecoder<'a> {
    /// Reads the table of types; returns the types of the values, which follow.
    pub(super) fn begin(bytes: &'a [u8], names: &'a [String]) -> Result<(Self, Vec<i64>), CandidError> {
        let names = names.iter().map(|name| (label_id(name), name.as_str())).collect();
        let rest =
            bytes.strip_prefix(b"DIDL").ok_or_else(|| CandidError("not Candid: it does not begin with DIDL".into()))?;
        let mut decoder = Self { rest, types: Vec::new(), names, values: 0 };
        decoder.read_types()?;
        let count = decoder.length()?;
        if count > rest.len() {
            return decoder.cut();
        }
        let codes = (0..count).map(|_| decoder.code()).collect::<Result<Vec<_>, _>>()?;
        Ok((decoder, codes))
    }

    /// Checks that nothing follows the last value.
    pub(super) fn end(&self) -> Result<(), CandidError> {
        match self.rest.len() {
            0 => Ok(()),
            left => error(format!("{left} bytes are left behind the last value")),
        }
    }

    /// Counts a value, and refuses too many and too deep ones.
    pub(super) fn count_value(&mut self, depth: usize) -> Result<(), CandidError> {
        self.values += 1;
        if depth > DEEPEST {
            return error(format!("it is nested too deeply: {DEEPEST} levels are the limit"));
        }
        if self.values > MOST_VALUES {
            return error(format!("it holds more than {MOST_VALUES} values, which is the limit"));
        }
        Ok(())
    }

    /// A composite type, by its code.
    pub(super) fn entry(&self, code: i64) -> Result<Rc<TypeEntry>, CandidError> {
        let entry = usize::try_from(code).ok().and_then(|index| self.types.get(index));
        entry.cloned().map_or_else(|| error(format!("the type {code} has no meaning")), Ok)
    }

    /// A whole number of a fixed width in bytes.
    pub(super) fn fixed(&mut self, width: u8, is_signed: bool) -> Result<i128, CandidError> {
        let mut wide = [0; 16];
        let bytes = self.bytes(width.into())?;
        wide[..bytes.len()].copy_from_slice(bytes);
        let unused = 128 - u32::from(width) * 8;
        Ok(if is_signed { i128::from_le_bytes(wide) << unused >> unused } else { i128::from_le_bytes(wide) })
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], CandidError> {
        Ok(self.bytes(N)?.try_into().unwrap_or([0; N]))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, CandidError> {
        let length = self.length()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| CandidError("a text is not UTF-8".into()))
    }

    pub(super) fn principal(&mut self) -> Result<&'a [u8], CandidError> {
        if self.byte()? != 1 {
            return error("a principal that is not shown");
        }
        let length = self.length()?;
        self.bytes(length)
    }

    fn cut<T>(&self) -> Result<T, CandidError> {
        error("it ends too early")
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], CandidError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else { return self.cut() };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, CandidError> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn number(&mut self, is_signed: bool) -> Result<WholeNumber, CandidError> {
        let Some((number, length)) = WholeNumber::read(self.rest, is_signed) else { return self.cut() };
        self.rest = &self.rest[length..];
        Ok(number)
    }

    pub(super) fn length(&mut self) -> Result<usize, CandidError> {
        let number = self.number(false)?;
        number.to_i128().and_then(|number| usize::try_from(number).ok()).map_or_else(|| self.cut(), Ok)
    }

    fn code(&mut self) -> Result<i64, CandidError> {
        let number = self.number(true)?;
        let code = number.to_i128().and_then(|number| i64::try_from(number).ok());
        code.ok_or_else(|| CandidError("a type has no meaning".into()))
    }

    fn read_types(&mut self) -> Result<(), CandidError> {
        let count = self.length()?;
        if count > MOST_TYPES {
            return error(format!("it has {count} types, more than {MOST_TYPES}"));
        }
        for _ in 0..count {
            let entry = match self.code()? {
                -18 => TypeEntry::Opt(self.code()?),
                -19 => TypeEntry::Vec(self.code()?),
                -20 => TypeEntry::Record(self.fields()?),
                -21 => TypeEntry::Variant(self.fields()?),
                -22 => {
                    for _ in 0..2 {
                        for _ in 0..self.length()? {
                            self.code()?;
                        }
                    }
                    let annotations = self.length()?;
                    self.bytes(annotations)?;
                    TypeEntry::Reference
                }
                -23 => {
                    for _ in 0..self.length()? {
                        let name = self.length()?;
                        self.bytes(name)?;
                        self.code()?;
                    }
                    TypeEntry::Reference
                }
                code => return error(format!("the type {code} has no meaning")),
            };
            self.types.push(Rc::new(entry));
        }
        Ok(())
    }

    fn fields(&mut self) -> Result<Vec<(u32, i64)>, CandidError> {
        let count = self.length()?;
        if count > self.rest.len() {
            return self.cut();
        }
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let id = self.length()?;
            let id = u32::try_from(id).map_err(|_| CandidError("a field's number does not fit into 32 bits".into()))?;
            fields.push((id, self.code()?));
        }
        Ok(fields)
    }

    fn label(&self, id: u32) -> String {
        match self.names.get(&id) {
            Some(name) if is_word(name) => (*name).to_owned(),
            Some(name) => format!("{name:?}"),
            None => id.to_string(),
        }
    }

    fn value(&mut self, code: i64, depth: usize, text: &mut String) -> Result<(), CandidError> {
        self.count_value(depth)?;
        if let Some(simple) = Simple::coded(code) {
            return self.simple(simple, text);
        }
        let entry = self.entry(code)?;
        match &*entry {
            &TypeEntry::Opt(inner) => match self.byte()? {
                0 => text.push_str("null"),
                1 => {
                    text.push_str("opt ");
                    let mut content = String::new();
                    self.value(inner, depth + 1, &mut content)?;
                    let is_typed = Simple::coded(inner).is_some_and(shows_its_type);
                    *text += &if is_typed { format!("({content})") } else { content };
                }
                _ => return error("an opt is neither null nor a value"),
            },
            &TypeEntry::Vec(inner) => self.vec(inner, depth, text)?,
            TypeEntry::Record(fields) => {
                text.push_str("record {");
                for (index, &(id, code)) in fields.iter().enumerate() {
                    text.push_str(if index > 0 { "; " } else { " " });
                    *text += &format!("{} = ", self.label(id));
                    self.value(code, depth + 1, text)?;
                }
                text.push_str(" }");
            }
            TypeEntry::Variant(cases) => {
                let index = self.length()?;
                let Some(&(id, code)) = cases.get(index) else { return error("a variant has no such case") };
                *text += &format!("variant {{ {}", self.label(id));
                if code != Simple::Null.code() {
                    text.push_str(" = ");
                    self.value(code, depth + 1, text)?;
                }
                text.push_str(" }");
            }
            TypeEntry::Reference => return error("functions and services are not shown"),
        }
        Ok(())
    }

    fn vec(&mut self, inner: i64, depth: usize, text: &mut String) -> Result<(), CandidError> {
        let count = self.length()?;
        if Simple::coded(inner) == Some(Simple::Unsigned(1)) {
            text.push_str("blob \"");
            for &byte in self.bytes(count)? {
                match byte {
                    b'"' | b'\\' => *text += &format!("\\{}", char::from(byte)),
                    b' '..=b'~' => text.push(char::from(byte)),
                    _ => *text += &format!("\\{byte:02x}"),
                }
            }
            text.push('"');
            return Ok(());
        }
        text.push_str("vec {");
        for index in 0..count {
            text.push_str(if index > 0 { "; " } else { " " });
            self.value(inner, depth + 1, text)?;
        }
        text.push_str(" }");
        Ok(())
    }

    fn simple(&mut self, simple: Simple, text: &mut String) -> Result<(), CandidError> {
        *text += &match simple {
            Simple::Null => "null".to_owned(),
            Simple::Reserved => "null : reserved".to_owned(),
            Simple::Empty => return error("a value of the type that has none"),
            Simple::Bool => match self.byte()? {
                0 => "false".to_owned(),
                1 => "true".to_owned(),
                _ => return error("a truth value is neither true nor false"),
            },
            Simple::Nat => format!("{} : nat", self.number(false)?.in_words()),
            Simple::Int => format!("{} : int", self.number(true)?.in_words()),
            Simple::Unsigned(width) | Simple::Signed(width) => {
                let value = self.fixed(width, matches!(simple, Simple::Signed(_)))?;
                format!("{value} : {}", simple.name())
            }
            Simple::Float32 => format!("{:?} : float32", f32::from_le_bytes(self.array()?)),
            Simple::Float64 => format!("{:?} : float64", f64::from_le_bytes(self.array()?)),
            Simple::Text => quote(self.text()?),
            Simple::Principal => format!("principal \"{}\"", principal_text(self.principal()?)),
        };
        Ok(())
    }
}

/// Whether a value is written with its type after it.
fn shows_its_type(simple: Simple) -> bool {
    !matches!(simple, Simple::Null | Simple::Bool | Simple::Text | Simple::Principal)
}

/// A text in quotes, so that it can be parsed again.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if character.is_control() => quoted += &format!("\\u{{{:x}}}", u32::from(character)),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn is_word(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_part) && !name.starts_with(|first: char| first.is_ascii_digit())
}
