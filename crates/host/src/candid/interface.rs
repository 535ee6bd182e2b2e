//! The interface of a canister: the methods of its service and their argument types.

use super::encode::MOST_STEPS;
use super::parser::{CandidMethod, Parser};
use super::types::{CandidField, Simple, Type};
use super::{CandidError, error};
use std::collections::BTreeMap;

/// An interface description, as modules carry it.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    types: BTreeMap<String, Type>,
    /// The argument types of each named `func` type.
    functions: BTreeMap<String, Vec<Type>>,
    methods: BTreeMap<String, CandidMethod>,
}

impl Interface {
    /// Parses a description.
    pub fn parse(text: &str) -> Result<Self, CandidError> {
        let mut parser = Parser::new(text)?;
        let mut interface = Self::default();
        while parser.takes_word("type") {
            let name = parser.name()?;
            parser.expect('=')?;
            if parser.takes_word("func") {
                let CandidMethod::Takes(takes) = parser.method()? else { return parser.unexpected("'('") };
                interface.functions.insert(name, takes);
            } else {
                let ty = parser.ty()?;
                interface.types.insert(name, ty);
            }
            if !parser.takes(';') {
                break;
            }
        }
        if parser.takes_word("service") {
            // A service may have a name. The arguments of its constructor are skipped: they belong to no call.
            if !parser.takes(':') {
                parser.name()?;
                parser.expect(':')?;
            }
            if matches!(parser.peek(), Some(super::lexer::CandidToken::Sign('('))) {
                parser.types()?;
                if !parser.takes_arrow() {
                    return parser.unexpected("'->'");
                }
            }
            interface.read_methods(&mut parser)?;
            parser.takes(';');
        }
        parser.end()?;
        Ok(interface)
    }

    fn read_methods(&mut self, parser: &mut Parser) -> Result<(), CandidError> {
        parser.expect('{')?;
        while !parser.takes('}') {
            let name = parser.name()?;
            parser.expect(':')?;
            let method = parser.method()?;
            self.methods.insert(name, method);
            if !parser.takes(';') {
                return parser.expect('}');
            }
        }
        Ok(())
    }

    /// The argument types of a method.
    pub fn arguments_of(&self, method: &str) -> Option<&[Type]> {
        match self.methods.get(method)? {
            CandidMethod::Takes(types) => Some(types),
            CandidMethod::Named(name) => self.functions.get(name).map(Vec::as_slice),
        }
    }

    /// The type that a name stands for; any other type is returned as it is.
    pub(super) fn resolve<'a>(&'a self, ty: &'a Type) -> Result<&'a Type, CandidError> {
        let mut found = ty;
        for _ in 0..MOST_STEPS {
            let Type::Named(name) = found else { return Ok(found) };
            match self.types.get(name) {
                Some(next) => found = next,
                None if self.functions.contains_key(name) => return Ok(&Type::Func),
                None => return error(format!("no type is called '{name}'")),
            }
        }
        error("a type's name stands for itself")
    }

    /// Whether a value of this type can be left out.
    pub(super) fn is_optional(&self, ty: &Type) -> bool {
        matches!(self.resolve(ty), Ok(Type::Opt(_) | Type::Simple(Simple::Null | Simple::Reserved)))
    }

    /// Types in words, for messages.
    pub(super) fn describe(&self, types: &[Type]) -> String {
        types.iter().map(describe).collect::<Vec<_>>().join(", ")
    }
}

/// A type in words, for messages: fields only by their number.
pub(super) fn describe(ty: &Type) -> String {
    match ty {
        Type::Simple(simple) => simple.name().to_owned(),
        Type::Opt(inner) => format!("opt {}", describe(inner)),
        Type::Vec(inner) => format!("vec {}", describe(inner)),
        Type::Record(fields) => format!("record {{{}}}", count(fields)),
        Type::Variant(fields) => format!("variant {{{}}}", count(fields)),
        Type::Func => "func".into(),
        Type::Service => "service".into(),
        Type::Named(name) => name.clone(),
    }
}

fn count(fields: &[CandidField]) -> String {
    match fields.len() {
        0 => String::new(),
        1 => "1 field".into(),
        more => format!("{more} fields"),
    }
}
