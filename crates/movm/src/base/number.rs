//! `Nat`, `Int`, and the numbers of fixed width. All share one table: the type is a parameter of the few functions that need it.

use super::arguments::{float, number, text};
use super::iter::{half_open, range, stepped};
use super::{constant, native};
use crate::compare::{compare, hash, is_equal, order_value};
use crate::machine::Machine;
use crate::number::{Number, NumberKind};
use crate::syntax::ast::BinaryOperator;
use crate::value::{Evaluated, Module, Native, Value, refuse};
use num_bigint::BigInt;
use num_traits::FromPrimitive;
use std::cmp::Ordering;

macro_rules! module {
    ($module:ident, $table:ident, $index:literal) => {
        static $table: [Native; COUNT] = table::<$index>();
        /// The module of the type.
        pub static $module: Module = Module { name: NAMES[$index], functions: &$table };
    };
}

const NAMES: [&str; 10] = ["Nat", "Int", "Nat8", "Nat16", "Nat32", "Nat64", "Int8", "Int16", "Int32", "Int64"];
const COUNT: usize = 51;

module!(NAT, NAT_FUNCTIONS, 0);
module!(INT, INT_FUNCTIONS, 1);
module!(NAT8, NAT8_FUNCTIONS, 2);
module!(NAT16, NAT16_FUNCTIONS, 3);
module!(NAT32, NAT32_FUNCTIONS, 4);
module!(NAT64, NAT64_FUNCTIONS, 5);
module!(INT8, INT8_FUNCTIONS, 6);
module!(INT16, INT16_FUNCTIONS, 7);
module!(INT32, INT32_FUNCTIONS, 8);
module!(INT64, INT64_FUNCTIONS, 9);

/// The type at an index of the tables.
fn kind<const K: usize>() -> NumberKind {
    NumberKind::ALL[K]
}

const fn table<const K: usize>() -> [Native; COUNT] {
    [
        native("toText", 1, |_, a| Ok(Value::text(number(&a[0])?.to_string()))),
        native("fromText", 1, |_, a| Ok(parsed(text(&a[0])?, kind::<K>()))),
        native("toNat", 1, |_, a| into(&a[0], NumberKind::Nat)),
        native("toInt", 1, |_, a| into(&a[0], NumberKind::Int)),
        native("toNat8", 1, |_, a| into(&a[0], NumberKind::Nat8)),
        native("toNat16", 1, |_, a| into(&a[0], NumberKind::Nat16)),
        native("toNat32", 1, |_, a| into(&a[0], NumberKind::Nat32)),
        native("toNat64", 1, |_, a| into(&a[0], NumberKind::Nat64)),
        native("toFloat", 1, |_, a| Ok(Value::Float(number(&a[0])?.to_f64()))),
        native("fromNat", 1, |_, a| into(&a[0], kind::<K>())),
        native("fromInt", 1, |_, a| into(&a[0], kind::<K>())),
        native("fromNat8", 1, |_, a| into(&a[0], kind::<K>())),
        native("fromNat16", 1, |_, a| into(&a[0], kind::<K>())),
        native("fromNat32", 1, |_, a| into(&a[0], kind::<K>())),
        native("fromNat64", 1, |_, a| into(&a[0], kind::<K>())),
        native("fromIntWrap", 1, |_, a| Ok(Value::Number(Number::wrapped(kind::<K>(), &number(&a[0])?.big())))),
        native("fromFloat", 1, |_, a| from_float(float(&a[0])?, kind::<K>())),
        native("abs", 1, |_, a| Ok(Value::Number(number(&a[0])?.absolute(unsigned_of(kind::<K>()))?))),
        native("neg", 1, |_, a| Ok(Value::Number(number(&a[0])?.negated(kind::<K>())?))),
        native("add", 2, |_, a| operate(BinaryOperator::Add, a)),
        native("sub", 2, |_, a| operate(BinaryOperator::Sub, a)),
        native("mul", 2, |_, a| operate(BinaryOperator::Mul, a)),
        native("div", 2, |_, a| operate(BinaryOperator::Div, a)),
        native("rem", 2, |_, a| operate(BinaryOperator::Mod, a)),
        native("pow", 2, |_, a| operate(BinaryOperator::Pow, a)),
        native("addWrap", 2, |_, a| operate(BinaryOperator::WrappingAdd, a)),
        native("subWrap", 2, |_, a| operate(BinaryOperator::WrappingSub, a)),
        native("mulWrap", 2, |_, a| operate(BinaryOperator::WrappingMul, a)),
        native("bitand", 2, |_, a| operate(BinaryOperator::BitAnd, a)),
        native("bitor", 2, |_, a| operate(BinaryOperator::BitOr, a)),
        native("bitxor", 2, |_, a| operate(BinaryOperator::BitXor, a)),
        native("bitshiftLeft", 2, |_, a| operate(BinaryOperator::ShiftLeft, a)),
        native("bitshiftRight", 2, |_, a| operate(BinaryOperator::ShiftRight, a)),
        native("bittest", 2, |_, a| bit(&a[0], &a[1])),
        native("min", 2, |_, a| Ok(Value::Number(number(&a[0])?.min(number(&a[1])?).clone()))),
        native("max", 2, |_, a| Ok(Value::Number(number(&a[0])?.max(number(&a[1])?).clone()))),
        native("equal", 2, |_, a| is_equal(&a[0], &a[1]).map(Value::Bool)),
        native("notEqual", 2, |_, a| is_equal(&a[0], &a[1]).map(|equal| Value::Bool(!equal))),
        native("less", 2, |_, a| related(a, &[Ordering::Less])),
        native("lessOrEqual", 2, |_, a| related(a, &[Ordering::Less, Ordering::Equal])),
        native("greater", 2, |_, a| related(a, &[Ordering::Greater])),
        native("greaterOrEqual", 2, |_, a| related(a, &[Ordering::Greater, Ordering::Equal])),
        native("compare", 2, |_, a| compare(&a[0], &a[1]).map(order_value)),
        native("hash", 1, |_, a| Ok(Value::Number(Number::small(NumberKind::Nat32, hash(&a[0]).into())))),
        native("range", 2, half_open),
        native("rangeInclusive", 2, |_, a| Ok(range(number(&a[0])?, number(&a[1])?, 1, true))),
        native("rangeBy", 3, stepped),
        constant("maximumValue", |_, _| limit(kind::<K>(), true)),
        constant("minimumValue", |_, _| limit(kind::<K>(), false)),
        constant("maxValue", |_, _| limit(kind::<K>(), true)),
        constant("minValue", |_, _| limit(kind::<K>(), false)),
    ]
}

fn into(value: &Value, kind: NumberKind) -> Evaluated {
    Ok(Value::Number(number(value)?.to_kind(kind)?))
}

fn parsed(digits: &str, kind: NumberKind) -> Value {
    let number = digits.parse::<BigInt>().ok().filter(|_| !digits.starts_with('+') || kind.is_signed());
    Value::option(number.and_then(|number| Number::checked(kind, number).ok()).map(Value::Number))
}

fn from_float(number: f64, kind: NumberKind) -> Evaluated {
    match BigInt::from_f64(number.trunc()) {
        Some(whole) => Ok(Value::Number(Number::checked(kind, whole)?)),
        None => refuse("that Float is no number"),
    }
}

fn unsigned_of(kind: NumberKind) -> NumberKind {
    if kind == NumberKind::Int { NumberKind::Nat } else { kind }
}

fn operate(operator: BinaryOperator, a: &[Value]) -> Evaluated {
    crate::machine::operate(operator, &a[0], &a[1])
}

fn bit(value: &Value, at: &Value) -> Evaluated {
    let (value, at) = (number(value)?, number(at)?.to_u64().unwrap_or(u64::MAX));
    if value.kind.bits().is_some_and(|bits| at >= u64::from(bits)) {
        return refuse(format!("{} has no bit {at}", value.kind.name()));
    }
    Ok(Value::Bool(value.big().bit(at)))
}

fn related(a: &[Value], wanted: &[Ordering]) -> Evaluated {
    Ok(Value::Bool(wanted.contains(&compare(&a[0], &a[1])?)))
}

fn limit(kind: NumberKind, is_greatest: bool) -> Evaluated {
    match kind.range() {
        Some((least, greatest)) => {
            Ok(Value::Number(Number::unchecked(kind, if is_greatest { greatest } else { least }.into())))
        }
        None => refuse(format!("{} has no limit", kind.name())),
    }
}

/// Shared by the modules of other types.
pub fn compared(_: &mut Machine, a: &[Value]) -> Evaluated {
    compare(&a[0], &a[1]).map(order_value)
}

/// Shared by the modules of other types.
pub fn equalled(_: &mut Machine, a: &[Value]) -> Evaluated {
    is_equal(&a[0], &a[1]).map(Value::Bool)
}

/// Shared by the modules of other types.
pub fn differed(_: &mut Machine, a: &[Value]) -> Evaluated {
    is_equal(&a[0], &a[1]).map(|equal| Value::Bool(!equal))
}

/// Shared by the modules of other types.
pub fn lesser(_: &mut Machine, a: &[Value]) -> Evaluated {
    related(a, &[Ordering::Less])
}

/// Shared by the modules of other types.
pub fn greater(_: &mut Machine, a: &[Value]) -> Evaluated {
    related(a, &[Ordering::Greater])
}

/// Shared by the modules of other types.
pub fn hashed(_: &mut Machine, a: &[Value]) -> Evaluated {
    Ok(Value::Number(Number::small(NumberKind::Nat32, hash(&a[0]).into())))
}
