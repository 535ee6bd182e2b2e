//! Arguments of native functions, as Rust has them.

use crate::machine::Machine;
use crate::number::Number;
use crate::value::{Evaluated, Value, refuse};
use std::rc::Rc;

fn wrong<T>(wanted: &str, value: &Value) -> Evaluated<T> {
    refuse(format!("{wanted} is needed here, not {}", value.type_name()))
}

/// A Text.
pub fn text(value: &Value) -> Evaluated<&Rc<str>> {
    match value {
        Value::Text(text) => Ok(text),
        other => wrong("a Text", other),
    }
}

/// A whole number.
pub fn number(value: &Value) -> Evaluated<&Number> {
    match value {
        Value::Number(number) => Ok(number),
        other => wrong("a number", other),
    }
}

/// A Float.
pub fn float(value: &Value) -> Evaluated<f64> {
    match value {
        Value::Float(number) => Ok(*number),
        other => wrong("a Float", other),
    }
}

/// A Char.
pub fn character(value: &Value) -> Evaluated<char> {
    match value {
        Value::Char(character) => Ok(*character),
        other => wrong("a Char", other),
    }
}

/// A Bool.
pub fn truth(value: &Value) -> Evaluated<bool> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        other => wrong("a Bool", other),
    }
}

/// A Blob.
pub fn bytes(value: &Value) -> Evaluated<&Rc<[u8]>> {
    match value {
        Value::Blob(bytes) => Ok(bytes),
        other => wrong("a Blob", other),
    }
}

/// A number of items.
pub fn count(value: &Value) -> Evaluated<usize> {
    let count = number(value)?.to_u64().and_then(|count| usize::try_from(count).ok());
    count.map_or_else(|| refuse("a Nat is needed here, not a negative or a huge number"), Ok)
}

/// The items of an array.
pub fn items(value: &Value) -> Evaluated<Vec<Value>> {
    match value {
        Value::Array(array) => Ok(array.items.borrow().clone()),
        Value::Numbers(numbers) => Ok(numbers.iter().map(|&number| Value::nat(number)).collect()),
        other => match other {
            Value::Host(host) => host.items().map_or_else(|| wrong("an array", other), Ok),
            other => wrong("an array", other),
        },
    }
}

/// All items of an iterator.
pub fn drained(machine: &mut Machine, iterator: &Value) -> Evaluated<Vec<Value>> {
    let iterator = machine.iterator_of(iterator)?;
    let mut items = Vec::new();
    while let Some(item) = machine.next_of(&iterator)? {
        machine.count(1)?;
        items.push(item);
    }
    Ok(items)
}

/// The items that a function keeps.
pub fn kept(machine: &mut Machine, items: Vec<Value>, keeps: &Value) -> Evaluated<Vec<Value>> {
    let mut kept = Vec::new();
    for item in items {
        if truth(&machine.call(keeps, std::slice::from_ref(&item))?)? {
            kept.push(item);
        }
    }
    Ok(kept)
}

/// What a function makes of each item.
pub fn mapped(machine: &mut Machine, items: Vec<Value>, function: &Value) -> Evaluated<Vec<Value>> {
    items.into_iter().map(|item| machine.call(function, &[item])).collect()
}

/// What a function makes of each item, where that is no null.
pub fn filter_mapped(machine: &mut Machine, items: Vec<Value>, function: &Value) -> Evaluated<Vec<Value>> {
    let mut made = Vec::new();
    for item in items {
        match machine.call(function, &[item])? {
            Value::Null => {}
            Value::Option(inner) => made.push((*inner).clone()),
            other => return wrong("an option", &other),
        }
    }
    Ok(made)
}

/// Folds items from the left.
pub fn folded(machine: &mut Machine, items: Vec<Value>, first: Value, function: &Value) -> Evaluated {
    let mut sum = first;
    for item in items {
        sum = machine.call(function, &[sum, item])?;
    }
    Ok(sum)
}

/// Folds items from the right.
pub fn folded_right(machine: &mut Machine, items: Vec<Value>, first: Value, function: &Value) -> Evaluated {
    let mut sum = first;
    for item in items.into_iter().rev() {
        sum = machine.call(function, &[item, sum])?;
    }
    Ok(sum)
}

/// Sorts items. Equal items stay in order; a function that fails ends the sorting.
pub fn sorted(machine: &mut Machine, mut items: Vec<Value>, compare: Option<&Value>) -> Evaluated<Vec<Value>> {
    let mut failure = None;
    items.sort_by(|one, two| {
        if failure.is_some() {
            return std::cmp::Ordering::Equal;
        }
        order(machine, compare, one, two).unwrap_or_else(|stop| {
            failure = Some(stop);
            std::cmp::Ordering::Equal
        })
    });
    failure.map_or(Ok(items), Err)
}

/// The order of two values, by a function of the script or by their content.
pub fn order(
    machine: &mut Machine,
    compare: Option<&Value>,
    one: &Value,
    two: &Value,
) -> Evaluated<std::cmp::Ordering> {
    match compare {
        None | Some(Value::Native(_)) => crate::compare::compare(one, two),
        Some(function) => crate::compare::order_of(&machine.call(function, &[one.clone(), two.clone()])?),
    }
}

/// True if two values are equal, by a function of the script or by their content.
pub fn equal(machine: &mut Machine, equal: Option<&Value>, one: &Value, two: &Value) -> Evaluated<bool> {
    match equal {
        None | Some(Value::Native(_)) => crate::compare::is_equal(one, two),
        Some(function) => truth(&machine.call(function, &[one.clone(), two.clone()])?),
    }
}

/// The first item that a function accepts.
pub fn first_accepted(machine: &mut Machine, items: Vec<Value>, accepts: &Value) -> Evaluated<Option<(usize, Value)>> {
    for (index, item) in items.into_iter().enumerate() {
        if truth(&machine.call(accepts, std::slice::from_ref(&item))?)? {
            return Ok(Some((index, item)));
        }
    }
    Ok(None)
}
