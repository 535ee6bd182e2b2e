//! `types` and `image/…`: endpoints that only some kinds of sources support.

use super::{Answered, least_share, number};
use crate::choice::RequestChoice;
use crate::http::request::Request;
use crate::sources::Sources;
use highwater_query::QueryError;
use highwater_store::history::Work;

/// The greatest depth of a treemap.
const DEEPEST: u64 = 100;

/// Objects by type.
pub fn types(_: &Request, choice: &RequestChoice, _: &Work<'_>) -> Answered {
    choice.loaded.special.types().map_err(QueryError::Failed)
}

/// The objects on an image's heap.
pub fn heap(_: &Request, choice: &RequestChoice, _: &Work<'_>) -> Answered {
    choice.loaded.special.heap().map_err(QueryError::Failed)
}

/// The objects of an image by their retained size.
pub fn treemap(request: &Request, choice: &RequestChoice, _: &Work<'_>) -> Answered {
    let depth = number(request, "depth", 6, DEEPEST)?.max(1) as usize;
    choice.loaded.special.treemap(depth, least_share(request)?).map_err(QueryError::Failed)
}

/// One object of an image, by its address or a path to it.
pub fn object(request: &Request, choice: &RequestChoice, _: &Work<'_>) -> Answered {
    let place = request.parameter("address").ok_or_else(|| QueryError::bad("address= is missing"))?;
    choice.loaded.special.object(place).map_err(QueryError::Failed)
}

/// Compares two images.
pub fn compare(request: &Request, sources: &Sources, _: &Work<'_>) -> Answered {
    let side = |name: &str| {
        let text = request.parameter(name).ok_or_else(|| QueryError::Bad(format!("{name}= is missing")))?;
        let id = text.split('@').next().unwrap_or(text);
        sources.get(id.parse().map_err(|_| QueryError::Bad(format!("{name}={text}: a source is wanted")))?)
    };
    let (before, after) = (side("a")?, side("b")?);
    let later = after.path.as_ref().ok_or_else(|| QueryError::failed("a live process is no image"))?;
    before.loaded()?.special.compare(later).map_err(QueryError::Failed)
}
