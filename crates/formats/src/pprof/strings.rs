//! The string table of a profile: every text once, identified by its index. The first text is empty.

use std::collections::HashMap;

#[derive(Debug)]
pub(super) struct Strings {
    in_order: Vec<String>,
    indices: HashMap<String, u64>,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self { in_order: Vec::new(), indices: HashMap::new() };
        strings.index("");
        strings
    }
}

impl Strings {
    /// The index of a text. Adds the text if it is new.
    pub(super) fn index(&mut self, text: &str) -> u64 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = self.in_order.len() as u64;
        self.in_order.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }

    pub(super) fn in_order(&self) -> impl Iterator<Item = &str> {
        self.in_order.iter().map(String::as_str)
    }
}
