//! Snapshots that were saved, opened, written as JSON and read again show the same; snapshots of two stores are never matched block by block.

use highwater::event_store::{EventStore, MemoryEvent};
use highwater::snapshot::{DiffBasis, MemorySnapshot, SnapshotDiff, SnapshotEngine, SnapshotFileError, StackFrame};
use highwater::{FrameText, Name};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

fn store_and_engine() -> (Arc<EventStore>, SnapshotEngine) {
    let store = Arc::new(EventStore::new());
    let engine = SnapshotEngine::new(Arc::clone(&store));
    (store, engine)
}

/// A file of this test, removed in the end.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str) -> Self {
        let unique = format!("highwater-saved-{name}-{}-{:?}", std::process::id(), std::thread::current().id());
        Self(std::env::temp_dir().join(unique))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn saved(snapshot: &MemorySnapshot) -> MemorySnapshot {
    let file = TestFile::new("one");
    snapshot.save(&file.0).unwrap();
    MemorySnapshot::open(&file.0).unwrap()
}

fn through_json(snapshot: &MemorySnapshot) -> MemorySnapshot {
    serde_json::from_str(&serde_json::to_string(snapshot).unwrap()).unwrap()
}

fn frame(function: &'static str, line: u32) -> FrameText<'static> {
    FrameText { function, file: "src/app.rs", line, ..FrameText::default() }
}

fn in_words(function: &str, line: u32) -> StackFrame {
    StackFrame { function: function.into(), file: "src/app.rs".into(), line, ..StackFrame::default() }
}

/// Every field, compared by itself: equality of snapshots is code of its own.
fn assert_shows_the_same(a: &MemorySnapshot, b: &MemorySnapshot) {
    assert_eq!((a.timestamp, &a.stats, &a.anomalies), (b.timestamp, &b.stats, &b.anomalies));
    assert_eq!(a.thread_stats, b.thread_stats);
    assert_eq!(a.active_allocations.len(), b.active_allocations.len());
    for (key, one) in &a.active_allocations {
        let other = &b.active_allocations[key];
        assert_eq!(one.stack.map(|stack| a.frames(stack)), other.stack.map(|stack| b.frames(stack)));
        let same = highwater::snapshot::ActiveAllocation { stack: one.stack, ..other.clone() };
        assert_eq!(*one, same);
    }
    assert!(a == b && a.knows_peaks() && b.knows_peaks());
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { at: usize, size: usize, thread: u64, names: u8, stack: u8 },
    Free { at: usize, thread: u64 },
    Resize { at: usize, to: usize, size: usize, thread: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0usize..40, 0usize..5000, 1u64..4, 0u8..6, 0u8..4)
            .prop_map(|(at, size, thread, names, stack)| Step::Allocate { at, size, thread, names, stack }),
        2 => (0usize..40, 1u64..4).prop_map(|(at, thread)| Step::Free { at, thread }),
        1 => (0usize..40, 0usize..40, 0usize..9000, 1u64..4)
            .prop_map(|(at, to, size, thread)| Step::Resize { at, to, size, thread }),
    ];
    prop::collection::vec(step, 0..120)
}

fn record(store: &EventStore, steps: &[Step]) {
    let stacks = [
        None,
        Some(store.intern_stack(&[frame("load", 7), frame("main", 1)])),
        Some(store.intern_stack(&[frame("parse \"Größe\"\n", 9), frame("load", 7), frame("main", 1)])),
        Some(store.intern_stack(&[frame("main", 3)])),
    ];
    let address = |at: usize| 0x1000 + at * 16;
    for step in steps {
        store.record(match *step {
            Step::Allocate { at, size, thread, names, stack } => {
                let mut event = MemoryEvent::allocate(address(at), size, thread);
                event.stack = stacks[usize::from(stack)];
                event.var_name = [None, Some(Name::from("cache"))][usize::from(names % 2)].clone();
                event.type_name =
                    [None, Some(Name::from("Vec<u8>")), Some(Name::from("Index"))][usize::from(names % 3)].clone();
                event
            }
            Step::Free { at, thread } => MemoryEvent::deallocate(address(at), 1, thread),
            Step::Resize { at, to, size, thread } => {
                MemoryEvent::reallocate(address(to), 1, size, thread).moved_from(address(at))
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_saved_or_written_as_json_shows_the_same(steps in steps()) {
        let (store, engine) = store_and_engine();
        store.name_thread(1, "main");
        record(&store, &steps);
        let snapshot = engine.build_snapshot();
        assert_shows_the_same(&saved(&snapshot), &snapshot);
        assert_shows_the_same(&saved(&saved(&snapshot)), &snapshot);
        let from_json = through_json(&snapshot);
        assert_shows_the_same(&from_json, &snapshot);
        assert_shows_the_same(&saved(&from_json), &snapshot);
        // What is not shown is not lost either: JSON of the saved and of the original are the same.
        let value = |snapshot: &MemorySnapshot| serde_json::to_value(snapshot).unwrap();
        prop_assert_eq!(value(&saved(&snapshot)), value(&snapshot));
        for copy in [saved(&snapshot), from_json] {
            prop_assert!(snapshot.diff(&copy).is_empty() && snapshot.diff(&copy).sites.is_empty());
        }
    }

    #[test]
    fn a_diff_is_the_same_whatever_its_snapshots_went_through(steps in steps(), middle in 0usize..120) {
        let (store, engine) = store_and_engine();
        let (first, second) = steps.split_at(middle.min(steps.len()));
        record(&store, first);
        let before = engine.build_snapshot();
        record(&store, second);
        let after = engine.build_snapshot();
        let direct = before.diff(&after);
        prop_assert_eq!(direct.basis, DiffBasis::Blocks);
        let numbers = |diff: &SnapshotDiff| {
            let ids = |blocks: &[highwater::snapshot::ActiveAllocation]| {
                blocks.iter().map(|block| block.id).collect::<Vec<_>>()
            };
            let resized: Vec<_> = diff.resized.iter().map(|(old, new)| (old.id, old.size, new.size)).collect();
            (ids(&diff.appeared), ids(&diff.gone), resized)
        };
        let sites = |diff: &SnapshotDiff| {
            let mut sites: Vec<_> = diff
                .sites
                .iter()
                .map(|(stack, change)| (stack.map(|stack| diff.frames(stack)), *change))
                .map(|site| format!("{site:?}"))
                .collect();
            sites.sort();
            sites
        };
        let pairs = [
            (saved(&before), after.clone()),
            (before.clone(), saved(&after)),
            (through_json(&before), after.clone()),
            (saved(&before), through_json(&after)),
        ];
        for (before, after) in pairs {
            let diff = before.diff(&after);
            prop_assert_eq!(numbers(&diff), numbers(&direct));
            prop_assert_eq!(sites(&diff), sites(&direct));
            prop_assert_eq!((&diff.types, &diff.variables, &diff.threads), (&direct.types, &direct.variables, &direct.threads));
        }
        let json: SnapshotDiff = serde_json::from_str(&serde_json::to_string(&direct).unwrap()).unwrap();
        prop_assert_eq!(numbers(&json), numbers(&direct));
        prop_assert_eq!(sites(&json), sites(&direct));
        prop_assert_eq!((json.types, json.variables, json.threads), (direct.types, direct.variables, direct.threads));
    }

    /// An oracle that shares no code: the live blocks of both, added up by the words of their stacks.
    #[test]
    fn snapshots_of_two_stores_are_compared_by_site(first in steps(), second in steps()) {
        let usage = |snapshot: &MemorySnapshot| {
            let mut sites: std::collections::BTreeMap<String, (usize, usize)> = Default::default();
            for block in snapshot.active_allocations.values() {
                let words = format!("{:?}", block.stack.map(|stack| snapshot.frames(stack)));
                let sum = sites.entry(words).or_default();
                *sum = (sum.0 + 1, sum.1 + block.size);
            }
            sites
        };
        let [before, after] = [&first, &second].map(|steps| {
            let (store, engine) = store_and_engine();
            // Numbers of stacks differ from store to store.
            store.intern_stack(&[frame("unused", u32::try_from(steps.len()).unwrap())]);
            record(&store, steps);
            engine.build_snapshot()
        });
        prop_assume!(before.timestamp > 0 && after.timestamp > 0);
        for (before, after) in [(before.clone(), after.clone()), (saved(&before), through_json(&after))] {
            let diff = before.diff(&after);
            prop_assert_eq!(diff.basis, DiffBasis::Sites);
            prop_assert!(diff.appeared.is_empty() && diff.gone.is_empty() && diff.resized.is_empty() && diff.threads.is_empty());
            let (old, new) = (usage(&before), usage(&after));
            let mut expected: std::collections::BTreeMap<String, [(usize, usize); 2]> = Default::default();
            for (words, sum) in &old {
                expected.entry(words.clone()).or_default()[0] = *sum;
            }
            for (words, sum) in &new {
                expected.entry(words.clone()).or_default()[1] = *sum;
            }
            expected.retain(|_, [old, new]| old != new);
            let found: std::collections::BTreeMap<String, [(usize, usize); 2]> = diff
                .sites
                .iter()
                .map(|(stack, change)| {
                    let words = format!("{:?}", stack.map(|stack| diff.frames(stack)));
                    let pair = |usage: highwater::snapshot::Usage| (usage.count, usage.bytes);
                    (words, [pair(change.before), pair(change.after)])
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// Whatever is done to the bytes, opening answers with a snapshot or an error.
    #[test]
    fn damaged_files_are_errors(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let (store, engine) = store_and_engine();
        record(&store, &[Step::Allocate { at: 1, size: 10, thread: 1, names: 1, stack: 1 }]);
        let file = TestFile::new("damaged");
        engine.build_snapshot().save(&file.0).unwrap();
        let whole = std::fs::read(&file.0).unwrap();
        let mut bytes = whole.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= byte;
        std::fs::write(&file.0, &bytes).unwrap();
        let opened = MemorySnapshot::open(&file.0);
        if let Err(error) = opened {
            prop_assert!(!error.to_string().contains('\n'));
            prop_assert!(bytes != whole);
        }
        std::fs::write(&file.0, &whole[..cut.index(whole.len())]).unwrap();
        let _ = MemorySnapshot::open(&file.0);
    }

    /// JSON with any number replaced is refused or consistent, and never a panic.
    #[test]
    fn forged_json_is_an_error(which in any::<prop::sample::Index>(), number in prop_oneof![Just(0u64), 0..100u64, Just(u64::MAX), Just(1 << 41)]) {
        let (store, engine) = store_and_engine();
        record(&store, &[
            Step::Allocate { at: 1, size: 10, thread: 1, names: 1, stack: 1 },
            Step::Allocate { at: 2, size: 20, thread: 2, names: 5, stack: 2 },
            Step::Free { at: 1, thread: 2 },
        ]);
        let text = serde_json::to_string(&engine.build_snapshot()).unwrap();
        let bytes = text.as_bytes();
        let is_start = |at: &usize| bytes[*at].is_ascii_digit() && matches!(bytes[*at - 1], b':' | b'[' | b'"');
        let numbers: Vec<usize> = (1..bytes.len()).filter(is_start).collect();
        let start = numbers[which.index(numbers.len())];
        let end = start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let forged = format!("{}{number}{}", &text[..start], &text[end..]);
        if let Ok(snapshot) = serde_json::from_str::<MemorySnapshot>(&forged) {
            prop_assert_eq!(saved(&snapshot), snapshot);
        }
    }
}

#[test]
fn cleared_stores_start_new_numbers() {
    let (store, engine) = store_and_engine();
    store.record(MemoryEvent::allocate(0x1000, 10, 1).with_type_name("Old"));
    let before = engine.build_snapshot();
    store.clear();
    store.record(MemoryEvent::allocate(0x9000, 10, 1).with_type_name("New"));
    let after = engine.build_snapshot();
    let [old, new] = [&before, &after].map(|one| one.active_allocations.values().next().unwrap().id);
    assert_eq!(old, new, "the numbers are the same, the blocks are not");
    let diff = before.diff(&after);
    assert_eq!(diff.basis, DiffBasis::Sites);
    assert!(diff.types["Old"].is_gone() && diff.types["New"].has_appeared() && !diff.is_empty());
}

#[test]
fn an_event_that_comes_late_shifts_numbers_and_no_block_is_mistaken_for_another() {
    let (store, engine) = store_and_engine();
    store.record(MemoryEvent::allocate(0x2000, 20, 1).at(50).with_var_name("kept"));
    let before = engine.build_snapshot();
    store.record(MemoryEvent::allocate(0x1000, 10, 2).at(10));
    store.record(MemoryEvent::deallocate(0x1000, 10, 2).at(20));
    let after = engine.build_snapshot();
    let diff = before.diff(&after);
    assert_eq!(diff.basis, DiffBasis::Sites);
    assert!(diff.is_empty(), "{diff:?}");
}

#[test]
fn an_engine_does_not_continue_a_snapshot_of_another_store() {
    let ((one, first), (other, second)) = (store_and_engine(), store_and_engine());
    one.record(MemoryEvent::allocate(0x1000, 10, 1));
    other.record(MemoryEvent::allocate(0x2000, 20, 1));
    let mut snapshot = first.build_snapshot();
    second.update(&mut snapshot);
    assert_eq!(snapshot, second.build_snapshot());
    let mut opened = saved(&first.build_snapshot());
    first.update(&mut opened);
    assert_eq!(opened, first.build_snapshot());
}

#[test]
fn nothing_can_be_compared_with_anything() {
    let (store, engine) = store_and_engine();
    store.record(MemoryEvent::allocate(0x1000, 10, 1));
    let diff = MemorySnapshot::new().diff(&engine.build_snapshot());
    assert_eq!((diff.basis, diff.appeared.len()), (DiffBasis::Blocks, 1));
}

#[test]
fn a_snapshot_outlives_its_store() {
    let (store, engine) = store_and_engine();
    let stack = store.intern_stack(&[frame("load", 7)]);
    store.record(MemoryEvent::allocate(0x1000, 10, 1).with_stack(stack).with_type_name("Index"));
    let snapshot = engine.build_snapshot();
    drop((store, engine));
    assert_eq!(snapshot.frames(stack), [in_words("load", 7)]);
    assert_eq!(saved(&snapshot).frames(stack), [in_words("load", 7)]);
}

#[test]
fn what_is_not_a_snapshot_says_what_to_do() {
    let (store, engine) = store_and_engine();
    store.record(MemoryEvent::allocate(0x1000, 10, 1));
    let file = TestFile::new("errors");
    store.save(&file.0).unwrap();
    let error = MemorySnapshot::open(&file.0).unwrap_err();
    assert!(matches!(error, SnapshotFileError::Recording(_)), "{error}");
    assert!(error.to_string().contains("EventStore::open") && error.to_string().contains("export --at"));
    std::fs::write(&file.0, "function,bytes\nmain,7\n").unwrap();
    let error = MemorySnapshot::open(&file.0).unwrap_err();
    assert!(error.to_string().contains("highwater import"), "{error}");
    std::fs::write(&file.0, "").unwrap();
    assert!(matches!(MemorySnapshot::open(&file.0), Err(SnapshotFileError::Open(..))));
    std::fs::remove_file(&file.0).unwrap();
    assert!(matches!(MemorySnapshot::open(&file.0), Err(SnapshotFileError::File(..))));
    let nowhere = file.0.join("nowhere.hw");
    assert!(matches!(engine.build_snapshot().save(nowhere), Err(SnapshotFileError::File(..))));
}

#[test]
fn a_saved_snapshot_replaces_a_file_only_when_it_is_complete() {
    let (store, engine) = store_and_engine();
    let file = TestFile::new("replaced");
    engine.build_snapshot().save(&file.0).unwrap();
    store.record(MemoryEvent::allocate(0x1000, 10, 1));
    engine.build_snapshot().save(&file.0).unwrap();
    assert_eq!(MemorySnapshot::open(&file.0).unwrap().active_count(), 1);
    let name = file.0.file_name().unwrap().to_string_lossy().into_owned();
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().filter_map(Result::ok);
    assert_eq!(left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count(), 1);
}
