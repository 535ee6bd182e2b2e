//! Runs the tree of a script.
//!
//! It is a tree walker: it calls itself with the nesting of the script, on a large stack that is watched. Types are not checked before; a value of a wrong
//! type ends the script where it is used.
//!
//! [`declarations`] makes variables, objects and imports; [`control`] runs branches and loops; [`calls`] functions and members; [`places`] assigns; [`operators`]
//! calculates; [`expected`] gives literals and sums the type that they are annotated with.

mod calls;
mod control;
mod declarations;
mod evaluate;
mod expected;
mod matching;
mod operators;
mod places;
mod scope;

pub use scope::Scope;

use crate::limits::note_position;
use crate::syntax::ast::{Declaration, Function};
use crate::syntax::{Position, Symbol};
use crate::value::{Evaluated, Value, refuse};
use std::collections::HashMap;
use std::rc::Rc;

/// A function of a script, and the scope in which it was made.
pub struct Closure {
    /// The function.
    pub function: Rc<Function>,
    /// Its variables.
    pub scope: Rc<Scope>,
}

/// The state of a running script, apart from its variables.
pub struct Machine {
    steps: u64,
    limit: u64,
    /// An address near the stack's beginning, and how much of the stack can be used.
    stack: (usize, usize),
    /// What the script printed.
    pub printed: Vec<String>,
    /// The modules that are written in Motoko, once they were imported.
    modules: HashMap<&'static str, Value>,
}

impl Machine {
    /// A machine that ends after `limit` steps. It may use `stack` bytes of the stack from here on.
    pub fn new(limit: u64, stack: usize) -> Self {
        let here = 0u8;
        Self {
            steps: 0,
            limit,
            stack: (std::ptr::from_ref(&here) as usize, stack),
            printed: Vec::new(),
            modules: HashMap::new(),
        }
    }

    /// Runs a script with values bound to names; returns the value of its last expression.
    pub fn run(&mut self, bound: Vec<(&str, Value)>, program: &[Declaration]) -> Evaluated {
        let scope = Scope::root();
        for (name, value) in bound {
            scope.declare(Symbol::new(name), false, Some(value));
        }
        self.block(&Scope::inside(&scope), program)
    }

    /// Counts a step, and refuses it beyond the limits.
    fn step(&mut self, at: Position) -> Evaluated<()> {
        note(at);
        self.steps += 1;
        if self.steps > self.limit {
            return refuse(format!("did not end within {} steps", self.limit));
        }
        let here = 0u8;
        if self.stack.0.abs_diff(std::ptr::from_ref(&here) as usize) > self.stack.1 {
            return refuse("the script nests too deeply: a function calls itself without an end?");
        }
        Ok(())
    }

    /// Counts steps of native code.
    pub fn count(&mut self, steps: usize) -> Evaluated<()> {
        self.steps = self.steps.saturating_add(steps as u64);
        if self.steps > self.limit {
            return refuse(format!("did not end within {} steps", self.limit));
        }
        Ok(())
    }
}

/// Records the position in the script. The library has none.
fn note(at: Position) {
    if at.line > 0 {
        note_position(at.line as usize, at.column as usize);
    }
}

/// Calculates, as the operator between two values does.
pub fn operate(operator: crate::syntax::ast::BinaryOperator, one: &Value, two: &Value) -> Evaluated {
    operators::binary(operator, one, two)
}
