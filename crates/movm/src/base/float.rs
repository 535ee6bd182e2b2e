//! `Float`

use super::arguments::{count, float, number, text};
use super::number::{compared, equalled, greater, lesser};
use super::{constant, native, ranged};
use crate::number::{Number, NumberKind};
use crate::show::{Style, show};
use crate::value::{Evaluated, Module, Native, Value, refuse};
use num_bigint::BigInt;
use num_traits::FromPrimitive;

/// `Float`
pub static FLOAT: Module = Module { name: "Float", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 25] = [
    native("fromInt", 1, |_, a| Ok(Value::Float(number(&a[0])?.to_f64()))),
    native("fromNat", 1, |_, a| Ok(Value::Float(number(&a[0])?.to_f64()))),
    native("toInt", 1, |_, a| match BigInt::from_f64(float(&a[0])?.trunc()) {
        Some(whole) => Ok(Value::Number(Number::unchecked(NumberKind::Int, whole))),
        None => refuse("that Float is no number"),
    }),
    native("toText", 1, |_, a| Ok(Value::text(show(&Value::Float(float(&a[0])?), Style::Result)))),
    native("fromText", 1, |_, a| Ok(Value::option(text(&a[0])?.parse().ok().map(Value::Float)))),
    ranged("format", (2, 2), format),
    native("abs", 1, |_, a| Ok(Value::Float(float(&a[0])?.abs()))),
    native("sqrt", 1, |_, a| Ok(Value::Float(float(&a[0])?.sqrt()))),
    native("floor", 1, |_, a| Ok(Value::Float(float(&a[0])?.floor()))),
    native("ceil", 1, |_, a| Ok(Value::Float(float(&a[0])?.ceil()))),
    native("trunc", 1, |_, a| Ok(Value::Float(float(&a[0])?.trunc()))),
    native("nearest", 1, |_, a| Ok(Value::Float(float(&a[0])?.round_ties_even()))),
    native("log", 1, |_, a| Ok(Value::Float(float(&a[0])?.ln()))),
    native("exp", 1, |_, a| Ok(Value::Float(float(&a[0])?.exp()))),
    native("pow", 2, |_, a| Ok(Value::Float(float(&a[0])?.powf(float(&a[1])?)))),
    native("min", 2, |_, a| Ok(Value::Float(float(&a[0])?.min(float(&a[1])?)))),
    native("max", 2, |_, a| Ok(Value::Float(float(&a[0])?.max(float(&a[1])?)))),
    native("add", 2, |_, a| Ok(Value::Float(float(&a[0])? + float(&a[1])?))),
    native("isNaN", 1, |_, a| Ok(Value::Bool(float(&a[0])?.is_nan()))),
    native("equal", 2, equalled),
    native("less", 2, lesser),
    native("greater", 2, greater),
    native("compare", 2, compared),
    constant("pi", |_, _| Ok(Value::Float(std::f64::consts::PI))),
    constant("e", |_, _| Ok(Value::Float(std::f64::consts::E))),
];

/// mo:base takes the format first, mo:core the number.
fn format(_: &mut crate::machine::Machine, a: &[Value]) -> Evaluated {
    let (value, format) = if matches!(a[0], Value::Float(_)) { (&a[0], &a[1]) } else { (&a[1], &a[0]) };
    let number = float(value)?;
    if let Value::Variant(name, digits) = format {
        match &*name.name() {
            "fix" => return Ok(Value::text(format!("{number:.*}", count(digits)?.min(100)))),
            "exact" => return Ok(Value::text(show(value, Style::Result))),
            _ => {}
        }
    }
    refuse("a format is #exact or #fix(digits)")
}
