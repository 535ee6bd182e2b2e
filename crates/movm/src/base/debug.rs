//! Small modules: `Debug`, `Runtime`, `Bool`, `Order`, `Hash`.

use super::arguments::{text, truth};
use super::native;
use super::number::{compared, differed, equalled, hashed};
use crate::compare::order_of;
use crate::value::{Module, Native, Value, refuse};
use std::cmp::Ordering;

/// `Debug`
pub static DEBUG: Module = Module { name: "Debug", functions: &DEBUG_FUNCTIONS };
/// `Runtime`, of mo:core
pub static RUNTIME: Module = Module { name: "Runtime", functions: &RUNTIME_FUNCTIONS };
/// `Bool`
pub static BOOL: Module = Module { name: "Bool", functions: &BOOL_FUNCTIONS };
/// `Order`
pub static ORDER: Module = Module { name: "Order", functions: &ORDER_FUNCTIONS };
/// `Hash`
pub static HASH: Module = Module { name: "Hash", functions: &HASH_FUNCTIONS };

static DEBUG_FUNCTIONS: [Native; 2] = [
    native("print", 1, |machine, a| {
        machine.printed.push(text(&a[0])?.to_string());
        Ok(Value::Unit)
    }),
    native("trap", 1, |_, a| refuse(text(&a[0])?.to_string())),
];

static RUNTIME_FUNCTIONS: [Native; 2] = [
    native("trap", 1, |_, a| refuse(text(&a[0])?.to_string())),
    native("unreachable", 0, |_, _| refuse("unreachable")),
];

static BOOL_FUNCTIONS: [Native; 7] = [
    native("toText", 1, |_, a| Ok(Value::text(truth(&a[0])?.to_string()))),
    native("equal", 2, equalled),
    native("notEqual", 2, differed),
    native("compare", 2, compared),
    native("logicalNot", 1, |_, a| Ok(Value::Bool(!truth(&a[0])?))),
    native("logicalAnd", 2, |_, a| Ok(Value::Bool(truth(&a[0])? && truth(&a[1])?))),
    native("logicalOr", 2, |_, a| Ok(Value::Bool(truth(&a[0])? || truth(&a[1])?))),
];

static ORDER_FUNCTIONS: [Native; 4] = [
    native("isLess", 1, |_, a| Ok(Value::Bool(order_of(&a[0])? == Ordering::Less))),
    native("isEqual", 1, |_, a| Ok(Value::Bool(order_of(&a[0])? == Ordering::Equal))),
    native("isGreater", 1, |_, a| Ok(Value::Bool(order_of(&a[0])? == Ordering::Greater))),
    native("equal", 2, equalled),
];

static HASH_FUNCTIONS: [Native; 2] = [native("hash", 1, hashed), native("equal", 2, equalled)];
