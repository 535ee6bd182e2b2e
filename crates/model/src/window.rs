//! The difference between two instants.

use crate::accounts::{Accounts, AccountsState, ThreadAccount};
use crate::figures::{Figures, Totals};
use crate::ids::{Nanos, ThreadId};
use crate::sites::Sites;
use crate::snapshot::Snapshot;
use rustc_hash::FxHashMap;

impl Snapshot {
    /// The events since an earlier instant of the same recording: counters are those of the time between. Nothing else is known: neither blocks nor
    /// peaks, and the live figures are only births minus deaths.
    pub fn since(&self, earlier: &Self) -> Self {
        let (new, old) = (&self.accounts, &earlier.accounts);
        let totals = Totals { figures: new.totals().figures.without(&old.totals().figures), ..Totals::default() };
        let owners: FxHashMap<ThreadId, &Figures> =
            old.threads().iter().map(|thread| (thread.id, &thread.figures)).collect();
        let thread = |thread: &ThreadAccount| {
            let figures = owners.get(&thread.id).map_or(thread.figures, |before| thread.figures.without(before));
            ThreadAccount { figures, ..*thread }
        };
        let mut anomalies = crate::Anomalies::default();
        for (anomaly, count) in new.anomalies().iter() {
            anomalies.add(anomaly, count.saturating_sub(old.anomalies().get(anomaly)));
        }
        let state = AccountsState {
            totals,
            anomalies,
            threads: new.threads().iter().map(thread).collect(),
            sites: differences_of_sites(new.sites(), old.sites()),
            tags: differences(new.tags(), old.tags()),
            events: new.events().saturating_sub(old.events()),
            next_id: new.next_id().0,
            last_time: new.last_time(),
            ..AccountsState::default()
        };
        let mut source = self.source.clone();
        (source.snapshot, source.aggregated) = (true, true);
        Self { source, at: self.at, accounts: Accounts::from_state(state), catalog: self.catalog.clone() }
    }
}

fn differences_of_sites(new: &Sites, old: &Sites) -> Sites {
    let nothing = Figures::default();
    let mut differences = Sites::default();
    for (stack, figures) in new.iter() {
        *differences.at(stack) = figures.without(old.get(stack).unwrap_or(&nothing));
    }
    differences
}

fn differences(new: &[Figures], old: &[Figures]) -> Vec<Figures> {
    let nothing = Figures::default();
    new.iter().enumerate().map(|(at, figures)| figures.without(old.get(at).unwrap_or(&nothing))).collect()
}

/// A window of time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The first instant.
    pub from: Nanos,
    /// The last instant.
    pub to: Nanos,
}

impl Window {
    /// True for an instant inside.
    #[inline]
    pub fn has(&self, time: Nanos) -> bool {
        (self.from..=self.to).contains(&time)
    }
}
