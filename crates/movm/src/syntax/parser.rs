//! The parser's tokens, and declarations.
//!
//! It is a recursive descent by hand: the grammar decides with one token, and messages can say what to write instead.

use super::ast::{Body, Class, Declaration, DeclarationNode, Expression, Function, Node, Pattern, Type};
use super::lexer::{Located, Token, tokens};
use super::refusals::{foreign_sign, is_keyword, refusal};
use super::{Parsed, Position, Symbol, SyntaxProblem};
use std::collections::HashMap;
use std::rc::Rc;

/// The deepest nesting: the parser and the machine recurse with it.
const DEEPEST: usize = 1000;

/// Parses a script.
pub fn parse(text: &str) -> Parsed<Vec<Declaration>> {
    program(tokens(text)?)
}

/// Parses a module of the library: it has no positions, because those of the script are the ones to report.
pub fn parse_library(text: &str) -> Parsed<Vec<Declaration>> {
    let mut tokens = tokens(text)?;
    tokens.iter_mut().for_each(|token| token.at = Position::default());
    program(tokens)
}

fn program(tokens: Vec<Located>) -> Parsed<Vec<Declaration>> {
    let mut parser = Parser { tokens, next: 0, splits: Vec::new(), depth: 0, aliases: HashMap::new(), records: true };
    let declarations = parser.declarations()?;
    if parser.token() != &Token::End {
        return parser.unexpected();
    }
    Ok(declarations)
}

/// The tokens of a script, and how far they are read.
pub(super) struct Parser {
    tokens: Vec<Located>,
    next: usize,
    /// Tokens that were split (`>>` closes two type arguments), to undo it.
    splits: Vec<(usize, Token)>,
    depth: usize,
    /// The types that the script has named so far.
    pub(super) aliases: HashMap<Symbol, Type>,
    /// False where a `{` begins a block and no record: in the branches of `if` and in the bodies of loops.
    pub(super) records: bool,
}

/// A point to return to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    next: usize,
    splits: usize,
}

impl Parser {
    pub(super) fn token(&self) -> &Token {
        &self.tokens[self.next].token
    }

    pub(super) fn following(&self) -> &Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)].token
    }

    pub(super) fn at(&self) -> Position {
        self.tokens[self.next].at
    }

    pub(super) fn is_spaced(&self) -> bool {
        self.tokens[self.next].spaced
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.token().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { next: self.next, splits: self.splits.len() }
    }

    pub(super) fn return_to(&mut self, mark: Mark) {
        self.next = mark.next;
        while self.splits.len() > mark.splits {
            if let Some((at, token)) = self.splits.pop() {
                self.tokens[at].token = token;
            }
        }
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token(), Token::Sign(found) if *found == sign)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.token(), Token::Word(found) if **found == *word)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let is_it = self.is_sign(sign);
        if is_it {
            self.advance();
        }
        is_it
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        if is_it {
            self.advance();
        }
        is_it
    }

    /// Takes the `>` that closes type arguments, also as the first half of `>>`, `>=` and `>>=`.
    pub(super) fn take_closing_angle(&mut self) -> bool {
        let rest = match self.token() {
            Token::Sign(">") => return self.take_sign(">"),
            Token::Sign(">>") => ">",
            Token::Sign(">=") => "=",
            Token::Sign(">>=") => ">=",
            _ => return false,
        };
        self.splits.push((self.next, self.token().clone()));
        self.tokens[self.next].token = Token::Sign(rest);
        true
    }

    pub(super) fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.take_sign(sign) { Ok(()) } else { self.missing(&format!("'{sign}'")) }
    }

    pub(super) fn problem<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err(SyntaxProblem { at: self.at(), what: what.into() })
    }

    fn missing<T>(&self, what: &str) -> Parsed<T> {
        match self.hint() {
            Some(line) => self.problem(line),
            None => self.problem(format!("{what} is missing before {}", in_words(self.token()))),
        }
    }

    /// What to write instead of the next token, if that is known.
    fn hint(&self) -> Option<&'static str> {
        match (self.token(), self.following()) {
            (Token::Word(word), _) => refusal(word),
            (Token::Sign(sign), Token::Sign(next)) => foreign_sign(sign, next),
            (Token::Sign(sign), _) => foreign_sign(sign, ""),
            _ => None,
        }
    }

    /// Refuses `&&`, `||` and `++`, whose first half is an operator.
    pub(super) fn must_not_be_foreign(&self) -> Parsed<()> {
        let is_one_sign = self.tokens.get(self.next + 1).is_some_and(|next| !next.spaced);
        match (self.token(), self.following()) {
            (Token::Sign(sign @ ("&" | "|" | "+")), Token::Sign(next)) if is_one_sign && sign == next => {
                self.unexpected()
            }
            _ => Ok(()),
        }
    }

    pub(super) fn unexpected<T>(&self) -> Parsed<T> {
        if self.token() == &Token::End {
            return self.problem("it ends too early");
        }
        match self.hint() {
            Some(line) => self.problem(line),
            None => self.problem(format!("{} is not expected here", in_words(self.token()))),
        }
    }

    /// Runs a part of the parser one level deeper.
    pub(super) fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEEPEST {
            return self.problem("the script nests too deeply");
        }
        self.depth += 1;
        let parsed = part(self);
        self.depth -= 1;
        parsed
    }

    /// Runs a part of the parser in which a `{` begins a record, or not.
    pub(super) fn with_records<T>(&mut self, records: bool, part: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let before = std::mem::replace(&mut self.records, records);
        let parsed = part(self);
        self.records = before;
        parsed
    }

    /// Items between separators, up to a closing sign, which is taken.
    pub(super) fn listed<T>(
        &mut self,
        separator: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.with_records(true, |parser| {
            let mut items = Vec::new();
            while !parser.take_sign(close) {
                items.push(item(parser)?);
                if !parser.take_sign(separator) && !parser.is_sign(close) {
                    return parser.missing(&format!("'{separator}' or '{close}'"));
                }
            }
            Ok(items)
        })
    }

    pub(super) fn name(&mut self) -> Parsed<Symbol> {
        match self.token() {
            Token::Word(word) if !is_keyword(word) => {
                let name = Symbol::new(word);
                self.advance();
                Ok(name)
            }
            _ => self.missing("a name"),
        }
    }

    pub(super) fn is_name(&self) -> bool {
        matches!(self.token(), Token::Word(word) if !is_keyword(word))
    }

    /// Declarations up to the end or a `}`, which is not taken.
    pub(super) fn declarations(&mut self) -> Parsed<Vec<Declaration>> {
        self.with_records(true, |parser| {
            let mut declarations = Vec::new();
            while parser.token() != &Token::End && !parser.is_sign("}") {
                if parser.take_sign(";") {
                    continue;
                }
                declarations.push(parser.declaration()?);
                if !parser.is_sign(";") && !parser.is_sign("}") && parser.token() != &Token::End {
                    return match parser.token() {
                        Token::Sign(_) => parser.unexpected(),
                        _ => parser.missing("';'"),
                    };
                }
            }
            Ok(declarations)
        })
    }

    fn declaration(&mut self) -> Parsed<Declaration> {
        let at = self.at();
        let Token::Word(word) = self.token().clone() else { return self.statement(at) };
        let node = match &*word {
            "let" => self.let_declaration()?,
            "var" => self.var_declaration()?,
            "type" => self.type_declaration()?,
            "import" => self.import()?,
            "class" => self.class()?,
            "func" if matches!(self.following(), Token::Word(_)) => {
                let function = self.function()?;
                match function.name {
                    Some(name) => DeclarationNode::Function(name, Rc::new(function)),
                    None => return self.unexpected(),
                }
            }
            "object" | "module" if matches!(self.following(), Token::Word(_)) => self.object_declaration()?,
            _ => return self.statement(at),
        };
        Ok(Declaration { node, at })
    }

    fn statement(&mut self, at: Position) -> Parsed<Declaration> {
        Ok(Declaration { node: DeclarationNode::Expression(self.expression()?), at })
    }

    fn let_declaration(&mut self) -> Parsed<DeclarationNode> {
        self.advance();
        let pattern = self.pattern()?;
        self.expect("=")?;
        let value = self.expression()?;
        let otherwise = if self.take_word("else") { Some(self.nest()?) } else { None };
        Ok(DeclarationNode::Let(pattern, value, otherwise))
    }

    fn var_declaration(&mut self) -> Parsed<DeclarationNode> {
        self.advance();
        let name = self.name()?;
        let kind = self.annotation()?;
        self.expect("=")?;
        Ok(DeclarationNode::Var(name, kind, self.expression()?))
    }

    fn type_declaration(&mut self) -> Parsed<DeclarationNode> {
        self.advance();
        let name = self.name()?;
        self.type_parameters()?;
        self.expect("=")?;
        let found = self.type_()?;
        self.aliases.insert(name, found);
        Ok(DeclarationNode::Type)
    }

    fn import(&mut self) -> Parsed<DeclarationNode> {
        self.advance();
        let pattern = self.nullary_pattern()?;
        self.take_sign("=");
        match self.advance() {
            Token::Text(path) => Ok(DeclarationNode::Import(pattern, String::from_utf8_lossy(&path).into())),
            _ => self.problem("an import is written: import Array \"mo:base/Array\""),
        }
    }

    fn class(&mut self) -> Parsed<DeclarationNode> {
        self.advance();
        let name = self.name()?;
        self.type_parameters()?;
        let parameters = self.nullary_pattern()?;
        self.annotation()?;
        self.take_sign("=");
        let this = if self.is_name() { Some(self.name()?) } else { None };
        let body = Rc::new(self.body(this)?);
        Ok(DeclarationNode::Class(Rc::new(Class { name, parameters, body })))
    }

    fn object_declaration(&mut self) -> Parsed<DeclarationNode> {
        let is_module = self.is_word("module");
        self.advance();
        let name = self.name()?;
        self.annotation()?;
        self.take_sign("=");
        let this = if is_module { None } else { Some(name) };
        Ok(DeclarationNode::Object(name, Rc::new(self.body(this)?)))
    }

    /// `func name<T>(parameters) : T { … }` or `= e`.
    pub(super) fn function(&mut self) -> Parsed<Function> {
        self.advance();
        let name = if self.is_name() && !matches!(self.following(), Token::Sign("=" | "{")) {
            Some(self.name()?)
        } else {
            None
        };
        self.type_parameters()?;
        let parameters = self.nullary_pattern()?;
        let result = self.annotation()?;
        let body = if self.take_sign("=") { self.expression()? } else { self.block()? };
        Ok(Function { name, parameters, result, body })
    }

    fn annotation(&mut self) -> Parsed<Option<Type>> {
        if self.take_sign(":") { Ok(Some(self.type_()?)) } else { Ok(None) }
    }

    /// The `{ … }` of an object, a class or a module.
    pub(super) fn body(&mut self, this: Option<Symbol>) -> Parsed<Body> {
        self.expect("{")?;
        let mut body = Body { this, declarations: Vec::new(), public: Vec::new() };
        self.with_records(true, |parser| {
            while !parser.take_sign("}") {
                if parser.take_sign(";") {
                    continue;
                }
                let is_public = parser.visibility();
                let declaration = parser.declaration()?;
                if is_public {
                    declared_names(&declaration, &mut body.public);
                }
                body.declarations.push(declaration);
                if !parser.is_sign(";") && !parser.is_sign("}") {
                    return parser.missing("';'");
                }
            }
            Ok(())
        })?;
        Ok(body)
    }

    /// Takes `public`, `private`, `stable` …; returns true for `public`.
    fn visibility(&mut self) -> bool {
        let mut is_public = false;
        loop {
            match self.token() {
                Token::Word(word) if &**word == "public" => is_public = true,
                Token::Word(word) if matches!(&**word, "private" | "stable" | "flexible" | "transient") => {}
                _ => return is_public,
            }
            self.advance();
        }
    }

    /// A block, or an expression in which a `{` does not begin a record.
    pub(super) fn nest(&mut self) -> Parsed<Expression> {
        if self.is_sign("{") { self.block() } else { self.with_records(false, Self::expression) }
    }

    pub(super) fn block(&mut self) -> Parsed<Expression> {
        let at = self.at();
        self.expect("{")?;
        let declarations = self.nested(Self::declarations)?;
        if !self.take_sign("}") {
            return if self.token() == &Token::End { self.unexpected() } else { self.missing("'}'") };
        }
        Ok(Expression { node: Node::Block(declarations), at })
    }
}

/// Adds the names that a declaration declares.
pub fn declared_names(declaration: &Declaration, names: &mut Vec<Symbol>) {
    match &declaration.node {
        DeclarationNode::Let(pattern, ..) | DeclarationNode::Import(pattern, _) => pattern.names(names),
        DeclarationNode::Var(name, ..) | DeclarationNode::Function(name, _) | DeclarationNode::Object(name, _) => {
            names.push(*name);
        }
        DeclarationNode::Class(class) => names.push(class.name),
        DeclarationNode::Expression(_) | DeclarationNode::Type => {}
    }
}

fn in_words(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("'{word}'"),
        Token::Number(number) => format!("'{number}'"),
        Token::Float(number) => format!("'{number}'"),
        Token::Text(_) => "a text".into(),
        Token::Char(character) => format!("{character:?}"),
        Token::Sign(sign) => format!("'{sign}'"),
        Token::End => "the end".into(),
    }
}

impl Pattern {
    /// The name and the type of `name : Type`.
    pub fn annotated(inner: Self, kind: Type) -> Self {
        if kind == Type::Other { inner } else { Self::Annotated(Box::new(inner), kind) }
    }
}
