//! Objects by type, from a log of births and drops: which types leak, and how reliable the answer is.

mod at;
mod document;
mod findings;
mod read;
mod recorded;
mod room;
pub mod sentences;
mod untracked;

pub use at::At;
pub use document::document;
pub use findings::Findings;
pub use read::{ObjectsRead, read};
pub use room::{MemoryImage, heap_room, place_images};

pub use untracked::{UntrackedTypes, untracked_document};

use crate::error::QueryError;
use highwater_formats::objlog::ObjectGrouping;
use highwater_model::When;
use serde_json::Value;
use std::path::Path;

/// The document about the types of a log: the answer of `highwater objects --json`.
pub fn types_document(path: &Path) -> Result<Value, QueryError> {
    let at = At::When(When::End);
    let read = read(path, &at, &mut |_, _| true)?;
    Ok(document(path, &at, ObjectGrouping::Type, usize::MAX, &Findings::of(&read.reader)))
}
