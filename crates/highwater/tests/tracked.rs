//! Tracked objects: every way to create one, to lose one, and to drop one.

use highwater::event_store::EventStore;
use highwater::snapshot::SnapshotEngine;
use highwater::{DeepSize, Tag, Track, Tracked, objects};
use highwater_formats::objlog::{
    ObjectGrouping, ObjectLogReader, ObjectRow, SurvivingObjects, Trust, TrustVerdict, rows,
};
use std::collections::HashSet;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All threads share one sink, so the tests run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A log in memory, with the number of writes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Vec<u8>>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn writes(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|write| String::from_utf8(write.clone()).unwrap()).collect()
    }

    fn lines(&self) -> Vec<String> {
        self.writes().concat().lines().map(str::to_owned).collect()
    }

    fn reader(&self) -> ObjectLogReader {
        let mut reader = ObjectLogReader::default();
        reader.read_all(self.writes().concat().as_bytes(), &mut ()).unwrap();
        reader
    }
}

/// The log of the events while `work` runs.
fn logged(work: impl FnOnce()) -> Log {
    let _alone = alone();
    let log = Log::default();
    objects::to_writer(log.clone());
    work();
    objects::off();
    log
}

/// Lines without their ids, which depend on earlier tests.
fn without_ids(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect()
}

fn by_type(reader: &ObjectLogReader) -> Vec<ObjectRow> {
    rows(reader.matcher(), &SurvivingObjects::of(reader.matcher()), ObjectGrouping::Type)
}

fn verdict(reader: &ObjectLogReader) -> TrustVerdict {
    Trust::of(reader, &SurvivingObjects::of(reader.matcher())).verdict
}

#[derive(Tracked, Clone, Debug, PartialEq)]
struct Proof {
    points: Vec<[u8; 64]>,
    name: String,
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.name.clear(); // a drop of its own is kept
    }
}

#[derive(Tracked)]
enum Shape<T: Clone, const N: usize>
where
    T: Default,
{
    Nothing,
    Points(Vec<T>, #[tracked(skip)] [u16; N]),
    Named { name: String, shape: Box<T> },
}

#[derive(Tracked)]
struct Borrowing<'a, T: 'a>(&'a str, Option<T>);

#[test]
fn a_vector_of_a_hundred_times_64_bytes_is_6400_and_its_header() {
    let log = logged(|| drop(Proof { points: vec![[0; 64]; 100], name: String::new() }.tracked()));
    let size = 6400 + size_of::<Proof>();
    let location = format!("{}:{}", file!(), line!() - 2);
    let lines = log.lines();
    let expected = [format!("@ ALLOCATE {size} {location} tracked::Proof"), format!("@ DROP {size} tracked::Proof")];
    assert_eq!(without_ids(&lines), expected);
    let ids: Vec<_> = lines.iter().map(|line| line.rsplit_once(' ').unwrap().1).collect();
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn enums_count_the_variant_they_are_and_generic_types_their_parameters() {
    let nothing: Shape<u32, 3> = Shape::Nothing;
    let points: Shape<u32, 3> = Shape::Points(Vec::with_capacity(10), [0; 3]);
    let named: Shape<u64, 0> = Shape::Named { name: "round".to_owned(), shape: Box::new(7) };
    assert_eq!((nothing.heap_size(), points.heap_size(), named.heap_size()), (0, 40, 5 + 8));
    let borrowed = Borrowing("text", Some(vec![0u16; 4]));
    assert_eq!((borrowed.0.len(), borrowed.heap_size()), (4, 8));
    if let (Shape::Points(_, skipped), Shape::Named { shape, .. }) = (&points, &named) {
        assert_eq!((skipped.len(), **shape), (3, 7));
    }
    let log = logged(|| drop((nothing.tracked(), points.tracked(), named.tracked(), borrowed.tracked())));
    let names: HashSet<String> = by_type(&log.reader()).into_iter().filter_map(|row| row.type_name).collect();
    let wanted = ["tracked::Shape<u32, 3>", "tracked::Shape<u64, 0>", "tracked::Borrowing<alloc::vec::Vec<u16>>"];
    for name in wanted {
        assert!(names.iter().any(|known| known.replace("<'_, ", "<") == name), "{name} is not in {names:?}");
    }
}

#[test]
fn clones_are_other_objects_and_moves_the_same() {
    let mut line = 0;
    let log = logged(|| {
        let first = Tracked::new(vec![1u8; 10]);
        line = line!() + 1;
        let second = first.clone();
        let moved = Box::new(first);
        assert_eq!(*moved, second);
        assert_ne!(Tracked::id(&moved), Tracked::id(&second));
        drop(moved);
        drop(second);
    });
    let lines = log.lines();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[1].contains(&format!("{}:{line} ", file!())), "{lines:?}");
    let reader = log.reader();
    assert_eq!((reader.matcher().total().live(), verdict(&reader)), (0, TrustVerdict::Yes));
}

#[test]
fn what_is_forgotten_or_leaked_was_never_dropped() {
    let log = logged(|| {
        std::mem::forget(Tracked::new(String::from("forgotten")));
        Box::leak(Box::new(Tracked::new([0u8; 100])));
        drop(Tracked::new(7u8));
    });
    let rows = by_type(&log.reader());
    let live: Vec<(&str, u64, u64)> =
        rows.iter().map(|row| (row.type_name.as_deref().unwrap(), row.tally.live(), row.tally.live_bytes())).collect();
    assert_eq!(live, [("[u8; 100]", 1, 100), ("alloc::string::String", 1, 24 + 9), ("u8", 0, 0)]);
}

struct PanicsInDrop(Vec<u8>);

impl DeepSize for PanicsInDrop {
    fn heap_size(&self) -> usize {
        self.0.heap_size()
    }
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("on purpose");
        }
    }
}

#[test]
fn panics_lose_nothing() {
    let log = logged(|| {
        let unwound = catch_unwind(|| {
            let _one = Tracked::new(1u64);
            let _two = Tracked::new(vec![2u8; 50]);
            panic!("on purpose");
        });
        assert!(unwound.is_err());
        let panicked = catch_unwind(AssertUnwindSafe(|| drop(Tracked::new(PanicsInDrop(vec![0; 30])))));
        assert!(panicked.is_err());
    });
    let reader = log.reader();
    let total = reader.matcher().total();
    assert_eq!((total.allocated, total.dropped, verdict(&reader)), (3, 3, TrustVerdict::Yes));
}

#[test]
fn a_drop_on_another_thread_is_the_same_drop() {
    let log = logged(|| {
        let object = Tracked::new(vec![0u8; 64]);
        std::thread::spawn(move || drop(object)).join().unwrap();
    });
    assert_eq!(log.reader().matcher().total().dropped, 1);
}

#[test]
fn growth_is_told_and_is_no_mismatch() {
    let log = logged(|| {
        let mut grows = Tracked::new(Vec::<u64>::new());
        grows.reserve_exact(100);
        drop(grows);
        let mut updated = Tracked::new(String::new());
        updated.push_str("it leaks, and it is large");
        Tracked::update(&mut updated);
        Tracked::update(&mut updated);
        std::mem::forget(updated);
    });
    let lines = log.lines();
    let name = "alloc::vec::Vec<u64>";
    assert_eq!(without_ids(&lines)[1..3], [format!("@ RESIZE 824 {name}"), format!("@ DROP 824 {name}")]);
    assert_eq!(log.writes().len(), 4, "a drop that tells of growth is one write: {:?}", log.writes());
    let reader = log.reader();
    let total = reader.matcher().total();
    assert_eq!((total.grown_bytes, total.live_bytes(), verdict(&reader)), (800 + 25, 24 + 25, TrustVerdict::Yes));
}

#[test]
fn a_value_taken_out_is_not_tracked_any_more() {
    let log = logged(|| {
        let inner: Vec<u8> = Tracked::into_inner(Tracked::new(vec![1, 2, 3]));
        assert_eq!(inner, [1, 2, 3]);
    });
    assert_eq!(log.lines().len(), 2);
}

struct Session {
    user: String,
    tag: Tag<Session>,
}

impl Session {
    #[track_caller]
    fn open(user: &str) -> Self {
        let mut session = Self { user: user.to_owned(), tag: Tag::new() };
        session.tag.owns(session.user.capacity());
        session
    }
}

#[test]
fn a_field_tells_of_what_it_is_in() {
    let mut line = 0;
    let log = logged(|| {
        line = line!() + 1;
        let session = Session::open("Ada");
        let moved = Some(session);
        assert_eq!(moved.as_ref().map(|session| session.user.as_str()), Some("Ada"));
        let copy = moved.as_ref().map(|session| session.tag.clone());
        drop((moved, copy));
    });
    let reader = log.reader();
    let rows = by_type(&reader);
    assert_eq!(rows[0].type_name.as_deref(), Some("tracked::Session"));
    assert_eq!((rows[0].tally.allocated, rows[0].tally.dropped), (2, 2));
    assert_eq!(rows[0].tally.dropped_bytes, 2 * (size_of::<Session>() as u64 + 3));
    let (site, _) = reader.matcher().sites().next().unwrap();
    assert_eq!(reader.matcher().place_of(site), format!("{}:{line}", file!()));
}

#[test]
fn nothing_is_told_while_nobody_listens_and_nothing_of_such_objects_later() {
    let _alone = alone();
    objects::off();
    let unheard = Tracked::new(1u8);
    assert_eq!(Tracked::id(&unheard), None);
    let log = Log::default();
    objects::to_writer(log.clone());
    let heard = Tracked::new(2u8);
    drop(unheard);
    objects::off();
    drop(heard);
    assert_eq!(log.lines().len(), 1);
}

/// A writer that has tracked objects of its own.
struct Selfish(Log);

impl Write for Selfish {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(Tracked::new(vec![0u8; 10]));
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_with_objects_of_its_own_does_not_talk_to_itself() {
    let _alone = alone();
    let log = Log::default();
    objects::to_writer(Selfish(log.clone()));
    drop(Tracked::new(1u8));
    objects::off();
    assert_eq!(log.lines().len(), 2);
}

#[test]
fn a_writer_that_fails_is_counted_and_nothing_else_happens() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let _alone = alone();
    let before = objects::lost();
    objects::to_writer(Full);
    drop(Tracked::new(1u8));
    objects::off();
    assert_eq!(objects::lost() - before, 2);
}

#[test]
fn eight_threads_write_whole_lines_with_ids_of_their_own() {
    const THREADS: usize = 8;
    const EACH: usize = 2000;
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("highwater-objects-{}.log", std::process::id()));
    objects::to_file(&path).unwrap();
    let (send, receive) = std::sync::mpsc::channel::<Tracked<Vec<u8>>>();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let send = send.clone();
            scope.spawn(move || {
                for object in 0..EACH {
                    let tracked = vec![0u8; number * 100 + object % 7].tracked();
                    match object % 4 {
                        0 => send.send(tracked).unwrap(),
                        1 => std::mem::forget(tracked),
                        _ => drop(tracked),
                    }
                }
            });
        }
        drop(send);
        receive.into_iter().for_each(drop);
    });
    objects::off();
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut reader = ObjectLogReader::default();
    reader.read_all(text.as_slice(), &mut ()).unwrap();
    let total = reader.matcher().total();
    let all = (THREADS * EACH) as u64;
    assert_eq!((reader.counts().malformed, reader.counts().noise_lines), (0, 0));
    assert_eq!((total.allocated, reader.matcher().ids(), total.live()), (all, all, all / 4));
    assert_eq!(verdict(&reader), TrustVerdict::Yes);
}

#[test]
fn the_event_store_hears_the_same_without_a_line() {
    let _alone = alone();
    let store = Arc::new(EventStore::new());
    objects::to_store(Arc::clone(&store));
    let mut grown = Tracked::new(Vec::<u8>::with_capacity(10));
    grown.reserve_exact(100);
    Tracked::update(&mut grown);
    objects::mark("half");
    let elsewhere = Tracked::new([0u8; 50]);
    std::thread::spawn(move || drop(elsewhere)).join().unwrap();
    drop(Proof { points: Vec::new(), name: "x".to_owned() }.tracked());
    objects::memory(65_536, "end");
    objects::off();
    let engine = SnapshotEngine::new(Arc::clone(&store));
    let now = engine.build_snapshot();
    assert_eq!((now.active_count(), now.current_memory()), (1, 24 + 100));
    let types: Vec<Option<&str>> = now.active_allocations.values().map(|one| one.type_name.as_deref()).collect();
    assert_eq!(types, [Some("alloc::vec::Vec<u8>")]);
    assert_eq!(now.anomalies, Default::default());
    assert_eq!(engine.snapshot_at_mark("half").unwrap().active_count(), 1);
    std::mem::forget(grown);
}
