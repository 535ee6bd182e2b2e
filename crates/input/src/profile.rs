//! Profiles: figures by call site at one instant or at several, as other tools add them up. No events are known.

use crate::error::InputError;
use crate::format::WrittenState;
use crate::problems::Problems;
use highwater_model::{
    AccountsState, AllocId, Catalog, Figures, KnownFigures, Nanos, Source, StackId, TagId, ThreadAccount, ThreadId,
};
use highwater_store::{write_snapshot, write_states};
use std::fs::File;
use std::path::Path;

/// The most blocks that a profile may count: files cannot store more.
const MOST_BLOCKS: u64 = 1 << 39;
/// The most rows of all states together.
const MOST_ROWS: usize = 1 << 26;

/// The content of a profile.
#[derive(Debug, Default)]
pub struct Profile {
    /// The process that the memory belongs to.
    pub source: Source,
    /// The figures that the file has besides live bytes.
    pub known: KnownFigures,
    /// The catalog that handles refer to.
    pub catalog: Catalog,
    /// The states, in the order of their times. A file of one instant has one.
    pub states: Vec<ProfileState>,
    /// True if the file is about one instant by its nature; false if it is a series, even one of a single state.
    pub is_instant: bool,
    /// The version of the format; 0 if it has none.
    pub version: u16,
    /// Problems found in the file.
    pub problems: Problems,
}

/// Figures at an instant.
#[derive(Clone, Debug, Default)]
pub struct ProfileState {
    /// The instant.
    pub at: Nanos,
    /// The sites, in any order. Rows of the same stack are added.
    pub sites: Vec<ProfileSite>,
}

/// The figures of a site. Those that the profile does not know ([`KnownFigures`]) are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileSite {
    /// Its stack.
    pub stack: StackId,
    /// The type of its blocks, or [`TagId::NONE`].
    pub tag: TagId,
    /// Bytes live at the instant.
    pub live_bytes: u64,
    /// Blocks live at the instant.
    pub live_blocks: u64,
    /// Bytes ever allocated.
    pub allocated_bytes: u64,
    /// Blocks ever allocated.
    pub allocations: u64,
    /// The most bytes that the site ever held.
    pub own_peak_bytes: u64,
    /// Samples of live blocks, where figures are estimates.
    pub live_samples: u64,
    /// Samples of all blocks ever allocated.
    pub samples: u64,
}

impl Profile {
    /// Writes the profile as a `.hw` file. `path` is the original file, for messages.
    pub fn write(self, path: &Path, target: File) -> Result<WrittenState, InputError> {
        let too_much = || InputError::unusable(path, "the figures of the profile exceed what a recording can store");
        let rows: usize = self.states.iter().map(|state| state.sites.len()).sum();
        if rows > MOST_ROWS {
            return Err(too_much());
        }
        let mut states = Vec::with_capacity(self.states.len());
        for state in &self.states {
            states.push(accounts_of(state, self.known).ok_or_else(too_much)?);
        }
        let Self { source, catalog, known, is_instant, problems, .. } = self;
        let source = Source { aggregated: true, known: Some(known), ..source };
        let written = match states.as_mut_slice() {
            [state] if is_instant => write_snapshot(target, &source, &catalog, state),
            [] => return Err(InputError::unusable(path, "the profile is empty: it has no figures")),
            states => write_states(target, &source, &catalog, states),
        };
        let (file, written) = written.map_err(InputError::Write)?;
        Ok(WrittenState { file, written, damage: problems.damage })
    }
}

/// The accounts of a state; `None` if a sum is too large.
fn accounts_of(state: &ProfileState, known: KnownFigures) -> Option<AccountsState> {
    let mut accounts = AccountsState { last_time: state.at, ..AccountsState::default() };
    let mut whole = Figures::default();
    for site in &state.sites {
        let figures = figures_of(site, known);
        add(&mut whole, &figures)?;
        add(accounts.sites.at(site.stack), &figures)?;
        if site.tag != TagId::NONE {
            let index = site.tag.0 as usize;
            if index >= accounts.tags.len() {
                accounts.tags.resize(index + 1, Figures::default());
            }
            add(&mut accounts.tags[index], &figures)?;
        }
    }
    // Sites reach their peaks at different times: only their sum is a peak of the whole that can be excluded.
    whole.peak_bytes = whole.live_bytes();
    accounts.next_id = whole.allocations;
    accounts.totals.figures = whole;
    accounts.totals.peak_blocks = whole.live_blocks();
    accounts.totals.peak_bytes_inside_reallocation = whole.peak_bytes;
    if !state.sites.is_empty() {
        accounts.threads = vec![ThreadAccount { id: ThreadId(0), figures: whole, last_allocation: AllocId(u64::MAX) }];
    }
    Some(accounts)
}

/// The counters of a site. A file that says that more is live than was ever allocated is taken at its word about what is live.
fn figures_of(site: &ProfileSite, known: KnownFigures) -> Figures {
    let live_blocks = match known.live_blocks {
        true => site.live_blocks,
        false => u64::from(site.live_bytes > 0),
    };
    let (allocated_bytes, allocations) = match known.allocated {
        true => (site.allocated_bytes.max(site.live_bytes), site.allocations.max(live_blocks)),
        false => (site.live_bytes, live_blocks),
    };
    let own_peak = if known.own_peaks { site.own_peak_bytes } else { 0 };
    let mut figures = Figures {
        allocations,
        frees: allocations - live_blocks,
        allocated_bytes,
        freed_bytes: allocated_bytes - site.live_bytes,
        peak_bytes: own_peak.max(site.live_bytes),
        ..Figures::default()
    };
    if known.samples {
        let live = site.live_samples.min(live_blocks);
        let all = if known.allocated { site.samples.clamp(live, live + figures.frees) } else { live };
        figures.unrecorded = allocations - all;
        figures.unrecorded_gone = figures.frees - (all - live);
    }
    figures
}

/// Adds figures; `None` if a sum is too large.
fn add(sum: &mut Figures, figures: &Figures) -> Option<()> {
    let allocations = sum.allocations.checked_add(figures.allocations).filter(|count| *count <= MOST_BLOCKS)?;
    let allocated_bytes = sum.allocated_bytes.checked_add(figures.allocated_bytes)?;
    *sum = Figures {
        allocations,
        frees: sum.frees + figures.frees,
        allocated_bytes,
        freed_bytes: sum.freed_bytes + figures.freed_bytes,
        peak_bytes: sum.peak_bytes.checked_add(figures.peak_bytes)?,
        unrecorded: sum.unrecorded + figures.unrecorded,
        unrecorded_gone: sum.unrecorded_gone + figures.unrecorded_gone,
        ..*sum
    };
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{Accounts, laws};
    use proptest::prelude::*;

    fn any_site() -> impl Strategy<Value = ProfileSite> {
        let number = || prop_oneof![0..1000u64, Just(u64::MAX), Just(MOST_BLOCKS), any::<u64>()];
        let figures = (number(), number(), number(), number(), number(), number(), number());
        (0..4u32, 0..3u32, figures).prop_map(|(stack, tag, figures)| ProfileSite {
            stack: StackId(stack),
            tag: TagId(tag),
            live_bytes: figures.0,
            live_blocks: figures.1,
            allocated_bytes: figures.2,
            allocations: figures.3,
            own_peak_bytes: figures.4,
            live_samples: figures.5,
            samples: figures.6,
        })
    }

    proptest! {
        #[test]
        fn whatever_a_file_says_its_figures_obey_the_laws_or_are_refused(
            sites in prop::collection::vec(any_site(), 0..6),
            known in any::<(bool, bool, bool, bool)>(),
        ) {
            let known = KnownFigures { live_blocks: known.0, allocated: known.1, own_peaks: known.2, samples: known.3 };
            let state = ProfileState { at: Nanos(5), sites: sites.clone() };
            let Some(accounts) = accounts_of(&state, known) else { return Ok(()) };
            let live: u64 = sites.iter().map(|site| site.live_bytes).sum();
            prop_assert_eq!(accounts.totals.figures.live_bytes(), live);
            let violations = laws::violations_of_figures(&Accounts::from_state(accounts));
            prop_assert!(violations.is_empty(), "{:?}", violations);
        }
    }

    #[test]
    fn figures_that_a_profile_lacks_are_those_of_what_is_live() {
        let site = ProfileSite {
            live_bytes: 10,
            live_blocks: 3,
            allocated_bytes: 99,
            allocations: 9,
            ..ProfileSite::default()
        };
        let figures = figures_of(&site, KnownFigures::default());
        assert_eq!((figures.live_bytes(), figures.live_blocks(), figures.allocated_bytes), (10, 1, 10));
        let all = KnownFigures { live_blocks: true, allocated: true, own_peaks: true, samples: true };
        let site = ProfileSite { live_samples: 1, samples: 2, ..site };
        let figures = figures_of(&site, all);
        assert_eq!((figures.live_blocks(), figures.allocated_bytes, figures.allocations), (3, 99, 9));
        assert_eq!((figures.samples(), figures.live_samples()), (2, 1));
    }
}
