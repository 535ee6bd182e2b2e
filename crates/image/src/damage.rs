//! What is wrong with an image: where, and how often.

use highwater_model::Damage;
use std::borrow::Cow;

/// Kinds of damage of which each place is kept; more are counted.
const PLACES_KEPT: usize = 100;

/// All that is wrong: the first places, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    /// The first that were found.
    pub places: Vec<Damage>,
    /// How many there are.
    pub count: u64,
}

impl Damages {
    /// Notes damage.
    #[cold]
    pub fn note(&mut self, offset: u64, length: u64, what: impl Into<Cow<'static, str>>) {
        self.count += 1;
        if self.places.len() < PLACES_KEPT {
            self.places.push(Damage { offset, length, what: what.into() });
        }
    }

    /// How many are counted, but not kept.
    pub fn unnamed(&self) -> u64 {
        self.count - self.places.len() as u64
    }

    /// True when nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds others.
    pub fn append(&mut self, others: Self) {
        self.count += others.count;
        let room = PLACES_KEPT.saturating_sub(self.places.len());
        self.places.extend(others.places.into_iter().take(room));
    }
}
