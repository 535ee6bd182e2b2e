//! Variables by name, from the inside out.

use crate::syntax::Symbol;
use crate::value::{Evaluated, Value, Variable, refuse};
use std::cell::RefCell;
use std::rc::Rc;

/// The variables of one block, and the block around it.
pub struct Scope {
    variables: RefCell<Vec<(Symbol, Rc<Variable>)>>,
    outer: Option<Rc<Scope>>,
}

impl Scope {
    /// A scope without another one around it.
    pub fn root() -> Rc<Self> {
        Rc::new(Self { variables: RefCell::default(), outer: None })
    }

    /// A scope inside of another one.
    pub fn inside(outer: &Rc<Self>) -> Rc<Self> {
        Rc::new(Self { variables: RefCell::default(), outer: Some(outer.clone()) })
    }

    /// Declares a variable. A second declaration of a name replaces the first.
    pub fn declare(&self, name: Symbol, mutable: bool, value: Option<Value>) {
        let variable = Rc::new(Variable { mutable, value: RefCell::new(value) });
        self.declare_shared(name, variable);
    }

    /// Declares a variable that another scope or object has, too.
    pub fn declare_shared(&self, name: Symbol, variable: Rc<Variable>) {
        let mut variables = self.variables.borrow_mut();
        match variables.iter_mut().find(|(declared, _)| *declared == name) {
            Some(slot) => slot.1 = variable,
            None => variables.push((name, variable)),
        }
    }

    /// Gives a variable of this scope its first value.
    pub fn set_first(&self, name: Symbol, value: Value) {
        let known = self.own(name).filter(|variable| !variable.mutable);
        match known {
            Some(variable) => *variable.value.borrow_mut() = Some(value),
            None => self.declare(name, false, Some(value)),
        }
    }

    /// A variable of this scope itself.
    pub fn own(&self, name: Symbol) -> Option<Rc<Variable>> {
        self.variables.borrow().iter().find(|(declared, _)| *declared == name).map(|(_, variable)| variable.clone())
    }

    /// The innermost variable of a name.
    pub fn variable(&self, name: Symbol) -> Option<Rc<Variable>> {
        let mut scope = Some(self);
        while let Some(current) = scope {
            if let Some(variable) = current.own(name) {
                return Some(variable);
            }
            scope = current.outer.as_deref();
        }
        None
    }

    /// The value of a variable.
    pub fn value(&self, name: Symbol) -> Evaluated {
        let Some(variable) = self.variable(name) else { return refuse(unknown(name)) };
        let value = variable.value.borrow().clone();
        value.map_or_else(|| refuse(format!("'{name}' is used before it is declared")), Ok)
    }
}

/// The line for a name that means nothing: it may be a module that was not imported.
pub fn unknown(name: Symbol) -> String {
    let name = name.name();
    match crate::base::has_module(&name) {
        true => format!("nothing is called '{name}'; write first: import {name} \"mo:base/{name}\";"),
        false => format!("nothing is called '{name}'"),
    }
}
