//! Types: they are parsed in full, and kept as far as they matter when a script runs.

use super::ast::Type;
use super::lexer::Token;
use super::parser::Parser;
use super::{Parsed, Symbol};
use crate::number::NumberKind;

impl Parser {
    /// A type, functions included.
    pub(super) fn type_(&mut self) -> Parsed<Type> {
        self.nested(|parser| {
            while parser.take_word("shared") || parser.take_word("query") || parser.take_word("composite") {}
            if parser.is_sign("<") {
                parser.type_parameters()?;
            }
            let mut found = parser.prefix_type()?;
            loop {
                if parser.take_sign("->") {
                    parser.type_()?;
                    found = Type::Other;
                } else if parser.is_word("and") || parser.is_word("or") {
                    parser.advance();
                    parser.prefix_type()?;
                    found = Type::Other;
                } else {
                    return Ok(found);
                }
            }
        })
    }

    fn prefix_type(&mut self) -> Parsed<Type> {
        if self.take_sign("?") {
            return Ok(Type::Option(Box::new(self.nested(Self::prefix_type)?)));
        }
        if self.take_word("async") {
            self.take_sign("*");
            self.nested(Self::prefix_type)?;
            return Ok(Type::Other);
        }
        let is_object = ["actor", "object", "module"].into_iter().any(|word| self.take_word(word));
        let found = self.nullary_type()?;
        Ok(if is_object { Type::Other } else { found })
    }

    fn nullary_type(&mut self) -> Parsed<Type> {
        if self.take_sign("(") {
            let mut items = self.listed(",", ")", Self::type_item)?;
            return Ok(if items.len() == 1 { items.remove(0) } else { Type::Tuple(items) });
        }
        if self.take_sign("[") {
            self.take_word("var");
            let item = self.type_()?;
            self.expect("]")?;
            return Ok(Type::Array(Box::new(item)));
        }
        if self.take_sign("{") {
            let fields: Vec<_> = self.listed(";", "}", Self::type_field)?.into_iter().flatten().collect();
            return Ok(Type::Record(fields));
        }
        self.type_path()
    }

    fn type_path(&mut self) -> Parsed<Type> {
        let mut name = self.name()?;
        let mut is_path = false;
        while self.is_sign(".") {
            self.advance();
            name = self.name()?;
            is_path = true;
        }
        if self.is_sign("<") {
            self.type_arguments()?;
            return Ok(Type::Other);
        }
        Ok(match &*name.name() {
            _ if is_path => Type::Other,
            "Float" => Type::Float,
            "Blob" => Type::Blob,
            other => match NumberKind::named(other) {
                Some(kind) => Type::Number(kind),
                None => self.aliases.get(&name).cloned().unwrap_or(Type::Other),
            },
        })
    }

    /// `x : Nat` or only `Nat`, in a tuple of types.
    fn type_item(&mut self) -> Parsed<Type> {
        if self.is_name() && matches!(self.following(), Token::Sign(":")) {
            self.advance();
            self.advance();
        }
        self.type_()
    }

    fn type_field(&mut self) -> Parsed<Option<(Symbol, Type)>> {
        if self.take_sign("#") {
            if !self.is_sign("}") {
                self.variant_name()?;
                if self.take_sign(":") {
                    self.type_()?;
                }
            }
            return Ok(None);
        }
        if self.take_word("type") {
            self.name()?;
            self.type_parameters()?;
            self.expect("=")?;
            self.type_()?;
            return Ok(None);
        }
        self.take_word("var");
        let name = self.name()?;
        self.type_parameters()?;
        if self.is_sign("(") {
            self.nullary_type()?;
            self.expect(":")?;
            self.type_()?;
            return Ok(None);
        }
        self.expect(":")?;
        Ok(Some((name, self.type_()?)))
    }

    /// `<A, B <: Any>`, if there are any.
    pub(super) fn type_parameters(&mut self) -> Parsed<()> {
        if !self.take_sign("<") {
            return Ok(());
        }
        loop {
            if self.take_closing_angle() {
                return Ok(());
            }
            self.take_word("system");
            if self.is_name() {
                self.name()?;
            }
            if self.take_sign("<:") {
                self.type_()?;
            }
            if !self.take_sign(",") && !self.is_angle() {
                return self.unexpected();
            }
        }
    }

    /// `<Nat, Text>`.
    pub(super) fn type_arguments(&mut self) -> Parsed<()> {
        self.expect("<")?;
        loop {
            if self.take_closing_angle() {
                return Ok(());
            }
            if !self.take_word("system") {
                self.type_()?;
            }
            if !self.take_sign(",") && !self.is_angle() {
                return self.unexpected();
            }
        }
    }

    fn is_angle(&self) -> bool {
        matches!(self.token(), Token::Sign(">" | ">>" | ">=" | ">>="))
    }
}
