//! Names as numbers: comparing two is one instruction, which is most of what looking up a variable costs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// An interned name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

#[derive(Default)]
struct Names {
    by_number: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
}

thread_local! {
    static NAMES: RefCell<Names> = RefCell::default();
}

impl Symbol {
    /// The symbol of a name.
    pub fn new(name: &str) -> Self {
        NAMES.with_borrow_mut(|names| {
            if let Some(&number) = names.numbers.get(name) {
                return Self(number);
            }
            let number = names.by_number.len() as u32;
            let name: Rc<str> = name.into();
            names.by_number.push(name.clone());
            names.numbers.insert(name, number);
            Self(number)
        })
    }

    /// The name.
    pub fn name(self) -> Rc<str> {
        NAMES.with_borrow(|names| names.by_number[self.0 as usize].clone())
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
