//! The string table. Each name is stored once.

use crate::ids::StringId;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Interned strings. Append-only: an id stays valid and keeps its meaning, so a file stores only new strings.
#[derive(Clone, Debug)]
pub struct StringTable {
    by_id: Vec<Arc<str>>,
    by_text: FxHashMap<Arc<str>, StringId>,
}

impl Default for StringTable {
    fn default() -> Self {
        let mut table = Self { by_id: Vec::new(), by_text: FxHashMap::default() };
        table.intern("");
        table
    }
}

impl StringTable {
    /// The id of `text`, made if it is new.
    pub fn intern(&mut self, text: &str) -> StringId {
        if let Some(&id) = self.by_text.get(text) {
            return id;
        }
        let id = self.push(Arc::from(text));
        self.by_text.insert(Arc::clone(&self.by_id[id.0 as usize]), id);
        id
    }

    /// Appends a string under the next id even if the text is already known: the string that a file stores as number `n` must become number `n`.
    pub fn push(&mut self, text: Arc<str>) -> StringId {
        let id = StringId(u32::try_from(self.by_id.len()).unwrap_or(u32::MAX));
        self.by_id.push(text);
        id
    }

    /// The id of `text`, if it is known.
    pub fn find(&self, text: &str) -> Option<StringId> {
        self.by_text
            .get(text)
            .copied()
            .or_else(|| self.by_id.iter().position(|known| &**known == text).map(|at| StringId(at as u32)))
    }

    /// The text of an id; empty for one that is not known.
    pub fn get(&self, id: StringId) -> &str {
        self.by_id.get(id.0 as usize).map_or("", |text| text)
    }

    /// The text of an id, shared.
    pub fn shared(&self, id: StringId) -> Option<Arc<str>> {
        self.by_id.get(id.0 as usize).cloned()
    }

    /// How many there are, the empty one included.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// False: the empty string is always there.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}
