//! Declarations: blocks, objects, classes and imports.

use super::{Closure, Machine, Scope, note};
use crate::base::{Imported, import};
use crate::syntax::ast::{Body, Class, Declaration, DeclarationNode, Pattern};
use crate::syntax::{Symbol, parse_library};
use crate::value::{ClassValue, Evaluated, Object, Stop, Value, Variable, refuse};
use std::rc::Rc;

impl Machine {
    /// Runs declarations in a scope of their own; returns the value of the last one.
    pub(super) fn block(&mut self, scope: &Rc<Scope>, declarations: &[Declaration]) -> Evaluated {
        hoist(scope, declarations);
        let mut last = Value::Unit;
        for declaration in declarations {
            last = self.declare(scope, declaration)?;
        }
        Ok(last)
    }

    fn declare(&mut self, scope: &Rc<Scope>, declaration: &Declaration) -> Evaluated {
        match &declaration.node {
            DeclarationNode::Expression(expression) => return self.evaluate(scope, expression),
            DeclarationNode::Let(pattern, value, otherwise) => {
                let value = match pattern {
                    Pattern::Annotated(_, kind) => self.evaluate_at(scope, value, kind)?,
                    _ => self.evaluate(scope, value)?,
                };
                if !Self::matches(scope, pattern, &value)? {
                    note(declaration.at);
                    return match otherwise {
                        Some(otherwise) => self.evaluate(scope, otherwise),
                        None => refuse("the pattern does not match; write: let pattern = … else { … }"),
                    };
                }
            }
            DeclarationNode::Var(name, kind, value) => {
                let value = match kind {
                    Some(kind) => self.evaluate_at(scope, value, kind)?,
                    None => self.evaluate(scope, value)?,
                };
                match scope.own(*name).filter(|variable| variable.mutable) {
                    Some(variable) => *variable.value.borrow_mut() = Some(value),
                    None => scope.declare(*name, true, Some(value)),
                }
            }
            DeclarationNode::Object(name, body) => {
                let object = self.object(scope, body)?;
                scope.set_first(*name, object);
            }
            DeclarationNode::Import(pattern, path) => {
                note(declaration.at);
                let module = self.import(path)?;
                if !Self::matches(scope, pattern, &module)? {
                    return refuse(format!("{path} does not have all of these names"));
                }
            }
            // They were declared before the block began, and are the value of a block that ends with them.
            DeclarationNode::Function(name, _) => return scope.value(*name),
            DeclarationNode::Class(class) => return scope.value(class.name),
            DeclarationNode::Type => {}
        }
        Ok(Value::Unit)
    }

    /// An object: the public variables of its declarations.
    pub(super) fn object(&mut self, scope: &Rc<Scope>, body: &Body) -> Evaluated {
        let inside = Scope::inside(scope);
        let this = body.this.map(|name| (name, Variable { mutable: false, value: None.into() }));
        let this = this.map(|(name, variable)| (name, Rc::new(variable)));
        if let Some((name, variable)) = &this {
            inside.declare_shared(*name, variable.clone());
        }
        let inside = Scope::inside(&inside);
        self.block(&inside, &body.declarations)?;
        let fields = body.public.iter().filter_map(|name| inside.own(*name).map(|variable| (*name, variable)));
        let object = Value::Object(Rc::new(Object::new(fields.collect())));
        if let Some((_, variable)) = this {
            *variable.value.borrow_mut() = Some(object.clone());
        }
        Ok(object)
    }

    /// An object of a class.
    pub(super) fn instance(&mut self, value: &ClassValue, arguments: &[Value]) -> Evaluated {
        let Class { name, parameters, body } = &*value.class;
        let scope = Scope::inside(&value.scope);
        Self::bind_arguments(&scope, parameters, arguments, &format!("class {name}"))?;
        self.object(&scope, body)
    }

    fn import(&mut self, path: &str) -> Evaluated {
        match import(path)? {
            Imported::Native(module) => Ok(Value::Module(module)),
            Imported::Source(name, text) => {
                if let Some(module) = self.modules.get(name) {
                    return Ok(module.clone());
                }
                let module = self.evaluate_library(name, text)?;
                self.modules.insert(name, module.clone());
                Ok(module)
            }
        }
    }

    /// A module that is written in Motoko. Its functions have no positions in the script.
    fn evaluate_library(&mut self, name: &str, text: &str) -> Evaluated {
        let program = parse_library(text).map_err(|problem| {
            Stop::Trap(format!("the library's {name}:{}:{}: {}", problem.at.line, problem.at.column, problem.what))
        })?;
        self.block(&Scope::root(), &program)
    }
}

/// Declares all names of a block before it runs: functions and classes with their values, the others without.
fn hoist(scope: &Rc<Scope>, declarations: &[Declaration]) {
    for declaration in declarations {
        match &declaration.node {
            DeclarationNode::Function(name, function) => {
                let closure = Closure { function: function.clone(), scope: scope.clone() };
                scope.declare(*name, false, Some(Value::Closure(Rc::new(closure))));
            }
            DeclarationNode::Class(class) => {
                let value = ClassValue { class: class.clone(), scope: scope.clone() };
                scope.declare(class.name, false, Some(Value::Class(Rc::new(value))));
            }
            DeclarationNode::Let(pattern, ..) | DeclarationNode::Import(pattern, _) => {
                let mut names: Vec<Symbol> = Vec::new();
                pattern.names(&mut names);
                names.into_iter().for_each(|name| scope.declare(name, false, None));
            }
            DeclarationNode::Var(name, ..) => scope.declare(*name, true, None),
            DeclarationNode::Object(name, _) => scope.declare(*name, false, None),
            DeclarationNode::Expression(_) | DeclarationNode::Type => {}
        }
    }
}
