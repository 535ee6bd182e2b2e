//! Recordings of states: figures at several instants, and no events.

use highwater_model::{
    AccountsState, AllocId, Catalog, Clock, Figures, FrameText, KnownFigures, Nanos, Source, StackId, ThreadAccount,
    ThreadId, When,
};
use highwater_store::history::{History, Moment};
use highwater_store::{Recording, write_states};
use proptest::prelude::*;
use std::sync::Arc;

const SITES: usize = 4;

fn catalog() -> (Catalog, Vec<StackId>) {
    let mut catalog = Catalog::default();
    let names: Vec<String> = (0..SITES).map(|site| format!("site_{site}")).collect();
    let frame = |name| FrameText { function: name, ..FrameText::default() };
    let stacks = names.iter().map(|name| catalog.intern_stack(&[frame(name.as_str())])).collect();
    (catalog, stacks)
}

/// A state in which each site holds these bytes, one block each.
fn state(at: u64, bytes: &[u64], stacks: &[StackId]) -> AccountsState {
    let mut state = AccountsState { last_time: Nanos(at), ..AccountsState::default() };
    let mut whole = Figures::default();
    for (&stack, &bytes) in stacks.iter().zip(bytes) {
        let figures = Figures { allocations: 1, allocated_bytes: bytes, peak_bytes: bytes, ..Figures::default() };
        state.sites.at(stack).add(&figures);
        whole.add(&figures);
    }
    state.totals.figures = whole;
    state.next_id = whole.allocations;
    state.threads = vec![ThreadAccount { id: ThreadId(0), figures: whole, last_allocation: AllocId(u64::MAX) }];
    state
}

fn recording(times_and_bytes: &[(u64, Vec<u64>)]) -> (Recording, Vec<StackId>) {
    let (catalog, stacks) = catalog();
    let known = Some(KnownFigures { live_blocks: true, allocated: true, own_peaks: true, samples: false });
    let source = Source { known, clock: Clock::Instructions, ..Source::default() };
    let mut states: Vec<_> = times_and_bytes.iter().map(|(at, bytes)| state(*at, bytes, &stacks)).collect();
    let (file, written) = write_states(Vec::new(), &source, &catalog, &mut states).unwrap();
    assert_eq!(written.bytes, file.len() as u64);
    (Recording::from_bytes(file).unwrap(), stacks)
}

fn any_states() -> impl Strategy<Value = Vec<(u64, Vec<u64>)>> {
    let one = (1..50u64, prop::collection::vec(0..1000u64, SITES));
    prop::collection::vec(one, 1..12).prop_map(|mut states| {
        let mut at = 0;
        for (time, _) in &mut states {
            at += *time;
            *time = at;
        }
        states
    })
}

proptest! {
    #[test]
    fn every_instant_has_the_figures_of_the_latest_state(states in any_states()) {
        let (recording, stacks) = recording(&states);
        prop_assert!(recording.source().is_states() && !recording.is_snapshot());
        prop_assert_eq!(recording.source().clock, Clock::Instructions);
        prop_assert_eq!(recording.states(), states.iter().map(|(at, _)| Nanos(*at)).collect::<Vec<_>>());
        let checked = recording.check(&mut |_| {}).unwrap();
        prop_assert!(checked.violations.is_empty());
        prop_assert!(recording.damage().is_empty());
        let (first, last) = (states[0].0, states[states.len() - 1].0);
        for time in first..=last {
            let snapshot = recording.snapshot_at(Moment::At(Nanos(time))).unwrap();
            let (_, bytes) = states.iter().rfind(|(at, _)| *at <= time).unwrap();
            for (stack, bytes) in stacks.iter().zip(bytes) {
                prop_assert_eq!(snapshot.accounts.sites().get(*stack).map(Figures::live_bytes), Some(*bytes));
            }
            // Counters are known at the end alone.
            prop_assert_eq!(snapshot.source.knows_allocated(), time == last);
            prop_assert_eq!(snapshot.source.knows_own_peaks(), time == last);
        }
    }

    #[test]
    fn the_peak_of_any_window_is_the_highest_state_in_it_or_before(states in any_states(), ends in (0..700u64, 0..700u64)) {
        let (recording, _) = recording(&states);
        let sum = |bytes: &Vec<u64>| bytes.iter().sum::<u64>();
        let most = states.iter().map(|(_, bytes)| sum(bytes)).max().unwrap();
        let whole = recording.snapshot(&When::Peak).unwrap();
        prop_assert_eq!(whole.accounts.totals().figures.live_bytes(), most);
        prop_assert_eq!(recording.final_totals().unwrap().figures.peak_bytes, most);

        let (from, to) = (ends.0.min(ends.1), ends.0.max(ends.1));
        let before = states.iter().rfind(|(at, _)| *at < from);
        let within = states.iter().filter(|(at, _)| (from..=to).contains(at));
        let expected = before.into_iter().chain(within).map(|(_, bytes)| sum(bytes)).max().unwrap_or(0);
        let found = recording.highest_between(Nanos(from), Nanos(to)).unwrap();
        prop_assert_eq!(found.bytes, expected);
    }

    #[test]
    fn a_cut_or_changed_file_never_panics(states in any_states(), cut in any::<prop::sample::Index>(), flip in any::<(prop::sample::Index, u8)>()) {
        let (catalog, stacks) = catalog();
        let source = Source { known: Some(KnownFigures::default()), ..Source::default() };
        let mut states: Vec<_> = states.iter().map(|(at, bytes)| state(*at, bytes, &stacks)).collect();
        let (mut file, _) = write_states(Vec::new(), &source, &catalog, &mut states).unwrap();
        let at = flip.0.index(file.len());
        file[at] ^= flip.1;
        file.truncate(cut.index(file.len()) + 1);
        if let Ok(recording) = Recording::from_bytes(file) {
            let _ = recording.snapshot(&When::Peak);
            let _ = recording.highest_between(Nanos(0), Nanos(100));
            if let Ok(history) = History::of_recording(Arc::new(recording)) {
                let _ = history.window(history.whole());
            }
        }
    }
}

#[test]
fn the_counters_of_the_whole_are_those_of_the_end() {
    let (recording, _) = recording(&[(1, vec![5, 0, 0, 0]), (9, vec![2, 0, 0, 7])]);
    let history = History::of_recording(Arc::new(recording)).unwrap();
    let window = history.window(history.whole()).unwrap();
    assert_eq!(window.counters.accounts.totals().figures.allocated_bytes, 9);
}
