//! The values of scripts.

use crate::machine::{Closure, Machine};
use crate::number::{Number, NumberKind};
use crate::syntax::Symbol;
use crate::syntax::ast::Class;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

/// A value. Copies share their content.
#[derive(Clone)]
pub enum Value {
    Null,
    Unit,
    Bool(bool),
    Number(Number),
    Float(f64),
    Char(char),
    Text(Rc<str>),
    Blob(Rc<[u8]>),
    Option(Rc<Value>),
    Variant(Symbol, Rc<Value>),
    Tuple(Rc<[Value]>),
    Array(Rc<Array>),
    /// An array of many Nats, as an image has them: eight bytes each.
    Numbers(Rc<[u64]>),
    Object(Rc<Object>),
    Closure(Rc<Closure>),
    Class(Rc<ClassValue>),
    /// A function of the base library.
    Native(&'static Native),
    /// A module of the base library.
    Module(&'static Module),
    /// A method that was taken from a value, and not called yet.
    Method(Rc<(Value, Symbol)>),
    Iterator(Rc<RefCell<dyn NativeIterator>>),
    /// An image, a map …
    Host(Rc<dyn Host>),
}

/// An array.
pub struct Array {
    /// True for `[var …]`.
    pub mutable: bool,
    /// Its items.
    pub items: RefCell<Vec<Value>>,
}

/// A variable or a field.
pub struct Variable {
    /// True if it can be assigned.
    pub mutable: bool,
    /// Its value; none before its declaration has run.
    pub value: RefCell<Option<Value>>,
}

impl Variable {
    /// A variable with a value.
    pub fn new(value: Value, mutable: bool) -> Rc<Self> {
        Rc::new(Self { mutable, value: RefCell::new(Some(value)) })
    }
}

/// A record, or the public part of an object.
#[derive(Default)]
pub struct Object {
    /// In order of their names, as they are shown.
    pub fields: Vec<(Symbol, Rc<Variable>)>,
}

impl Object {
    /// An object with fields.
    pub fn new(mut fields: Vec<(Symbol, Rc<Variable>)>) -> Self {
        fields.sort_by_key(|(name, _)| name.name());
        Self { fields }
    }

    /// A field.
    pub fn field(&self, name: Symbol) -> Option<&Rc<Variable>> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, variable)| variable)
    }
}

/// A class, and the scope in which it was declared.
pub struct ClassValue {
    /// The class.
    pub class: Rc<Class>,
    /// Where it was declared.
    pub scope: Rc<crate::machine::Scope>,
}

/// What ends the evaluation of an expression early.
pub enum Stop {
    /// An error, in one line.
    Trap(String),
    /// `break`
    Break(Option<Symbol>, Value),
    /// `continue`
    Continue(Option<Symbol>),
    /// `return`
    Return(Value),
    /// `!` of null
    Absent,
}

impl From<String> for Stop {
    fn from(line: String) -> Self {
        Self::Trap(line)
    }
}

/// The result of an evaluation.
pub type Evaluated<T = Value> = Result<T, Stop>;

/// Ends the script with a line.
pub fn refuse<T>(line: impl Into<String>) -> Evaluated<T> {
    Err(Stop::Trap(line.into()))
}

/// What a function of the base library does.
pub type NativeFunction = fn(&mut Machine, &[Value]) -> Evaluated;

/// A function of the base library.
pub struct Native {
    /// The name, as after the module's dot.
    pub name: &'static str,
    /// Numbers of arguments that it takes: from, to.
    pub arguments: (usize, usize),
    /// What it does.
    pub function: NativeFunction,
}

/// A module of the base library.
pub struct Module {
    /// Its name, as after `mo:base/`.
    pub name: &'static str,
    /// Its functions.
    pub functions: &'static [Native],
}

/// An iterator of native code.
pub trait NativeIterator {
    /// The next item.
    fn next(&mut self, machine: &mut Machine) -> Evaluated<Option<Value>>;
}

/// An iterator of Rust, which needs no machine.
pub struct Plain<I>(pub I);

impl<I: Iterator<Item = Value>> NativeIterator for Plain<I> {
    fn next(&mut self, _: &mut Machine) -> Evaluated<Option<Value>> {
        Ok(self.0.next())
    }
}

/// An object of native code with methods.
pub trait Host {
    /// Its type's name, for messages and for its module of the base library.
    fn type_name(&self) -> &'static str;
    /// The names of its methods.
    fn methods(&self) -> &'static [&'static str];
    /// Calls one of them.
    fn call(&self, machine: &mut Machine, method: &str, arguments: &[Value]) -> Evaluated;
    /// The item at an index.
    fn index(&self, _: &Value) -> Evaluated {
        refuse(format!("a {} has no [i]", self.type_name()))
    }
    /// The items that a `for` goes over, and that are shown.
    fn items(&self) -> Option<Vec<Value>> {
        None
    }
    /// The type behind it.
    fn as_any(&self) -> &dyn Any;
}

impl Value {
    /// A Nat.
    pub fn nat(number: u64) -> Self {
        Self::Number(Number::nat(number))
    }

    /// A Nat8.
    pub fn byte(byte: u8) -> Self {
        Self::Number(Number::small(NumberKind::Nat8, byte.into()))
    }

    /// A Text.
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// `?value` or `null`.
    pub fn option(value: Option<Self>) -> Self {
        value.map_or(Self::Null, |value| Self::Option(Rc::new(value)))
    }

    /// `[…]`
    pub fn array(items: Vec<Self>) -> Self {
        Self::Array(Rc::new(Array { mutable: false, items: RefCell::new(items) }))
    }

    /// `[var …]`
    pub fn mutable_array(items: Vec<Self>) -> Self {
        Self::Array(Rc::new(Array { mutable: true, items: RefCell::new(items) }))
    }

    /// `(one, two)`
    pub fn pair(one: Self, two: Self) -> Self {
        Self::Tuple([one, two].into())
    }

    /// `#name`
    pub fn tag(name: &str) -> Self {
        Self::Variant(Symbol::new(name), Rc::new(Self::Unit))
    }

    /// An iterator of Rust.
    pub fn iterator(items: impl Iterator<Item = Self> + 'static) -> Self {
        Self::Iterator(Rc::new(RefCell::new(Plain(items))))
    }

    /// The type's name, as messages have it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Unit => "()",
            Self::Bool(_) => "Bool",
            Self::Number(number) => number.kind.name(),
            Self::Float(_) => "Float",
            Self::Char(_) => "Char",
            Self::Text(_) => "Text",
            Self::Blob(_) => "Blob",
            Self::Option(_) => "an option",
            Self::Variant(..) => "a variant",
            Self::Tuple(_) => "a tuple",
            Self::Array(_) | Self::Numbers(_) => "an array",
            Self::Object(_) => "an object",
            Self::Closure(_) | Self::Native(_) | Self::Method(_) => "a function",
            Self::Class(_) => "a class",
            Self::Module(_) => "a module",
            Self::Iterator(_) => "an iterator",
            Self::Host(host) => host.type_name(),
        }
    }
}
