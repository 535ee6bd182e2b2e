//! `callers`: the callers and callees of a function.

use super::grouping::sites;
use super::names::label;
use super::stacks::MOST_FRAMES;
use crate::choice::Choice;
use crate::http::request::Request;
use crate::measure::{Amount, measure};
use crate::problem::Problem;
use crate::work::Work;
use highwater_model::FrameText;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The answer.
pub fn answer(request: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let function = request.parameter("function").ok_or_else(|| Problem::bad("function= is missing"))?;
    let measured = measure(choice, false, work)?;
    let catalog = choice.loaded.catalog();
    let (mut own, mut total) = (Amount::default(), Amount::default());
    let (mut callers, mut callees): (BTreeMap<String, Amount>, BTreeMap<String, Amount>) = Default::default();
    for (stack, amount, _) in sites(&measured) {
        work.go_on()?;
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
        let names: Vec<String> = frames.iter().map(label).collect();
        let places: Vec<usize> = (0..names.len()).filter(|at| names[*at] == function).collect();
        if places.is_empty() {
            continue;
        }
        total.add(amount);
        if places[0] == 0 {
            own.add(amount);
        }
        // A stack counts once for each neighbour, even if the function calls itself.
        let around = |step: &dyn Fn(usize) -> Option<usize>| -> BTreeSet<&String> {
            places.iter().filter_map(|at| names.get(step(*at)?)).filter(|name| *name != function).collect()
        };
        for name in around(&|at| Some(at + 1)) {
            callers.entry(name.clone()).or_default().add(amount);
        }
        for name in around(&|at| at.checked_sub(1)) {
            callees.entry(name.clone()).or_default().add(amount);
        }
    }
    let list = |all: BTreeMap<String, Amount>| -> Value {
        let mut all: Vec<(String, Amount)> = all.into_iter().collect();
        all.sort_by_key(|(_, amount)| std::cmp::Reverse(amount.value));
        let one = |(name, amount): (String, Amount)| json!({ "function": name, "value": amount.value, "blocks": amount.blocks });
        all.into_iter().map(one).collect()
    };
    Ok(json!({
        "function": function,
        "self": own.value,
        "total": total.value,
        "blocks": total.blocks,
        "callers": list(callers),
        "callees": list(callees),
    }))
}
