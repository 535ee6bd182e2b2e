//! The names and files of flame graphs, each stored once: a page has some thirty flame graphs of the same functions.

use serde_json::Value;
use std::collections::HashMap;

/// The texts of all flame graphs, in the order in which they were first seen.
#[derive(Default)]
pub struct SavedTexts {
    all: Vec<Value>,
    numbers: HashMap<String, usize>,
}

impl SavedTexts {
    /// Replaces the names and files of an answer's flame graph by their numbers. A column of nothing but zeros becomes 0.
    pub fn take_out_of(&mut self, answer: &mut Value) {
        // A comparison has its flame graph inside.
        let tree = if answer.get("tree").is_some() { answer.get_mut("tree") } else { Some(answer) };
        let Some(members) = tree.and_then(Value::as_object_mut).filter(|members| members.contains_key("node_name"))
        else {
            return;
        };
        for name in ["names", "files"] {
            for text in members.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Value::String(own) = text.take() {
                    *text = self.number(own).into();
                }
            }
        }
        for (name, column) in members.iter_mut().filter(|(name, _)| name.starts_with("node_")) {
            let is_empty = column.as_array().is_some_and(|values| values.iter().all(|value| value.as_u64() == Some(0)));
            if is_empty && name != "node_name" {
                *column = 0.into();
            }
        }
    }

    fn number(&mut self, text: String) -> usize {
        let next = self.all.len();
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.all.push(text.as_str().into());
            next
        })
    }

    /// `strings`, as a saved page has them.
    pub fn into_value(self) -> Value {
        self.all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_written_once_and_empty_columns_are_not() {
        let mut texts = SavedTexts::default();
        let mut first = json!({ "names": ["all", "main"], "files": [""], "node_name": [0, 1], "node_line": [0, 0] });
        let mut second =
            json!({ "rows": [], "tree": { "names": ["main"], "files": ["a.c"], "node_name": [0], "node_line": [7] } });
        let mut rows = json!({ "rows": [{ "names": ["all"] }] });
        for answer in [&mut first, &mut second, &mut rows] {
            texts.take_out_of(answer);
        }
        assert_eq!(first, json!({ "names": [0, 1], "files": [2], "node_name": [0, 1], "node_line": 0 }));
        assert_eq!(
            second,
            json!({ "rows": [], "tree": { "names": [1], "files": [3], "node_name": [0], "node_line": [7] } })
        );
        assert_eq!(rows, json!({ "rows": [{ "names": ["all"] }] }));
        assert_eq!(texts.into_value(), json!(["all", "main", "", "a.c"]));
    }
}
