//! The stacks of a saved page, each written once.
//!
//! Every row, block and leak of an answer has its whole stack, and the same site is in a dozen answers: with them in their places, nine tenths of a page
//! were stacks. So each `"stack":[frame, …]` of an answer becomes `"stack":N`: the `N`-th of `stacks`, whose numbers are places in `frames`.

use serde_json::{Value, json};
use std::collections::HashMap;

/// Stacks and frames, in the order in which they were first seen.
#[derive(Default)]
pub struct Stacks {
    frames: Vec<Value>,
    /// By the frame as JSON.
    frame_places: HashMap<String, usize>,
    stacks: Vec<Vec<usize>>,
    stack_places: HashMap<Vec<usize>, usize>,
}

impl Stacks {
    /// Puts numbers in the places of all stacks of an answer.
    pub fn take_out_of(&mut self, answer: &mut Value) {
        match answer {
            Value::Array(parts) => parts.iter_mut().for_each(|part| self.take_out_of(part)),
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::Array(frames) if name == "stack" => {
                            *member = self.place_of(std::mem::take(frames)).into()
                        }
                        _ => self.take_out_of(member),
                    }
                }
            }
            _ => {}
        }
    }

    fn place_of(&mut self, frames: Vec<Value>) -> usize {
        let stack: Vec<usize> = frames.into_iter().map(|frame| self.place_of_frame(frame)).collect();
        if let Some(&place) = self.stack_places.get(&stack) {
            return place;
        }
        self.stacks.push(stack.clone());
        self.stack_places.insert(stack, self.stacks.len() - 1);
        self.stacks.len() - 1
    }

    fn place_of_frame(&mut self, frame: Value) -> usize {
        *self.frame_places.entry(frame.to_string()).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() - 1
        })
    }

    /// `frames` and `stacks`, as a saved page has them.
    pub fn into_values(self) -> (Value, Value) {
        (self.frames.into(), json!(self.stacks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_written_once_whoever_has_it() {
        let [inner, outer] = [json!({"function": "inner"}), json!({"function": "outer", "line": 3})];
        let mut answers = json!({
            "rows": [{"stack": [inner, outer]}, {"stack": [outer]}, {"key": "none"}, {"stack": []}],
            "sites": [{"stack": [inner, outer], "curve": [1, 2]}],
        });
        let mut stacks = Stacks::default();
        stacks.take_out_of(&mut answers);
        assert_eq!(
            answers,
            json!({
                "rows": [{"stack": 0}, {"stack": 1}, {"key": "none"}, {"stack": 2}],
                "sites": [{"stack": 0, "curve": [1, 2]}],
            })
        );
        assert_eq!(stacks.into_values(), (json!([inner, outer]), json!([[0, 1], [1], []])));
    }
}
