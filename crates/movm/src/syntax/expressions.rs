//! Expressions.

use super::ast::{BinaryOperator, Expression, Inner, Literal, Node, RecordField, UnaryOperator};
use super::lexer::Token;
use super::parser::Parser;
use super::refusals::is_keyword;
use super::{Parsed, Position, Symbol};
use std::rc::Rc;

/// An infix operator, and how tightly it binds.
enum Infix {
    Pipe,
    Or,
    And,
    Binary(BinaryOperator),
}

/// The infix operators: the later, the tighter. The numbers are the language's own order.
fn infix(token: &Token) -> Option<(u8, Infix)> {
    use BinaryOperator as Op;
    let sign = match token {
        Token::Sign(sign) => *sign,
        Token::Word(word) if &**word == "or" => return Some((2, Infix::Or)),
        Token::Word(word) if &**word == "and" => return Some((3, Infix::And)),
        _ => return None,
    };
    if sign == "|>" {
        return Some((1, Infix::Pipe));
    }
    let (level, operator) = match sign {
        "==" => (4, Op::Equal),
        "!=" => (4, Op::NotEqual),
        "<" => (4, Op::Less),
        "<=" => (4, Op::LessOrEqual),
        ">" => (4, Op::Greater),
        ">=" => (4, Op::GreaterOrEqual),
        "+" => (5, Op::Add),
        "-" => (5, Op::Sub),
        "+%" => (5, Op::WrappingAdd),
        "-%" => (5, Op::WrappingSub),
        "#" => (5, Op::Concat),
        "*" => (6, Op::Mul),
        "*%" => (6, Op::WrappingMul),
        "/" => (6, Op::Div),
        "%" => (6, Op::Mod),
        "|" => (7, Op::BitOr),
        "&" => (8, Op::BitAnd),
        "^" => (9, Op::BitXor),
        "<<" => (10, Op::ShiftLeft),
        ">>" => (10, Op::ShiftRight),
        "<<>" => (10, Op::RotateLeft),
        "<>>" => (10, Op::RotateRight),
        "**" => (11, Op::Pow),
        "**%" => (11, Op::WrappingPow),
        _ => return None,
    };
    Some((level, Infix::Binary(operator)))
}

fn assignment(token: &Token) -> Option<BinaryOperator> {
    let Token::Sign(sign) = token else { return None };
    let operator = sign.strip_suffix('=')?;
    if matches!(*sign, "==" | "!=" | "<=" | ">=" | ":=" | "=") {
        return None;
    }
    match infix(&Token::Sign(match operator {
        "+" => "+",
        "-" => "-",
        "*" => "*",
        "/" => "/",
        "%" => "%",
        "**" => "**",
        "&" => "&",
        "|" => "|",
        "^" => "^",
        "<<" => "<<",
        ">>" => ">>",
        "<<>" => "<<>",
        "<>>" => "<>>",
        "+%" => "+%",
        "-%" => "-%",
        "*%" => "*%",
        "**%" => "**%",
        "#" => "#",
        _ => return None,
    })) {
        Some((_, Infix::Binary(operator))) => Some(operator),
        _ => None,
    }
}

fn made(node: Node, at: Position) -> Expression {
    Expression { node, at }
}

impl Parser {
    /// Any expression.
    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        self.nested(|parser| {
            let at = parser.at();
            if let Token::Word(word) = parser.token().clone()
                && let Some(node) = parser.keyword(&word)?
            {
                return Ok(made(node, at));
            }
            parser.assigned()
        })
    }

    fn inner(&mut self) -> Parsed<Inner> {
        self.expression().map(Box::new)
    }

    fn inner_nest(&mut self) -> Parsed<Inner> {
        self.nest().map(Box::new)
    }

    /// The expressions that a keyword begins, and that are no operands.
    fn keyword(&mut self, word: &str) -> Parsed<Option<Node>> {
        let node = match word {
            "if" => self.if_()?,
            "switch" => self.switch()?,
            "while" => {
                self.advance();
                Node::While(self.condition()?, self.inner_nest()?)
            }
            "loop" => {
                self.advance();
                let body = self.inner_nest()?;
                let condition = if self.take_word("while") { Some(self.inner_nest()?) } else { None };
                Node::Loop(body, condition)
            }
            "for" => self.for_()?,
            "label" => {
                self.advance();
                let name = self.name()?;
                if self.take_sign(":") {
                    self.type_()?;
                }
                Node::Label(name, self.inner_nest()?)
            }
            "break" => {
                self.advance();
                let label = if self.is_name() { Some(self.name()?) } else { None };
                let value = if self.begins_expression() { Some(self.inner()?) } else { None };
                Node::Break(label, value)
            }
            "continue" => {
                self.advance();
                Node::Continue(if self.is_name() { Some(self.name()?) } else { None })
            }
            "return" => {
                self.advance();
                Node::Return(if self.begins_expression() { Some(self.inner()?) } else { None })
            }
            "assert" => {
                self.advance();
                Node::Assert(self.inner_nest()?)
            }
            "ignore" => {
                self.advance();
                Node::Ignore(self.inner_nest()?)
            }
            "debug" => {
                self.advance();
                return Ok(Some(self.nest()?.node));
            }
            "do" => {
                self.advance();
                if self.take_sign("?") { Node::DoOption(Box::new(self.block()?)) } else { self.block()?.node }
            }
            "func" => Node::Function(Rc::new(self.function()?)),
            "object" | "module" => {
                self.advance();
                let this = if self.is_name() { Some(self.name()?) } else { None };
                self.take_sign("=");
                Node::Object(Rc::new(self.body(this)?))
            }
            "let" | "var" | "class" | "type" | "import" => {
                return self.problem(format!("'{word}' stands here alone; put it into a block: {{ {word} … }}"));
            }
            _ => return Ok(None),
        };
        Ok(Some(node))
    }

    /// The condition of `if` and `while`, and the value of `switch`: what follows is a body, so that it takes no arguments.
    fn condition(&mut self) -> Parsed<Inner> {
        let at = self.at();
        if self.is_word("not") {
            return self.problem("a condition with 'not' needs parentheses: if (not x) { … }");
        }
        let condition = self.primary()?;
        let Some(condition) = condition else { return self.unexpected() };
        let is_unfinished = match self.token() {
            Token::Sign(sign) => matches!(*sign, "." | "==" | "!=" | "<" | "<=" | ">" | ">="),
            Token::Word(word) => matches!(&**word, "and" | "or"),
            _ => false,
        };
        if is_unfinished {
            return Err(super::SyntaxProblem { at, what: "a condition needs parentheses: if (a == b) { … }".into() });
        }
        Ok(Box::new(condition))
    }

    fn if_(&mut self) -> Parsed<Node> {
        self.advance();
        let condition = self.condition()?;
        let then = self.inner_nest()?;
        let otherwise = if self.take_word("else") { Some(self.inner_nest()?) } else { None };
        Ok(Node::If(condition, then, otherwise))
    }

    fn switch(&mut self) -> Parsed<Node> {
        self.advance();
        let value = self.condition()?;
        self.expect("{")?;
        let cases = self.listed(";", "}", |parser| {
            if !parser.take_word("case") {
                return parser.problem("a case is written: case (pattern) { … };");
            }
            let pattern = parser.nullary_pattern()?;
            Ok((pattern, parser.nest()?))
        })?;
        Ok(Node::Switch(value, cases))
    }

    fn for_(&mut self) -> Parsed<Node> {
        self.advance();
        if !self.take_sign("(") {
            return self.problem("a loop is written: for (x in xs.vals()) { … }");
        }
        let pattern = self.pattern()?;
        if !self.take_word("in") {
            return self.problem("a loop is written: for (x in xs.vals()) { … }");
        }
        let items = Box::new(self.with_records(true, Self::expression)?);
        self.expect(")")?;
        Ok(Node::For(pattern, items, self.inner_nest()?))
    }

    fn assigned(&mut self) -> Parsed<Expression> {
        let target = self.binary(1)?;
        let at = self.at();
        if self.take_sign(":=") {
            return Ok(made(Node::Assign(Box::new(target), self.inner()?), at));
        }
        if let Some(operator) = assignment(self.token()) {
            self.advance();
            return Ok(made(Node::AssignWith(Box::new(target), operator, self.inner()?), at));
        }
        Ok(target)
    }

    fn binary(&mut self, lowest: u8) -> Parsed<Expression> {
        let mut left = self.unary()?;
        loop {
            let at = self.at();
            if lowest == 1 && self.take_sign(":") {
                left = made(Node::Annotated(Box::new(left), self.type_()?), at);
                continue;
            }
            let Some((level, operator)) = infix(self.token()).filter(|(level, _)| *level >= lowest) else {
                return Ok(left);
            };
            self.must_not_be_foreign()?;
            self.advance();
            let right = Box::new(self.nested(|parser| parser.binary(level + 1))?);
            let left_inner = Box::new(left);
            left = made(
                match operator {
                    Infix::Pipe => Node::Pipe(left_inner, right),
                    Infix::Or => Node::Or(left_inner, right),
                    Infix::And => Node::And(left_inner, right),
                    Infix::Binary(operator) => Node::Binary(left_inner, operator, right),
                },
                at,
            );
        }
    }

    fn unary(&mut self) -> Parsed<Expression> {
        self.nested(|parser| {
            let at = parser.at();
            let operator = match parser.token() {
                Token::Sign("-") => Some(UnaryOperator::Minus),
                Token::Sign("+") => Some(UnaryOperator::Plus),
                Token::Sign("^") => Some(UnaryOperator::Complement),
                Token::Word(word) if &**word == "not" => Some(UnaryOperator::Not),
                _ => None,
            };
            if let Some(operator) = operator {
                parser.advance();
                return Ok(made(Node::Unary(operator, Box::new(parser.unary()?)), at));
            }
            if parser.take_sign("?") {
                return Ok(made(Node::Option(Box::new(parser.unary()?)), at));
            }
            if parser.take_sign("#") {
                let name = parser.variant_name()?;
                let content = parser.primary()?.map(Box::new);
                return Ok(made(Node::Variant(name, content), at));
            }
            if parser.take_word("debug_show") {
                return Ok(made(Node::Show(Box::new(parser.unary()?)), at));
            }
            parser.postfix()
        })
    }

    /// The name of a variant, which can be a keyword, too.
    pub(super) fn variant_name(&mut self) -> Parsed<Symbol> {
        match self.advance() {
            Token::Word(word) => Ok(Symbol::new(&word)),
            _ => self.problem("a name is missing after '#'"),
        }
    }

    fn postfix(&mut self) -> Parsed<Expression> {
        let Some(mut left) = self.postfix_start()? else { return self.unexpected() };
        loop {
            let at = self.at();
            if self.take_sign("[") {
                let index = Box::new(self.with_records(true, Self::expression)?);
                self.expect("]")?;
                left = made(Node::Index(Box::new(left), index), at);
            } else if self.is_sign(".") {
                self.advance();
                left = self.member(left)?;
            } else if self.is_sign("!") && !matches!(self.following(), Token::Sign("=")) && !self.is_spaced() {
                self.advance();
                left = made(Node::Bang(Box::new(left)), at);
            } else {
                self.instantiation();
                let called = if self.follows_argument() { self.primary()? } else { None };
                match called {
                    Some(argument) => left = made(Node::Call(Box::new(left), arguments_of(argument)), at),
                    None => return Ok(left),
                }
            }
        }
    }

    /// An array or what can be called.
    fn postfix_start(&mut self) -> Parsed<Option<Expression>> {
        let at = self.at();
        if self.take_sign("[") {
            let mutable = self.take_word("var");
            let items = self.listed(",", "]", Self::expression)?;
            return Ok(Some(made(Node::Array { mutable, items }, at)));
        }
        self.primary()
    }

    fn member(&mut self, of: Expression) -> Parsed<Expression> {
        let at = self.at();
        match self.token().clone() {
            Token::Number(index) => {
                self.advance();
                let index = index.to_u64().unwrap_or(u64::MAX) as usize;
                Ok(made(Node::Projection(Box::new(of), index), at))
            }
            Token::Word(name) => {
                self.advance();
                Ok(made(Node::Member(Box::new(of), Symbol::new(&name)), at))
            }
            _ => self.problem("a name is missing after '.'"),
        }
    }

    /// Skips `<Nat, Text>` before arguments. A `<` without arguments after its `>` is an operator.
    fn instantiation(&mut self) {
        if !self.is_sign("<") || self.is_spaced() {
            return;
        }
        let mark = self.mark();
        if self.type_arguments().is_err() || !self.is_sign("(") {
            self.return_to(mark);
        }
    }

    /// True if the next token begins an argument: `f(x)`, `f "text"`, `f x`, but not the `{` after a condition.
    fn follows_argument(&self) -> bool {
        match self.token() {
            Token::Sign("(") => true,
            Token::Sign("{") => self.records,
            Token::Word(word) => !is_keyword(word) || matches!(&**word, "null" | "true" | "false"),
            Token::Number(_) | Token::Float(_) | Token::Text(_) | Token::Char(_) => true,
            _ => false,
        }
    }

    fn begins_expression(&self) -> bool {
        match self.token() {
            Token::End => false,
            Token::Sign(sign) => matches!(*sign, "(" | "{" | "[" | "#" | "?" | "-" | "+" | "^" | "_"),
            Token::Word(word) => !matches!(&**word, "else" | "case" | "while" | "in" | "and" | "or"),
            _ => true,
        }
    }

    /// A constant, if the next token is one.
    pub(super) fn literal(&mut self) -> Option<Literal> {
        let literal = match self.token() {
            Token::Word(word) => match &**word {
                "null" => Literal::Null,
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                _ => return None,
            },
            Token::Number(number) => Literal::Number(number.clone()),
            Token::Float(number) => Literal::Float(*number),
            Token::Char(character) => Literal::Char(*character),
            Token::Text(bytes) => Literal::Text(bytes.clone()),
            _ => return None,
        };
        self.advance();
        Some(literal)
    }

    /// A constant, a name, a tuple or a record; none if something else follows.
    fn primary(&mut self) -> Parsed<Option<Expression>> {
        let at = self.at();
        if let Some(literal) = self.literal() {
            return Ok(Some(made(Node::Literal(literal), at)));
        }
        if self.is_name() {
            return Ok(Some(made(Node::Variable(self.name()?), at)));
        }
        if self.take_sign("_") {
            return Ok(Some(made(Node::Variable(Symbol::new("_")), at)));
        }
        if self.take_sign("(") {
            let mut items = self.listed(",", ")", Self::expression)?;
            return Ok(Some(if items.len() == 1 {
                items.remove(0).in_parentheses()
            } else {
                made(Node::Tuple(items), at)
            }));
        }
        if self.records && self.take_sign("{") {
            return Ok(Some(made(self.record()?, at)));
        }
        Ok(None)
    }

    /// What follows the `{` of a record.
    fn record(&mut self) -> Parsed<Node> {
        let mut bases = Vec::new();
        let is_field =
            self.is_sign("}") || self.is_word("var") || matches!(self.following(), Token::Sign("=" | ":" | ";" | "}"));
        if !is_field {
            if ["let", "if", "for", "while", "switch", "return"].into_iter().any(|word| self.is_word(word)) {
                return self.problem("a record is expected here; a block is written: do { … }");
            }
            self.with_records(true, |parser| {
                bases.push(parser.postfix()?);
                while parser.take_word("and") {
                    bases.push(parser.postfix()?);
                }
                Ok(())
            })?;
            if !self.take_word("with") {
                self.expect("}")?;
                return Ok(Node::Record { bases, fields: Vec::new() });
            }
        }
        let fields = self.listed(";", "}", Self::record_field)?;
        Ok(Node::Record { bases, fields })
    }

    fn record_field(&mut self) -> Parsed<RecordField> {
        let mutable = self.take_word("var");
        let at = self.at();
        let name = self.name()?;
        let kind = if self.take_sign(":") { Some(self.type_()?) } else { None };
        let value = if self.take_sign("=") { self.expression()? } else { made(Node::Variable(name), at) };
        let value = match kind {
            Some(kind) => made(Node::Annotated(Box::new(value), kind), at),
            None => value,
        };
        Ok(RecordField { name, mutable, value })
    }
}

/// The arguments of a call: the items of a tuple in parentheses are one argument each.
fn arguments_of(argument: Expression) -> Vec<Expression> {
    match argument.node {
        Node::Tuple(items) => items,
        _ => vec![argument],
    }
}

impl Expression {
    /// A tuple in parentheses is one value: it is not a list of arguments any more.
    fn in_parentheses(self) -> Self {
        let at = self.at;
        match self.node {
            Node::Tuple(_) => made(Node::Annotated(Box::new(self), super::ast::Type::Other), at),
            _ => self,
        }
    }
}
