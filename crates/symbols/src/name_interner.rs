//! Demangles and stores each name once, however many addresses have it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::demangle::demangle;

/// The names of functions and files, each stored once.
#[derive(Default)]
pub(crate) struct NameInterner {
    /// From the name in the file to the readable one.
    functions: HashMap<Box<str>, Arc<str>>,
    files: HashSet<Arc<str>>,
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

    pub(crate) fn file(&mut self, path: &str) -> Arc<str> {
        if let Some(known) = self.files.get(path) {
            return known.clone();
        }
        let path: Arc<str> = path.into();
        self.files.insert(path.clone());
        path
    }
}
