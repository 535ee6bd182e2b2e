//! Plain events that are written in batches give the same file as when written one by one.

use highwater_model::{
    AddressLedger, Catalog, Event, EventKind, Nanos, Placement, PlainEvent, Source, StackId, ThreadId,
};
use highwater_store::StepWriter;
use proptest::prelude::*;

/// One step of a program: its thread, which of its addresses, size, stack, and the time since the last step.
type Action = (u64, u64, u64, u32, u64);

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let size = prop_oneof![4 => 1u64..200, 1 => 1u64..1 << 24];
    let later = prop_oneof![4 => 0u64..300, 1 => 0u64..1 << 24];
    prop::collection::vec((0u64..3, 0u64..40, size, 0u32..3000, later), 0..3000)
}

/// An address that is live is freed, another one is allocated.
fn events(actions: &[Action]) -> Vec<Event> {
    let mut live = std::collections::HashSet::new();
    let mut time = 0;
    let event = |&(thread, number, size, stack, later): &Action| {
        time += later;
        let address = 0x5555_0000_1000 + number * 32;
        let kind = if live.remove(&address) {
            EventKind::Deallocate { address, claimed_size: None, stack: StackId(stack % 5) }
        } else {
            live.insert(address);
            let surplus = if size % 17 == 0 { size as i32 - 20 } else { 0 };
            EventKind::Allocate(Placement { address, size, stack: StackId(stack), surplus, ..Placement::default() })
        };
        Event { time: Nanos(time), thread: ThreadId(100 + thread), kind }
    };
    actions.iter().map(event).collect()
}

fn plain(event: &Event, threads: &[u32]) -> PlainEvent {
    let (time, thread) = (event.time, threads[event.thread.0 as usize - 100]);
    match event.kind {
        EventKind::Allocate(Placement { address, size, stack, surplus, .. }) => {
            PlainEvent { time, thread, address, size, stack, surplus, ..PlainEvent::default() }
        }
        EventKind::Deallocate { address, stack, .. } => {
            PlainEvent { time, thread, address, stack, is_free: true, ..PlainEvent::default() }
        }
        _ => unreachable!("no other is made"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_file_of_batches_is_the_file_of_single_events(actions in actions(), most in 1usize..300) {
        let (source, catalog) = (Source::default(), Catalog::default());
        let all = events(&actions);
        let mut ledger = AddressLedger::default();
        let mut pen = StepWriter::begin(Vec::new(), &source, ledger.accounts(), &catalog).unwrap();
        for event in &all {
            ledger.record(event, pen.scribe());
            pen.event_done(ledger.accounts(), &catalog).unwrap();
        }
        let (_, one_by_one) = pen.finish(ledger.accounts(), &catalog, &source).unwrap();

        let mut ledger = AddressLedger::default();
        let threads: Vec<u32> = (0..3).map(|thread| ledger.number_thread(ThreadId(100 + thread))).collect();
        let mut pen = StepWriter::begin(Vec::new(), &source, ledger.accounts(), &catalog).unwrap();
        for batch in all.chunks(most) {
            let mut batch: Vec<PlainEvent> = batch.iter().map(|event| plain(event, &threads)).collect();
            let applied = ledger.record_plain(&mut batch);
            prop_assert_eq!(applied.count, batch.len());
            pen.plain_done(&batch, applied.highest_bytes, ledger.accounts(), &catalog).unwrap();
        }
        let (_, at_once) = pen.finish(ledger.accounts(), &catalog, &source).unwrap();
        prop_assert!(one_by_one == at_once);
    }
}
