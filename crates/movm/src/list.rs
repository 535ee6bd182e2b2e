//! Lists of numbers for scripts: `size()`, `[i]`, `vals()`. The interpreter's own arrays have no methods, and take ten times as much memory.

use crate::image_value::{nat, offset, refuse};
use motoko::Dynamic;
use motoko::ast::Inst;
use motoko::dynamic::Result;
use motoko::shared::Share;
use motoko::value::{Value, Value_};
use motoko::vm_types::Store;
use std::fmt;
use std::rc::Rc;

/// The most numbers of a list that are printed.
const SHOWN: usize = 1000;

/// A list of numbers in a script, with native methods.
#[derive(Clone, Hash)]
pub struct NumberList(pub Rc<Vec<u64>>);

impl fmt::Debug for NumberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(u64::to_string).collect();
        write!(f, "[{}", shown.join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => f.write_str("]"),
            more => write!(f, ", … {more} more]"),
        }
    }
}

impl Dynamic for NumberList {
    fn get_index(&self, _: &Store, index: Value_) -> Result {
        let index = offset(&index)?;
        match usize::try_from(index).ok().and_then(|index| self.0.get(index)) {
            Some(&number) => Ok(nat(number)),
            None => refuse(format!("there is no element {index}: the list has {}", self.0.len())),
        }
    }

    fn get_field(&self, _: &Store, name: &str) -> Result {
        let method = match name {
            "size" => ListMethod::Size,
            "vals" | "values" => ListMethod::Values,
            _ => return refuse(format!("a list has no '{name}'; it has size, vals and [i]")),
        };
        Ok(BoundMethod(self.clone(), method).into_value().share())
    }
}

#[derive(Clone, Copy, Debug, Hash)]
enum ListMethod {
    Size,
    Values,
}

#[derive(Clone, Debug, Hash)]
struct BoundMethod(NumberList, ListMethod);

impl Dynamic for BoundMethod {
    fn call(&mut self, _: &mut Store, _: &Option<Inst>, _: Value_) -> Result {
        Ok(match self.1 {
            ListMethod::Size => nat(self.0.0.len() as u64),
            ListMethod::Values => ListIterator { list: self.0.clone(), next: 0 }.into_value().share(),
        })
    }
}

/// The iterator that `vals()` returns.
#[derive(Clone, Debug, Hash)]
struct ListIterator {
    list: NumberList,
    next: usize,
}

impl Dynamic for ListIterator {
    fn iter_next(&mut self, _: &mut Store) -> Result {
        let next = self.list.0.get(self.next).map(|&number| nat(number));
        self.next += 1;
        Ok(next.map_or(Value::Null, Value::Option).share())
    }
}
