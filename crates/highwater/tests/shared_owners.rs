//! `track!` keeps names and places; owners of shared values are counted, and their memory once.
//! All in one test: the sink is one for the whole process.

use highwater::event_store::EventStore;
use highwater::snapshot::{MemorySnapshot, SnapshotEngine};
use highwater::{Shared, Tracked, objects, track};
use std::rc::Rc;
use std::sync::{Arc, Barrier, Mutex};

#[derive(Clone, Default)]
struct SharedLog(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for SharedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Tracked)]
struct Config {
    text: Vec<u8>,
}

const ARC: &str = "alloc::sync::Arc<shared_owners::Config>";
const RC: &str = "alloc::rc::Rc<shared_owners::Config>";
const CONFIG: &str = "shared_owners::Config";

fn config() -> Config {
    Config { text: vec![7; 1000] }
}

fn live(snapshot: &MemorySnapshot, type_name: &str) -> (usize, usize) {
    let of_type = snapshot.active_allocations.values().filter(|block| block.type_name.as_deref() == Some(type_name));
    of_type.fold((0, 0), |(count, bytes), block| (count + 1, bytes + block.size))
}

fn in_store(test: impl FnOnce(&SnapshotEngine)) {
    let store = Arc::new(EventStore::new());
    objects::to_store(Arc::clone(&store));
    test(&SnapshotEngine::new(store));
    objects::off();
}

fn variables_keep_their_names_types_and_lines() {
    in_store(|engine| {
        let names = vec![String::from("Ada")];
        let (names, line) = (track!(names), line!());
        let _: &Tracked<Vec<String>> = &names;
        track!(let mut sizes = vec![1u64]);
        sizes.push(names.len() as u64);
        struct Cache {
            entries: Vec<u8>,
        }
        let cache = Cache { entries: vec![1; 50] };
        let field = track!(cache.entries);
        let unnamed = track!(Vec::<u8>::with_capacity(10));
        assert_eq!((sizes.len(), field.len(), unnamed.capacity()), (2, 50, 10));
        let snapshot = engine.build_snapshot();
        let mut found: Vec<_> = snapshot
            .active_allocations
            .values()
            .map(|block| {
                (block.var_name.as_deref().unwrap_or("-").to_owned(), block.type_name.as_deref().unwrap().to_owned())
            })
            .collect();
        found.sort();
        let expected = [
            ("-", "alloc::vec::Vec<u8>"),
            ("cache.entries", "alloc::vec::Vec<u8>"),
            ("names", "alloc::vec::Vec<alloc::string::String>"),
            ("sizes", "alloc::vec::Vec<u64>"),
        ];
        assert_eq!(found, expected.map(|(variable, type_name)| (variable.to_owned(), type_name.to_owned())));
        let of_names = snapshot.active_allocations.values().find(|block| block.var_name.as_deref() == Some("names"));
        let frames = snapshot.frames(of_names.unwrap().stack.unwrap());
        assert_eq!((frames[0].file.as_str(), frames[0].line), (file!(), line));
        drop((names, sizes, field, unnamed));
        assert_eq!(engine.build_snapshot().active_count(), 0);
    });
}

fn owners_are_strong_counts_and_the_value_counts_once() {
    let value = size_of::<Config>() + 1000 + 2 * size_of::<usize>();
    in_store(|engine| {
        let shared = track!("config", Arc::new(config()));
        let others: Vec<Shared<Arc<Config>>> = (0..5).map(|_| shared.clone()).collect();
        let counted = |owners: usize| {
            let snapshot = engine.build_snapshot();
            assert_eq!((live(&snapshot, ARC), live(&snapshot, CONFIG)), ((owners, 0), (1, value)));
            let found = snapshot.owners();
            assert_eq!((found[0].owners, found[0].var_name.as_deref()), (owners, Some("config")));
            assert_eq!(snapshot.current_memory(), value);
        };
        assert_eq!((Arc::strong_count(&shared), shared.text.len()), (6, 1000));
        counted(6);
        let weak = Arc::downgrade(&shared);
        counted(6);
        drop(shared);
        counted(Arc::strong_count(&others[0]));
        drop(others);
        assert!(weak.upgrade().is_none());
        assert_eq!(engine.build_snapshot().active_count(), 0);
    });
    // A value that reports itself is not counted a second time.
    in_store(|engine| {
        let shared = Shared::new(Arc::new(config().tracked()));
        let other = shared.clone();
        let snapshot = engine.build_snapshot();
        assert_eq!((live(&snapshot, ARC), live(&snapshot, CONFIG)), ((2, 0), (1, size_of::<Config>() + 1000)));
        // An owner that is not counted keeps the value: its drop comes later.
        let plain = Arc::clone(&other);
        drop((shared, other));
        let snapshot = engine.build_snapshot();
        assert_eq!((live(&snapshot, ARC).0, live(&snapshot, CONFIG).0), (0, 1));
        drop(plain);
        assert_eq!(engine.build_snapshot().active_count(), 0);
    });
    in_store(|engine| {
        let shared = track!("here", Rc::new(config()));
        let other = shared.clone();
        let snapshot = engine.build_snapshot();
        assert_eq!((live(&snapshot, RC).0, Rc::strong_count(&other)), (2, 2));
    });
}

/// Threads clone and drop at random; whenever they all stand still, the owners are the strong count.
fn owners_are_exact_while_threads_clone_and_drop() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 20;
    in_store(|engine| {
        let shared = track!("config", Arc::new(config()));
        let barrier = Barrier::new(THREADS + 1);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (own, barrier) = (shared.clone(), &barrier);
                scope.spawn(move || {
                    let mut owners = vec![own];
                    let mut dice = thread as u64 + 1;
                    for _ in 0..ROUNDS {
                        for _ in 0..200 {
                            dice ^= dice << 13;
                            dice ^= dice >> 7;
                            dice ^= dice << 17;
                            if dice % 5 < 3 || owners.len() < 2 {
                                owners.push(owners[0].clone());
                            } else {
                                owners.swap_remove(1 + dice as usize % (owners.len() - 1));
                            }
                        }
                        barrier.wait();
                        barrier.wait();
                    }
                });
            }
            for _ in 0..ROUNDS {
                barrier.wait();
                let snapshot = engine.build_snapshot();
                assert_eq!(live(&snapshot, ARC).0, Arc::strong_count(&shared));
                assert_eq!(live(&snapshot, CONFIG).0, 1);
                assert!(snapshot.anomalies.is_empty(), "{:?}", snapshot.anomalies);
                barrier.wait();
            }
        });
        assert_eq!(live(&engine.build_snapshot(), ARC).0, 1);
        drop(shared);
        assert_eq!(engine.build_snapshot().active_count(), 0);
    });
}

fn a_log_has_the_variables() {
    let log = SharedLog::default();
    objects::to_writer(log.clone());
    track!(let config = Arc::new(config()));
    let other = config.clone();
    drop((config, other));
    objects::off();
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    for line in &lines[..3] {
        let json: serde_json::Value = serde_json::from_str(line.strip_prefix("@ ").unwrap()).unwrap();
        assert_eq!(
            (&json["event"], &json["variable"], &json["file"]),
            (&"ALLOCATE".into(), &"config".into(), &file!().into())
        );
    }
    assert!(lines[3..].iter().all(|line| line.starts_with("@ DROP ")), "{text}");
}

#[test]
fn objects_and_their_owners() {
    variables_keep_their_names_types_and_lines();
    owners_are_strong_counts_and_the_value_counts_once();
    owners_are_exact_while_threads_clone_and_drop();
    a_log_has_the_variables();
    // Without a sink nothing is reported, also later.
    let unreported = track!("quiet", Arc::new(config()));
    in_store(|engine| {
        let other = unreported.clone();
        assert_eq!((engine.build_snapshot().active_count(), Arc::strong_count(&other)), (0, 2));
    });
}
