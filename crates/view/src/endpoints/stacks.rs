//! The form of an answer: its stacks as a table or as lists of frames, and numbers that a browser can hold.
//!
//! Answers have a table of stacks (`frames[]` and `stacks[]`, as `highwater report --json` has them), which the page asks for (`stacks=table`). Other clients
//! get lists, unless those have too many frames.

use super::word;
use crate::http::request::Request;
use highwater_model::grouped;
use highwater_query::QueryError;
use serde_json::{Map, Value};

/// The most frames of one stack in a list: the innermost.
const MOST_FRAMES: usize = 2048;
/// The most frames of all lists of one answer.
const MOST_LISTED: usize = 1 << 18;

/// The answer in the form that the request asks for: with the table, or with lists in its place.
pub fn in_requested_form(request: &Request, mut answer: Value) -> Result<Value, QueryError> {
    if !word(request, "stacks", &[("lists", false), ("table", true)])?
        && let Some(members) = answer.as_object_mut()
        && let Some((frames, stacks)) = table_of(members)
    {
        let mut lists = Lists { frames, stacks, room: MOST_LISTED };
        lists.put_into(&mut answer)?;
    }
    Ok(answer)
}

/// Takes the table out of an answer, if it has one: `frames`, and for each call the number of the caller's stack and the index of the frame.
pub fn table_of(answer: &mut Map<String, Value>) -> Option<(Vec<Value>, Vec<TableCall>)> {
    let (Value::Array(frames), Value::Array(stacks)) = (answer.remove("frames")?, answer.remove("stacks")?) else {
        return None;
    };
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let call = |value: &Value| TableCall { caller: number(&value[0]), frame: number(&value[1]).unwrap_or(0) };
    Some((frames, stacks.iter().map(call).collect()))
}

/// A call: the number of the caller's stack, and the index of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableCall {
    /// `None` for the outermost call.
    pub caller: Option<usize>,
    /// The index of the frame.
    pub frame: usize,
}

struct Lists {
    frames: Vec<Value>,
    stacks: Vec<TableCall>,
    room: usize,
}

impl Lists {
    fn put_into(&mut self, value: &mut Value) -> Result<(), QueryError> {
        match value {
            Value::Array(parts) => parts.iter_mut().try_for_each(|part| self.put_into(part)),
            Value::Object(members) => members.iter_mut().try_for_each(|(name, member)| {
                if name != "stack" {
                    return self.put_into(member);
                }
                *member = self.list(member.as_u64())?;
                Ok(())
            }),
            _ => Ok(()),
        }
    }

    fn list(&mut self, stack: Option<u64>) -> Result<Value, QueryError> {
        let mut at = stack.map(|number| number as usize);
        let mut frames = Vec::new();
        while let Some(call) = at.and_then(|number| self.stacks.get(number)).filter(|_| frames.len() < MOST_FRAMES) {
            if frames.len() == self.room {
                let most = grouped(MOST_LISTED as u64);
                return Err(QueryError::TooLarge(format!(
                    "the stacks of this answer have more than {most} frames, which is the limit for lists; ask with stacks=table, or for fewer rows"
                )));
            }
            frames.push(self.frames[call.frame].clone());
            at = call.caller;
        }
        self.room -= frames.len();
        Ok(frames.into())
    }
}

/// Limits numbers to the range that a JavaScript number holds exactly.
pub fn saturated(mut value: Value) -> Value {
    saturate(&mut value);
    value
}

fn saturate(value: &mut Value) {
    const MOST: u64 = (1 << 53) - 1;
    match value {
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(large), _) if large > MOST => *value = MOST.into(),
            (None, Some(low)) if low < -(MOST as i64) => *value = (-(MOST as i64)).into(),
            _ => {}
        },
        Value::Array(list) => list.iter_mut().for_each(saturate),
        Value::Object(members) => members.values_mut().for_each(saturate),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(parameters: &[(&str, &str)], answer: &Value) -> Result<Value, QueryError> {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        in_requested_form(&Request::question("rows", parameters), answer.clone())
    }

    #[test]
    fn lists_are_made_of_the_table_unless_it_is_asked_for() {
        let answer = json!({
            "rows": [{ "stack": 1 }, { "stack": 0 }, { "stack": null }, { "key": "none" }],
            "frames": ["main", "load"], "stacks": [[null, 0], [0, 1]],
        });
        let listed = json!({ "rows": [{ "stack": ["load", "main"] }, { "stack": ["main"] }, { "stack": [] }, { "key": "none" }] });
        assert_eq!(asked(&[], &answer), Ok(listed.clone()));
        assert_eq!(asked(&[("stacks", "lists")], &answer), Ok(listed));
        assert_eq!(asked(&[("stacks", "table")], &answer), Ok(answer.clone()));
        assert!(matches!(asked(&[("stacks", "heaps")], &answer), Err(QueryError::Bad(_))));
    }

    #[test]
    fn lists_have_the_innermost_frames_and_too_many_are_refused() {
        let calls: Vec<Value> = (0..3000).map(|at: u64| json!([at.checked_sub(1), at % 2])).collect();
        let of = |rows: usize| {
            let rows = vec![json!({ "stack": 2999 }); rows];
            asked(&[], &json!({ "rows": rows, "frames": [{ "line": 0 }, { "line": 1 }], "stacks": calls }))
        };
        let most = MOST_LISTED / MOST_FRAMES;
        let listed = of(most).unwrap();
        let stack = listed["rows"][most - 1]["stack"].as_array().unwrap();
        assert_eq!((stack.len(), &stack[0], &stack[1]), (MOST_FRAMES, &json!({ "line": 1 }), &json!({ "line": 0 })));
        let Err(QueryError::TooLarge(line)) = of(most + 1) else { panic!("not refused") };
        assert!(line.starts_with("the stacks of this answer have more than 262,144 frames"), "{line}");
    }
}
