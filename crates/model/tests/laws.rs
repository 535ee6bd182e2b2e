//! The laws, on random histories, against a model that is independent of ledgers.

use highwater_model::{
    Accounts, AddressLedger, AllocId, Anomaly, Blocks, Catalog, Event, EventKind, Figures, Heap, Nanos, NumberLedger,
    Op, Placement, PlainEvent, SampleSpacing, Snapshot, Source, StackId, Step, StringId, Tag, TagId, ThreadId, Weight,
    laws,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

fn place() -> impl Strategy<Value = Placement> {
    let size = prop_oneof![4 => 0u64..200, 1 => Just(u64::MAX), 1 => Just(u64::MAX / 2)];
    let weight = prop_oneof![4 => Just(0), 2 => 0u64..1 << 20, 1 => 0u64..1 << 22];
    let surplus = prop_oneof![3 => Just(0), 1 => any::<i32>()];
    let counted = prop_oneof![3 => Just(0), 2 => 1u32..9, 1 => Just(u32::MAX)];
    let numbers = (1u64..12, size, 0u32..5, 0u32..4, surplus, weight);
    (numbers, counted).prop_map(|((address, size, stack, tag, surplus, weight), counted)| Placement {
        address: address * 16,
        size,
        stack: StackId(stack),
        tag: TagId(tag),
        surplus,
        weight: Weight::from_bits(weight).unwrap().of_samples(counted, SampleSpacing::new(1000.5)),
    })
}

fn kind() -> impl Strategy<Value = EventKind> {
    let claim = || prop::option::of(0u64..200);
    prop_oneof![
        5 => place().prop_map(EventKind::Allocate),
        4 => (1u64..12, claim()).prop_map(|(address, claimed_size)| EventKind::Deallocate {
            address: address * 16,
            claimed_size,
            stack: StackId(address as u32 % 3)
        }),
        3 => (1u64..12, claim(), place()).prop_map(|(old, claimed_old_size, new)| EventKind::Reallocate {
            old_address: old * 16,
            claimed_old_size,
            new
        }),
        3 => (1u64..12, 0u32..4).prop_map(|(address, tag)| EventKind::Promote { address: address * 16, tag: TagId(tag) }),
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
            let thread = if thread == 4 { ThreadId::UNKNOWN } else { ThreadId(thread) };
            Event { time: Nanos(time), thread, kind }
        };
        events.into_iter().map(&mut happen).collect()
    })
}

/// A live block as the simplest possible account knows it.
#[derive(Clone, Copy)]
struct Live {
    id: u64,
    size: u64,
    weight: Weight,
    thread: u64,
    stack: u32,
    tag: u32,
}

impl Live {
    /// In units of 2⁻³² bytes, without any rounding.
    fn bytes(&self) -> u128 {
        self.weight.amount(self.size).units()
    }
}

fn rounded(units: u128) -> u64 {
    ((units + (1 << 31)) >> 32).min(u64::MAX.into()) as u64
}

/// The simplest possible account of the same history. Bytes are in units.
#[derive(Default)]
struct Naive {
    live: BTreeMap<u64, Live>,
    next: u64,
    records: u64,
    samples: u64,
    promotions: u64,
    promoted: u128,
    blocks: u128,
    allocated: u128,
    freed: u128,
    peak: u128,
    inside_peak: u128,
    unmatched: u64,
    duplicates: u64,
}

impl Naive {
    fn live_bytes(&self) -> u128 {
        self.live.values().map(Live::bytes).sum()
    }

    fn live_blocks(&self) -> u64 {
        self.live.values().map(|live| live.weight.blocks(AllocId(live.id))).sum()
    }

    fn admit(&self, place: &Placement) -> (u64, Weight) {
        let room = (u128::from(u64::MAX) << 32) - self.allocated - self.promoted;
        let whole = match place.weight.counted() {
            None => (place.size as f64 * place.weight.value()).round(),
            Some((samples, spacing)) => (f64::from(samples) * spacing.bytes()).round(),
        };
        let fits = place.weight.amount(place.size).units() <= room
            && (place.weight.is_one() || self.blocks as f64 + place.weight.value() < 15.0 * 2f64.powi(36));
        // The estimated bytes are the requested bytes times the weight.
        assert!(whole > 1e15 || (whole - place.weight.bytes(place.size) as f64).abs() <= 1.0);
        if fits { (place.size, place.weight) } else { (place.size.min((room >> 32) as u64), Weight::ONE) }
    }

    fn evict(&mut self, address: u64) {
        if let Some(live) = self.live.remove(&address) {
            self.duplicates += 1;
            self.freed += live.bytes();
        }
    }

    fn put(&mut self, address: u64, live: Live) {
        self.records += 1;
        self.samples += live.weight.samples();
        self.blocks += u128::from(live.weight.blocks(AllocId(live.id)));
        self.allocated += live.bytes();
        self.live.insert(address, live);
        self.peak = self.peak.max(self.live_bytes());
    }

    fn allocate(&mut self, thread: u64, place: &Placement) {
        self.evict(place.address);
        let (size, weight) = self.admit(place);
        let id = self.next;
        self.next += 1;
        self.put(place.address, Live { id, size, weight, thread, stack: place.stack.0, tag: place.tag.0 });
    }

    fn see(&mut self, event: &Event, possible: bool) {
        let thread = event.thread.0;
        match &event.kind {
            EventKind::Allocate(place) => self.allocate(thread, place),
            EventKind::Deallocate { address, .. } => match self.live.remove(address) {
                Some(live) => self.freed += live.bytes(),
                None => self.unmatched += 1,
            },
            EventKind::Reallocate { old_address, new, .. } => {
                let Some(&old) = self.live.get(old_address) else {
                    self.unmatched += 1;
                    return self.allocate(thread, new);
                };
                if new.address != *old_address {
                    self.evict(new.address);
                }
                let (size, weight) = self.admit(new);
                let stack = if new.stack.0 == 0 { old.stack } else { new.stack.0 };
                let tag = if new.tag.0 == 0 { old.tag } else { new.tag.0 };
                let live = Live { size, weight, thread, stack, tag, ..old };
                if new.address != *old_address {
                    self.inside_peak = self.inside_peak.max(self.live_bytes() + live.bytes());
                }
                self.live.remove(old_address);
                self.freed += old.bytes();
                self.put(new.address, live);
            }
            // The ledger decides whether a promotion is possible: no law depends on where the limit is.
            EventKind::Promote { address, tag } if possible => {
                if let Some(live) = self.live.get_mut(address) {
                    self.promotions += 1;
                    self.promoted += if live.tag == tag.0 { 0 } else { live.bytes() };
                    live.tag = tag.0;
                }
            }
            _ => {}
        }
    }
}

/// A history of exact blocks, most of them without tags: events that plain events support, and some that they do not.
fn exact_history() -> impl Strategy<Value = Vec<Event>> {
    history().prop_map(|mut history| {
        let mut keep = 0;
        for event in &mut history {
            keep += 1;
            match &mut event.kind {
                EventKind::Allocate(place) | EventKind::Reallocate { new: place, .. } => {
                    place.weight = Weight::ONE;
                    place.tag = if keep % 7 == 0 { place.tag } else { TagId::NONE };
                    place.size = if keep % 50 == 0 { place.size } else { place.size % 200 };
                    place.address += keep % 13 / 12;
                }
                EventKind::Deallocate { claimed_size, .. } if keep % 5 != 0 => *claimed_size = None,
                _ => {}
            }
        }
        history
    })
}

/// The event as a plain one, if possible.
fn plain(event: &Event, ledger: &mut AddressLedger) -> Option<PlainEvent> {
    let (time, thread) = (event.time, ledger.number_thread(event.thread));
    match event.kind {
        EventKind::Allocate(Placement { address, size, stack, tag: TagId::NONE, surplus, .. }) => {
            Some(PlainEvent { time, thread, address, size, stack, surplus, ..PlainEvent::default() })
        }
        EventKind::Deallocate { address, claimed_size: None, stack } => {
            Some(PlainEvent { time, thread, address, stack, is_free: true, ..PlainEvent::default() })
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn plain_events_many_at_once_are_the_same_as_one_by_one(history in exact_history(), most in 1usize..20) {
        let (mut one_by_one, mut at_once) = (AddressLedger::default(), AddressLedger::default());
        let mut taken = 0;
        while taken < history.len() {
            let mut batch: Vec<PlainEvent> = Vec::new();
            // A batch ends before an event that is not plain. Threads are numbered as they appear.
            while batch.len() < most && let Some(event) = history.get(taken + batch.len()) {
                let is_plain = matches!(event.kind, EventKind::Allocate(Placement { tag: TagId::NONE, .. }) | EventKind::Deallocate { claimed_size: None, .. });
                let Some(one) = is_plain.then(|| plain(event, &mut at_once)).flatten() else { break };
                batch.push(one);
            }
            let applied = at_once.record_plain(&mut batch);
            let mut highest = 0;
            for (event, done) in history[taken..].iter().zip(&batch[..applied.count]) {
                let mut steps: Vec<Step> = Vec::new();
                one_by_one.record(event, &mut steps);
                let [step] = steps[..] else { panic!("unusual: {steps:?}") };
                match step.op {
                    Op::Allocate(place) => {
                        prop_assert_eq!((place.size, done.id), (done.size, AllocId(one_by_one.accounts().next_id().0 - 1)));
                        highest = highest.max(one_by_one.accounts().totals().figures.live_bytes());
                    }
                    Op::Free { id, .. } => prop_assert_eq!(id, done.id),
                    op => panic!("not plain: {op:?}"),
                }
            }
            prop_assert_eq!(applied.highest_bytes, highest);
            taken += applied.count;
            if applied.count < batch.len() || batch.is_empty() {
                // The unusual one.
                one_by_one.record(&history[taken], &mut ());
                at_once.record(&history[taken], &mut ());
                taken += 1;
            }
            prop_assert_eq!(one_by_one.accounts().to_state(), at_once.accounts().to_state());
        }
        let sites = |ledger: &AddressLedger| ledger.accounts().live_at_peak().filter(|site| site.1 > 0).collect::<Vec<_>>();
        prop_assert_eq!(sites(&one_by_one), sites(&at_once));
    }

    #[test]
    fn what_sites_held_at_the_peak_is_known_without_replay(history in history()) {
        let mut ledger = AddressLedger::default();
        let (mut peak, mut at_peak) = (0, BTreeMap::new());
        for event in &history {
            ledger.record(event, &mut ());
            let accounts = ledger.accounts();
            if accounts.totals().peak_event != peak {
                peak = accounts.totals().peak_event;
                at_peak = accounts.sites().iter().map(|(stack, site)| (stack, site.live_bytes())).collect();
            }
        }
        let mut found: BTreeMap<StackId, u64> = ledger.accounts().live_at_peak().collect();
        // Sites that first allocated after the peak had nothing live at the peak.
        found.retain(|_, live| *live > 0);
        at_peak.retain(|_, live| *live > 0);
        prop_assert_eq!(found, at_peak);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_ledger_agrees_with_the_simplest_account_at_every_instant(history in history()) {
        let mut ledger = AddressLedger::default();
        let mut naive = Naive::default();
        for event in &history {
            let refused = ledger.accounts().anomalies().get(Anomaly::UnmatchedPromotion);
            ledger.record(event, &mut ());
            naive.see(event, ledger.accounts().anomalies().get(Anomaly::UnmatchedPromotion) == refused);
            let accounts = ledger.accounts();
            let totals = accounts.totals();
            prop_assert_eq!(laws::violations(accounts), Vec::<String>::new());
            prop_assert_eq!(totals.figures.live_bytes(), rounded(naive.live_bytes()));
            prop_assert_eq!(totals.figures.live_blocks(), naive.live_blocks());
            prop_assert_eq!(totals.figures.live_records(), naive.live.len() as u64);
            prop_assert_eq!((totals.figures.records(), totals.figures.samples()), (naive.records, naive.samples));
            prop_assert_eq!(totals.figures.live_samples(), naive.live.values().map(|live| live.weight.samples()).sum::<u64>());
            prop_assert_eq!(totals.figures.promoted_records(), naive.promotions);
            prop_assert_eq!(totals.figures.allocated_bytes, rounded(naive.allocated));
            prop_assert_eq!(totals.figures.freed_bytes, rounded(naive.freed));
            prop_assert_eq!(totals.figures.peak_bytes, rounded(naive.peak));
            prop_assert_eq!(totals.peak_bytes_inside_reallocation, rounded(naive.inside_peak));
            let anomalies = accounts.anomalies();
            let unmatched = anomalies.get(Anomaly::UnmatchedFree) + anomalies.get(Anomaly::UnmatchedReallocation);
            prop_assert_eq!(unmatched, naive.unmatched);
            prop_assert_eq!(anomalies.get(Anomaly::DuplicateAllocation), naive.duplicates);
            for (address, live) in &naive.live {
                let block = ledger.find(*address).expect("live in the naive account");
                let owner = accounts.threads()[block.thread as usize].id.0;
                prop_assert_eq!((block.id.0, block.size, block.weight), (live.id, live.size, live.weight));
                prop_assert_eq!((owner, block.stack.0, block.tag.0), (live.thread, live.stack, live.tag));
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
                // Storing and restoring the state must change nothing.
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

    #[test]
    fn figures_alone_keep_the_laws_that_need_no_blocks(history in history()) {
        let snapshot = snapshot_after(&history);
        prop_assert_eq!(laws::violations_of_figures(&snapshot.accounts), Vec::<String>::new());
        let mut state = snapshot.accounts.to_state();
        state.blocks = Blocks::default();
        let source = Source { aggregated: true, usable_sizes: true, ..Source::default() };
        let figures = Snapshot { source, accounts: Accounts::from_state(state), ..snapshot.clone() };
        prop_assert_eq!(figures.violations(), Vec::<String>::new());
        prop_assert_eq!((figures.usable_bytes(), figures.heap_alone(Heap::Malloc).is_none()), (None, true));
        for heap in Heap::ALL {
            let bytes = rounded(snapshot.blocks_of(heap).map(|block| block.live_amount().units()).sum());
            prop_assert_eq!((snapshot.live_bytes_of(heap), figures.live_bytes_of(heap)), (bytes, bytes));
        }
    }

    #[test]
    fn one_heap_of_a_snapshot_is_what_its_blocks_and_its_figures_say(history in history()) {
        let snapshot = snapshot_after(&history);
        for (heap, whole) in snapshot.figures_by_heap() {
            let alone = snapshot.heap_alone(heap).unwrap();
            prop_assert_eq!(alone.violations(), Vec::<String>::new());
            prop_assert!(alone.accounts.blocks().eq(snapshot.blocks_of(heap)));
            let figures = &alone.accounts.totals().figures;
            let same = |of: fn(&Figures) -> u64| of(figures) == of(&whole);
            prop_assert!(same(Figures::live_bytes) && same(Figures::live_blocks) && same(Figures::live_samples));
            prop_assert!(same(|figures| figures.allocated_bytes) && same(|figures| figures.frees) && same(Figures::samples));
        }
    }
}

/// The state after a history whose tags lie in several heaps.
fn snapshot_after(history: &[Event]) -> Snapshot {
    let mut catalog = Catalog::default();
    for (heap, name) in [Heap::Mapped, Heap::Malloc, Heap::Mapped].into_iter().zip(0..) {
        catalog.push_tag(Tag { variable: StringId(name), heap, ..Tag::default() });
    }
    let mut ledger = AddressLedger::default();
    history.iter().for_each(|event| ledger.record(event, &mut ()));
    let accounts = ledger.into_accounts();
    Snapshot { source: Source::default(), at: accounts.last_time(), accounts, catalog: Arc::new(catalog) }
}

#[test]
fn figures_that_cannot_be_are_found_without_blocks() {
    let whole = Figures {
        allocations: 2,
        frees: 1,
        allocated_bytes: 30,
        freed_bytes: 10,
        peak_bytes: 20,
        ..Figures::default()
    };
    let violations_with = |of_site: Figures, total: Figures| {
        let mut state = Accounts::default().to_state();
        state.totals.figures = total;
        *state.sites.at(StackId(0)) = of_site;
        let mut accounts = Accounts::from_state(state);
        accounts.thread_index(ThreadId(1));
        let mut state = accounts.to_state();
        state.threads[0].figures = total;
        laws::violations_of_figures(&Accounts::from_state(state)).join("; ")
    };
    assert_eq!(violations_with(whole, whole), "");
    let other = violations_with(Figures { frees: 0, ..whole }, whole);
    assert_eq!(other, "the frees of all sites sum to 0, but the total is 1");
    let more_freed = Figures { frees: 3, freed_bytes: 31, ..whole };
    assert!(violations_with(more_freed, more_freed).starts_with(
        "the whole memory: 1 more bytes were freed than allocated; the whole memory: 1 more blocks were freed than allocated"
    ));
    let no_peak = Figures { peak_bytes: 19, ..whole };
    assert!(violations_with(no_peak, no_peak).contains("the peak is 19 bytes, below the 20 that are live"));
}

/// A thread moves a block away, and another thread gets its address before the move is reported.
#[test]
fn a_block_that_is_being_moved_lies_where_it_was() {
    let place = |address, size| Placement { address, size, stack: StackId(1), ..Placement::default() };
    let event = |thread, kind| Event { time: Nanos(1), thread: ThreadId(thread), kind };
    let move_from = |old_address| EventKind::Reallocate { old_address, claimed_old_size: None, new: place(64, 50) };
    let key = 1 << 63 | 7;
    let (mut ledger, mut steps) = (AddressLedger::default(), Vec::new());
    ledger.record(&event(1, EventKind::Allocate(place(16, 10))), &mut steps);
    assert!(ledger.set_aside(16, key) && !ledger.set_aside(16, key));
    // The address is allocated again. This does not indicate a missed free.
    ledger.record(&event(2, EventKind::Allocate(place(16, 30))), &mut steps);
    assert!(!ledger.put_back(key), "another block is there");
    let at_once: Vec<(u64, u64)> = ledger.accounts().to_state().blocks.iter().map(|b| (b.address, b.size)).collect();
    assert_eq!(at_once, [(16, 10), (16, 30)]);
    ledger.record(&event(1, move_from(key)), &mut steps);
    assert_eq!(ledger.find(key), None);
    ledger.record(&event(2, EventKind::free(16, None)), &mut steps);
    let left: Vec<(u64, u64)> = ledger.accounts().blocks().map(|block| (block.address, block.size)).collect();
    assert_eq!(left, [(64, 50)]);
    assert!(ledger.accounts().anomalies().is_empty());
    let mut replayed = NumberLedger::default();
    steps.iter().for_each(|step| replayed.replay(step));
    assert_eq!(replayed.accounts().to_state(), ledger.accounts().to_state());

    // A block that did not move is found again. A block whose move never ended can be given up.
    assert!(ledger.set_aside(64, key) && ledger.put_back(key) && ledger.find(64).is_some());
    assert!(ledger.set_aside(64, key));
    ledger.record(&event(1, EventKind::free(key, None)), &mut steps);
    assert_eq!(ledger.accounts().blocks().count(), 0);
}

/// A free between a birth and a death matters only if the source does not tell threads apart.
#[test]
fn a_block_is_temporary_if_its_thread_or_else_the_next_event_frees_it() {
    let temporaries = |thread, frees: &[u64]| {
        let mut steps = Vec::new();
        let mut ledger = AddressLedger::default();
        let mut record = |kind| ledger.record(&Event { time: Nanos(1), thread, kind }, &mut steps);
        for address in [16, 32] {
            record(EventKind::Allocate(Placement { address, size: 8, ..Placement::default() }));
        }
        for &address in frees {
            record(EventKind::free(address, None));
        }
        let mut replayed = NumberLedger::default();
        steps.iter().for_each(|step| replayed.replay(step));
        assert_eq!(replayed.accounts().to_state(), ledger.accounts().to_state());
        let mut part = NumberLedger::default();
        let mut whole = NumberLedger::default();
        for step in &steps {
            part.replay_part(step, &whole, |block, _| block.address == 32);
            whole.replay(step);
        }
        let counts = [ledger.accounts(), part.accounts()].map(|of| of.totals().figures.temporary_allocations);
        assert_eq!(counts[0], counts[1], "the other block is never temporary");
        counts[0]
    };
    for thread in [ThreadId(1), ThreadId::UNKNOWN] {
        assert_eq!(temporaries(thread, &[32, 16]), 1);
    }
    assert_eq!(temporaries(ThreadId(1), &[16, 32]), 1);
    assert_eq!(temporaries(ThreadId::UNKNOWN, &[16, 32]), 0);
    // A free of something unknown is an event like others.
    assert_eq!(temporaries(ThreadId(1), &[48, 32]), 1);
    assert_eq!(temporaries(ThreadId::UNKNOWN, &[48, 32]), 0);
}
