//! Where the most bytes are live within the window, of all blocks and of those that pass the filters.

use crate::error::QueryError;
use crate::query::Query;
use crate::timeline::{FilteredPeak, filtered_peak};
use highwater_store::history::Work;
use serde::Serialize;

/// An instant, and the bytes that were live then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PeakInstant {
    /// The instant.
    pub at_ns: u64,
    /// Bytes live then.
    pub bytes: u64,
}

/// The peak within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Peak"))]
pub struct PeakAnswer {
    /// The peak of all memory.
    #[serde(flatten)]
    pub whole: PeakInstant,
    /// The peak of the blocks that pass the filters; null without filters, or if too many changes would have to be sorted.
    pub filtered: Option<PeakInstant>,
}

/// The peak within the window.
pub fn peak(query: &Query, work: &Work<'_>) -> Result<PeakAnswer, QueryError> {
    let Some(recording) = query.history.recording() else {
        return Err(QueryError::failed("a snapshot knows one instant only; it has no peak"));
    };
    let highest = query.history.peak(recording, query.window)?;
    let filtered = if query.filters.is_empty() { None } else { filtered_peak(query, recording, work)? };
    Ok(PeakAnswer {
        whole: PeakInstant { at_ns: highest.at.max(query.window.from).0, bytes: highest.bytes },
        filtered: filtered.map(|FilteredPeak { bytes, at, .. }| PeakInstant { at_ns: at.0, bytes: bytes.rounded() }),
    })
}
