//! `MEMORY` lines: iterations, and whether the growth is explained.

use crate::fixtures::{expected, log, read};
use highwater_formats::objlog::{
    Explanation, ObjectAmount, ObjectLogReader, Pattern, ReadUntil, SurvivingObjects, Trust, TrustVerdict, pattern,
};

/// A log of a module whose host measured its memory at the start and whenever it saved it.
fn measured(name: &str) -> Vec<u8> {
    let (log, truth) = (String::from_utf8(log(name)).unwrap(), expected(name));
    let mut text = format!("@ MEMORY {}\n", truth["initial_linear_memory_bytes"]);
    let mut lines = log.lines();
    let mut events = 0;
    for dump in truth["dumps"].as_array().unwrap() {
        let end = dump["allocations"].as_u64().unwrap() + dump["drops"].as_u64().unwrap();
        while events < end {
            let line = lines.next().expect("as many lines as the module counted");
            events += u64::from(line.starts_with('@'));
            text += &format!("{line}\n");
        }
        text += &format!("@ MEMORY {} after {} steps\n", dump["linear_memory_bytes"], dump["after_steps"]);
    }
    text.into_bytes()
}

fn judged(log: &[u8]) -> (ObjectLogReader, SurvivingObjects, Trust) {
    let reader = read(log, ReadUntil::End);
    let survivors = SurvivingObjects::of(reader.matcher());
    let trust = Trust::of(&reader, &survivors);
    (reader, survivors, trust)
}

#[test]
fn a_leak_of_a_real_module_explains_how_its_memory_grew() {
    let (reader, survivors, trust) = judged(&measured("leaky_c"));
    // 1,285,689 never-dropped bytes, of 1,507,328 bytes of growth.
    assert_eq!(trust.explanation, Explanation::Explained { percent: 85, unexplained: 221_639 });
    assert_eq!(trust.verdict, TrustVerdict::Yes);
    let types = survivors.by_type(reader.matcher());
    let of = |name: &str| &types.iter().find(|(known, _)| known == name).expect("it leaks").1;
    let blob = ObjectAmount { objects: 5, bytes: 350_000 };
    assert_eq!(pattern(of("demo::Blob")), Some(Pattern::Constant { each: blob, exact: true }));
    assert_eq!(of("demo::Blob"), &[ObjectAmount::default(), blob, blob, blob, ObjectAmount::default()]);
    // One in seven of 400 rounds: 58, 57, 57.
    assert!(matches!(
        pattern(of("demo::Node")),
        Some(Pattern::Constant { each: ObjectAmount { objects: 57, .. }, .. })
    ));
}

#[test]
fn a_module_that_drops_everything_leaves_its_growth_unexplained() {
    let (_, survivors, trust) = judged(&measured("clean_c"));
    assert_eq!(survivors.born_during_growth, ObjectAmount::default());
    assert_eq!(trust.explanation, Explanation::MostlyElsewhere { percent: 0, unexplained: 196_608 });
    assert_eq!(trust.verdict, TrustVerdict::Mostly);
}

#[test]
fn more_than_the_memory_grew_by_needs_room_that_was_free() {
    let (_, _, trust) = judged(b"@ MEMORY 1000\n@ ALLOCATE 600 a.rs:1 T 1\n@ ALLOCATE 600 a.rs:1 T 2\n@ MEMORY 2000\n");
    assert_eq!(trust.explanation, Explanation::NeedsFreeRoom { room: 200 });
    assert_eq!(trust.verdict, TrustVerdict::Unknown);
}

#[test]
fn more_than_the_memory_holds_cannot_be() {
    let log = b"@ ALLOCATE 900 a.rs:1 T 0\n@ MEMORY 1000\n@ ALLOCATE 1200 a.rs:1 T 1\n@ MEMORY 2000\n";
    let (_, _, trust) = judged(log);
    assert_eq!(trust.explanation, Explanation::Impossible { excess: 100 });
    assert_eq!(trust.verdict, TrustVerdict::No);
}

#[test]
fn a_heap_with_free_room_takes_in_more_than_it_grows_by() {
    // Between the second and the third image the heap of the real module grows by less than the surviving objects: it reuses memory that was freed
    // before.
    let log = measured("leaky_rs");
    let text = String::from_utf8(log).unwrap();
    let (_, later) = text.split_once("after 400 steps\n").expect("three readings");
    let first = text.lines().find(|line| line.ends_with("after 400 steps")).expect("it was there");
    let (_, survivors, trust) = judged(format!("{first}\n{later}").as_bytes());
    assert!(survivors.born_during_growth.objects > 0);
    assert_ne!(trust.verdict, TrustVerdict::No, "{:?}", trust.explanation);
}

#[test]
fn what_was_born_before_the_first_measure_or_after_the_last_is_no_part_of_the_growth() {
    let log = b"@ ALLOCATE 5000 a.rs:1 Early 1\n@ MEMORY 10000\n@ ALLOCATE 900 a.rs:2 T 2\n@ MEMORY 11000\n\
        @ ALLOCATE 7000 a.rs:3 Late 3\n";
    let (_, survivors, trust) = judged(log);
    assert_eq!(survivors.born_during_growth, ObjectAmount { objects: 1, bytes: 900 });
    assert_eq!(trust.explanation, Explanation::Explained { percent: 90, unexplained: 100 });
}

#[test]
fn marks_divide_iterations_without_measuring_anything() {
    let mut log = String::new();
    for round in 0..5 {
        for object in 0..3 {
            let id = round * 3 + object;
            log += &format!("@ ALLOCATE 16 a.rs:1 Leak {id}\n");
        }
        log += &format!("@ MARK round {round}\n");
    }
    let (reader, survivors, trust) = judged(log.as_bytes());
    let (name, row) = &survivors.by_type(reader.matcher())[0];
    assert_eq!(name, "Leak");
    let each = ObjectAmount { objects: 3, bytes: 48 };
    assert_eq!(pattern(row), Some(Pattern::Constant { each, exact: true }));
    assert_eq!(trust.explanation, Explanation::NotMeasured);
    assert_eq!(reader.matcher().memory.boundaries()[2].label, "round 2");
}
