//! `Array`, and `VarArray` of mo:core.

use super::arguments::{
    count, drained, equal, filter_mapped, first_accepted, folded, folded_right, items, kept, mapped, order, sorted,
};
use super::{native, ranged};
use crate::compare::order_value;
use crate::machine::Machine;
use crate::show::{Style, show};
use crate::value::{Evaluated, Module, Native, Value, refuse};

/// `Array`
pub static ARRAY: Module = Module { name: "Array", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 51] = [
    native("size", 1, |_, a| Ok(Value::nat(size(&a[0])? as u64))),
    native("get", 2, |machine, a| machine.at(&a[0], &a[1])),
    native("put", 3, put),
    native("vals", 1, |_, a| values(&a[0])),
    native("values", 1, |_, a| values(&a[0])),
    native("keys", 1, |_, a| Ok(Value::iterator((0..size(&a[0])? as u64).map(Value::nat)))),
    native("enumerate", 1, |_, a| entries(&a[0])),
    native("entries", 1, |_, a| entries(&a[0])),
    native("map", 2, |machine, a| mapped(machine, items(&a[0])?, &a[1]).map(Value::array)),
    native("mapEntries", 2, map_entries),
    native("filter", 2, |machine, a| kept(machine, items(&a[0])?, &a[1]).map(Value::array)),
    native("mapFilter", 2, |machine, a| filter_mapped(machine, items(&a[0])?, &a[1]).map(Value::array)),
    native("filterMap", 2, |machine, a| filter_mapped(machine, items(&a[0])?, &a[1]).map(Value::array)),
    native("foldLeft", 3, |machine, a| folded(machine, items(&a[0])?, a[1].clone(), &a[2])),
    native("foldRight", 3, |machine, a| folded_right(machine, items(&a[0])?, a[1].clone(), &a[2])),
    native("find", 2, |machine, a| {
        Ok(Value::option(first_accepted(machine, items(&a[0])?, &a[1])?.map(|(_, item)| item)))
    }),
    native("findIndex", 2, |machine, a| {
        Ok(Value::option(first_accepted(machine, items(&a[0])?, &a[1])?.map(|(index, _)| Value::nat(index as u64))))
    }),
    ranged("indexOf", (2, 3), index_of),
    ranged("contains", (2, 3), contains),
    native("all", 2, |machine, a| all(machine, &a[0], &a[1]).map(Value::Bool)),
    native("any", 2, |machine, a| Ok(Value::Bool(first_accepted(machine, items(&a[0])?, &a[1])?.is_some()))),
    native("forEach", 2, |machine, a| mapped(machine, items(&a[0])?, &a[1]).map(|_| Value::Unit)),
    native("tabulate", 2, |machine, a| tabulated(machine, a).map(Value::array)),
    native("tabulateVar", 2, |machine, a| tabulated(machine, a).map(Value::mutable_array)),
    native("init", 2, |machine, a| repeated(machine, &a[0], &a[1]).map(Value::mutable_array)),
    native("repeat", 2, |machine, a| repeated(machine, &a[1], &a[0]).map(Value::array)),
    native("make", 1, |_, a| Ok(Value::array(vec![a[0].clone()]))),
    native("singleton", 1, |_, a| Ok(Value::array(vec![a[0].clone()]))),
    native("empty", 0, |_, _| Ok(Value::array(Vec::new()))),
    native("isEmpty", 1, |_, a| Ok(Value::Bool(size(&a[0])? == 0))),
    native("freeze", 1, |_, a| items(&a[0]).map(Value::array)),
    native("thaw", 1, |_, a| items(&a[0]).map(Value::mutable_array)),
    native("fromVarArray", 1, |_, a| items(&a[0]).map(Value::array)),
    native("toVarArray", 1, |_, a| items(&a[0]).map(Value::mutable_array)),
    native("fromIter", 1, |machine, a| drained(machine, &a[0]).map(Value::array)),
    ranged("sort", (1, 2), |machine, a| sorted(machine, items(&a[0])?, a.get(1)).map(Value::array)),
    ranged("sortInPlace", (1, 2), sort_in_place),
    native("reverse", 1, |_, a| Ok(Value::array(items(&a[0])?.into_iter().rev().collect()))),
    native("append", 2, |_, a| Ok(Value::array([items(&a[0])?, items(&a[1])?].concat()))),
    native("concat", 2, |_, a| Ok(Value::array([items(&a[0])?, items(&a[1])?].concat()))),
    native("flatten", 1, |_, a| joined(items(&a[0])?)),
    native("join", 1, |machine, a| joined(drained(machine, &a[0])?)),
    native("chain", 2, flat_map),
    native("flatMap", 2, flat_map),
    native("subArray", 3, |_, a| part(&a[0], count(&a[1])?, count(&a[1])?.saturating_add(count(&a[2])?))),
    native("sliceToArray", 3, |_, a| part(&a[0], count(&a[1])?, count(&a[2])?)),
    native("take", 2, |_, a| {
        let items = items(&a[0])?;
        Ok(Value::array(items.into_iter().take(count(&a[1])?).collect()))
    }),
    ranged("equal", (2, 3), is_equal),
    ranged("compare", (2, 3), compare),
    native("toArray", 1, |_, a| items(&a[0]).map(Value::array)),
    ranged("toText", (1, 2), to_text),
];

/// `VarArray`
pub static VAR_ARRAY: Module = Module { name: "VarArray", functions: &VAR_FUNCTIONS };

static VAR_FUNCTIONS: [Native; 10] = [
    native("repeat", 2, |machine, a| repeated(machine, &a[1], &a[0]).map(Value::mutable_array)),
    native("tabulate", 2, |machine, a| tabulated(machine, a).map(Value::mutable_array)),
    native("empty", 0, |_, _| Ok(Value::mutable_array(Vec::new()))),
    native("size", 1, |_, a| Ok(Value::nat(size(&a[0])? as u64))),
    native("values", 1, |_, a| values(&a[0])),
    native("map", 2, |machine, a| mapped(machine, items(&a[0])?, &a[1]).map(Value::mutable_array)),
    native("fromArray", 1, |_, a| items(&a[0]).map(Value::mutable_array)),
    native("toArray", 1, |_, a| items(&a[0]).map(Value::array)),
    native("fromIter", 1, |machine, a| drained(machine, &a[0]).map(Value::mutable_array)),
    ranged("sortInPlace", (1, 2), sort_in_place),
];

fn size(value: &Value) -> Evaluated<usize> {
    match value {
        Value::Array(array) => Ok(array.items.borrow().len()),
        Value::Numbers(numbers) => Ok(numbers.len()),
        other => refuse(format!("an array is needed here, not {}", other.type_name())),
    }
}

/// Goes over the array itself, without a copy.
fn values(value: &Value) -> Evaluated {
    let value = value.clone();
    let mut next = 0usize;
    size(&value)?;
    Ok(Value::iterator(std::iter::from_fn(move || {
        let item = match &value {
            Value::Array(array) => array.items.borrow().get(next).cloned(),
            Value::Numbers(numbers) => numbers.get(next).map(|&number| Value::nat(number)),
            _ => None,
        };
        next += 1;
        item
    })))
}

fn entries(value: &Value) -> Evaluated {
    let items = items(value)?;
    let numbered = items.into_iter().enumerate();
    Ok(Value::iterator(numbered.map(|(index, item)| Value::pair(Value::nat(index as u64), item))))
}

fn put(_: &mut Machine, a: &[Value]) -> Evaluated {
    let Value::Array(array) = &a[0] else { return refuse("put needs an array of [var …]") };
    let index = count(&a[1])?;
    match array.items.borrow_mut().get_mut(index).filter(|_| array.mutable) {
        Some(item) => *item = a[2].clone(),
        None => return refuse(format!("item {index} cannot be put")),
    }
    Ok(Value::Unit)
}

fn map_entries(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let numbered = items(&a[0])?.into_iter().enumerate();
    let made = numbered.map(|(index, item)| machine.call(&a[1], &[item, Value::nat(index as u64)]));
    Ok(Value::array(made.collect::<Evaluated<_>>()?))
}

/// mo:base takes the item first, mo:core the array; both take a function for equality.
fn array_first(a: &[Value]) -> (&Value, &[Value]) {
    let is_array = |value: &Value| matches!(value, Value::Array(_) | Value::Numbers(_));
    let at = (0..a.len()).find(|at| is_array(&a[*at])).unwrap_or(0);
    (&a[at], a)
}

fn position_of(machine: &mut Machine, a: &[Value]) -> Evaluated<Option<usize>> {
    let (array, _) = array_first(a);
    let is_function = |value: &&Value| matches!(value, Value::Closure(_) | Value::Native(_) | Value::Method(_));
    let compare = a.iter().find(is_function);
    let Some(wanted) = a.iter().find(|value| !is_function(value) && !std::ptr::eq(*value, array)) else {
        return refuse("the item to look for is missing");
    };
    for (index, item) in items(array)?.iter().enumerate() {
        if equal(machine, compare, item, wanted)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn index_of(machine: &mut Machine, a: &[Value]) -> Evaluated {
    Ok(Value::option(position_of(machine, a)?.map(|index| Value::nat(index as u64))))
}

fn contains(machine: &mut Machine, a: &[Value]) -> Evaluated {
    Ok(Value::Bool(position_of(machine, a)?.is_some()))
}

fn all(machine: &mut Machine, array: &Value, accepts: &Value) -> Evaluated<bool> {
    let items = items(array)?;
    let count = items.len();
    Ok(kept(machine, items, accepts)?.len() == count)
}

fn tabulated(machine: &mut Machine, a: &[Value]) -> Evaluated<Vec<Value>> {
    (0..count(&a[0])? as u64).map(|index| machine.call(&a[1], &[Value::nat(index)])).collect()
}

fn repeated(machine: &mut Machine, times: &Value, item: &Value) -> Evaluated<Vec<Value>> {
    let times = count(times)?;
    machine.count(times)?;
    Ok(vec![item.clone(); times])
}

fn sort_in_place(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let Value::Array(array) = &a[0] else { return refuse("sortInPlace needs an array of [var …]") };
    let sorted = sorted(machine, items(&a[0])?, a.get(1))?;
    *array.items.borrow_mut() = sorted;
    Ok(Value::Unit)
}

fn joined(arrays: Vec<Value>) -> Evaluated {
    let mut all = Vec::new();
    for array in &arrays {
        all.extend(items(array)?);
    }
    Ok(Value::array(all))
}

fn flat_map(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let parts = mapped(machine, items(&a[0])?, &a[1])?;
    let mut all = Vec::new();
    for part in &parts {
        all.extend(drained(machine, part)?);
    }
    Ok(Value::array(all))
}

fn part(array: &Value, from: usize, to: usize) -> Evaluated {
    let items = items(array)?;
    match items.get(from..to) {
        Some(part) => Ok(Value::array(part.to_vec())),
        None => refuse(format!("items {from} to {to} of an array of {}", items.len())),
    }
}

fn is_equal(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let (one, two) = (items(&a[0])?, items(&a[1])?);
    if one.len() != two.len() {
        return Ok(Value::Bool(false));
    }
    for (one, two) in one.iter().zip(&two) {
        if !equal(machine, a.get(2), one, two)? {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn compare(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let (one, two) = (items(&a[0])?, items(&a[1])?);
    for (one, two) in one.iter().zip(&two) {
        let order = order(machine, a.get(2), one, two)?;
        if order.is_ne() {
            return Ok(order_value(order));
        }
    }
    Ok(order_value(one.len().cmp(&two.len())))
}

fn to_text(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let mut shown = Vec::new();
    for item in items(&a[0])? {
        shown.push(match a.get(1) {
            Some(function) => super::arguments::text(&machine.call(function, &[item])?)?.to_string(),
            None => show(&item, Style::DebugShow),
        });
    }
    Ok(Value::text(format!("[{}]", shown.join(", "))))
}
