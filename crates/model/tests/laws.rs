//! The laws, on random histories, against a model that knows nothing of ledgers.

use highwater_model::{
    AddressLedger, Anomaly, Event, EventKind, Nanos, NumberLedger, Placement, StackId, Step, TagId, ThreadId, laws,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

fn place() -> impl Strategy<Value = Placement> {
    let size = prop_oneof![4 => 0u64..200, 1 => Just(u64::MAX), 1 => Just(u64::MAX / 2)];
    (1u64..12, size, 0u32..5, 0u32..4).prop_map(|(address, size, stack, tag)| Placement {
        address: address * 16,
        size,
        stack: StackId(stack),
        tag: TagId(tag),
        ..Placement::default()
    })
}

fn kind() -> impl Strategy<Value = EventKind> {
    let claim = || prop::option::of(0u64..200);
    prop_oneof![
        5 => place().prop_map(EventKind::Allocate),
        4 => (1u64..12, claim()).prop_map(|(address, claimed_size)| EventKind::Deallocate {
            address: address * 16,
            claimed_size
        }),
        3 => (1u64..12, claim(), place()).prop_map(|(old, claimed_old_size, new)| EventKind::Reallocate {
            old_address: old * 16,
            claimed_old_size,
            new
        }),
        1 => Just(EventKind::Mark { name: Default::default() }),
        1 => (1u64..5).prop_map(|count| EventKind::Dropped { count }),
    ]
}

fn history() -> impl Strategy<Value = Vec<Event>> {
    let event = (0u64..50, 1u64..5, kind());
    prop::collection::vec(event, 0..300).prop_map(|events| {
        let mut time = 0u64;
        let mut happen = |(step, thread, kind)| {
            // Now and then time runs backwards.
            time = if step == 49 { time.saturating_sub(30) } else { time + step };
            Event { time: Nanos(time), thread: ThreadId(thread), kind }
        };
        events.into_iter().map(&mut happen).collect()
    })
}

/// The simplest possible account of the same history.
#[derive(Default)]
struct Naive {
    live: BTreeMap<u64, (u64, u64, u32)>,
    allocated: u128,
    freed: u128,
    peak: u128,
    inside_peak: u128,
    unmatched: u64,
    duplicates: u64,
}

impl Naive {
    fn live_bytes(&self) -> u128 {
        self.live.values().map(|(size, ..)| u128::from(*size)).sum()
    }

    fn admit(&self, size: u64) -> u64 {
        size.min((u128::from(u64::MAX) - self.allocated) as u64)
    }

    fn evict(&mut self, address: u64) {
        if let Some((size, ..)) = self.live.remove(&address) {
            self.duplicates += 1;
            self.freed += u128::from(size);
        }
    }

    fn allocate(&mut self, thread: u64, place: &Placement) {
        self.evict(place.address);
        let size = self.admit(place.size);
        self.allocated += u128::from(size);
        self.live.insert(place.address, (size, thread, place.stack.0));
        self.peak = self.peak.max(self.live_bytes());
    }

    fn see(&mut self, event: &Event) {
        let thread = event.thread.0;
        match &event.kind {
            EventKind::Allocate(place) => self.allocate(thread, place),
            EventKind::Deallocate { address, .. } => match self.live.remove(address) {
                Some((size, ..)) => self.freed += u128::from(size),
                None => self.unmatched += 1,
            },
            EventKind::Reallocate { old_address, new, .. } => {
                let Some(&(old_size, _, old_stack)) = self.live.get(old_address) else {
                    self.unmatched += 1;
                    return self.allocate(thread, new);
                };
                if new.address != *old_address {
                    self.evict(new.address);
                }
                let size = self.admit(new.size);
                if new.address != *old_address {
                    self.inside_peak = self.inside_peak.max(self.live_bytes() + u128::from(size));
                }
                self.live.remove(old_address);
                self.allocated += u128::from(size);
                self.freed += u128::from(old_size);
                let stack = if new.stack.0 == 0 { old_stack } else { new.stack.0 };
                self.live.insert(new.address, (size, thread, stack));
                self.peak = self.peak.max(self.live_bytes());
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_ledger_agrees_with_the_simplest_account_at_every_instant(history in history()) {
        let mut ledger = AddressLedger::default();
        let mut naive = Naive::default();
        for event in &history {
            ledger.record(event, &mut ());
            naive.see(event);
            let accounts = ledger.accounts();
            let totals = accounts.totals();
            prop_assert_eq!(laws::violations(accounts), Vec::<String>::new());
            prop_assert_eq!(u128::from(totals.figures.live_bytes()), naive.live_bytes());
            prop_assert_eq!(totals.figures.live_blocks(), naive.live.len() as u64);
            prop_assert_eq!(u128::from(totals.figures.allocated_bytes), naive.allocated);
            prop_assert_eq!(u128::from(totals.figures.freed_bytes), naive.freed);
            prop_assert_eq!(u128::from(totals.figures.peak_bytes), naive.peak);
            let inside = naive.inside_peak.min(u128::from(u64::MAX));
            prop_assert_eq!(u128::from(totals.peak_bytes_inside_reallocation), inside);
            let anomalies = accounts.anomalies();
            let unmatched = anomalies.get(Anomaly::UnmatchedFree) + anomalies.get(Anomaly::UnmatchedReallocation);
            prop_assert_eq!(unmatched, naive.unmatched);
            prop_assert_eq!(anomalies.get(Anomaly::DuplicateAllocation), naive.duplicates);
            for (address, (size, thread, stack)) in &naive.live {
                let block = ledger.find(*address).expect("live in the naive account");
                let owner = accounts.threads()[block.thread as usize].id.0;
                prop_assert_eq!((block.size, owner, block.stack.0), (*size, *thread, *stack));
            }
        }
    }

    #[test]
    fn replaying_what_was_settled_gives_the_same_accounts(history in history(), pause in 0usize..300) {
        let mut ledger = AddressLedger::default();
        let mut steps: Vec<Step> = Vec::new();
        history.iter().for_each(|event| ledger.record(event, &mut steps));
        let mut replayed = NumberLedger::default();
        for (at, step) in steps.iter().enumerate() {
            if at == pause {
                // Storing and taking up the state again must change nothing.
                replayed = NumberLedger::from_state(replayed.accounts().to_state());
            }
            replayed.replay(step);
        }
        prop_assert_eq!(replayed.accounts().to_state(), ledger.accounts().to_state());
    }

    #[test]
    fn a_block_keeps_its_number_from_birth_to_death(history in history()) {
        let mut ledger = AddressLedger::default();
        let mut seen: HashMap<u64, Nanos> = HashMap::new();
        for event in &history {
            ledger.record(event, &mut ());
            for block in ledger.accounts().blocks() {
                let born = *seen.entry(block.id.0).or_insert(block.time);
                prop_assert_eq!(born, block.time);
            }
        }
    }
}
