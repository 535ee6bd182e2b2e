//! Calls, members, indices and iterators.

use super::places::no_field;
use super::{Closure, Machine, Scope, note};
use crate::base::{method, methods_of};
use crate::syntax::Symbol;
use crate::syntax::ast::{Expression, Node, Pattern};
use crate::value::{Evaluated, Native, Object, Stop, Value, refuse};
use std::rc::Rc;

impl Machine {
    pub(super) fn call_expression(
        &mut self,
        scope: &Rc<Scope>,
        expression: &Expression,
        function: &Expression,
        arguments: &[Expression],
    ) -> Evaluated {
        if let Node::Member(of, name) = &function.node {
            let of = self.evaluate(scope, of)?;
            let arguments = self.arguments(scope, arguments)?;
            note(function.at);
            return self.call_member(&of, *name, &arguments);
        }
        let function = self.evaluate(scope, function)?;
        let arguments = self.arguments(scope, arguments)?;
        note(expression.at);
        self.call(&function, &arguments)
    }

    /// `f(())` passes nothing, as `f()` does.
    fn arguments(&mut self, scope: &Rc<Scope>, arguments: &[Expression]) -> Evaluated<Vec<Value>> {
        let values = self.all(scope, arguments)?;
        Ok(if matches!(values[..], [Value::Unit]) { Vec::new() } else { values })
    }

    /// Calls a member of a value.
    fn call_member(&mut self, of: &Value, name: Symbol, arguments: &[Value]) -> Evaluated {
        match of {
            Value::Object(object) => {
                let function = field(object, name)?;
                self.call(&function, arguments)
            }
            Value::Module(_) => {
                let function = self.member(of, name)?;
                self.call(&function, arguments)
            }
            _ => self.call_method(of, &name.name(), arguments),
        }
    }

    /// Calls a method of a value that is no object of the script.
    pub fn call_method(&mut self, of: &Value, name: &str, arguments: &[Value]) -> Evaluated {
        if let Value::Host(host) = of
            && host.methods().contains(&name)
        {
            return host.clone().call(self, name, arguments);
        }
        if let (Value::Iterator(_), "next") = (of, name) {
            return Ok(Value::option(self.next_of(of)?));
        }
        let Some(native) = method(of, name) else {
            let known = methods_of(of);
            return refuse(match known.is_empty() {
                true => format!("{} has no '{name}'", of.type_name()),
                false => format!("{} has no '{name}'; it has {}", of.type_name(), known.join(", ")),
            });
        };
        let mut all = Vec::with_capacity(arguments.len() + 1);
        all.push(of.clone());
        all.extend_from_slice(arguments);
        self.call_native(native, &all)
    }

    /// Calls a function.
    pub fn call(&mut self, function: &Value, arguments: &[Value]) -> Evaluated {
        match function {
            Value::Closure(closure) => self.call_closure(closure, arguments),
            Value::Native(native) => match arguments {
                [Value::Tuple(items)] if native.arguments.0 > 1 => self.call_native(native, items),
                _ => self.call_native(native, arguments),
            },
            Value::Class(class) => self.instance(class, arguments),
            Value::Method(method) => self.call_method(&method.0, &method.1.name(), arguments),
            other => refuse(format!("{} is no function; is a ';' missing before this?", other.type_name())),
        }
    }

    fn call_native(&mut self, native: &'static Native, arguments: &[Value]) -> Evaluated {
        let (least, most) = native.arguments;
        if !(least..=most).contains(&arguments.len()) {
            let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return refuse(format!("{} takes {wanted} arguments, not {}", native.name, arguments.len()));
        }
        self.count(1)?;
        (native.function)(self, arguments)
    }

    fn call_closure(&mut self, closure: &Rc<Closure>, arguments: &[Value]) -> Evaluated {
        let scope = Scope::inside(&closure.scope);
        let function = &closure.function;
        let name = function.name.map_or_else(|| "this function".into(), |name| name.name());
        Self::bind_arguments(&scope, &function.parameters, arguments, &name)?;
        let value = match &function.result {
            Some(kind) => self.evaluate_at(&scope, &function.body, kind),
            None => self.evaluate(&scope, &function.body),
        };
        match (value, &function.result) {
            (Err(Stop::Return(value)), Some(kind)) => super::expected::as_type(value, kind),
            (Err(Stop::Return(value)), None) => Ok(value),
            (Err(Stop::Break(..) | Stop::Continue(_)), _) => refuse("'break' and 'continue' stand in a loop"),
            (Err(Stop::Absent), _) => refuse("'!' stands in do ? { … }"),
            (value, _) => value,
        }
    }

    /// Binds parameters. One tuple can be several arguments, and several arguments one tuple.
    pub(super) fn bind_arguments(scope: &Scope, pattern: &Pattern, arguments: &[Value], name: &str) -> Evaluated<()> {
        let matched = match (pattern, arguments) {
            (Pattern::Tuple(patterns), arguments) if patterns.len() == arguments.len() => {
                let mut all = true;
                for (pattern, argument) in patterns.iter().zip(arguments) {
                    all &= Self::matches(scope, pattern, argument)?;
                }
                all
            }
            (pattern, [argument]) => Self::matches(scope, pattern, argument)?,
            (pattern, []) => Self::matches(scope, pattern, &Value::Unit)?,
            (Pattern::Tuple(_), _) => false,
            (pattern, arguments) => Self::matches(scope, pattern, &Value::Tuple(arguments.into()))?,
        };
        if matched {
            return Ok(());
        }
        let wanted = if let Pattern::Tuple(patterns) = pattern { patterns.len() } else { 1 };
        refuse(match wanted == arguments.len() {
            true => format!("{name} does not take such arguments"),
            false => format!("{name} takes {wanted} arguments, not {}", arguments.len()),
        })
    }

    /// A member of a value that is not called.
    pub(super) fn member(&mut self, of: &Value, name: Symbol) -> Evaluated {
        match of {
            Value::Object(object) => field(object, name),
            Value::Module(module) => match module.function(&name.name()) {
                Some(native) if native.is_constant() => (native.function)(self, &[]),
                Some(native) => Ok(Value::Native(native)),
                None => refuse(format!("{} has no '{name}'; it has {}", module.name, module.names().join(", "))),
            },
            _ => Ok(Value::Method(Rc::new((of.clone(), name)))),
        }
    }

    /// The item at an index.
    pub fn at(&mut self, of: &Value, index: &Value) -> Evaluated {
        if let Value::Host(host) = of {
            return host.index(index);
        }
        let Value::Number(number) = index else { return refuse("an index is a Nat") };
        let at = number.to_u64().and_then(|at| usize::try_from(at).ok());
        let (item, count) = match of {
            Value::Array(array) => {
                let items = array.items.borrow();
                (at.and_then(|at| items.get(at).cloned()), items.len())
            }
            Value::Numbers(numbers) => {
                (at.and_then(|at| numbers.get(at)).map(|&number| Value::nat(number)), numbers.len())
            }
            Value::Blob(bytes) => (at.and_then(|at| bytes.get(at)).map(|&byte| Value::byte(byte)), bytes.len()),
            other => return refuse(format!("{} has no [i]", other.type_name())),
        };
        item.map_or_else(|| refuse(format!("there is no element {number}: the array has {count}")), Ok)
    }

    /// What a `for` goes over. Arrays and maps are taken as such, too.
    pub fn iterator_of(&mut self, value: &Value) -> Evaluated {
        match value {
            Value::Iterator(_) => Ok(value.clone()),
            Value::Object(object) if object.field(Symbol::new("next")).is_some() => Ok(value.clone()),
            Value::Array(_) | Value::Numbers(_) | Value::Blob(_) => self.call_method(value, "vals", &[]),
            Value::Text(_) => self.call_method(value, "chars", &[]),
            Value::Host(host) => match host.items() {
                Some(items) => Ok(Value::iterator(items.into_iter())),
                None => self.call_method(value, "vals", &[]),
            },
            other => refuse(format!(
                "{} cannot be iterated; write xs.vals(), or Iter.range(0, n - 1) for numbers",
                other.type_name()
            )),
        }
    }

    /// The next item of an iterator.
    pub fn next_of(&mut self, iterator: &Value) -> Evaluated<Option<Value>> {
        match iterator {
            Value::Iterator(native) => match native.try_borrow_mut() {
                Ok(mut native) => native.next(self),
                Err(_) => refuse("an iterator that is used by itself"),
            },
            Value::Object(object) => {
                let next = field(object, Symbol::new("next"))?;
                match self.call(&next, &[])? {
                    Value::Null => Ok(None),
                    Value::Option(item) => Ok(Some((*item).clone())),
                    other => refuse(format!("next() returns an option, not {}", other.type_name())),
                }
            }
            other => refuse(format!("{} is no iterator", other.type_name())),
        }
    }
}

fn field(object: &Object, name: Symbol) -> Evaluated {
    match object.field(name) {
        Some(variable) => variable
            .value
            .borrow()
            .clone()
            .map_or_else(|| refuse(format!("'{name}' is used before it is declared")), Ok),
        None => refuse(no_field(object, name)),
    }
}
