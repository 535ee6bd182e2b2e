//! The language of scripts: Motoko without actors, read into a tree.
//!
//! [`lexer`] splits the text into tokens, [`parser`] builds the tree of [`ast`]; [`refusals`] names the alternative for what scripts cannot use.

pub mod ast;
mod expressions;
mod lexer;
mod parser;
mod patterns;
mod refusals;
mod symbol;
mod types;

pub use parser::{parse, parse_library};
pub use symbol::Symbol;

/// A line and a column, both from 1. Line 0 is the library: it has no position in the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column in characters.
    pub column: u32,
}

/// Why a text is no script.
#[derive(Debug)]
pub struct SyntaxProblem {
    /// Where.
    pub at: Position,
    /// What is wrong, in one line.
    pub what: String,
}

/// The result of one step of the parser.
pub type Parsed<T> = Result<T, SyntaxProblem>;
