//! The course of a recording in short: what was live in slices of some thousand events.
//!
//! Made once for each recording, on all cores, so that timelines of long windows need not go through millions of events each time.

use crate::bins::Bin;
use crate::problem::Problem;
use crate::scan;
use crate::work::Work;
use highwater_model::{Accounts, Figures, Nanos};
use highwater_store::{Recording, Seen};

/// Events of a slice.
const EVENTS: u64 = 8192;

/// A slice.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The time of its first event.
    pub first: Nanos,
    /// The time of its last event.
    pub last: Nanos,
    /// What happened in it.
    pub bin: Bin,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Course {
    /// The slices, in order.
    pub slices: Vec<Slice>,
}

/// The slices of one stretch, as far as they are known.
#[derive(Default)]
struct Slicing {
    slices: Vec<Slice>,
    before: Figures,
    began: u64,
    is_begun: bool,
}

impl Slicing {
    /// The state behind a step, which is the one before the next.
    fn see(&mut self, accounts: &Accounts) {
        if !self.is_begun {
            self.go_on_from(accounts);
            return;
        }
        let (time, figures) = (accounts.last_time(), &accounts.totals().figures);
        let is_full = accounts.events().saturating_sub(self.began) > EVENTS;
        if self.slices.is_empty() || is_full {
            self.slices.push(Slice { first: time, last: time, bin: Bin::default() });
            self.began = accounts.events();
        }
        if let Some(slice) = self.slices.last_mut() {
            slice.last = time;
            slice.bin.see(&self.before, figures);
        }
        self.before = *figures;
    }

    /// Goes on from a state that no step led to.
    fn go_on_from(&mut self, accounts: &Accounts) {
        self.before = accounts.totals().figures;
        self.began = accounts.events();
        self.is_begun = true;
    }
}

impl Course {
    /// Goes through all of a recording.
    pub fn of(recording: &Recording, work: &Work<'_>) -> Result<Self, Problem> {
        let parts = scan::walk(
            recording,
            (Nanos(0), Nanos(u64::MAX)),
            work,
            Slicing::default,
            |slicing, seen| match seen {
                Seen::Step(ledger, _) => slicing.see(ledger.accounts()),
                Seen::Stored(ledger) => slicing.go_on_from(ledger.accounts()),
            },
            |slicing, accounts| slicing.see(accounts),
        )?;
        Ok(Self { slices: parts.into_iter().flat_map(|part| part.slices).collect() })
    }
}
