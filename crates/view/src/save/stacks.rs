//! The stacks of a saved page, each call stored once.
//!
//! The same site is in a dozen answers, each with a table of its own. A saved page has one table for all of them.

use crate::endpoints::stacks::{TableCall, table_of};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Calls and frames, in the order in which they were first seen.
#[derive(Default)]
pub struct SavedStacks {
    frames: Vec<Value>,
    /// The index of each frame, by its JSON text.
    frame_places: HashMap<String, usize>,
    calls: Vec<TableCall>,
    numbers: HashMap<TableCall, usize>,
}

impl SavedStacks {
    /// Moves the table of an answer into this one, and gives the stacks of the answer their new numbers.
    pub fn take_out_of(&mut self, answer: &mut Value) {
        let Some((frames, calls)) = answer.as_object_mut().and_then(table_of) else { return };
        let places: Vec<usize> = frames.into_iter().map(|frame| self.place_of(frame)).collect();
        let mut renumbered: Vec<usize> = Vec::with_capacity(calls.len());
        for TableCall { caller, frame } in calls {
            // A caller comes before its callees.
            let caller = caller.and_then(|number| renumbered.get(number).copied());
            renumbered.push(self.number_of(TableCall { caller, frame: places.get(frame).copied().unwrap_or(0) }));
        }
        renumber(answer, &renumbered);
    }

    fn place_of(&mut self, frame: Value) -> usize {
        *self.frame_places.entry(frame.to_string()).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() - 1
        })
    }

    fn number_of(&mut self, call: TableCall) -> usize {
        *self.numbers.entry(call).or_insert_with(|| {
            self.calls.push(call);
            self.calls.len() - 1
        })
    }

    /// `frames` and `stacks`, as a saved page has them.
    pub fn into_values(self) -> (Value, Value) {
        (self.frames.into(), self.calls.iter().map(|call| json!([call.caller, call.frame])).collect())
    }
}

fn renumber(value: &mut Value, numbers: &[usize]) {
    match value {
        Value::Array(parts) => parts.iter_mut().for_each(|part| renumber(part, numbers)),
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_u64() {
                    Some(old) if name == "stack" => *member = numbers.get(old as usize).copied().into(),
                    _ => renumber(member, numbers),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_written_once_whichever_answer_has_it() {
        let [main, load, free] = ["main", "load", "free"].map(|name| json!({ "function": name }));
        let mut first = json!({
            "rows": [{ "stack": 1 }, { "key": "none" }, { "stack": null }],
            "frames": [main, load], "stacks": [[null, 0], [0, 1]],
        });
        let mut second = json!({
            "sites": [{ "stack": 2, "curve": [1, 2] }],
            "frames": [free, main, load], "stacks": [[null, 0], [null, 1], [1, 2]],
        });
        let mut stacks = SavedStacks::default();
        stacks.take_out_of(&mut first);
        stacks.take_out_of(&mut second);
        assert_eq!(first, json!({ "rows": [{ "stack": 1 }, { "key": "none" }, { "stack": null }] }));
        assert_eq!(second, json!({ "sites": [{ "stack": 1, "curve": [1, 2] }] }));
        assert_eq!(stacks.into_values(), (json!([main, load, free]), json!([[null, 0], [0, 1], [null, 2]])));
    }
}
