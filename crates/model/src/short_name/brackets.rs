//! Which brackets of a name belong together.
//!
//! Names contain brackets that open nothing: those of operators (`operator<<`, `operator()`), arrows, and comparisons inside of expressions.

/// The symbols of operators, longest first.
const OPERATORS: [&str; 40] = [
    "->*", "<=>", "<<=", ">>=", "()", "[]", "->", "<<", ">>", "<=", ">=", "\"\"", "==", "!=", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=", "&&", "||", "++", "--", "<", ">", "=", "!", "+", "-", "*", "/", "%", "&", "|", "^", "~",
    ",",
];
/// The word before an operator's symbol.
const OPERATOR: &str = "operator";

/// The brackets of a text. Positions are those of bytes.
pub(super) struct Brackets {
    /// For the position of each bracket, the position of its partner; [`NONE`] elsewhere.
    partners: Vec<u32>,
    /// The number of brackets around each byte. A bracket itself lies outside.
    depths: Vec<u32>,
    /// The positions right after the symbols of operators.
    operator_ends: Vec<usize>,
}

const NONE: u32 = u32::MAX;

impl Brackets {
    /// `None` if a bracket has no partner.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut brackets =
            Self { partners: vec![NONE; bytes.len()], depths: vec![0; bytes.len()], operator_ends: Vec::new() };
        let mut open: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let literal = literal_at(text, at);
            if literal > 0 {
                brackets.depths[at..at + literal].fill(open.len() as u32);
                at += literal;
                if text[..at].ends_with(|c: char| !is_name_char(c)) && bytes[at - 1] != b' ' && literal > 2 {
                    brackets.operator_ends.push(at);
                }
                continue;
            }
            match bytes[at] {
                b'(' | b'[' | b'{' | b'<' => {
                    brackets.depths[at] = open.len() as u32;
                    open.push(at);
                }
                byte @ (b')' | b']' | b'}' | b'>') => {
                    // A `<` that nothing closes is a comparison; so is a `>` that nothing opened.
                    while byte != b'>' && open.last().is_some_and(|start| bytes[*start] == b'<') {
                        open.pop();
                    }
                    let is_pair = open.last().is_some_and(|start| partner(bytes[*start]) == byte);
                    if !is_pair && byte != b'>' {
                        return None;
                    }
                    if is_pair && let Some(start) = open.pop() {
                        (brackets.partners[start], brackets.partners[at]) = (at as u32, start as u32);
                    } else if open.is_empty() {
                        return None;
                    }
                    brackets.depths[at] = open.len() as u32;
                }
                _ => brackets.depths[at] = open.len() as u32,
            }
            at += 1;
        }
        open.is_empty().then_some(brackets)
    }

    /// The position of the bracket that closes the one at `open`.
    pub(super) fn end(&self, open: usize) -> Option<usize> {
        self.partners.get(open).filter(|partner| **partner != NONE && **partner as usize > open).map(|at| *at as usize)
    }

    /// The number of brackets around a byte.
    pub(super) fn depth(&self, at: usize) -> u32 {
        self.depths.get(at).copied().unwrap_or(0)
    }

    /// The most brackets around any byte.
    pub(super) fn deepest(&self) -> u32 {
        self.depths.iter().copied().max().unwrap_or(0)
    }

    /// Whether the symbol of an operator ends right before `at`.
    pub(super) fn follows_operator(&self, at: usize) -> bool {
        self.operator_ends.binary_search(&at).is_ok()
    }
}

fn partner(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        _ => b'>',
    }
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

/// The length of an operator's name or of an arrow at this position; 0 if there is neither.
fn literal_at(text: &str, at: usize) -> usize {
    let Some(rest) = text.get(at..) else { return 0 };
    if rest.starts_with("->") {
        return 2;
    }
    let is_word = rest.starts_with(OPERATOR) && !text[..at].ends_with(is_name_char);
    if !is_word {
        return 0;
    }
    let symbol = &rest[OPERATOR.len()..];
    let found = OPERATORS.iter().find(|operator| symbol.starts_with(**operator));
    found.map_or(0, |operator| OPERATOR.len() + operator.len())
}
