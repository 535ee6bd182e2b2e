//! Splits a script into tokens.

use super::{Parsed, Position, SyntaxProblem};
use crate::number::{Number, NumberKind};
use num_bigint::BigInt;
use num_traits::Num;
use std::rc::Rc;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name or a keyword.
    Word(Rc<str>),
    /// `12`, `0x1f`
    Number(Number),
    /// `1.5`
    Float(f64),
    /// `"…"`: its bytes, escapes resolved.
    Text(Rc<[u8]>),
    /// `'…'`
    Char(char),
    /// An operator or a bracket.
    Sign(&'static str),
    /// The end of the script.
    End,
}

/// A token, its position, and whether it follows white space.
#[derive(Clone, Debug)]
pub struct Located {
    /// The token.
    pub token: Token,
    /// Where it begins.
    pub at: Position,
    /// True after white space or a comment.
    pub spaced: bool,
}

/// Longer ones first: the first that fits is taken.
const SIGNS: [&str; 60] = [
    "**%=", "<<>=", "<>>=", "**%", "**=", "+%=", "-%=", "*%=", "<<>", "<>>", "<<=", ">>=", ":=", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "#=", "==", "!=", "<=", ">=", "->", "|>", "<:", "<<", ">>", "**", "+%", "-%", "*%",
    "(", ")", "{", "}", "[", "]", "<", ">", ",", ";", ":", ".", "?", "!", "=", "+", "-", "*", "/", "%", "&", "|", "^",
    "#", "_",
];

/// Splits a text into tokens; the last one is [`Token::End`].
pub fn tokens(text: &str) -> Parsed<Vec<Located>> {
    let mut lexer = Lexer { rest: text, at: Position { line: 1, column: 1 } };
    let mut tokens: Vec<Located> = Vec::new();
    loop {
        let spaced = lexer.skip_space()?;
        let at = lexer.at;
        let after_dot = matches!(tokens.last(), Some(Located { token: Token::Sign("."), .. }));
        let token = lexer.token(after_dot)?;
        let is_end = token == Token::End;
        tokens.push(Located { token, at, spaced });
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    at: Position,
}

impl<'a> Lexer<'a> {
    fn problem<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err(SyntaxProblem { at: self.at, what: what.into() })
    }

    /// Takes bytes of the text, which end at the border of a character.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        for character in taken.chars() {
            if character == '\n' {
                self.at = Position { line: self.at.line.saturating_add(1), column: 1 };
            } else {
                self.at.column = self.at.column.saturating_add(1);
            }
        }
        taken
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !wanted(character)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn skip_space(&mut self) -> Parsed<bool> {
        let mut skipped = false;
        loop {
            let before = self.rest.len();
            self.take_while(char::is_whitespace);
            if self.rest.starts_with("//") {
                self.take_while(|character| character != '\n');
            } else if self.rest.starts_with("/*") {
                self.skip_comment()?;
            }
            if self.rest.len() == before {
                return Ok(skipped);
            }
            skipped = true;
        }
    }

    /// Block comments nest.
    fn skip_comment(&mut self) -> Parsed<()> {
        let begin = self.at;
        let mut depth = 0usize;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
                if depth == 0 {
                    return Ok(());
                }
            } else if let Some(character) = self.rest.chars().next() {
                self.take(character.len_utf8());
            } else {
                return Err(SyntaxProblem { at: begin, what: "this comment does not end".into() });
            }
        }
    }

    fn token(&mut self, after_dot: bool) -> Parsed<Token> {
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
        match first {
            '0'..='9' if after_dot => self.index(),
            '0'..='9' => self.number(),
            '"' => self.text(),
            '\'' => self.character(),
            'a'..='z' | 'A'..='Z' | '_' => match self.take_while(is_word) {
                "_" => Ok(Token::Sign("_")),
                word => Ok(Token::Word(word.into())),
            },
            _ => match SIGNS.into_iter().find(|sign| self.rest.starts_with(sign)) {
                Some(sign) => {
                    self.take(sign.len());
                    Ok(Token::Sign(sign))
                }
                None => self.problem(format!("'{first}' has no meaning here")),
            },
        }
    }

    /// The `1` of `pair.1`: what follows is no fraction.
    fn index(&mut self) -> Parsed<Token> {
        let digits = self.take_while(|character| character.is_ascii_digit());
        match digits.parse::<u32>() {
            Ok(index) => Ok(Token::Number(Number::small(NumberKind::Nat, index.into()))),
            Err(_) => self.problem("no tuple has that many items"),
        }
    }

    fn number(&mut self) -> Parsed<Token> {
        let is_digit = |character: char| character.is_ascii_digit() || character == '_';
        if let Some(digits) = self.rest.strip_prefix("0x").or_else(|| self.rest.strip_prefix("0X")) {
            let length = digits.find(|character: char| !character.is_ascii_hexdigit() && character != '_');
            let text = self.take(2 + length.unwrap_or(digits.len()))[2..].replace('_', "");
            return match BigInt::from_str_radix(&text, 16) {
                Ok(number) => Ok(Token::Number(Number::unchecked(NumberKind::Nat, number))),
                Err(_) => self.problem("digits 0 to f are missing after 0x"),
            };
        }
        let mut text = self.take_while(is_digit).replace('_', "");
        let mut is_float = false;
        let mut after = self.rest.chars();
        if after.next() == Some('.') && !after.next().is_some_and(|next| next.is_alphabetic() || next == '.') {
            is_float = true;
            text += self.take(1);
            text += &self.take_while(is_digit).replace('_', "");
        }
        if let Some(exponent) = self.rest.strip_prefix(['e', 'E']) {
            let signed = exponent.starts_with(['+', '-']);
            if exponent[usize::from(signed)..].starts_with(|character: char| character.is_ascii_digit()) {
                is_float = true;
                text += self.take(1 + usize::from(signed));
                text += &self.take_while(is_digit).replace('_', "");
            }
        }
        let number = if is_float {
            text.parse().ok().map(Token::Float)
        } else {
            BigInt::from_str_radix(&text, 10)
                .ok()
                .map(|number| Token::Number(Number::unchecked(NumberKind::Nat, number)))
        };
        number.map_or_else(|| self.problem(format!("'{text}' is no number")), Ok)
    }

    fn text(&mut self) -> Parsed<Token> {
        let begin = self.at;
        self.take(1);
        let mut bytes = Vec::new();
        loop {
            match self.rest.chars().next() {
                None | Some('\n') => return Err(SyntaxProblem { at: begin, what: "this text does not end".into() }),
                Some('"') => {
                    self.take(1);
                    return Ok(Token::Text(bytes.into()));
                }
                Some('\\') => self.escape(&mut bytes)?,
                Some(character) => bytes.extend(self.take(character.len_utf8()).bytes()),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Parsed<()> {
        self.take(1);
        if self.rest.starts_with("u{") {
            let end = self.rest.find('}').unwrap_or(0);
            let character = u32::from_str_radix(self.rest.get(2..end).unwrap_or_default(), 16).ok();
            let Some(character) = character.and_then(char::from_u32) else {
                return self.problem("\\u{…} needs the number of a character");
            };
            self.take(end + 1);
            bytes.extend(character.encode_utf8(&mut [0; 4]).bytes());
            return Ok(());
        }
        let single = match self.rest.chars().next() {
            Some('n') => Some(b'\n'),
            Some('r') => Some(b'\r'),
            Some('t') => Some(b'\t'),
            Some(quoted @ ('\\' | '"' | '\'')) => Some(quoted as u8),
            _ => None,
        };
        if let Some(byte) = single {
            self.take(1);
            bytes.push(byte);
            return Ok(());
        }
        match self.rest.get(..2).map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(byte)) => {
                self.take(2);
                bytes.push(byte);
                Ok(())
            }
            _ => self.problem("no such escape; there are \\n \\r \\t \\\\ \\\" \\' \\u{…} and two hexadecimal digits"),
        }
    }

    fn character(&mut self) -> Parsed<Token> {
        let begin = self.at;
        self.take(1);
        let mut bytes = Vec::new();
        match self.rest.chars().next() {
            Some('\\') => self.escape(&mut bytes)?,
            Some(character) => bytes.extend(self.take(character.len_utf8()).bytes()),
            None => {}
        }
        let character = std::str::from_utf8(&bytes).ok().and_then(|text| text.chars().next());
        match (character, self.rest.starts_with('\'')) {
            (Some(character), true) => {
                self.take(1);
                Ok(Token::Char(character))
            }
            _ => {
                Err(SyntaxProblem { at: begin, what: "a Char is one character, as in 'a'; a Text has \"…\"".into() })
            }
        }
    }
}
