//! Equality, order and hashes of values, by their content.

use crate::value::{Evaluated, Value, refuse};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// The deepest nesting of values that are compared.
const DEEPEST: usize = 10_000;

/// The order of two values of one type.
pub fn compare(one: &Value, two: &Value) -> Evaluated<Ordering> {
    compare_nested(one, two, 0)
}

/// True if two values are equal.
pub fn is_equal(one: &Value, two: &Value) -> Evaluated<bool> {
    Ok(compare(one, two)? == Ordering::Equal)
}

fn compare_nested(one: &Value, two: &Value, depth: usize) -> Evaluated<Ordering> {
    use Value::{Array, Blob, Bool, Char, Float, Null, Number, Numbers, Object, Option, Text, Tuple, Unit, Variant};
    if depth > DEEPEST {
        return refuse("values that nest too deeply to be compared");
    }
    let deeper = |one: &Value, two: &Value| compare_nested(one, two, depth + 1);
    Ok(match (one, two) {
        (Null, Null) | (Unit, Unit) => Ordering::Equal,
        (Null, Option(_)) => Ordering::Less,
        (Option(_), Null) => Ordering::Greater,
        (Bool(one), Bool(two)) => one.cmp(two),
        (Number(one), Number(two)) => one.cmp(two),
        (Float(one), Float(two)) => one.partial_cmp(two).unwrap_or_else(|| one.total_cmp(two)),
        (Char(one), Char(two)) => one.cmp(two),
        (Text(one), Text(two)) => one.cmp(two),
        (Blob(one), Blob(two)) => one.cmp(two),
        (Option(one), Option(two)) => deeper(one, two)?,
        (Variant(one, inner_one), Variant(two, inner_two)) => match one == two {
            true => deeper(inner_one, inner_two)?,
            false => one.name().cmp(&two.name()),
        },
        (Tuple(one), Tuple(two)) => in_order(one, two, deeper)?,
        (Array(one), Array(two)) => in_order(&one.items.borrow(), &two.items.borrow(), deeper)?,
        (Numbers(one), Numbers(two)) => one.cmp(two),
        (Object(one), Object(two)) => {
            let names =
                |object: &crate::value::Object| object.fields.iter().map(|(name, _)| name.name()).collect::<Vec<_>>();
            let values = |object: &crate::value::Object| {
                object.fields.iter().filter_map(|(_, field)| field.value.borrow().clone()).collect::<Vec<_>>()
            };
            match names(one).cmp(&names(two)) {
                Ordering::Equal => in_order(&values(one), &values(two), deeper)?,
                other => other,
            }
        }
        (one, two) => return refuse(format!("{} and {} cannot be compared", one.type_name(), two.type_name())),
    })
}

fn in_order(
    one: &[Value],
    two: &[Value],
    compare: impl Fn(&Value, &Value) -> Evaluated<Ordering>,
) -> Evaluated<Ordering> {
    for (one, two) in one.iter().zip(two) {
        match compare(one, two)? {
            Ordering::Equal => {}
            other => return Ok(other),
        }
    }
    Ok(one.len().cmp(&two.len()))
}

/// A value as the key of a map of Rust. Values that cannot be compared differ.
#[derive(Clone)]
pub struct Key(pub Value);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        is_equal(&self.0, &other.0).unwrap_or(false)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_into(&self.0, 0, state);
    }
}

fn hash_into<H: Hasher>(value: &Value, depth: usize, state: &mut H) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Number(number) => number.hash(state),
        Value::Bool(truth) => truth.hash(state),
        // Zero has two forms that are equal.
        Value::Float(number) => (number + 0.0).to_bits().hash(state),
        Value::Char(character) => character.hash(state),
        Value::Text(text) => text.hash(state),
        Value::Blob(bytes) => bytes.hash(state),
        Value::Option(inner) => hash_into(inner, depth + 1, state),
        Value::Variant(name, inner) => {
            name.hash(state);
            hash_into(inner, depth + 1, state);
        }
        Value::Tuple(items) => items.iter().for_each(|item| hash_into(item, depth + 1, state)),
        Value::Array(array) => array.items.borrow().iter().for_each(|item| hash_into(item, depth + 1, state)),
        Value::Object(object) => object.fields.iter().for_each(|(name, _)| name.hash(state)),
        _ => {}
    }
}

/// The text that `Order` types have: `#less`, `#equal`, `#greater`.
pub fn order_value(order: Ordering) -> Value {
    Value::tag(match order {
        Ordering::Less => "less",
        Ordering::Equal => "equal",
        Ordering::Greater => "greater",
    })
}

/// The order that a comparison of a script returned.
pub fn order_of(value: &Value) -> Evaluated<Ordering> {
    if let Value::Variant(name, _) = value {
        match &*name.name() {
            "less" => return Ok(Ordering::Less),
            "equal" => return Ok(Ordering::Equal),
            "greater" => return Ok(Ordering::Greater),
            _ => {}
        }
    }
    refuse("a comparison returns #less, #equal or #greater; Nat.compare and Text.compare do")
}

/// A 32-bit hash of a value.
pub fn hash(value: &Value) -> u32 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hash_into(value, 0, &mut hasher);
    hasher.finish() as u32
}
