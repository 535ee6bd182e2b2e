//! `HashMap` and `TrieMap` of mo:base. Entries are in the order in which their keys came, so that a script prints the same each time.

use super::arguments::{drained, equal};
use super::ranged;
use crate::compare::Key;
use crate::machine::Machine;
use crate::value::{Evaluated, Host, Module, Native, Value, refuse};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A map by hashes.
pub struct Hashed {
    name: &'static str,
    /// The script's own functions; none where the library's are used, which compare contents.
    own: Option<(Value, Value)>,
    content: RefCell<Content>,
}

#[derive(Default)]
struct Content {
    /// Places in `entries` by key, or by the hash that the script's own function returned.
    places: HashMap<Key, Vec<usize>>,
    /// Removed ones are none.
    entries: Vec<Option<(Value, Value)>>,
    size: usize,
}

const METHODS: [&str; 9] = ["put", "get", "replace", "remove", "delete", "size", "keys", "vals", "entries"];

impl Hashed {
    fn new(name: &'static str, functions: &[Value]) -> Self {
        let own = match functions {
            [Value::Native(_), Value::Native(_)] => None,
            [equal, hash] => Some((equal.clone(), hash.clone())),
            _ => None,
        };
        Self { name, own, content: RefCell::default() }
    }

    fn bucket(&self, machine: &mut Machine, key: &Value) -> Evaluated<Key> {
        Ok(Key(match &self.own {
            None => key.clone(),
            Some((_, hash)) => machine.call(hash, std::slice::from_ref(key))?,
        }))
    }

    fn place(&self, machine: &mut Machine, bucket: &Key, key: &Value) -> Evaluated<Option<usize>> {
        let Some(places) = self.content.borrow().places.get(bucket).cloned() else { return Ok(None) };
        for place in places {
            let known = self.content.borrow().entries[place].as_ref().map(|(key, _)| key.clone());
            if let Some(known) = known
                && equal(machine, self.own.as_ref().map(|(equal, _)| equal), &known, key)?
            {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn get(&self, machine: &mut Machine, key: &Value) -> Evaluated<Option<Value>> {
        let bucket = self.bucket(machine, key)?;
        let place = self.place(machine, &bucket, key)?;
        Ok(place.and_then(|place| self.content.borrow().entries[place].as_ref().map(|(_, value)| value.clone())))
    }

    fn put(&self, machine: &mut Machine, key: &Value, value: &Value) -> Evaluated<Option<Value>> {
        let bucket = self.bucket(machine, key)?;
        let place = self.place(machine, &bucket, key)?;
        let mut content = self.content.borrow_mut();
        if let Some(place) = place {
            let before = content.entries[place].replace((key.clone(), value.clone()));
            return Ok(before.map(|(_, value)| value));
        }
        let place = content.entries.len();
        content.entries.push(Some((key.clone(), value.clone())));
        content.places.entry(bucket).or_default().push(place);
        content.size += 1;
        Ok(None)
    }

    fn remove(&self, machine: &mut Machine, key: &Value) -> Evaluated<Option<Value>> {
        let bucket = self.bucket(machine, key)?;
        let Some(place) = self.place(machine, &bucket, key)? else { return Ok(None) };
        let mut content = self.content.borrow_mut();
        if let Some(places) = content.places.get_mut(&bucket) {
            places.retain(|other| *other != place);
        }
        content.size -= 1;
        Ok(content.entries[place].take().map(|(_, value)| value))
    }

    fn entries(&self) -> Vec<(Value, Value)> {
        self.content.borrow().entries.iter().flatten().cloned().collect()
    }

    fn filled(self, machine: &mut Machine, entries: &Value) -> Evaluated {
        for entry in drained(machine, entries)? {
            let Value::Tuple(pair) = &entry else { return refuse("entries are pairs of a key and a value") };
            let [key, value] = &pair[..] else { return refuse("entries are pairs of a key and a value") };
            self.put(machine, key, value)?;
        }
        Ok(Value::Host(Rc::new(self)))
    }
}

impl Host for Hashed {
    fn type_name(&self) -> &'static str {
        self.name
    }

    fn methods(&self) -> &'static [&'static str] {
        &METHODS
    }

    fn call(&self, machine: &mut Machine, method: &str, a: &[Value]) -> Evaluated {
        match (method, a) {
            ("put", [key, value]) => self.put(machine, key, value).map(|_| Value::Unit),
            ("replace", [key, value]) => self.put(machine, key, value).map(Value::option),
            ("get", [key]) => self.get(machine, key).map(Value::option),
            ("remove", [key]) => self.remove(machine, key).map(Value::option),
            ("delete", [key]) => self.remove(machine, key).map(|_| Value::Unit),
            ("size", []) => Ok(Value::nat(self.content.borrow().size as u64)),
            ("keys", []) => Ok(Value::iterator(self.entries().into_iter().map(|(key, _)| key))),
            ("vals", []) => Ok(Value::iterator(self.entries().into_iter().map(|(_, value)| value))),
            ("entries", []) => {
                Ok(Value::iterator(self.entries().into_iter().map(|(key, value)| Value::pair(key, value))))
            }
            _ => refuse(format!("{}.{method} does not take {} arguments", self.name, a.len())),
        }
    }

    fn items(&self) -> Option<Vec<Value>> {
        Some(self.entries().into_iter().map(|(key, value)| Value::pair(key, value)).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `HashMap`
pub static HASH_MAP: Module = Module { name: "HashMap", functions: &HASH_MAP_FUNCTIONS };
/// `TrieMap`
pub static TRIE_MAP: Module = Module { name: "TrieMap", functions: &TRIE_MAP_FUNCTIONS };

static HASH_MAP_FUNCTIONS: [Native; 2] = [
    ranged("HashMap", (3, 3), |_, a| Ok(Value::Host(Rc::new(Hashed::new("HashMap", &a[1..]))))),
    ranged("fromIter", (4, 4), |machine, a| Hashed::new("HashMap", &a[2..]).filled(machine, &a[0])),
];

static TRIE_MAP_FUNCTIONS: [Native; 2] = [
    ranged("TrieMap", (2, 2), |_, a| Ok(Value::Host(Rc::new(Hashed::new("TrieMap", a))))),
    ranged("fromEntries", (3, 3), |machine, a| Hashed::new("TrieMap", &a[1..]).filled(machine, &a[0])),
];
