//! The stacks of an answer: a table that has each call once.
//!
//! Every row, block and leak has its whole stack, and the stacks of a deep recursion share nearly all their calls: as lists, ten thousand rows of two thousand
//! frames each take 16 GB. So an answer has a table ([`StackTableAnswer`](highwater_formats::json::StackTableAnswer)), and its rows have numbers in it.

use highwater_formats::json::DocumentStacks;
use highwater_model::Catalog;

/// The most different calls in the stacks of one answer: some 100 MB of JSON values.
const MOST_CALLS: usize = 1 << 20;
/// The most frames of one stack that are looked at: the innermost.
pub const MOST_FRAMES: usize = 2048;

/// An empty table of stacks for an answer about these catalogs.
pub fn no_stacks<'a>(catalogs: impl IntoIterator<Item = &'a Catalog>) -> DocumentStacks<'a> {
    DocumentStacks::with_most(catalogs, MOST_CALLS)
}
