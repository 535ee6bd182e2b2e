//! The endpoints of the API, one file each: the parameters of the request, and the answer.

pub mod blocks;
pub mod callers;
pub mod compare;
pub mod histograms;
pub mod leaks;
pub mod live;
pub mod overview;
pub mod peak;
pub mod rows;
pub mod sources;
pub mod special;
pub mod stacks;
pub mod timeline;
pub mod tree;

mod figures;
mod grouping;
mod names;

pub use names::{label, saturated};

use crate::http::request::Request;
use crate::problem::Problem;

/// A parameter that is a number, at most `most`; `missing` if it is absent.
fn number(request: &Request, name: &str, missing: u64, most: u64) -> Result<u64, Problem> {
    match request.parameter(name) {
        None | Some("") => Ok(missing),
        Some(text) => match text.parse() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(Problem::Bad(format!("{name}={text}: a number up to {most} is wanted"))),
        },
    }
}

/// A parameter that is one of some words; the first of them if it is absent.
fn word<T: Copy>(request: &Request, name: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    let given = request.parameter(name).filter(|text| !text.is_empty());
    let known = words.iter().find(|(word, _)| given.is_none_or(|given| given == *word));
    known.map(|(_, value)| *value).ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Problem::Bad(format!("{name}={}: there are {}", given.unwrap_or_default(), all.join(", ")))
    })
}
