//! Rows of answers as cells of tables.

use crate::print::bytes::{bytes, count};
use crate::print::colour::Style;
use crate::print::table::Cell;
use highwater_model::short_name;
use serde_json::Value;

/// What stands before a figure.
pub fn mark(is_estimate: bool) -> &'static str {
    if is_estimate { "~" } else { "" }
}

/// A row, as an object.
pub struct AnswerRow(pub Value);

impl AnswerRow {
    /// A whole number; 0 if it is missing.
    pub fn whole(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or(0)
    }

    /// A number, if there is one.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0[name].as_f64()
    }

    /// A text; empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or("")
    }

    /// Whether its figures are estimates.
    pub fn is_estimate(&self) -> bool {
        self.whole("sample_period") > 0
    }

    /// Whether the figures of the whole fleet that it repeats are.
    pub fn is_fleet_estimate(&self) -> bool {
        self.whole("fleet_sample_period") > 0
    }

    fn mark(&self) -> &'static str {
        mark(self.is_estimate())
    }

    /// A number of bytes, with `~` if it is an estimate; a mean is rounded.
    pub fn bytes(&self, name: &str) -> Cell {
        let number = self.number(name).unwrap_or(0.0);
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{}{sign}{}", self.mark(), bytes(number.abs().round() as u64)).into()
    }

    /// The same with a sign in any case.
    pub fn signed_bytes(&self, name: &str) -> Cell {
        let number = self.number(name).unwrap_or(0.0);
        let sign = if number < 0.0 { "-" } else { "+" };
        format!("{}{sign}{}", self.mark(), bytes(number.abs().round() as u64)).into()
    }

    /// A count, with `~` if it is an estimate.
    pub fn estimated_count(&self, name: &str) -> Cell {
        let number = self.number(name).unwrap_or(0.0).max(0.0).round() as u64;
        format!("{}{}", self.mark(), count(number)).into()
    }

    /// A count of things that are not sampled: processes, hosts.
    pub fn count(&self, name: &str) -> Cell {
        count(self.whole(name).max(0) as u64).into()
    }

    /// `3/5`.
    pub fn part(&self, name: &str, of: &str) -> Cell {
        format!("{}/{}", self.whole(name), self.whole(of)).into()
    }

    /// The site: its function, the type of its blocks and its callers.
    pub fn site(&self) -> Cell {
        const CALLERS: usize = 3;
        let function = self.text("function");
        if function.is_empty() {
            let id = self.0["site_id"].as_i64().unwrap_or(0);
            return Cell::new(Style::Dim, &format!("[site {id}: its stack is not in the lake]"));
        }
        let mut cell = Cell::new(Style::Plain, &short_name(function));
        if !self.text("type_name").is_empty() {
            cell = cell.and(Style::Green, &format!(" {}", self.text("type_name")));
        }
        let names: Vec<&str> = self.text("stack").split(';').collect();
        let at = names.iter().rposition(|name| *name == function).unwrap_or(0);
        for caller in names[..at].iter().rev().take(CALLERS) {
            cell = cell.and(Style::Dim, &format!(" ← {}", short_name(caller)));
        }
        cell
    }
}
