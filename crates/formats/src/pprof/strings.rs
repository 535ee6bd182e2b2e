//! The string table of a profile: every text once, identified by its index. The first text is empty.

use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct Strings {
    in_order: Vec<String>,
    indices: HashMap<String, u64>,
    size: usize,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self { in_order: Vec::new(), indices: HashMap::new(), size: 0 };
        strings.index("");
        strings
    }
}

impl Strings {
    /// The index of a text. Adds the text if it is new.
    pub(crate) fn index(&mut self, text: &str) -> u64 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = self.in_order.len() as u64;
        self.size += text.len();
        self.in_order.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }

    /// The bytes of all texts.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn in_order(&self) -> impl Iterator<Item = &str> {
        self.in_order.iter().map(String::as_str)
    }
}
