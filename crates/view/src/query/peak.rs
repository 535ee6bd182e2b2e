//! `peak`: where the most bytes are live within the window, of all blocks and of those that pass the filters.

use super::timeline::{OwnPeak, own_peak};
use crate::choice::Choice;
use crate::http::request::Request;
use crate::problem::Problem;
use crate::work::Work;
use serde_json::{Value, json};

/// The answer.
pub fn answer(_: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let Some(recording) = choice.loaded.recording() else {
        return Err(Problem::failed("a snapshot knows one instant only; it has no peak"));
    };
    let highest = choice.loaded.highest(recording, choice.window)?;
    let filtered = if choice.filters.is_empty() { None } else { own_peak(choice, recording, work)? };
    let filtered = filtered.map(|OwnPeak { bytes, at, .. }| json!({ "at_ns": at.0, "bytes": bytes.rounded() }));
    Ok(json!({
        "at_ns": highest.at.max(choice.window.from).0,
        "bytes": highest.bytes,
        "filtered": filtered,
    }))
}
