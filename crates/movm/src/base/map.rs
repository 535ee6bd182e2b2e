//! `Map` of mo:core, in the order of its keys. The comparison can be left out, as newer compilers allow: then contents are compared.

use super::arguments::{drained, order, truth};
use super::{native, ranged};
use crate::machine::Machine;
use crate::value::{Evaluated, Host, Module, Native, Value, refuse};
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

/// Sorted entries. A `Set` is one whose values are `()`.
pub struct Ordered {
    name: &'static str,
    entries: RefCell<Vec<(Value, Value)>>,
}

impl Host for Ordered {
    fn type_name(&self) -> &'static str {
        self.name
    }

    fn methods(&self) -> &'static [&'static str] {
        &[]
    }

    fn call(&self, _: &mut Machine, method: &str, _: &[Value]) -> Evaluated {
        refuse(format!("{} has no '{method}'", self.name))
    }

    fn items(&self) -> Option<Vec<Value>> {
        let is_set = self.name == "Set";
        let entries = self.entries.borrow();
        let item =
            |(key, value): &(Value, Value)| if is_set { key.clone() } else { Value::pair(key.clone(), value.clone()) };
        Some(entries.iter().map(item).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Ordered {
    /// An empty map or set.
    pub fn value(name: &'static str, entries: Vec<(Value, Value)>) -> Value {
        Value::Host(Rc::new(Self { name, entries: RefCell::new(entries) }))
    }

    /// Where a key is, or where it would be.
    pub fn find(&self, machine: &mut Machine, compare: Option<&Value>, key: &Value) -> Evaluated<Result<usize, usize>> {
        let (mut from, mut to) = (0, self.entries.borrow().len());
        while from < to {
            let middle = usize::midpoint(from, to);
            let Some(known) = self.entries.borrow().get(middle).map(|(key, _)| key.clone()) else { break };
            match order(machine, compare, key, &known)? {
                std::cmp::Ordering::Equal => return Ok(Ok(middle)),
                std::cmp::Ordering::Less => to = middle,
                std::cmp::Ordering::Greater => from = middle + 1,
            }
        }
        Ok(Err(from))
    }

    /// Adds or replaces an entry; returns the value before.
    pub fn put(
        &self,
        machine: &mut Machine,
        compare: Option<&Value>,
        key: &Value,
        value: &Value,
    ) -> Evaluated<Option<Value>> {
        let found = self.find(machine, compare, key)?;
        let mut entries = self.entries.borrow_mut();
        match found {
            Ok(at) => Ok(Some(std::mem::replace(&mut entries[at].1, value.clone()))),
            Err(at) => {
                let end = entries.len();
                entries.insert(at.min(end), (key.clone(), value.clone()));
                Ok(None)
            }
        }
    }

    /// Removes an entry; returns its value.
    pub fn take(&self, machine: &mut Machine, compare: Option<&Value>, key: &Value) -> Evaluated<Option<Value>> {
        Ok(self.find(machine, compare, key)?.ok().map(|at| self.entries.borrow_mut().remove(at).1))
    }

    /// A copy of the entries.
    pub fn entries(&self) -> Vec<(Value, Value)> {
        self.entries.borrow().clone()
    }
}

/// The map or set that is a function's first argument.
pub fn ordered(value: &Value) -> Evaluated<&Ordered> {
    if let Value::Host(host) = value
        && let Some(ordered) = host.as_any().downcast_ref::<Ordered>()
    {
        return Ok(ordered);
    }
    refuse(format!("a Map or a Set is needed here, not {}", value.type_name()))
}

/// The comparison, if there is one, and the arguments after it.
pub fn split(a: &[Value], least: usize) -> (Option<&Value>, &[Value]) {
    if a.len() > least { (Some(&a[1]), &a[2..]) } else { (None, &a[1..]) }
}

/// `Map`
pub static MAP: Module = Module { name: "Map", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 27] = [
    native("empty", 0, |_, _| Ok(Ordered::value("Map", Vec::new()))),
    ranged("singleton", (2, 2), |_, a| Ok(Ordered::value("Map", vec![(a[0].clone(), a[1].clone())]))),
    ranged("fromIter", (1, 2), from_iter),
    ranged("fromArray", (1, 2), from_iter),
    ranged("add", (3, 4), |machine, a| put(machine, a).map(|_| Value::Unit)),
    ranged("insert", (3, 4), |machine, a| put(machine, a).map(|before| Value::Bool(before.is_none()))),
    ranged("swap", (3, 4), |machine, a| put(machine, a).map(Value::option)),
    ranged("get", (2, 3), |machine, a| get(machine, a).map(Value::option)),
    ranged("containsKey", (2, 3), |machine, a| get(machine, a).map(|value| Value::Bool(value.is_some()))),
    ranged("remove", (2, 3), |machine, a| take(machine, a).map(|_| Value::Unit)),
    ranged("delete", (2, 3), |machine, a| take(machine, a).map(|before| Value::Bool(before.is_some()))),
    ranged("take", (2, 3), |machine, a| take(machine, a).map(Value::option)),
    native("size", 1, |_, a| Ok(Value::nat(ordered(&a[0])?.entries.borrow().len() as u64))),
    native("isEmpty", 1, |_, a| Ok(Value::Bool(ordered(&a[0])?.entries.borrow().is_empty()))),
    native("clear", 1, |_, a| {
        ordered(&a[0])?.entries.borrow_mut().clear();
        Ok(Value::Unit)
    }),
    native("clone", 1, |_, a| Ok(Ordered::value("Map", ordered(&a[0])?.entries()))),
    native("entries", 1, |_, a| Ok(pairs(ordered(&a[0])?.entries()))),
    native("reverseEntries", 1, |_, a| Ok(pairs(ordered(&a[0])?.entries().into_iter().rev().collect()))),
    native("keys", 1, |_, a| Ok(Value::iterator(ordered(&a[0])?.entries().into_iter().map(|(key, _)| key)))),
    native("values", 1, |_, a| Ok(Value::iterator(ordered(&a[0])?.entries().into_iter().map(|(_, value)| value)))),
    native("toArray", 1, |_, a| {
        Ok(Value::array(ordered(&a[0])?.entries().into_iter().map(|(key, value)| Value::pair(key, value)).collect()))
    }),
    native("minEntry", 1, |_, a| Ok(pair(ordered(&a[0])?.entries().into_iter().next()))),
    native("maxEntry", 1, |_, a| Ok(pair(ordered(&a[0])?.entries().pop()))),
    native("forEach", 2, |machine, a| {
        for (key, value) in ordered(&a[0])?.entries() {
            machine.call(&a[1], &[key, value])?;
        }
        Ok(Value::Unit)
    }),
    native("map", 2, |machine, a| {
        let mut made = Vec::new();
        for (key, value) in ordered(&a[0])?.entries() {
            made.push((key.clone(), machine.call(&a[1], &[key, value])?));
        }
        Ok(Ordered::value("Map", made))
    }),
    ranged("filter", (2, 3), |machine, a| {
        let mut kept = Vec::new();
        let keeps = &a[a.len() - 1];
        for (key, value) in ordered(&a[0])?.entries() {
            if truth(&machine.call(keeps, &[key.clone(), value.clone()])?)? {
                kept.push((key, value));
            }
        }
        Ok(Ordered::value("Map", kept))
    }),
    native("foldLeft", 3, |machine, a| {
        let mut sum = a[1].clone();
        for (key, value) in ordered(&a[0])?.entries() {
            sum = machine.call(&a[2], &[sum, key, value])?;
        }
        Ok(sum)
    }),
];

fn put(machine: &mut Machine, a: &[Value]) -> Evaluated<Option<Value>> {
    let (compare, rest) = split(a, 3);
    ordered(&a[0])?.put(machine, compare, &rest[0], &rest[1])
}

fn get(machine: &mut Machine, a: &[Value]) -> Evaluated<Option<Value>> {
    let (compare, rest) = split(a, 2);
    let map = ordered(&a[0])?;
    let found = map.find(machine, compare, &rest[0])?;
    Ok(found.ok().and_then(|at| map.entries.borrow().get(at).map(|(_, value)| value.clone())))
}

fn take(machine: &mut Machine, a: &[Value]) -> Evaluated<Option<Value>> {
    let (compare, rest) = split(a, 2);
    ordered(&a[0])?.take(machine, compare, &rest[0])
}

fn from_iter(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let map = Ordered::value("Map", Vec::new());
    for entry in drained(machine, &a[0])? {
        match &entry {
            Value::Tuple(pair) if pair.len() == 2 => ordered(&map)?.put(machine, a.get(1), &pair[0], &pair[1])?,
            _ => return refuse("entries are pairs of a key and a value"),
        };
    }
    Ok(map)
}

fn pairs(entries: Vec<(Value, Value)>) -> Value {
    Value::iterator(entries.into_iter().map(|(key, value)| Value::pair(key, value)))
}

fn pair(entry: Option<(Value, Value)>) -> Value {
    Value::option(entry.map(|(key, value)| Value::pair(key, value)))
}
