//! Parses tokens into values and types.

use super::lexer::{CandidToken, tokens};
use super::number::WholeNumber;
use super::principal::principal_bytes;
use super::types::{CandidField, Simple, Type, label_id};
use super::value::CandidValue;
use super::{CandidError, DEEPEST, error};

/// A parser over the tokens of a text.
pub struct Parser {
    tokens: Vec<(CandidToken, usize)>,
    at: usize,
    depth: usize,
}

/// `(value, value, …)`
pub fn arguments(text: &str) -> Result<Vec<CandidValue>, CandidError> {
    let mut parser = Parser::new(text)?;
    if parser.is_at_end() {
        return Ok(Vec::new());
    }
    parser.expect('(')?;
    let mut values = Vec::new();
    while !parser.takes(')') {
        values.push(parser.value()?);
        if !parser.takes(',') {
            parser.expect(')')?;
            break;
        }
    }
    parser.end()?;
    Ok(values)
}

impl Parser {
    /// A parser at the first token of a text.
    pub fn new(text: &str) -> Result<Self, CandidError> {
        Ok(Self { tokens: tokens(text)?, at: 0, depth: 0 })
    }

    /// Whether no token is left.
    pub fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// Fails if a token is left.
    pub fn end(&self) -> Result<(), CandidError> {
        if self.is_at_end() { Ok(()) } else { self.unexpected("nothing more") }
    }

    /// The next token.
    pub fn peek(&self) -> Option<&CandidToken> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<CandidToken> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// An error about the next token.
    pub fn unexpected<T>(&self, wanted: &str) -> Result<T, CandidError> {
        match self.tokens.get(self.at) {
            None => error(format!("it ends where {wanted} should come")),
            Some((token, at)) => {
                let token = match token {
                    CandidToken::Word(word) | CandidToken::Number(word) => format!("'{word}'"),
                    CandidToken::Quoted(_) => "a text".to_owned(),
                    CandidToken::Sign(sign) => format!("'{sign}'"),
                    CandidToken::Arrow => "'->'".to_owned(),
                };
                error(format!("{token} at character {at} stands where {wanted} should come"))
            }
        }
    }

    /// Takes a sign, if it is the next token.
    pub fn takes(&mut self, sign: char) -> bool {
        let is_next = self.peek() == Some(&CandidToken::Sign(sign));
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes an arrow, if it is the next token.
    pub fn takes_arrow(&mut self) -> bool {
        let is_next = self.peek() == Some(&CandidToken::Arrow);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes a word, if it is the next token.
    pub fn takes_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(CandidToken::Word(next)) if next == word);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes a sign; fails if the next token is another one.
    pub fn expect(&mut self, sign: char) -> Result<(), CandidError> {
        if self.takes(sign) { Ok(()) } else { self.unexpected(&format!("'{sign}'")) }
    }

    /// Takes a name, a word or a text; fails if the next token is neither.
    pub fn name(&mut self) -> Result<String, CandidError> {
        match self.peek() {
            Some(CandidToken::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            Some(CandidToken::Quoted(bytes)) => {
                let name = String::from_utf8(bytes.clone()).map_err(|_| CandidError("a name is not UTF-8".into()))?;
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, CandidError>) -> Result<T, CandidError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return error("it is nested too deeply");
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Parses a value, with its type if one follows.
    pub fn value(&mut self) -> Result<CandidValue, CandidError> {
        let value = self.deeper(Self::bare_value)?;
        if self.takes(':') { Ok(CandidValue::Typed(Box::new(value), self.ty()?)) } else { Ok(value) }
    }

    fn bare_value(&mut self) -> Result<CandidValue, CandidError> {
        if self.takes('(') {
            let value = self.value()?;
            self.expect(')')?;
            return Ok(value);
        }
        let wrong = |parser: &mut Self| {
            parser.at -= 1;
            parser.unexpected("a value")
        };
        match self.next() {
            Some(CandidToken::Quoted(bytes)) => String::from_utf8(bytes)
                .map(CandidValue::Text)
                .map_err(|_| CandidError("a text is not UTF-8; write blob \"…\"".into())),
            Some(CandidToken::Number(text)) => number(&text),
            Some(CandidToken::Word(word)) => match word.as_str() {
                "null" => Ok(CandidValue::Null),
                "true" => Ok(CandidValue::Bool(true)),
                "false" => Ok(CandidValue::Bool(false)),
                "opt" => Ok(CandidValue::Opt(Box::new(self.deeper(Self::bare_value)?))),
                "blob" => match self.next() {
                    Some(CandidToken::Quoted(bytes)) => Ok(CandidValue::Blob(bytes)),
                    _ => wrong(self),
                },
                "principal" => match self.next() {
                    Some(CandidToken::Quoted(bytes)) => {
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        Ok(CandidValue::Principal(
                            principal_bytes(&text).ok_or_else(|| CandidError(format!("'{text}' is no principal")))?,
                        ))
                    }
                    _ => wrong(self),
                },
                "vec" => Ok(CandidValue::Vec(self.listed(Self::value)?)),
                "record" => self.record_value(),
                "variant" => {
                    let mut cases = self.listed(Self::case)?;
                    match (cases.pop(), cases.is_empty()) {
                        (Some((id, value)), true) => Ok(CandidValue::Variant(id, Box::new(value))),
                        _ => error("a variant has exactly one case"),
                    }
                }
                _ => wrong(self),
            },
            Some(_) => wrong(self),
            None => self.unexpected("a value"),
        }
    }

    /// `{ item; item }`
    fn listed<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, CandidError>) -> Result<Vec<T>, CandidError> {
        self.expect('{')?;
        let mut items = Vec::new();
        while !self.takes('}') {
            items.push(item(self)?);
            if !self.takes(';') {
                self.expect('}')?;
                break;
            }
        }
        Ok(items)
    }

    /// Takes a label and the sign after it, if these are the next tokens.
    fn label(&mut self, sign: char) -> Option<u32> {
        let id = match self.peek()? {
            CandidToken::Word(word) => label_id(word),
            CandidToken::Quoted(bytes) => label_id(std::str::from_utf8(bytes).ok()?),
            CandidToken::Number(text) => text.replace('_', "").parse().ok()?,
            _ => return None,
        };
        if self.tokens.get(self.at + 1)?.0 != CandidToken::Sign(sign) {
            return None;
        }
        self.at += 2;
        Some(id)
    }

    fn record_value(&mut self) -> Result<CandidValue, CandidError> {
        let mut next = 0u32;
        let fields = self.listed(|parser| {
            let id = parser.label('=').unwrap_or(next);
            next = id.wrapping_add(1);
            Ok((id, parser.value()?))
        })?;
        Ok(CandidValue::Record(fields))
    }

    fn case(&mut self) -> Result<(u32, CandidValue), CandidError> {
        if let Some(id) = self.label('=') {
            return Ok((id, self.value()?));
        }
        match self.peek() {
            Some(CandidToken::Number(text)) => {
                let id = text.replace('_', "").parse();
                self.at += 1;
                id.map(|id| (id, CandidValue::Null))
                    .map_err(|_| CandidError("a case's number does not fit into 32 bits".into()))
            }
            _ => Ok((label_id(&self.name()?), CandidValue::Null)),
        }
    }

    /// Parses a type.
    pub fn ty(&mut self) -> Result<Type, CandidError> {
        self.deeper(Self::bare_type)
    }

    fn bare_type(&mut self) -> Result<Type, CandidError> {
        let word = self.name()?;
        Ok(match word.as_str() {
            "opt" => Type::Opt(Box::new(self.ty()?)),
            "vec" => Type::Vec(Box::new(self.ty()?)),
            "blob" => Type::Vec(Box::new(Type::Simple(Simple::Unsigned(1)))),
            "record" => {
                let mut next = 0u32;
                let fields = self.listed(|parser| {
                    let id = parser.label(':').unwrap_or(next);
                    next = id.wrapping_add(1);
                    Ok(CandidField { id, ty: parser.ty()? })
                })?;
                Type::Record(fields)
            }
            "variant" => {
                let fields = self.listed(|parser| match parser.label(':') {
                    Some(id) => Ok(CandidField { id, ty: parser.ty()? }),
                    None => Ok(CandidField { id: label_id(&parser.name()?), ty: Type::Simple(Simple::Null) }),
                })?;
                Type::Variant(fields)
            }
            "func" => {
                self.signature()?;
                Type::Func
            }
            "service" => {
                self.listed(|parser| {
                    parser.name()?;
                    parser.expect(':')?;
                    parser.method().map(drop)
                })?;
                Type::Service
            }
            _ => Simple::named(&word).map_or(Type::Named(word), Type::Simple),
        })
    }

    /// Parses a method's type: a signature, or the name of one.
    pub fn method(&mut self) -> Result<CandidMethod, CandidError> {
        if self.peek() == Some(&CandidToken::Sign('(')) {
            self.signature().map(CandidMethod::Takes)
        } else {
            self.name().map(CandidMethod::Named)
        }
    }

    /// `(types) -> (types) annotations`: returns the argument types.
    fn signature(&mut self) -> Result<Vec<Type>, CandidError> {
        let takes = self.types()?;
        if !self.takes_arrow() {
            return self.unexpected("'->'");
        }
        self.types()?;
        while ["query", "oneway", "composite_query"].into_iter().any(|word| self.takes_word(word)) {}
        Ok(takes)
    }

    /// `(type, name : type, …)`, or one type alone.
    pub fn types(&mut self) -> Result<Vec<Type>, CandidError> {
        if !self.takes('(') {
            return Ok(vec![self.ty()?]);
        }
        let mut types = Vec::new();
        while !self.takes(')') {
            let _name = self.label(':');
            types.push(self.ty()?);
            if !self.takes(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(types)
    }
}

/// The type of a method in an interface.
#[derive(Clone, Debug)]
pub enum CandidMethod {
    /// Its argument types.
    Takes(Vec<Type>),
    /// The name of a `func` type.
    Named(String),
}

fn number(text: &str) -> Result<CandidValue, CandidError> {
    let plain = text.replace('_', "");
    if let Some(number) = WholeNumber::parse(text) {
        return Ok(CandidValue::Whole(number));
    }
    let value = plain.parse::<f64>().ok().filter(|_| !plain.contains(['n', 'i', 'N', 'I']));
    value.map(CandidValue::Float).ok_or_else(|| CandidError(format!("'{text}' is no number")))
}
