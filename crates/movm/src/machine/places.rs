//! Assignments: what stands to the left of `:=`.

use super::{Machine, Scope, note};
use crate::syntax::Symbol;
use crate::syntax::ast::{BinaryOperator, Expression, Node};
use crate::value::{Array, Evaluated, Object, Value, Variable, refuse};
use std::rc::Rc;

/// What can be assigned. It is found once, so that the index in `a[f()] += 1` is evaluated once.
enum Place {
    Variable(Rc<Variable>),
    Item(Rc<Array>, usize),
}

impl Place {
    fn value(&self) -> Evaluated {
        match self {
            Self::Variable(variable) => {
                variable.value.borrow().clone().map_or_else(|| refuse("it is used before it is declared"), Ok)
            }
            Self::Item(array, at) => Ok(array.items.borrow()[*at].clone()),
        }
    }

    /// Whole numbers keep the type of the variable.
    fn set(&self, value: Value) -> Evaluated {
        let kind = match self.value() {
            Ok(Value::Number(before)) => Some(before.kind),
            _ => None,
        };
        let value = match (value, kind) {
            (Value::Number(number), Some(kind)) if number.kind != kind => Value::Number(number.to_kind(kind)?),
            (value, _) => value,
        };
        match self {
            Self::Variable(variable) => *variable.value.borrow_mut() = Some(value),
            Self::Item(array, at) => array.items.borrow_mut()[*at] = value,
        }
        Ok(Value::Unit)
    }
}

impl Machine {
    /// `target := value`
    pub(super) fn assign(&mut self, scope: &Rc<Scope>, target: &Expression, value: &Expression) -> Evaluated {
        let place = self.place(scope, target)?;
        let value = self.evaluate(scope, value)?;
        note(target.at);
        place.set(value)
    }

    /// `target += value`
    pub(super) fn assign_with(
        &mut self,
        scope: &Rc<Scope>,
        expression: &Expression,
        target: &Expression,
        operator: BinaryOperator,
        value: &Expression,
    ) -> Evaluated {
        let place = self.place(scope, target)?;
        let before = place.value()?;
        let operand = self.evaluate(scope, value)?;
        note(expression.at);
        let (before, value) = super::expected::unified((target, before), (value, operand))?;
        place.set(super::operators::binary(operator, &before, &value)?)
    }

    fn place(&mut self, scope: &Rc<Scope>, target: &Expression) -> Evaluated<Place> {
        match &target.node {
            Node::Variable(name) => {
                note(target.at);
                match scope.variable(*name) {
                    Some(variable) => assignable(variable, *name),
                    None => refuse(super::scope::unknown(*name)),
                }
            }
            Node::Member(of, name) => {
                let of = self.evaluate(scope, of)?;
                note(target.at);
                let Value::Object(object) = of else { return refuse(format!("nothing can be assigned to .{name}")) };
                match object.field(*name) {
                    Some(variable) => assignable(variable.clone(), *name),
                    None => refuse(no_field(&object, *name)),
                }
            }
            Node::Index(of, index) => {
                let of = self.evaluate(scope, of)?;
                let index = self.evaluate(scope, index)?;
                note(target.at);
                item(&of, &index)
            }
            _ => refuse("only variables, fields and items can be assigned"),
        }
    }
}

fn assignable(variable: Rc<Variable>, name: Symbol) -> Evaluated<Place> {
    match variable.mutable {
        true => Ok(Place::Variable(variable)),
        false => refuse(format!("'{name}' cannot be assigned; declare it with: var {name} = …")),
    }
}

fn item(of: &Value, index: &Value) -> Evaluated<Place> {
    let Value::Array(array) = of else {
        return refuse(format!("nothing can be assigned to [i] of {}", of.type_name()));
    };
    if !array.mutable {
        return refuse("the items of this array cannot be assigned; write [var …], or Array.thaw(a)");
    }
    let Value::Number(number) = index else { return refuse("an index is a Nat") };
    let count = array.items.borrow().len();
    match number.to_u64().and_then(|at| usize::try_from(at).ok()).filter(|at| *at < count) {
        Some(at) => Ok(Place::Item(array.clone(), at)),
        None => refuse(format!("there is no element {number}: the array has {count}")),
    }
}

/// The line for a field that an object does not have.
pub(super) fn no_field(object: &Object, name: Symbol) -> String {
    let known: Vec<String> = object.fields.iter().map(|(name, _)| name.to_string()).collect();
    format!(
        "the object has no '{name}'; it has {}",
        if known.is_empty() { "no fields".into() } else { known.join(", ") }
    )
}
