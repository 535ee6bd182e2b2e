//! The tree of a script.

use super::{Position, Symbol};
use crate::number::{Number, NumberKind};
use std::fmt;
use std::rc::Rc;

/// An expression and its position.
#[derive(Clone)]
pub struct Expression {
    /// What it is.
    pub node: Node,
    /// Where it begins; of an operator or a call, where that stands.
    pub at: Position,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

/// Some expression inside of another one.
pub type Inner = Box<Expression>;

/// A constant.
#[derive(Clone, Debug)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `7`, `0xff`
    Number(Number),
    /// `1.5`
    Float(f64),
    /// `'a'`
    Char(char),
    /// `"a"`: the bytes, which can be those of a Blob
    Text(Rc<[u8]>),
}

/// The operators that take two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    WrappingAdd,
    WrappingSub,
    WrappingMul,
    WrappingPow,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    RotateLeft,
    RotateRight,
    Concat,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl BinaryOperator {
    /// True if both operands and the result have one type: then a type from outside is the type of the operands, too.
    pub fn is_arithmetic(self) -> bool {
        use BinaryOperator::{Concat, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        !matches!(self, Concat | Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

/// The operators that take one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOperator {
    Plus,
    Minus,
    Complement,
    Not,
}

/// What an expression is.
#[derive(Clone, Debug)]
pub enum Node {
    Literal(Literal),
    Variable(Symbol),
    Unary(UnaryOperator, Inner),
    Binary(Inner, BinaryOperator, Inner),
    And(Inner, Inner),
    Or(Inner, Inner),
    /// `debug_show e`
    Show(Inner),
    Tuple(Vec<Expression>),
    Projection(Inner, usize),
    Option(Inner),
    /// `do ? { … }`
    DoOption(Inner),
    /// `e!`
    Bang(Inner),
    /// `object { … }`
    Object(Rc<Body>),
    Record {
        bases: Vec<Expression>,
        fields: Vec<RecordField>,
    },
    Variant(Symbol, Option<Inner>),
    Member(Inner, Symbol),
    Assign(Inner, Inner),
    AssignWith(Inner, BinaryOperator, Inner),
    Array {
        mutable: bool,
        items: Vec<Expression>,
    },
    Index(Inner, Inner),
    Function(Rc<Function>),
    Call(Inner, Vec<Expression>),
    Block(Vec<Declaration>),
    If(Inner, Inner, Option<Inner>),
    Switch(Inner, Vec<(Pattern, Expression)>),
    While(Inner, Inner),
    Loop(Inner, Option<Inner>),
    For(Pattern, Inner, Inner),
    Label(Symbol, Inner),
    Break(Option<Symbol>, Option<Inner>),
    Continue(Option<Symbol>),
    Return(Option<Inner>),
    Assert(Inner),
    Ignore(Inner),
    Annotated(Inner, Type),
    /// `a |> f(_)`
    Pipe(Inner, Inner),
}

/// A field of a record: `x = 1`, `var x = 1`.
#[derive(Clone, Debug)]
pub struct RecordField {
    /// Its name.
    pub name: Symbol,
    /// True if it can be assigned.
    pub mutable: bool,
    /// Its value.
    pub value: Expression,
}

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Its name, if it has one.
    pub name: Option<Symbol>,
    /// Its parameters.
    pub parameters: Pattern,
    /// The type of its result.
    pub result: Option<Type>,
    /// What it does.
    pub body: Expression,
}

/// A class: a function that makes objects.
#[derive(Debug)]
pub struct Class {
    /// Its name.
    pub name: Symbol,
    /// The parameters.
    pub parameters: Pattern,
    /// The declarations of an object.
    pub body: Rc<Body>,
}

/// The declarations of an object, a class or a module.
#[derive(Debug)]
pub struct Body {
    /// The name by which the declarations know the object.
    pub this: Option<Symbol>,
    /// The declarations.
    pub declarations: Vec<Declaration>,
    /// Names of the public ones.
    pub public: Vec<Symbol>,
}

/// A declaration and its position.
#[derive(Clone)]
pub struct Declaration {
    /// What it is.
    pub node: DeclarationNode,
    /// Where it begins.
    pub at: Position,
}

impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

/// What a declaration is.
#[derive(Clone, Debug)]
pub enum DeclarationNode {
    Expression(Expression),
    Let(Pattern, Expression, Option<Expression>),
    Var(Symbol, Option<Type>, Expression),
    Function(Symbol, Rc<Function>),
    Class(Rc<Class>),
    Object(Symbol, Rc<Body>),
    Import(Pattern, Rc<str>),
    Type,
}

/// A pattern.
#[derive(Clone, Debug)]
pub enum Pattern {
    Wild,
    Variable(Symbol),
    Literal(Literal),
    Tuple(Vec<Pattern>),
    Record(Vec<(Symbol, Option<Pattern>)>),
    Option(Box<Pattern>),
    Variant(Symbol, Option<Box<Pattern>>),
    Or(Box<Pattern>, Box<Pattern>),
    Annotated(Box<Pattern>, Type),
}

impl Pattern {
    /// Adds the names that it binds.
    pub fn names(&self, names: &mut Vec<Symbol>) {
        match self {
            Self::Wild | Self::Literal(_) | Self::Or(..) | Self::Variant(_, None) => {}
            Self::Variable(name) => names.push(*name),
            Self::Tuple(items) => items.iter().for_each(|item| item.names(names)),
            Self::Record(fields) => {
                for (name, inner) in fields {
                    match inner {
                        Some(inner) => inner.names(names),
                        None => names.push(*name),
                    }
                }
            }
            Self::Option(inner) | Self::Annotated(inner, _) | Self::Variant(_, Some(inner)) => inner.names(names),
        }
    }
}

/// A type, as far as it changes how a program runs: literals and sums are of the annotated type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Number(NumberKind),
    Float,
    Blob,
    Option(Box<Type>),
    Array(Box<Type>),
    Tuple(Vec<Type>),
    Record(Vec<(Symbol, Type)>),
    Other,
}
