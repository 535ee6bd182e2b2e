//! `types` and `image/…`: endpoints that only some kinds of sources support.

use super::number;
use super::tree::least_share;
use crate::choice::Choice;
use crate::http::request::Request;
use crate::problem::Problem;
use crate::sources::Sources;
use crate::work::Work;
use serde_json::Value;

/// The greatest depth of a treemap.
const DEEPEST: u64 = 100;

/// Objects by type.
pub fn types(_: &Request, choice: &Choice, _: &Work<'_>) -> Result<Value, Problem> {
    choice.loaded.special.types().map_err(Problem::Failed)
}

/// The objects on an image's heap.
pub fn heap(_: &Request, choice: &Choice, _: &Work<'_>) -> Result<Value, Problem> {
    choice.loaded.special.heap().map_err(Problem::Failed)
}

/// The objects of an image by their retained size.
pub fn treemap(request: &Request, choice: &Choice, _: &Work<'_>) -> Result<Value, Problem> {
    let depth = number(request, "depth", 6, DEEPEST)?.max(1) as usize;
    choice.loaded.special.treemap(depth, least_share(request)?).map_err(Problem::Failed)
}

/// One object of an image, by its address or a path to it.
pub fn object(request: &Request, choice: &Choice, _: &Work<'_>) -> Result<Value, Problem> {
    let place = request.parameter("address").ok_or_else(|| Problem::bad("address= is missing"))?;
    choice.loaded.special.object(place).map_err(Problem::Failed)
}

/// Compares two images.
pub fn compare(request: &Request, sources: &Sources, _: &Work<'_>) -> Result<Value, Problem> {
    let side = |name: &str| {
        let text = request.parameter(name).ok_or_else(|| Problem::Bad(format!("{name}= is missing")))?;
        let id = text.split('@').next().unwrap_or(text);
        sources.get(id.parse().map_err(|_| Problem::Bad(format!("{name}={text}: a source is wanted")))?)
    };
    let (before, after) = (side("a")?, side("b")?);
    let later = after.path.as_ref().ok_or_else(|| Problem::failed("a live process is no image"))?;
    before.loaded()?.special.compare(later).map_err(Problem::Failed)
}
