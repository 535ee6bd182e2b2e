//! `Buffer` of mo:base and `List` of mo:core: arrays that grow.

use super::arguments::{
    count, drained, equal, filter_mapped, first_accepted, folded, folded_right, items, kept, mapped, sorted,
};
use super::{native, ranged};
use crate::machine::Machine;
use crate::value::{Evaluated, Host, Module, Native, Value, refuse};
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

/// An array that grows.
pub struct Growable {
    /// `Buffer` or `List`: their `get` differs.
    name: &'static str,
    items: RefCell<Vec<Value>>,
}

/// The methods of a Buffer. A List has those of its module.
const METHODS: [&str; 19] = [
    "add",
    "get",
    "getOpt",
    "put",
    "size",
    "vals",
    "removeLast",
    "remove",
    "insert",
    "clear",
    "append",
    "capacity",
    "reserve",
    "sort",
    "filterEntries",
    "toArray",
    "values",
    "at",
    "contains",
];

impl Growable {
    fn value(name: &'static str, items: Vec<Value>) -> Value {
        Value::Host(Rc::new(Self { name, items: RefCell::new(items) }))
    }

    fn item(&self, index: usize) -> Evaluated {
        let items = self.items.borrow();
        match items.get(index) {
            Some(item) => Ok(item.clone()),
            None => refuse(format!("there is no element {index}: the {} has {}", self.name, items.len())),
        }
    }

    fn put(&self, index: usize, value: Value) -> Evaluated {
        self.item(index)?;
        self.items.borrow_mut()[index] = value;
        Ok(Value::Unit)
    }

    fn remove(&self, index: usize) -> Evaluated {
        self.item(index)?;
        Ok(self.items.borrow_mut().remove(index))
    }

    fn insert(&self, index: usize, value: Value) -> Evaluated {
        let size = self.items.borrow().len();
        if index > size {
            return refuse(format!("nothing can be inserted at {index}: the {} has {size}", self.name));
        }
        self.items.borrow_mut().insert(index, value);
        Ok(Value::Unit)
    }

    fn append(&self, more: Vec<Value>) -> Evaluated {
        self.items.borrow_mut().extend(more);
        Ok(Value::Unit)
    }
}

impl Host for Growable {
    fn type_name(&self) -> &'static str {
        self.name
    }

    fn methods(&self) -> &'static [&'static str] {
        if self.name == "Buffer" { &METHODS } else { &[] }
    }

    fn call(&self, machine: &mut Machine, method: &str, a: &[Value]) -> Evaluated {
        match (method, a) {
            ("add", [item]) => self.append(vec![item.clone()]),
            ("get" | "at", [index]) => self.item(count(index)?),
            ("getOpt", [index]) => Ok(Value::option(self.items.borrow().get(count(index)?).cloned())),
            ("put", [index, value]) => self.put(count(index)?, value.clone()),
            ("size" | "capacity", []) => Ok(Value::nat(self.items.borrow().len() as u64)),
            ("vals" | "values", []) => Ok(Value::iterator(self.items.borrow().clone().into_iter())),
            ("toArray", []) => Ok(Value::array(self.items.borrow().clone())),
            ("removeLast", []) => Ok(Value::option(self.items.borrow_mut().pop())),
            ("remove", [index]) => self.remove(count(index)?),
            ("insert", [index, value]) => self.insert(count(index)?, value.clone()),
            ("clear", []) => {
                self.items.borrow_mut().clear();
                Ok(Value::Unit)
            }
            ("append", [more]) => self.append(items(more)?),
            ("reserve", [_]) => Ok(Value::Unit),
            ("sort", [compare]) => {
                let items = self.items.borrow().clone();
                *self.items.borrow_mut() = sorted(machine, items, Some(compare))?;
                Ok(Value::Unit)
            }
            ("contains", [wanted]) => contains(machine, &self.items.borrow().clone(), None, wanted),
            ("filterEntries", [keeps]) => {
                let mut kept = Vec::new();
                for (index, item) in self.items.borrow().clone().into_iter().enumerate() {
                    let arguments = [Value::nat(index as u64), item.clone()];
                    if super::arguments::truth(&machine.call(keeps, &arguments)?)? {
                        kept.push(item);
                    }
                }
                *self.items.borrow_mut() = kept;
                Ok(Value::Unit)
            }
            _ => refuse(format!("{}.{method} does not take {} arguments", self.name, a.len())),
        }
    }

    fn index(&self, index: &Value) -> Evaluated {
        self.item(count(index)?)
    }

    fn items(&self) -> Option<Vec<Value>> {
        Some(self.items.borrow().clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn contains(machine: &mut Machine, items: &[Value], compare: Option<&Value>, wanted: &Value) -> Evaluated {
    Ok(Value::Bool(position(machine, items, compare, wanted)?.is_some()))
}

fn position(
    machine: &mut Machine,
    items: &[Value],
    compare: Option<&Value>,
    wanted: &Value,
) -> Evaluated<Option<usize>> {
    for (index, item) in items.iter().enumerate() {
        if equal(machine, compare, item, wanted)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Both take the buffer; of the other two arguments, one can be a function for equality.
fn wanted(a: &[Value]) -> (Option<&Value>, &Value) {
    let is_function = |value: &&Value| matches!(value, Value::Closure(_) | Value::Native(_) | Value::Method(_));
    let compare = a[1..].iter().find(is_function);
    let wanted = a[1..].iter().find(|value| !is_function(value)).unwrap_or(&a[1]);
    (compare, wanted)
}

fn growable(value: &Value) -> Evaluated<&Growable> {
    if let Value::Host(host) = value
        && let Some(growable) = host.as_any().downcast_ref::<Growable>()
    {
        return Ok(growable);
    }
    refuse(format!("a Buffer or a List is needed here, not {}", value.type_name()))
}

/// A new one of the same type.
fn like(value: &Value, items: Vec<Value>) -> Evaluated {
    Ok(Growable::value(growable(value)?.name, items))
}

/// `Buffer`
pub static BUFFER: Module = Module { name: "Buffer", functions: &BUFFER_FUNCTIONS };
/// `List`
pub static LIST: Module = Module { name: "List", functions: &LIST_FUNCTIONS };

static BUFFER_FUNCTIONS: [Native; 27] = [
    ranged("Buffer", (0, 1), |_, _| Ok(Growable::value("Buffer", Vec::new()))),
    native("fromArray", 1, |_, a| Ok(Growable::value("Buffer", items(&a[0])?))),
    native("fromVarArray", 1, |_, a| Ok(Growable::value("Buffer", items(&a[0])?))),
    native("fromIter", 1, |machine, a| Ok(Growable::value("Buffer", drained(machine, &a[0])?))),
    native("make", 1, |_, a| Ok(Growable::value("Buffer", vec![a[0].clone()]))),
    native("toArray", 1, |_, a| items(&a[0]).map(Value::array)),
    native("toVarArray", 1, |_, a| items(&a[0]).map(Value::mutable_array)),
    native("size", 1, size),
    native("isEmpty", 1, is_empty),
    native("clone", 1, |_, a| like(&a[0], items(&a[0])?)),
    native("first", 1, |_, a| growable(&a[0])?.item(0)),
    native("last", 1, |_, a| Ok(Value::option(items(&a[0])?.pop()))),
    native("map", 2, map),
    native("mapFilter", 2, filter_map),
    native("iterate", 2, for_each),
    native("forEach", 2, for_each),
    native("foldLeft", 3, fold_left),
    native("foldRight", 3, fold_right),
    ranged("contains", (2, 3), has),
    ranged("indexOf", (2, 3), index_of),
    native("append", 2, |_, a| growable(&a[0])?.append(items(&a[1])?)),
    native("reverse", 1, reverse_in_place),
    native("forAll", 2, |machine, a| {
        let items = items(&a[0])?;
        let count = items.len();
        Ok(Value::Bool(kept(machine, items, &a[1])?.len() == count))
    }),
    native("forSome", 2, |machine, a| Ok(Value::Bool(first_accepted(machine, items(&a[0])?, &a[1])?.is_some()))),
    native("subBuffer", 3, |_, a| {
        let (from, length) = (count(&a[1])?, count(&a[2])?);
        match items(&a[0])?.get(from..from.saturating_add(length)) {
            Some(part) => like(&a[0], part.to_vec()),
            None => refuse("a part beyond the end of the Buffer"),
        }
    }),
    ranged("max", (1, 2), |machine, a| Ok(Value::option(sorted(machine, items(&a[0])?, a.get(1))?.pop()))),
    ranged("min", (1, 2), |machine, a| Ok(Value::option(sorted(machine, items(&a[0])?, a.get(1))?.into_iter().next()))),
];

static LIST_FUNCTIONS: [Native; 38] = [
    native("empty", 0, |_, _| Ok(Growable::value("List", Vec::new()))),
    native("singleton", 1, |_, a| Ok(Growable::value("List", vec![a[0].clone()]))),
    native("repeat", 2, |machine, a| {
        machine.count(count(&a[1])?)?;
        Ok(Growable::value("List", vec![a[0].clone(); count(&a[1])?]))
    }),
    native("tabulate", 2, |machine, a| {
        let made = (0..count(&a[0])? as u64).map(|index| machine.call(&a[1], &[Value::nat(index)]));
        Ok(Growable::value("List", made.collect::<Evaluated<_>>()?))
    }),
    native("fromArray", 1, |_, a| Ok(Growable::value("List", items(&a[0])?))),
    native("fromVarArray", 1, |_, a| Ok(Growable::value("List", items(&a[0])?))),
    native("fromIter", 1, |machine, a| Ok(Growable::value("List", drained(machine, &a[0])?))),
    native("toArray", 1, |_, a| items(&a[0]).map(Value::array)),
    native("toVarArray", 1, |_, a| items(&a[0]).map(Value::mutable_array)),
    native("add", 2, |_, a| growable(&a[0])?.append(vec![a[1].clone()])),
    native("addAll", 2, |machine, a| {
        let more = drained(machine, &a[1])?;
        growable(&a[0])?.append(more)
    }),
    native("append", 2, |_, a| growable(&a[0])?.append(items(&a[1])?)),
    native("get", 2, |_, a| Ok(Value::option(items(&a[0])?.get(count(&a[1])?).cloned()))),
    native("at", 2, |_, a| growable(&a[0])?.item(count(&a[1])?)),
    native("put", 3, |_, a| growable(&a[0])?.put(count(&a[1])?, a[2].clone())),
    native("size", 1, size),
    native("isEmpty", 1, is_empty),
    native("first", 1, |_, a| Ok(Value::option(items(&a[0])?.into_iter().next()))),
    native("last", 1, |_, a| Ok(Value::option(items(&a[0])?.pop()))),
    native("removeLast", 1, |_, a| Ok(Value::option(growable(&a[0])?.items.borrow_mut().pop()))),
    native("clear", 1, |_, a| {
        growable(&a[0])?.items.borrow_mut().clear();
        Ok(Value::Unit)
    }),
    native("values", 1, values),
    native("vals", 1, values),
    native("enumerate", 1, |_, a| {
        let numbered = items(&a[0])?.into_iter().enumerate();
        Ok(Value::iterator(numbered.map(|(index, item)| Value::pair(Value::nat(index as u64), item))))
    }),
    native("map", 2, map),
    native("filter", 2, |machine, a| {
        let kept = kept(machine, items(&a[0])?, &a[1])?;
        like(&a[0], kept)
    }),
    native("filterMap", 2, filter_map),
    native("forEach", 2, for_each),
    native("foldLeft", 3, fold_left),
    native("foldRight", 3, fold_right),
    native("find", 2, |machine, a| {
        Ok(Value::option(first_accepted(machine, items(&a[0])?, &a[1])?.map(|(_, item)| item)))
    }),
    native("any", 2, |machine, a| Ok(Value::Bool(first_accepted(machine, items(&a[0])?, &a[1])?.is_some()))),
    ranged("contains", (2, 3), has),
    ranged("indexOf", (2, 3), index_of),
    ranged("sort", (1, 2), |machine, a| {
        let sorted = sorted(machine, items(&a[0])?, a.get(1))?;
        like(&a[0], sorted)
    }),
    ranged("sortInPlace", (1, 2), |machine, a| {
        let sorted = sorted(machine, items(&a[0])?, a.get(1))?;
        *growable(&a[0])?.items.borrow_mut() = sorted;
        Ok(Value::Unit)
    }),
    native("reverse", 1, |_, a| like(&a[0], items(&a[0])?.into_iter().rev().collect())),
    native("reverseInPlace", 1, reverse_in_place),
];

fn size(_: &mut Machine, a: &[Value]) -> Evaluated {
    Ok(Value::nat(growable(&a[0])?.items.borrow().len() as u64))
}

fn is_empty(_: &mut Machine, a: &[Value]) -> Evaluated {
    Ok(Value::Bool(growable(&a[0])?.items.borrow().is_empty()))
}

fn values(_: &mut Machine, a: &[Value]) -> Evaluated {
    Ok(Value::iterator(items(&a[0])?.into_iter()))
}

fn map(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let made = mapped(machine, items(&a[0])?, &a[1])?;
    like(&a[0], made)
}

fn filter_map(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let made = filter_mapped(machine, items(&a[0])?, &a[1])?;
    like(&a[0], made)
}

fn for_each(machine: &mut Machine, a: &[Value]) -> Evaluated {
    mapped(machine, items(&a[0])?, &a[1]).map(|_| Value::Unit)
}

fn fold_left(machine: &mut Machine, a: &[Value]) -> Evaluated {
    folded(machine, items(&a[0])?, a[1].clone(), &a[2])
}

fn fold_right(machine: &mut Machine, a: &[Value]) -> Evaluated {
    folded_right(machine, items(&a[0])?, a[1].clone(), &a[2])
}

fn has(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let (compare, wanted) = wanted(a);
    contains(machine, &items(&a[0])?, compare, wanted)
}

fn index_of(machine: &mut Machine, a: &[Value]) -> Evaluated {
    // mo:base takes the item first.
    let at = a.iter().position(|value| growable(value).is_ok()).unwrap_or(0);
    let mut ordered = a.to_vec();
    ordered.swap(0, at);
    let (compare, wanted) = wanted(&ordered);
    let found = position(machine, &items(&ordered[0])?, compare, wanted)?;
    Ok(Value::option(found.map(|index| Value::nat(index as u64))))
}

fn reverse_in_place(_: &mut Machine, a: &[Value]) -> Evaluated {
    growable(&a[0])?.items.borrow_mut().reverse();
    Ok(Value::Unit)
}
