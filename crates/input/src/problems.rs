//! Problems of a file whose other parts are used.

use highwater_model::Damage;
use std::fmt;

/// Limit for the number of bad lines that are kept. Further ones are only counted.
const KEPT: usize = 16;

/// A line that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// The fault of the line.
    pub fault: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.number, self.fault)
    }
}

/// Problems of a file.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Parts of it that cannot be used.
    pub damage: Vec<Damage>,
    /// The first lines that cannot be used.
    pub first_bad_lines: Vec<BadLine>,
    /// The number of all lines that cannot be used.
    pub bad_lines: u64,
}

impl Problems {
    /// Counts a bad line, and keeps it if it is one of the first.
    pub fn add_bad_line(&mut self, number: u64, fault: impl ToString) {
        self.bad_lines += 1;
        if self.first_bad_lines.len() < KEPT {
            self.first_bad_lines.push(BadLine { number, fault: fault.to_string() });
        }
    }
}
