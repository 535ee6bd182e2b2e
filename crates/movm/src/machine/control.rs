//! Branches and loops.

use super::{Machine, Scope, note};
use crate::show::{Style, show};
use crate::syntax::Symbol;
use crate::syntax::ast::{Expression, Node, Pattern};
use crate::value::{Evaluated, Stop, Value, refuse};
use std::rc::Rc;

/// What a body did to its loop.
enum Turn {
    Next,
    Leave,
}

impl Machine {
    /// Runs a branch or a loop.
    pub(super) fn control(&mut self, scope: &Rc<Scope>, expression: &Expression) -> Evaluated {
        match &expression.node {
            Node::If(condition, then, otherwise) => match (self.truth(scope, condition)?, otherwise) {
                (true, _) => self.evaluate(scope, then),
                (false, Some(otherwise)) => self.evaluate(scope, otherwise),
                (false, None) => Ok(Value::Unit),
            },
            Node::Switch(value, cases) => self.switch(scope, expression, value, cases),
            Node::Label(name, body) => match self.labelled(scope, *name, body) {
                Err(Stop::Break(Some(label), value)) if label == *name => Ok(value),
                other => other,
            },
            _ => self.repeat(scope, expression, None),
        }
    }

    fn labelled(&mut self, scope: &Rc<Scope>, name: Symbol, body: &Expression) -> Evaluated {
        match &body.node {
            Node::While(..) | Node::Loop(..) | Node::For(..) => {
                self.step(body.at)?;
                self.repeat(scope, body, Some(name))
            }
            _ => self.evaluate(scope, body),
        }
    }

    fn switch(
        &mut self,
        scope: &Rc<Scope>,
        expression: &Expression,
        value: &Expression,
        cases: &[(Pattern, Expression)],
    ) -> Evaluated {
        let value = self.evaluate(scope, value)?;
        for (pattern, body) in cases {
            let inside = Scope::inside(scope);
            if Self::matches(&inside, pattern, &value)? {
                return self.evaluate(&inside, body);
            }
        }
        note(expression.at);
        refuse(format!("no case matches {}", shortened(&show(&value, Style::Result))))
    }

    fn repeat(&mut self, scope: &Rc<Scope>, expression: &Expression, label: Option<Symbol>) -> Evaluated {
        match &expression.node {
            Node::While(condition, body) => {
                while self.truth(scope, condition)? {
                    if let Turn::Leave = self.turn(scope, body, label)? {
                        break;
                    }
                }
            }
            Node::Loop(body, condition) => loop {
                if let Turn::Leave = self.turn(scope, body, label)? {
                    break;
                }
                if let Some(condition) = condition
                    && !self.truth(scope, condition)?
                {
                    break;
                }
            },
            Node::For(pattern, items, body) => {
                let items = self.evaluate(scope, items)?;
                note(expression.at);
                let items = self.iterator_of(&items)?;
                while let Some(item) = self.next_of(&items)? {
                    let inside = Scope::inside(scope);
                    if !Self::matches(&inside, pattern, &item)? {
                        note(expression.at);
                        return refuse(format!(
                            "the pattern does not match {}",
                            shortened(&show(&item, Style::Result))
                        ));
                    }
                    if let Turn::Leave = self.turn(&inside, body, label)? {
                        break;
                    }
                }
            }
            _ => {}
        }
        Ok(Value::Unit)
    }

    /// Runs a body once. Without a label, `break` and `continue` mean the innermost loop.
    fn turn(&mut self, scope: &Rc<Scope>, body: &Expression, label: Option<Symbol>) -> Evaluated<Turn> {
        match self.evaluate(scope, body) {
            Ok(_) => Ok(Turn::Next),
            Err(Stop::Continue(to)) if to.is_none() || to == label => Ok(Turn::Next),
            Err(Stop::Break(None, _)) => Ok(Turn::Leave),
            Err(stop) => Err(stop),
        }
    }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
