//! The stacks of an answer: a table that has each call once, or, on request, a list of frames for each.
//!
//! Every row, block and leak has its whole stack, and the stacks of a deep recursion share nearly all their calls: as lists, ten thousand rows of two thousand
//! frames each take 16 GB. So endpoints answer with a table (`frames[]` and `stacks[]`, as `highwater report --json` has them), which the page asks for
//! (`stacks=table`). Other clients get lists, unless those have too many frames.

use super::word;
use crate::http::request::Request;
use crate::problem::Problem;
use highwater_formats::json::{Stacks, StacksTooLarge};
use highwater_model::{Catalog, grouped};
use serde_json::{Map, Value};

/// The most different calls in the stacks of one answer: some 100 MB of JSON values.
const MOST_CALLS: usize = 1 << 20;
/// The most frames of one stack in a list: the innermost.
pub const MOST_FRAMES: usize = 2048;
/// The most frames of all lists of one answer.
const MOST_LISTED: usize = 1 << 18;

/// An empty table of stacks for an answer about these catalogs.
pub fn none_yet<'a>(catalogs: impl IntoIterator<Item = &'a Catalog>) -> Stacks<'a> {
    Stacks::with_most(catalogs, MOST_CALLS)
}

impl From<StacksTooLarge> for Problem {
    fn from(large: StacksTooLarge) -> Self {
        Self::TooLarge(format!("{large}; ask for fewer rows"))
    }
}

/// Adds the table to an answer.
pub fn put_table(answer: &mut Value, stacks: &Stacks<'_>) {
    stacks.members().into_iter().for_each(|(name, value)| answer[name] = value);
}

/// The answer in the form that the request asks for: with the table, or with lists in its place.
pub fn as_asked_for(request: &Request, mut answer: Value) -> Result<Value, Problem> {
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
pub fn table_of(answer: &mut Map<String, Value>) -> Option<(Vec<Value>, Vec<Call>)> {
    let (Value::Array(frames), Value::Array(stacks)) = (answer.remove("frames")?, answer.remove("stacks")?) else {
        return None;
    };
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let call = |value: &Value| Call { caller: number(&value[0]), frame: number(&value[1]).unwrap_or(0) };
    Some((frames, stacks.iter().map(call).collect()))
}

/// A call: the number of the caller's stack, and the index of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// `None` for the outermost call.
    pub caller: Option<usize>,
    /// The index of the frame.
    pub frame: usize,
}

struct Lists {
    frames: Vec<Value>,
    stacks: Vec<Call>,
    room: usize,
}

impl Lists {
    fn put_into(&mut self, value: &mut Value) -> Result<(), Problem> {
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

    fn list(&mut self, stack: Option<u64>) -> Result<Value, Problem> {
        let mut at = stack.map(|number| number as usize);
        let mut frames = Vec::new();
        while let Some(call) = at.and_then(|number| self.stacks.get(number)).filter(|_| frames.len() < MOST_FRAMES) {
            if frames.len() == self.room {
                let most = grouped(MOST_LISTED as u64);
                return Err(Problem::TooLarge(format!(
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(parameters: &[(&str, &str)], answer: &Value) -> Result<Value, Problem> {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        as_asked_for(&Request::question("rows", parameters), answer.clone())
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
        assert!(matches!(asked(&[("stacks", "heaps")], &answer), Err(Problem::Bad(_))));
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
        let Err(Problem::TooLarge(line)) = of(most + 1) else { panic!("not refused") };
        assert!(line.starts_with("the stacks of this answer have more than 262,144 frames"), "{line}");
    }
}
