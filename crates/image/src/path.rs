//! The way from a root to an object, as a program would write it.

use std::fmt;

/// Steps that are kept at either end; those in between are counted.
const KEPT: usize = 6;

/// A step: what is reached by it, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// The object.
    pub object: u64,
    /// How it is written behind what comes before: `.owner`, `[3]`, `#node`.
    pub text: String,
}

/// A way, of which the middle may be left out: `tree#node.left#node.left …(12 more)… .owner`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    root: String,
    first: Vec<PathStep>,
    last: Vec<PathStep>,
    left_out: u64,
}

impl Path {
    /// The way to a root itself.
    pub fn from_root(root: String) -> Self {
        Self { root, ..Self::default() }
    }

    /// Goes a step further.
    pub fn push(&mut self, step: impl FnOnce() -> PathStep) {
        if self.first.len() < KEPT {
            return self.first.push(step());
        }
        if self.last.len() == KEPT {
            self.last.remove(0);
            self.left_out += 1;
        }
        self.last.push(step());
    }

    /// How many steps it has.
    pub fn length(&self) -> u64 {
        (self.first.len() + self.last.len()) as u64 + self.left_out
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        for step in &self.first {
            f.write_str(&step.text)?;
        }
        if self.left_out > 0 {
            write!(f, " …({} more)… ", self.left_out)?;
        }
        for step in &self.last {
            f.write_str(&step.text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_way_is_left_out() {
        let mut path = Path::from_root("list".to_owned());
        for number in 0..100 {
            path.push(|| PathStep { object: number, text: format!(".{number}") });
        }
        assert_eq!(path.to_string(), "list.0.1.2.3.4.5 …(88 more)… .94.95.96.97.98.99");
        assert_eq!(path.length(), 100);
    }
}
