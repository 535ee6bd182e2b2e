//! Lazy iterators that call functions of the script.

use super::arguments::truth;
use crate::machine::Machine;
use crate::value::{Evaluated, NativeIterator, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// What a lazy iterator does with the items of another one.
#[derive(Clone, Copy)]
pub enum Way {
    /// Calls the function on each.
    Map,
    /// Keeps those that it accepts.
    Filter,
    /// Calls it, and drops nulls.
    FilterMap,
    /// Ends at the first that it does not accept.
    TakeWhile,
}

struct Lazy {
    items: Value,
    function: Value,
    way: Way,
}

impl NativeIterator for Lazy {
    fn next(&mut self, machine: &mut Machine) -> Evaluated<Option<Value>> {
        while let Some(item) = machine.next_of(&self.items)? {
            machine.count(1)?;
            let made = machine.call(&self.function, std::slice::from_ref(&item))?;
            match self.way {
                Way::Map => return Ok(Some(made)),
                Way::Filter if truth(&made)? => return Ok(Some(item)),
                Way::TakeWhile => return Ok(if truth(&made)? { Some(item) } else { None }),
                Way::FilterMap => {
                    if let Value::Option(inner) = made {
                        return Ok(Some((*inner).clone()));
                    }
                }
                Way::Filter => {}
            }
        }
        Ok(None)
    }
}

/// An iterator that calls a function on the items of another one.
pub fn lazy(machine: &mut Machine, items: &Value, function: &Value, way: Way) -> Evaluated {
    let items = machine.iterator_of(items)?;
    Ok(Value::Iterator(Rc::new(RefCell::new(Lazy { items, function: function.clone(), way }))))
}

struct Taken {
    items: Value,
    skipped: usize,
    left: usize,
}

impl NativeIterator for Taken {
    fn next(&mut self, machine: &mut Machine) -> Evaluated<Option<Value>> {
        while self.skipped > 0 {
            self.skipped -= 1;
            machine.count(1)?;
            if machine.next_of(&self.items)?.is_none() {
                self.left = 0;
            }
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        machine.next_of(&self.items)
    }
}

/// The items of another iterator after some, and at most some.
pub fn taken(machine: &mut Machine, items: &Value, skipped: usize, left: usize) -> Evaluated {
    let items = machine.iterator_of(items)?;
    Ok(Value::Iterator(Rc::new(RefCell::new(Taken { items, skipped, left }))))
}

struct Chained {
    parts: Vec<Value>,
}

impl NativeIterator for Chained {
    fn next(&mut self, machine: &mut Machine) -> Evaluated<Option<Value>> {
        while let Some(part) = self.parts.last().cloned() {
            if let Some(item) = machine.next_of(&part)? {
                return Ok(Some(item));
            }
            self.parts.pop();
        }
        Ok(None)
    }
}

/// One iterator after the other.
pub fn chained(machine: &mut Machine, parts: &[Value]) -> Evaluated {
    let parts = parts.iter().rev().map(|part| machine.iterator_of(part)).collect::<Evaluated<Vec<_>>>()?;
    Ok(Value::Iterator(Rc::new(RefCell::new(Chained { parts }))))
}

struct Zipped {
    one: Value,
    two: Option<Value>,
    number: u64,
}

impl NativeIterator for Zipped {
    fn next(&mut self, machine: &mut Machine) -> Evaluated<Option<Value>> {
        let Some(one) = machine.next_of(&self.one)? else { return Ok(None) };
        let Some(two) = &self.two else {
            self.number += 1;
            return Ok(Some(Value::pair(Value::nat(self.number - 1), one)));
        };
        Ok(machine.next_of(two)?.map(|two| Value::pair(one, two)))
    }
}

/// Pairs of items; with one iterator, of numbers and items.
pub fn zipped(machine: &mut Machine, one: &Value, two: Option<&Value>) -> Evaluated {
    let one = machine.iterator_of(one)?;
    let two = two.map(|two| machine.iterator_of(two)).transpose()?;
    Ok(Value::Iterator(Rc::new(RefCell::new(Zipped { one, two, number: 0 }))))
}
