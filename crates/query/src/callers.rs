//! The callers and callees of a function.

use crate::error::QueryError;
use crate::grouping::sites;
use crate::measure::{Amount, measure};
use crate::names::label;
use crate::query::Query;
use crate::stacks::MOST_FRAMES;
use highwater_model::FrameText;
use highwater_store::history::Work;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A function, and the functions around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Callers"))]
pub struct CallersAnswer {
    /// The function.
    pub function: String,
    /// What it allocated itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// The same with everything that it called.
    pub total: u64,
    /// The blocks of `total`.
    pub blocks: u64,
    /// The functions that call it, largest first.
    pub callers: Vec<NeighbourAnswer>,
    /// The functions that it calls, largest first.
    pub callees: Vec<NeighbourAnswer>,
}

/// A caller or a callee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Neighbour"))]
pub struct NeighbourAnswer {
    /// The function.
    pub function: String,
    /// The value of the stacks in which it is next to the other function.
    pub value: u64,
    /// Their blocks.
    pub blocks: u64,
}

/// The callers and callees of a function.
pub fn callers(query: &Query, function: &str, work: &Work<'_>) -> Result<CallersAnswer, QueryError> {
    let measured = measure(query, false, work)?;
    let catalog = query.history.catalog();
    let (mut own, mut total) = (Amount::default(), Amount::default());
    let (mut callers, mut callees): (BTreeMap<String, Amount>, BTreeMap<String, Amount>) = Default::default();
    for (stack, row) in sites(&measured) {
        work.go_on()?;
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
        let names: Vec<String> = frames.iter().map(label).collect();
        let indexes: Vec<usize> = (0..names.len()).filter(|at| names[*at] == function).collect();
        if indexes.is_empty() {
            continue;
        }
        total.add(row.amount);
        if indexes.contains(&query.naming.passing_frames(&frames)) {
            own.add(row.amount);
        }
        // A stack counts once for each neighbour, even if the function calls itself.
        let around = |step: &dyn Fn(usize) -> Option<usize>| -> BTreeSet<&String> {
            indexes.iter().filter_map(|at| names.get(step(*at)?)).filter(|name| *name != function).collect()
        };
        for name in around(&|at| Some(at + 1)) {
            callers.entry(name.clone()).or_default().add(row.amount);
        }
        for name in around(&|at| at.checked_sub(1)) {
            callees.entry(name.clone()).or_default().add(row.amount);
        }
    }
    let list = |all: BTreeMap<String, Amount>| -> Vec<NeighbourAnswer> {
        let neighbour = |(function, amount): (String, Amount)| NeighbourAnswer {
            function,
            value: amount.value,
            blocks: amount.blocks,
        };
        let mut all: Vec<NeighbourAnswer> = all.into_iter().map(neighbour).collect();
        all.sort_by_key(|neighbour| std::cmp::Reverse(neighbour.value));
        all
    };
    Ok(CallersAnswer {
        function: function.to_owned(),
        own: own.value,
        total: total.value,
        blocks: total.blocks,
        callers: list(callers),
        callees: list(callees),
    })
}
