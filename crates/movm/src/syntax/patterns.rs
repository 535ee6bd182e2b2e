//! Patterns.

use super::Parsed;
use super::ast::{Literal, Pattern};
use super::lexer::Token;
use super::parser::Parser;
use crate::number::NumberKind;

impl Parser {
    /// A pattern with alternatives and a type.
    pub(super) fn pattern(&mut self) -> Parsed<Pattern> {
        self.nested(|parser| {
            let mut pattern = parser.unary_pattern()?;
            loop {
                if parser.take_sign(":") {
                    pattern = Pattern::annotated(pattern, parser.type_()?);
                } else if parser.take_word("or") {
                    pattern = Pattern::Or(Box::new(pattern), Box::new(parser.unary_pattern()?));
                } else {
                    return Ok(pattern);
                }
            }
        })
    }

    fn unary_pattern(&mut self) -> Parsed<Pattern> {
        self.nested(|parser| {
            if parser.take_sign("?") {
                return Ok(Pattern::Option(Box::new(parser.unary_pattern()?)));
            }
            if parser.take_sign("#") {
                let name = parser.variant_name()?;
                let content = if parser.begins_pattern() { Some(Box::new(parser.nullary_pattern()?)) } else { None };
                return Ok(Pattern::Variant(name, content));
            }
            if parser.is_sign("-") || parser.is_sign("+") {
                let is_negative = parser.is_sign("-");
                parser.advance();
                return parser.signed_literal(is_negative);
            }
            parser.nullary_pattern()
        })
    }

    fn signed_literal(&mut self, is_negative: bool) -> Parsed<Pattern> {
        match self.token().clone() {
            Token::Number(number) => {
                self.advance();
                let signed =
                    if is_negative { number.negated(NumberKind::Int) } else { number.to_kind(NumberKind::Int) };
                match signed {
                    Ok(number) => Ok(Pattern::Literal(Literal::Number(number))),
                    Err(what) => self.problem(what),
                }
            }
            Token::Float(number) => {
                self.advance();
                Ok(Pattern::Literal(Literal::Float(if is_negative { -number } else { number })))
            }
            _ => self.unexpected(),
        }
    }

    fn begins_pattern(&self) -> bool {
        match self.token() {
            Token::Word(word) => self.is_name() || matches!(&**word, "null" | "true" | "false"),
            Token::Sign(sign) => matches!(*sign, "(" | "{" | "_"),
            Token::End => false,
            _ => true,
        }
    }

    /// A pattern without an operator: the parameters of a function, a `case`.
    pub(super) fn nullary_pattern(&mut self) -> Parsed<Pattern> {
        if self.take_sign("_") {
            return Ok(Pattern::Wild);
        }
        if self.take_sign("(") {
            let mut items = self.listed(",", ")", Self::pattern)?;
            return Ok(match items.len() {
                1 => items.remove(0),
                _ => Pattern::Tuple(items),
            });
        }
        if self.take_sign("{") {
            return Ok(Pattern::Record(self.listed(";", "}", Self::pattern_field)?));
        }
        if let Some(literal) = self.literal() {
            return Ok(Pattern::Literal(literal));
        }
        if self.is_sign("?") || self.is_sign("#") {
            return self.unary_pattern();
        }
        if self.is_sign("[") {
            return self.problem("no pattern takes arrays apart; bind the array, and use its size() and [i]");
        }
        Ok(Pattern::Variable(self.name()?))
    }

    fn pattern_field(&mut self) -> Parsed<(super::Symbol, Option<Pattern>)> {
        let name = self.name()?;
        let kind = if self.take_sign(":") { Some(self.type_()?) } else { None };
        let inner = if self.take_sign("=") { Some(self.pattern()?) } else { None };
        Ok((
            name,
            match (inner, kind) {
                (None, None) => None,
                (inner, kind) => {
                    let inner = inner.unwrap_or(Pattern::Variable(name));
                    Some(kind.map_or_else(|| inner.clone(), |kind| Pattern::annotated(inner.clone(), kind)))
                }
            },
        ))
    }
}
