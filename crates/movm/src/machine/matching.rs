//! Patterns and the values that they match.

use super::expected::as_type;
use super::{Machine, Scope};
use crate::compare::is_equal;
use crate::syntax::ast::Pattern;
use crate::value::{Evaluated, Value};

impl Machine {
    /// Binds the names of a pattern in a scope. False if the pattern does not match.
    pub(super) fn matches(scope: &Scope, pattern: &Pattern, value: &Value) -> Evaluated<bool> {
        match (pattern, value) {
            (Pattern::Wild, _) => Ok(true),
            (Pattern::Variable(name), value) => {
                scope.set_first(*name, value.clone());
                Ok(true)
            }
            (Pattern::Annotated(inner, kind), value) => Self::matches(scope, inner, &as_type(value.clone(), kind)?),
            (Pattern::Literal(literal), value) => {
                let wanted = super::evaluate::literal(literal);
                match (&wanted, value) {
                    (Value::Null, value) => Ok(matches!(value, Value::Null)),
                    (Value::Text(wanted), Value::Blob(bytes)) => Ok(wanted.as_bytes() == &**bytes),
                    (_, Value::Null | Value::Option(_)) => Ok(false),
                    (wanted, value) => is_equal(wanted, value),
                }
            }
            (Pattern::Tuple(patterns), Value::Unit) => Ok(patterns.is_empty()),
            (Pattern::Tuple(patterns), Value::Tuple(items)) => {
                if patterns.len() != items.len() {
                    return Ok(false);
                }
                for (pattern, item) in patterns.iter().zip(items.iter()) {
                    if !Self::matches(scope, pattern, item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Pattern::Record(fields), value) => Self::matches_fields(scope, fields, value),
            (Pattern::Option(inner), Value::Option(content)) => Self::matches(scope, inner, content),
            (Pattern::Variant(name, inner), Value::Variant(found, content)) => match (name == found, inner) {
                (false, _) => Ok(false),
                (true, None) => Ok(matches!(**content, Value::Unit)),
                (true, Some(inner)) => Self::matches(scope, inner, content),
            },
            (Pattern::Or(one, two), value) => {
                Ok(Self::matches(scope, one, value)? || Self::matches(scope, two, value)?)
            }
            _ => Ok(false),
        }
    }

    fn matches_fields(
        scope: &Scope,
        fields: &[(crate::syntax::Symbol, Option<Pattern>)],
        value: &Value,
    ) -> Evaluated<bool> {
        for (name, inner) in fields {
            let found = match value {
                Value::Object(object) => match object.field(*name) {
                    Some(field) => field.value.borrow().clone(),
                    None => None,
                },
                Value::Module(module) => module.function(&name.name()).map(Value::Native),
                _ => None,
            };
            let Some(found) = found else { return Ok(false) };
            let matched = match inner {
                Some(inner) => Self::matches(scope, inner, &found)?,
                None => {
                    scope.set_first(*name, found);
                    true
                }
            };
            if !matched {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
