//! The path from a root to an object, as a program would write it.

use std::fmt;

/// Steps that are kept at either end; the steps between are counted.
const KEPT: usize = 6;

/// The text in place of a root if nothing refers to the object.
pub const UNREFERRED: &str = "(nothing refers to it)";

/// A step of a path: the object that it reaches, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// The object.
    pub object: u64,
    /// Its text, appended to the path so far: `.owner`, `[3]`, `#node`.
    pub text: String,
}

/// A path, of which the middle may be left out: `tree#node.left#node.left …(12 more)… .owner`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPath {
    root: String,
    first: Vec<PathStep>,
    last: Vec<PathStep>,
    left_out: u64,
}

impl ObjectPath {
    /// The path from a root through objects, the first of which is the root's own. `step` is called only for steps that are kept.
    pub fn through<T: Copy>(root: String, objects: &[T], step: impl Fn(T, T) -> PathStep) -> Self {
        let steps = objects.len().saturating_sub(1);
        let part = |steps: std::ops::Range<usize>| steps.map(|at| step(objects[at], objects[at + 1])).collect();
        let first = steps.min(KEPT);
        let last = (steps - first).min(KEPT);
        let left_out = (steps - first - last) as u64;
        Self { root, first: part(0..first), last: part(steps - last..steps), left_out }
    }

    /// The number of its steps, including those left out.
    pub fn length(&self) -> u64 {
        (self.first.len() + self.last.len()) as u64 + self.left_out
    }
}

impl fmt::Display for ObjectPath {
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
        let objects: Vec<u64> = (0..101).collect();
        let step = |from: u64, to: u64| PathStep { object: to, text: format!(".{from}") };
        let path = ObjectPath::through("list".to_owned(), &objects, step);
        assert_eq!(ObjectPath::through("list".to_owned(), &objects[..8], step).to_string(), "list.0.1.2.3.4.5.6");
        assert_eq!(ObjectPath::through("list".to_owned(), &objects[..1], step).to_string(), "list");
        assert_eq!(path.to_string(), "list.0.1.2.3.4.5 …(88 more)… .94.95.96.97.98.99");
        assert_eq!(path.length(), 100);
    }
}
