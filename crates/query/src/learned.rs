//! The wrappers of a history that are recognised by what they do.

use crate::error::QueryError;
use highwater_model::LearnedWrappers;
use highwater_store::history::{History, Moment};
use std::sync::Arc;

/// The wrappers of a history. They are those of its end, whatever instant is asked about: names do not change with the instant.
pub fn learned_wrappers(history: &History) -> Result<Arc<LearnedWrappers>, QueryError> {
    let make = || {
        let end = history.figures(Moment::End)?;
        Ok(LearnedWrappers::among(history.catalog(), end.accounts.sites().iter()))
    };
    history.cached("learned wrappers".to_owned(), make, |_| 4096)
}
