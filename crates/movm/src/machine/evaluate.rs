//! Expressions.

use super::{Closure, Machine, Scope, note};
use crate::show::{Style, show};
use crate::syntax::Symbol;
use crate::syntax::ast::{BinaryOperator, Expression, Function, Literal, Node, RecordField};
use crate::value::{Array, Evaluated, Object, Stop, Value, Variable, refuse};
use std::cell::RefCell;
use std::rc::Rc;

/// The value of a constant.
pub(super) fn literal(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(truth) => Value::Bool(*truth),
        Literal::Number(number) => Value::Number(number.clone()),
        Literal::Float(number) => Value::Float(*number),
        Literal::Char(character) => Value::Char(*character),
        Literal::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => Value::Blob(bytes.clone()),
        },
    }
}

impl Machine {
    /// The value of an expression.
    pub(super) fn evaluate(&mut self, scope: &Rc<Scope>, expression: &Expression) -> Evaluated {
        self.step(expression.at)?;
        match &expression.node {
            Node::Literal(constant) => Ok(literal(constant)),
            Node::Variable(name) => scope.value(*name),
            Node::Binary(one, operator, two) => self.binary(scope, expression, (one, *operator, two)),
            Node::Call(function, arguments) => self.call_expression(scope, expression, function, arguments),
            Node::Member(of, name) => {
                let of = self.evaluate(scope, of)?;
                note(expression.at);
                self.member(&of, *name)
            }
            Node::Index(of, index) => {
                let of = self.evaluate(scope, of)?;
                let index = self.evaluate(scope, index)?;
                note(expression.at);
                self.at(&of, &index)
            }
            Node::If(..) | Node::Switch(..) | Node::While(..) | Node::Loop(..) | Node::For(..) | Node::Label(..) => {
                self.control(scope, expression)
            }
            Node::Assign(target, value) => self.assign(scope, target, value),
            Node::AssignWith(target, operator, value) => self.assign_with(scope, expression, target, *operator, value),
            Node::Block(declarations) => self.block(&Scope::inside(scope), declarations),
            Node::And(one, two) => Ok(Value::Bool(self.truth(scope, one)? && self.truth(scope, two)?)),
            Node::Or(one, two) => Ok(Value::Bool(self.truth(scope, one)? || self.truth(scope, two)?)),
            Node::Unary(operator, inner) => {
                let inner = self.evaluate(scope, inner)?;
                note(expression.at);
                super::operators::unary(*operator, &inner)
            }
            Node::Function(function) => Ok(closure(scope, function)),
            _ => self.build(scope, expression),
        }
    }

    /// The rarer expressions: those that build values, and those that leave.
    fn build(&mut self, scope: &Rc<Scope>, expression: &Expression) -> Evaluated {
        match &expression.node {
            Node::Show(inner) => Ok(Value::text(show(&self.evaluate(scope, inner)?, Style::DebugShow))),
            Node::Tuple(items) if items.is_empty() => Ok(Value::Unit),
            Node::Tuple(items) => Ok(Value::Tuple(self.all(scope, items)?.into())),
            Node::Array { mutable, items } => {
                let items = RefCell::new(self.all(scope, items)?);
                Ok(Value::Array(Rc::new(Array { mutable: *mutable, items })))
            }
            Node::Projection(of, index) => {
                let of = self.evaluate(scope, of)?;
                note(expression.at);
                project(&of, *index)
            }
            Node::Option(inner) => Ok(Value::Option(Rc::new(self.evaluate(scope, inner)?))),
            Node::DoOption(block) => match self.evaluate(scope, block) {
                Ok(value) => Ok(Value::Option(Rc::new(value))),
                Err(Stop::Absent) => Ok(Value::Null),
                Err(stop) => Err(stop),
            },
            Node::Bang(inner) => match self.evaluate(scope, inner)? {
                Value::Option(inner) => Ok((*inner).clone()),
                Value::Null => Err(Stop::Absent),
                other => refuse(format!("'!' takes an option, not {}", other.type_name())),
            },
            Node::Object(body) => self.object(scope, body),
            Node::Record { bases, fields } => self.record(scope, bases, fields),
            Node::Variant(name, None) => Ok(Value::Variant(*name, Rc::new(Value::Unit))),
            Node::Variant(name, Some(inner)) => Ok(Value::Variant(*name, Rc::new(self.evaluate(scope, inner)?))),
            Node::Break(label, value) => {
                let value = self.optional(scope, value.as_deref())?;
                note(expression.at);
                Err(Stop::Break(*label, value))
            }
            Node::Continue(label) => Err(Stop::Continue(*label)),
            Node::Return(value) => {
                let value = self.optional(scope, value.as_deref())?;
                note(expression.at);
                Err(Stop::Return(value))
            }
            Node::Assert(inner) => match self.truth(scope, inner)? {
                true => Ok(Value::Unit),
                false => {
                    note(expression.at);
                    refuse("an assertion failed")
                }
            },
            Node::Ignore(inner) => self.evaluate(scope, inner).map(|_| Value::Unit),
            Node::Annotated(inner, kind) => self.evaluate_at(scope, inner, kind),
            Node::Pipe(value, body) => {
                let value = self.evaluate(scope, value)?;
                let inside = Scope::inside(scope);
                inside.declare(Symbol::new("_"), false, Some(value));
                self.evaluate(&inside, body)
            }
            _ => refuse("this expression is not supported"),
        }
    }

    fn optional(&mut self, scope: &Rc<Scope>, expression: Option<&Expression>) -> Evaluated {
        expression.map_or(Ok(Value::Unit), |expression| self.evaluate(scope, expression))
    }

    /// The values of expressions, from left to right.
    pub(super) fn all(&mut self, scope: &Rc<Scope>, expressions: &[Expression]) -> Evaluated<Vec<Value>> {
        expressions.iter().map(|expression| self.evaluate(scope, expression)).collect()
    }

    /// The value of a condition.
    pub(super) fn truth(&mut self, scope: &Rc<Scope>, condition: &Expression) -> Evaluated<bool> {
        match self.evaluate(scope, condition)? {
            Value::Bool(truth) => Ok(truth),
            other => {
                note(condition.at);
                refuse(format!("a condition is a Bool, not {}", other.type_name()))
            }
        }
    }

    fn binary(
        &mut self,
        scope: &Rc<Scope>,
        expression: &Expression,
        (one, operator, two): (&Expression, BinaryOperator, &Expression),
    ) -> Evaluated {
        let (one, two) = self.operands(scope, one, two)?;
        note(expression.at);
        super::operators::binary(operator, &one, &two)
    }

    fn record(&mut self, scope: &Rc<Scope>, bases: &[Expression], fields: &[RecordField]) -> Evaluated {
        let mut made: Vec<(Symbol, Rc<Variable>)> = Vec::new();
        for field in fields {
            let value = self.evaluate(scope, &field.value)?;
            made.push((field.name, Variable::new(value, field.mutable)));
        }
        for base in bases {
            let Value::Object(object) = self.evaluate(scope, base)? else {
                note(base.at);
                return refuse("'with' and 'and' take records");
            };
            for (name, field) in &object.fields {
                if !made.iter().any(|(known, _)| known == name) {
                    made.push((*name, field.clone()));
                }
            }
        }
        Ok(Value::Object(Rc::new(Object::new(made))))
    }
}

/// A function as a value. Its name, if it has one, is known inside of it.
fn closure(scope: &Rc<Scope>, function: &Rc<Function>) -> Value {
    let Some(name) = function.name else {
        return Value::Closure(Rc::new(Closure { function: function.clone(), scope: scope.clone() }));
    };
    let inside = Scope::inside(scope);
    let value = Value::Closure(Rc::new(Closure { function: function.clone(), scope: inside.clone() }));
    inside.declare(name, false, Some(value.clone()));
    value
}

fn project(of: &Value, index: usize) -> Evaluated {
    match of {
        Value::Tuple(items) => match items.get(index) {
            Some(item) => Ok(item.clone()),
            None => refuse(format!("a tuple of {} has no .{index}", items.len())),
        },
        other => refuse(format!(".{index} takes a tuple, not {}", other.type_name())),
    }
}
