//! `Char`

use super::arguments::{character, number};
use super::native;
use super::number::{compared, equalled, greater, hashed, lesser};
use crate::number::{Number, NumberKind};
use crate::value::{Module, Native, Value, refuse};

/// `Char`
pub static CHAR: Module = Module { name: "Char", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 16] = [
    native("toText", 1, |_, a| Ok(Value::text(character(&a[0])?.to_string()))),
    native("toNat32", 1, |_, a| {
        Ok(Value::Number(Number::small(NumberKind::Nat32, u32::from(character(&a[0])?).into())))
    }),
    native("fromNat32", 1, |_, a| {
        let code = number(&a[0])?.to_u64().and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32);
        code.map_or_else(|| refuse("no character has that number"), |character| Ok(Value::Char(character)))
    }),
    native("isDigit", 1, |_, a| Ok(Value::Bool(character(&a[0])?.is_ascii_digit()))),
    native("isWhitespace", 1, |_, a| Ok(Value::Bool(character(&a[0])?.is_whitespace()))),
    native("isAlphabetic", 1, |_, a| Ok(Value::Bool(character(&a[0])?.is_alphabetic()))),
    native("isLowercase", 1, |_, a| Ok(Value::Bool(character(&a[0])?.is_lowercase()))),
    native("isUppercase", 1, |_, a| Ok(Value::Bool(character(&a[0])?.is_uppercase()))),
    native("isLower", 1, |_, a| Ok(Value::Bool(character(&a[0])?.is_lowercase()))),
    native("isUpper", 1, |_, a| Ok(Value::Bool(character(&a[0])?.is_uppercase()))),
    native("equal", 2, equalled),
    native("notEqual", 2, super::number::differed),
    native("less", 2, lesser),
    native("greater", 2, greater),
    native("compare", 2, compared),
    native("hash", 1, hashed),
];
