//! Types from outside. `(255 : Nat8) + 1` overflows and `let d : Int = 1 - 2` does not: the annotation is the type of the literals and of each sum.

use super::{Machine, Scope, note};
use crate::number::NumberKind;
use crate::syntax::Symbol;
use crate::syntax::ast::{DeclarationNode, Expression, Literal, Node, Type, UnaryOperator};
use crate::value::{Evaluated, Object, Value, Variable};
use std::rc::Rc;

impl Machine {
    /// The value of an expression that is expected to be of a type.
    pub(super) fn evaluate_at(&mut self, scope: &Rc<Scope>, expression: &Expression, kind: &Type) -> Evaluated {
        if *kind == Type::Other {
            return self.evaluate(scope, expression);
        }
        match (&expression.node, kind) {
            (Node::Binary(one, operator, two), Type::Number(_) | Type::Float) if operator.is_arithmetic() => {
                self.step(expression.at)?;
                let one = self.evaluate_at(scope, one, kind)?;
                let two = self.evaluate_at(scope, two, kind)?;
                note(expression.at);
                super::operators::binary(*operator, &one, &two)
            }
            (Node::If(condition, then, Some(otherwise)), _) => {
                let branch = if self.truth(scope, condition)? { then } else { otherwise };
                self.evaluate_at(scope, branch, kind)
            }
            (Node::Block(declarations), _) if declarations.len() == 1 => match &declarations[0].node {
                DeclarationNode::Expression(inner) => self.evaluate_at(scope, inner, kind),
                _ => self.evaluate(scope, expression),
            },
            (Node::Option(inner), Type::Option(kind)) => {
                Ok(Value::Option(Rc::new(self.evaluate_at(scope, inner, kind)?)))
            }
            (Node::Array { mutable, items }, Type::Array(kind)) => {
                let items = items.iter().map(|item| self.evaluate_at(scope, item, kind)).collect::<Evaluated<_>>()?;
                Ok(if *mutable { Value::mutable_array(items) } else { Value::array(items) })
            }
            (Node::Tuple(items), Type::Tuple(kinds)) if items.len() == kinds.len() && !items.is_empty() => {
                let items = items.iter().zip(kinds).map(|(item, kind)| self.evaluate_at(scope, item, kind));
                Ok(Value::Tuple(items.collect::<Evaluated<Vec<_>>>()?.into()))
            }
            (Node::Unary(UnaryOperator::Minus, inner), Type::Number(kind)) if !kind.is_signed() => {
                let inner = self.evaluate(scope, inner)?;
                note(expression.at);
                super::operators::unary(UnaryOperator::Minus, &inner)
                    .and_then(|value| as_type(value, &Type::Number(*kind)))
            }
            (Node::Record { bases, fields }, Type::Record(kinds)) if bases.is_empty() => {
                let mut made = Vec::new();
                for field in fields {
                    let kind = kinds.iter().find(|(name, _)| *name == field.name).map(|(_, kind)| kind);
                    let value = self.evaluate_at(scope, &field.value, kind.unwrap_or(&Type::Other))?;
                    made.push((field.name, Variable::new(value, field.mutable)));
                }
                Ok(Value::Object(Rc::new(Object::new(made))))
            }
            (Node::Literal(Literal::Text(bytes)), Type::Blob) => Ok(Value::Blob(bytes.clone())),
            _ => {
                let value = self.evaluate(scope, expression)?;
                note(expression.at);
                as_type(value, kind)
            }
        }
    }

    /// Both operands of an operator: a literal takes the type of the other one.
    pub(super) fn operands(
        &mut self,
        scope: &Rc<Scope>,
        one: &Expression,
        two: &Expression,
    ) -> Evaluated<(Value, Value)> {
        let left = self.evaluate(scope, one)?;
        let right = self.evaluate(scope, two)?;
        unified((one, left), (two, right))
    }
}

/// Gives a literal the type of the other operand.
pub(super) fn unified(one: (&Expression, Value), two: (&Expression, Value)) -> Evaluated<(Value, Value)> {
    if let (Value::Number(first), Value::Number(second)) = (&one.1, &two.1)
        && first.kind != second.kind
    {
        if second.kind.bits().is_some() && is_literal(one.0) {
            let first = Value::Number(first.to_kind(second.kind)?);
            return Ok((first, two.1));
        }
        if first.kind.bits().is_some() && is_literal(two.0) {
            let second = Value::Number(second.to_kind(first.kind)?);
            return Ok((one.1, second));
        }
    }
    Ok((one.1, two.1))
}

fn is_literal(expression: &Expression) -> bool {
    match &expression.node {
        Node::Literal(_) => true,
        Node::Unary(_, inner) => is_literal(inner),
        _ => false,
    }
}

/// A value as a value of a type: whole numbers change theirs, if they fit.
pub fn as_type(value: Value, kind: &Type) -> Evaluated {
    Ok(match (value, kind) {
        (Value::Number(number), Type::Number(kind)) if number.kind != *kind => {
            // A Nat is an Int; other types mix only as literals, which are Nats and Ints.
            Value::Number(number.to_kind(*kind)?)
        }
        (Value::Number(number), Type::Float) if matches!(number.kind, NumberKind::Nat | NumberKind::Int) => {
            Value::Float(number.to_f64())
        }
        (Value::Text(text), Type::Blob) => Value::Blob(text.as_bytes().into()),
        (Value::Option(inner), Type::Option(kind)) if matches!(&*inner, Value::Number(_)) => {
            Value::Option(Rc::new(as_type((*inner).clone(), kind)?))
        }
        (Value::Object(object), Type::Record(kinds)) => Value::Object(record_as(object, kinds)?),
        (Value::Array(array), Type::Array(kind)) if !array.mutable && differs(array.items.borrow().first(), kind) => {
            let items =
                array.items.borrow().iter().map(|item| as_type(item.clone(), kind)).collect::<Evaluated<_>>()?;
            Value::array(items)
        }
        (value, _) => value,
    })
}

/// True if a value is a number of another type.
fn differs(value: Option<&Value>, kind: &Type) -> bool {
    matches!((value, kind), (Some(Value::Number(number)), Type::Number(kind)) if number.kind != *kind)
}

/// The same record, if its fields have their types; otherwise a copy with numbers of those types.
fn record_as(object: Rc<Object>, kinds: &[(Symbol, Type)]) -> Evaluated<Rc<Object>> {
    let kind_of = |name: Symbol| kinds.iter().find(|(known, _)| *known == name).map(|(_, kind)| kind);
    let is_other = |(name, field): &(Symbol, Rc<Variable>)| {
        kind_of(*name).is_some_and(|kind| !field.mutable && differs(field.value.borrow().as_ref(), kind))
    };
    if !object.fields.iter().any(is_other) {
        return Ok(object);
    }
    let mut fields = Vec::new();
    for (name, field) in &object.fields {
        let value = field.value.borrow().clone();
        fields.push(match (value, kind_of(*name)) {
            (Some(value), Some(kind)) if !field.mutable => (*name, Variable::new(as_type(value, kind)?, false)),
            _ => (*name, field.clone()),
        });
    }
    Ok(Rc::new(Object::new(fields)))
}
