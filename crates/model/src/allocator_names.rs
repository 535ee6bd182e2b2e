//! Functions that a user calls allocators: `--allocator`, `highwater.toml`, or a click in the viewer.

use crate::short_name::short_name;
use std::error::Error;
use std::fmt;

/// Names of functions. Each may begin or end with `*`, which stands for any text: `my_alloc`, `arena::*`, `*_new`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatorNames(Vec<AllocatorName>);

/// The name of an allocator, perhaps with `*` at its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorName {
    text: String,
    is_open_before: bool,
    is_open_after: bool,
}

/// A text that is no name of an allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAllocatorName(String);

impl fmt::Display for NoAllocatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' names no allocator: a function's name is wanted, perhaps with * at its ends", self.0)
    }
}

impl Error for NoAllocatorName {}

impl std::str::FromStr for AllocatorName {
    type Err = NoAllocatorName;

    fn from_str(name: &str) -> Result<Self, NoAllocatorName> {
        let after_star = name.strip_prefix('*');
        let rest = after_star.unwrap_or(name);
        let before_star = rest.strip_suffix('*');
        let text = before_star.unwrap_or(rest);
        // `Pointer::operator*` has a star of its own.
        let is_wrong = text.is_empty() || (text.contains('*') && !text.contains('('));
        if is_wrong {
            return Err(NoAllocatorName(name.to_owned()));
        }
        Ok(Self { text: text.to_owned(), is_open_before: after_star.is_some(), is_open_after: before_star.is_some() })
    }
}

impl fmt::Display for AllocatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = |is_open| if is_open { "*" } else { "" };
        write!(f, "{}{}{}", star(self.is_open_before), self.text, star(self.is_open_after))
    }
}

impl AllocatorName {
    fn is(&self, name: &str) -> bool {
        match (self.is_open_before, self.is_open_after) {
            (false, false) => name == self.text,
            (false, true) => name.starts_with(&self.text),
            (true, false) => name.ends_with(&self.text),
            (true, true) => name.contains(&self.text),
        }
    }
}

impl FromIterator<AllocatorName> for AllocatorNames {
    fn from_iter<T: IntoIterator<Item = AllocatorName>>(names: T) -> Self {
        Self(names.into_iter().collect())
    }
}

impl AllocatorNames {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &AllocatorName> {
        self.0.iter()
    }

    /// Whether a function is one of them, by its whole name or by the one that is shown.
    pub fn has(&self, function: &str) -> bool {
        !self.0.is_empty() && !function.is_empty() && {
            let short = short_name(function);
            self.0.iter().any(|name| name.is(function) || name.is(&short))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> AllocatorNames {
        texts.iter().map(|text| text.parse::<AllocatorName>().unwrap()).collect()
    }

    #[test]
    fn a_star_stands_for_any_text_and_the_shown_name_is_enough() {
        let names = names(&["my_alloc", "arena::*", "*_new", "app::Heap::get"]);
        for function in
            ["my_alloc", "arena::Arena::grow", "node_new", "app::Heap::get(unsigned long) const", "my_alloc.part.0"]
        {
            assert!(names.has(function), "{function}");
        }
        for function in ["", "my_alloc_size", "an_arena::grow", "new_node", "app::Heap::gets(int)"] {
            assert!(!names.has(function), "{function}");
        }
        let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["my_alloc", "arena::*", "*_new", "app::Heap::get"]);
    }

    #[test]
    fn a_name_has_text() {
        for text in ["", "*", "**", "a*b"] {
            let error = text.parse::<AllocatorName>().unwrap_err();
            assert!(error.to_string().contains(&format!("'{text}' names no allocator")), "{error}");
        }
    }
}
