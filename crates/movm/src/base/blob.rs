//! `Blob`

use super::arguments::{bytes, count, items, number};
use super::native;
use super::number::{compared, equalled, greater, hashed, lesser};
use crate::machine::Machine;
use crate::value::{Evaluated, Module, Native, Value, refuse};

/// `Blob`
pub static BLOB: Module = Module { name: "Blob", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 18] = [
    native("size", 1, |_, a| Ok(Value::nat(bytes(&a[0])?.len() as u64))),
    native("get", 2, |machine, a| machine.at(&a[0], &a[1])),
    native("vals", 1, values),
    native("values", 1, values),
    native("keys", 1, |_, a| Ok(Value::iterator((0..bytes(&a[0])?.len() as u64).map(Value::nat)))),
    native("toArray", 1, |_, a| Ok(Value::array(bytes(&a[0])?.iter().map(|&byte| Value::byte(byte)).collect()))),
    native("toVarArray", 1, |_, a| {
        Ok(Value::mutable_array(bytes(&a[0])?.iter().map(|&byte| Value::byte(byte)).collect()))
    }),
    native("fromArray", 1, |_, a| from_items(items(&a[0])?)),
    native("fromVarArray", 1, |_, a| from_items(items(&a[0])?)),
    native("isEmpty", 1, |_, a| Ok(Value::Bool(bytes(&a[0])?.is_empty()))),
    native("empty", 0, |_, _| Ok(Value::Blob([].into()))),
    native("slice", 3, |_, a| {
        let bytes = bytes(&a[0])?;
        match bytes.get(count(&a[1])?..count(&a[2])?) {
            Some(part) => Ok(Value::Blob(part.into())),
            None => refuse(format!("a slice beyond the end of a Blob of {}", bytes.len())),
        }
    }),
    native("hash", 1, hashed),
    native("equal", 2, equalled),
    native("notEqual", 2, super::number::differed),
    native("less", 2, lesser),
    native("greater", 2, greater),
    native("compare", 2, compared),
];

fn values(_: &mut Machine, a: &[Value]) -> Evaluated {
    let bytes = bytes(&a[0])?.clone();
    let mut next = 0;
    Ok(Value::iterator(std::iter::from_fn(move || {
        next += 1;
        bytes.get(next - 1).map(|&byte| Value::byte(byte))
    })))
}

fn from_items(items: Vec<Value>) -> Evaluated {
    let byte = |item: &Value| match number(item)?.to_u64().and_then(|byte| u8::try_from(byte).ok()) {
        Some(byte) => Ok(byte),
        None => refuse("a Blob is made of Nat8"),
    };
    Ok(Value::Blob(items.iter().map(byte).collect::<Evaluated<Vec<u8>>>()?.into()))
}
