//! Demangles and stores each name once, however many addresses have it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::demangle::demangle;

/// The names of functions and files, each stored once.
#[derive(Default)]
pub(crate) struct NameInterner {
    /// From the name in the file to the readable one.
    functions: HashMap<Box<str>, Arc<str>>,
    texts: HashSet<Arc<str>>,
}

impl NameInterner {
    pub(crate) fn function(&mut self, raw: &str) -> Arc<str> {
        if let Some(known) = self.functions.get(raw) {
            return known.clone();
        }
        let readable: Arc<str> = demangle(raw).into();
        self.functions.insert(raw.into(), readable.clone());
        readable
    }

    /// A text that is readable already, such as the path of a file.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }
}
