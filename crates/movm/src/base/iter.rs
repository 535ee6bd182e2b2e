//! `Iter`

use super::arguments::{count, drained, equal, first_accepted, folded, folded_right, number, order, sorted, truth};
use super::iterators::{Way, chained, lazy, taken, zipped};
use super::{native, ranged};
use crate::machine::Machine;
use crate::number::{Number, NumberKind};
use crate::value::{Evaluated, Module, Native, Value, refuse};
use num_bigint::BigInt;
use std::cmp::Ordering;

/// `Iter`
pub static ITER: Module = Module { name: "Iter", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 34] = [
    native("range", 2, |_, a| Ok(range(number(&a[0])?, number(&a[1])?, 1, true))),
    native("revRange", 2, |_, a| Ok(range(&number(&a[0])?.to_kind(NumberKind::Int)?, number(&a[1])?, -1, true))),
    native("toArray", 1, |machine, a| drained(machine, &a[0]).map(Value::array)),
    native("toArrayMut", 1, |machine, a| drained(machine, &a[0]).map(Value::mutable_array)),
    native("toVarArray", 1, |machine, a| drained(machine, &a[0]).map(Value::mutable_array)),
    native("fromArray", 1, |machine, a| machine.iterator_of(&a[0])),
    native("fromVarArray", 1, |machine, a| machine.iterator_of(&a[0])),
    native("map", 2, |machine, a| lazy(machine, &a[0], &a[1], Way::Map)),
    native("filter", 2, |machine, a| lazy(machine, &a[0], &a[1], Way::Filter)),
    native("filterMap", 2, |machine, a| lazy(machine, &a[0], &a[1], Way::FilterMap)),
    native("takeWhile", 2, |machine, a| lazy(machine, &a[0], &a[1], Way::TakeWhile)),
    native("take", 2, |machine, a| taken(machine, &a[0], 0, count(&a[1])?)),
    native("drop", 2, |machine, a| taken(machine, &a[0], count(&a[1])?, usize::MAX)),
    native("concat", 2, chained),
    native("enumerate", 1, |machine, a| zipped(machine, &a[0], None)),
    native("zip", 2, |machine, a| zipped(machine, &a[0], Some(&a[1]))),
    native("size", 1, |machine, a| Ok(Value::nat(drained(machine, &a[0])?.len() as u64))),
    native("iterate", 2, iterate),
    native("forEach", 2, |machine, a| {
        let items = machine.iterator_of(&a[0])?;
        while let Some(item) = machine.next_of(&items)? {
            machine.call(&a[1], &[item])?;
        }
        Ok(Value::Unit)
    }),
    native("foldLeft", 3, |machine, a| {
        let items = drained(machine, &a[0])?;
        folded(machine, items, a[1].clone(), &a[2])
    }),
    native("foldRight", 3, |machine, a| {
        let items = drained(machine, &a[0])?;
        folded_right(machine, items, a[1].clone(), &a[2])
    }),
    native("find", 2, |machine, a| {
        let items = drained(machine, &a[0])?;
        Ok(Value::option(first_accepted(machine, items, &a[1])?.map(|(_, item)| item)))
    }),
    native("all", 2, |machine, a| {
        let items = machine.iterator_of(&a[0])?;
        while let Some(item) = machine.next_of(&items)? {
            if !truth(&machine.call(&a[1], &[item])?)? {
                return Ok(Value::Bool(false));
            }
        }
        Ok(Value::Bool(true))
    }),
    native("any", 2, |machine, a| {
        let items = machine.iterator_of(&a[0])?;
        while let Some(item) = machine.next_of(&items)? {
            if truth(&machine.call(&a[1], &[item])?)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    ranged("contains", (2, 3), |machine, a| {
        let (compare, wanted) = if a.len() == 3 { (Some(&a[1]), &a[2]) } else { (None, &a[1]) };
        for item in drained(machine, &a[0])? {
            if equal(machine, compare, &item, wanted)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    ranged("sort", (1, 2), |machine, a| {
        let items = drained(machine, &a[0])?;
        Ok(Value::iterator(sorted(machine, items, a.get(1))?.into_iter()))
    }),
    ranged("max", (1, 2), |machine, a| extreme(machine, a, Ordering::Greater)),
    ranged("min", (1, 2), |machine, a| extreme(machine, a, Ordering::Less)),
    native("reverse", 1, |machine, a| Ok(Value::iterator(drained(machine, &a[0])?.into_iter().rev()))),
    native("empty", 0, |_, _| Ok(Value::iterator(std::iter::empty()))),
    native("make", 1, |_, a| Ok(Value::iterator(std::iter::once(a[0].clone())))),
    native("singleton", 1, |_, a| Ok(Value::iterator(std::iter::once(a[0].clone())))),
    native("flatten", 1, |machine, a| {
        let parts = drained(machine, &a[0])?;
        chained(machine, &parts)
    }),
    native("join", 1, |machine, a| {
        let parts = drained(machine, &a[0])?;
        chained(machine, &parts)
    }),
];

/// Numbers from one to another.
pub fn range(from: &Number, to: &Number, step: i64, inclusive: bool) -> Value {
    let kind = from.kind;
    let (mut next, last, step) = (from.big(), to.big(), BigInt::from(step));
    let is_upward = step > BigInt::from(0);
    Value::iterator(std::iter::from_fn(move || {
        let is_past = if is_upward { next > last } else { next < last };
        if is_past || (!inclusive && next == last) || step == BigInt::from(0) {
            return None;
        }
        let number = Number::unchecked(kind, next.clone());
        next += &step;
        Some(Value::Number(number))
    }))
}

/// The function takes an item and its number.
fn iterate(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let items = machine.iterator_of(&a[0])?;
    let mut index = 0;
    while let Some(item) = machine.next_of(&items)? {
        machine.call(&a[1], &[item, Value::nat(index)])?;
        index += 1;
    }
    Ok(Value::Unit)
}

fn extreme(machine: &mut Machine, a: &[Value], wanted: Ordering) -> Evaluated {
    let mut best: Option<Value> = None;
    for item in drained(machine, &a[0])? {
        best = match best {
            Some(best) if order(machine, a.get(1), &item, &best)? != wanted => Some(best),
            _ => Some(item),
        };
    }
    Ok(Value::option(best))
}

/// The range that `Nat.range` and its like return.
pub fn half_open(_: &mut Machine, a: &[Value]) -> Evaluated {
    Ok(range(number(&a[0])?, number(&a[1])?, 1, false))
}

/// A range with steps.
pub fn stepped(_: &mut Machine, a: &[Value]) -> Evaluated {
    let Some(step) = number(&a[2])?.big().try_into().ok().filter(|step: &i64| *step != 0) else {
        return refuse("a range needs steps other than 0");
    };
    Ok(range(number(&a[0])?, number(&a[1])?, step, false))
}
