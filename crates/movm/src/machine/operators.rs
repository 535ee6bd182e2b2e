//! Operators.

use crate::compare::{compare, is_equal};
use crate::number::{Number, NumberKind};
use crate::syntax::ast::{BinaryOperator as Op, UnaryOperator};
use crate::value::{Evaluated, Value, refuse};
use num_bigint::BigInt;
use std::cmp::Ordering;

/// The value of an operator with one operand.
pub fn unary(operator: UnaryOperator, value: &Value) -> Evaluated {
    match (operator, value) {
        (UnaryOperator::Not, Value::Bool(truth)) => Ok(Value::Bool(!truth)),
        (UnaryOperator::Minus, Value::Float(number)) => Ok(Value::Float(-number)),
        (UnaryOperator::Minus, Value::Number(number)) => {
            let kind = if number.kind == NumberKind::Nat { NumberKind::Int } else { number.kind };
            Ok(Value::Number(number.negated(kind)?))
        }
        (UnaryOperator::Plus, Value::Number(number)) => {
            let kind = if number.kind == NumberKind::Nat { NumberKind::Int } else { number.kind };
            Ok(Value::Number(number.to_kind(kind)?))
        }
        (UnaryOperator::Plus, Value::Float(number)) => Ok(Value::Float(*number)),
        (UnaryOperator::Complement, Value::Number(number)) if number.kind.bits().is_some() => {
            Ok(Value::Number(Number::wrapped(number.kind, &-(number.big() + BigInt::from(1)))))
        }
        (_, value) => refuse(format!("{} has no such operator", value.type_name())),
    }
}

/// The value of an operator with two operands.
pub fn binary(operator: Op, one: &Value, two: &Value) -> Evaluated {
    match operator {
        Op::Equal => return is_equal(one, two).map(Value::Bool),
        Op::NotEqual => return is_equal(one, two).map(|equal| Value::Bool(!equal)),
        Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => return relation(operator, one, two),
        _ => {}
    }
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => whole(operator, one, two),
        (Value::Float(one), Value::Float(two)) => float(operator, *one, *two),
        (Value::Text(one), Value::Text(two)) if operator == Op::Concat => Ok(Value::text(format!("{one}{two}"))),
        (Value::Text(_), other) | (other, Value::Text(_)) if operator == Op::Concat => {
            refuse(format!("'#' joins texts, not {}; write debug_show(x) or Nat.toText(x)", other.type_name()))
        }
        (Value::Text(_), Value::Text(_)) if operator == Op::Add => {
            refuse("'+' adds numbers; write a # b to join texts")
        }
        (Value::Float(_), Value::Number(_)) | (Value::Number(_), Value::Float(_)) => {
            refuse("a Float and a whole number do not mix; write Float.fromInt(x), or 2.0 instead of 2")
        }
        (one, two) => refuse(format!("{} and {} have no such operator", one.type_name(), two.type_name())),
    }
}

fn relation(operator: Op, one: &Value, two: &Value) -> Evaluated {
    if matches!(one, Value::Float(number) if number.is_nan()) || matches!(two, Value::Float(number) if number.is_nan())
    {
        return Ok(Value::Bool(false));
    }
    let order = compare(one, two)?;
    Ok(Value::Bool(match operator {
        Op::Less => order == Ordering::Less,
        Op::LessOrEqual => order != Ordering::Greater,
        Op::Greater => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn float(operator: Op, one: f64, two: f64) -> Evaluated {
    Ok(Value::Float(match operator {
        Op::Add => one + two,
        Op::Sub => one - two,
        Op::Mul => one * two,
        Op::Div => one / two,
        Op::Mod => one % two,
        Op::Pow => one.powf(two),
        _ => return refuse("Float has no such operator"),
    }))
}

/// The type of a result: Nat and Int mix, the others do not.
fn common(one: NumberKind, two: NumberKind) -> Evaluated<NumberKind> {
    match (one, two) {
        (one, two) if one == two => Ok(one),
        (NumberKind::Nat, NumberKind::Int) | (NumberKind::Int, NumberKind::Nat) => Ok(NumberKind::Int),
        (one, two) => {
            let (sized, other) = if one.bits().is_some() { (one, two) } else { (two, one) };
            refuse(format!(
                "{} and {} do not mix; write {}.to{}(x)",
                one.name(),
                two.name(),
                sized.name(),
                if other.bits().is_some() { if sized.is_signed() { "Int" } else { "Nat" } } else { other.name() }
            ))
        }
    }
}

fn whole(operator: Op, one: &Number, two: &Number) -> Evaluated {
    let kind = common(one.kind, two.kind)?;
    Ok(Value::Number(match operator {
        Op::Add => one.add(two, kind)?,
        Op::Sub => one.sub(two, kind)?,
        Op::Mul => one.mul(two, kind)?,
        Op::Div => one.div(two, kind)?,
        Op::Mod => one.rem(two, kind)?,
        Op::Pow => Number::checked(kind, one.pow(two)?)?,
        Op::WrappingAdd => Number::wrapped(kind, &(one.big() + two.big())),
        Op::WrappingSub => Number::wrapped(kind, &(one.big() - two.big())),
        Op::WrappingMul => Number::wrapped(kind, &(one.big() * two.big())),
        Op::WrappingPow => Number::wrapped(kind, &one.pow(two)?),
        Op::BitAnd => Number::checked(kind, one.big() & two.big())?,
        Op::BitOr => Number::checked(kind, one.big() | two.big())?,
        Op::BitXor => Number::checked(kind, one.big() ^ two.big())?,
        Op::ShiftLeft | Op::ShiftRight | Op::RotateLeft | Op::RotateRight => shifted(operator, one, two, kind)?,
        _ => return refuse(format!("{} has no such operator", kind.name())),
    }))
}

fn shifted(operator: Op, one: &Number, two: &Number, kind: NumberKind) -> Evaluated<Number> {
    const FARTHEST: u64 = 1 << 32;
    let Some(by) = two.to_u64().filter(|by| *by <= FARTHEST) else { return refuse("a shift that is too far") };
    let Some(bits) = kind.bits() else {
        return match operator {
            Op::ShiftLeft => Ok(Number::unchecked(kind, one.big() << by)),
            Op::ShiftRight => Ok(Number::unchecked(kind, one.big() >> by)),
            _ => refuse(format!("{} has no rotation", kind.name())),
        };
    };
    let by = by % u64::from(bits);
    let modulus = BigInt::from(1) << bits;
    let unsigned = ((one.big() % &modulus) + &modulus) % &modulus;
    Ok(match operator {
        Op::ShiftLeft => Number::wrapped(kind, &(one.big() << by)),
        Op::ShiftRight => Number::wrapped(kind, &(one.big() >> by)),
        Op::RotateLeft => Number::wrapped(kind, &((&unsigned << by) | (&unsigned >> (u64::from(bits) - by)))),
        _ => Number::wrapped(kind, &((&unsigned >> by) | (&unsigned << (u64::from(bits) - by)))),
    })
}
