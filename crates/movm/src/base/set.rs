//! `Set` of mo:core, in the order of its items.

use super::arguments::{drained, truth};
use super::map::{Ordered, ordered, split};
use super::{native, ranged};
use crate::machine::Machine;
use crate::value::{Evaluated, Module, Native, Value};

/// `Set`
pub static SET: Module = Module { name: "Set", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 17] = [
    native("empty", 0, |_, _| Ok(Ordered::value("Set", Vec::new()))),
    ranged("fromIter", (1, 2), from_iter),
    ranged("fromArray", (1, 2), from_iter),
    ranged("add", (2, 3), |machine, a| add(machine, a).map(|_| Value::Unit)),
    ranged("insert", (2, 3), |machine, a| add(machine, a).map(Value::Bool)),
    ranged("contains", (2, 3), |machine, a| {
        let (compare, rest) = split(a, 2);
        Ok(Value::Bool(ordered(&a[0])?.find(machine, compare, &rest[0])?.is_ok()))
    }),
    ranged("remove", (2, 3), |machine, a| remove(machine, a).map(|_| Value::Unit)),
    ranged("delete", (2, 3), |machine, a| remove(machine, a).map(Value::Bool)),
    native("size", 1, |_, a| Ok(Value::nat(items(&a[0])?.len() as u64))),
    native("isEmpty", 1, |_, a| Ok(Value::Bool(items(&a[0])?.is_empty()))),
    native("values", 1, |_, a| Ok(Value::iterator(items(&a[0])?.into_iter()))),
    native("toArray", 1, |_, a| items(&a[0]).map(Value::array)),
    native("forEach", 2, |machine, a| {
        for item in items(&a[0])? {
            machine.call(&a[1], &[item])?;
        }
        Ok(Value::Unit)
    }),
    ranged("filter", (2, 3), |machine, a| {
        let mut kept = Vec::new();
        for item in items(&a[0])? {
            if truth(&machine.call(&a[a.len() - 1], std::slice::from_ref(&item))?)? {
                kept.push((item, Value::Unit));
            }
        }
        Ok(Ordered::value("Set", kept))
    }),
    ranged("union", (2, 3), |machine, a| combined(machine, a, |_, _| true, true)),
    ranged("intersection", (2, 3), |machine, a| combined(machine, a, |one, two| one && two, false)),
    ranged("difference", (2, 3), |machine, a| combined(machine, a, |one, two| one && !two, false)),
];

fn items(value: &Value) -> Evaluated<Vec<Value>> {
    Ok(ordered(value)?.entries().into_iter().map(|(key, _)| key).collect())
}

fn add(machine: &mut Machine, a: &[Value]) -> Evaluated<bool> {
    let (compare, rest) = split(a, 2);
    Ok(ordered(&a[0])?.put(machine, compare, &rest[0], &Value::Unit)?.is_none())
}

fn remove(machine: &mut Machine, a: &[Value]) -> Evaluated<bool> {
    let (compare, rest) = split(a, 2);
    Ok(ordered(&a[0])?.take(machine, compare, &rest[0])?.is_some())
}

fn from_iter(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let set = Ordered::value("Set", Vec::new());
    for item in drained(machine, &a[0])? {
        ordered(&set)?.put(machine, a.get(1), &item, &Value::Unit)?;
    }
    Ok(set)
}

/// The items of the first set (and of the second) that are wanted, by the sets that have them.
fn combined(machine: &mut Machine, a: &[Value], wanted: fn(bool, bool) -> bool, with_second: bool) -> Evaluated {
    let (compare, second) = if a.len() == 3 { (Some(&a[2]), &a[1]) } else { (None, &a[1]) };
    let (compare, second) = match second {
        Value::Host(_) => (compare, second),
        // mo:core takes the comparison after the sets; as a method it can stand between them.
        function => (Some(function), &a[2]),
    };
    let made = Ordered::value("Set", Vec::new());
    for item in items(&a[0])? {
        let in_second = ordered(second)?.find(machine, compare, &item)?.is_ok();
        if wanted(true, in_second) {
            ordered(&made)?.put(machine, compare, &item, &Value::Unit)?;
        }
    }
    if with_second {
        for item in items(second)? {
            ordered(&made)?.put(machine, compare, &item, &Value::Unit)?;
        }
    }
    Ok(made)
}
