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

#[cfg(test)]
mod tests {
    use super::parse;

    /// Real scripts, cut off and with holes at every character: the parser returns, whatever it reads.
    #[test]
    fn damaged_scripts_are_refused_without_a_panic() {
        let cases = include_str!("../../tests/fixtures/language/cases.txt");
        let (mut parsed, mut refused) = (0, 0);
        for case in cases.split("\n== ") {
            let lines = case.lines().skip(1).filter(|line| !line.starts_with("-- "));
            let script: String = lines.map(|line| format!("{}\n", line.trim_start_matches("=> "))).collect();
            for (at, character) in script.char_indices() {
                let hole = format!("{}{}", &script[..at], &script[at + character.len_utf8()..]);
                for text in [&script[..at], &hole] {
                    match parse(text) {
                        Ok(_) => parsed += 1,
                        Err(problem) => {
                            assert!(!problem.what.contains('\n') && problem.at.line > 0, "{text}");
                            refused += 1;
                        }
                    }
                }
            }
        }
        assert!(parsed > 1000 && refused > 1000, "{parsed} parsed, {refused} refused");
    }
}
