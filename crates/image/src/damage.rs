//! The damage in an image: where, and how often.

use highwater_model::Damage;
use std::borrow::Cow;

/// Damage entries that are kept; more are only counted.
const LISTED: usize = 100;

/// The damage found: the first entries, and the number of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    /// The first entries that were found.
    pub entries: Vec<Damage>,
    /// The number of all entries.
    pub count: u64,
}

impl Damages {
    /// Records damage.
    #[cold]
    pub fn note(&mut self, offset: u64, length: u64, what: impl Into<Cow<'static, str>>) {
        self.count += 1;
        if self.entries.len() < LISTED {
            self.entries.push(Damage { offset, length, what: what.into() });
        }
    }

    /// The number of entries that are counted, but not kept.
    pub fn unlisted(&self) -> u64 {
        self.count - self.entries.len() as u64
    }

    /// True if there is no damage.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the damage in `others`.
    pub fn append(&mut self, others: Self) {
        self.count += others.count;
        let room = LISTED.saturating_sub(self.entries.len());
        self.entries.extend(others.entries.into_iter().take(room));
    }
}
