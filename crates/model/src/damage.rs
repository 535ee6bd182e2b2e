//! Damage of a file: what is wrong, and where.

use std::borrow::Cow;
use std::fmt;

/// A part of a file that could not be used as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes could not be used.
    pub length: u64,
    /// What is wrong.
    pub what: Cow<'static, str>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            0 => write!(f, "{} at offset {}", self.what, self.offset),
            length => write!(f, "{} at offset {} ({length} bytes not used)", self.what, self.offset),
        }
    }
}
