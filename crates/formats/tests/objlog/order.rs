//! Order in the file is not order in time.

use crate::fixtures::read;
use highwater_formats::objlog::{Matcher, ObjectLogReader, ReadUntil, SurvivingObjects, Trust, TrustVerdict};
use proptest::prelude::*;

/// The figures that must not depend on the order.
fn figures(reader: &ObjectLogReader) -> impl PartialEq + std::fmt::Debug + use<> {
    let matcher: &Matcher = reader.matcher();
    let odd = matcher.contradictions();
    let odd: Vec<(u64, Vec<u64>)> = odd.kinds().iter().map(|(_, _, odd)| (odd.count, odd.ids())).collect();
    let total = matcher.total();
    let mut live = Vec::new();
    matcher.for_each_survivor(|one| live.push((one.id, one.bytes)));
    live.sort_unstable();
    (total.allocated, total.dropped, total.live(), total.live_bytes(), matcher.ids(), odd, live)
}

/// The lines of one object: births, drops and a change of size, some of them twice or with another size.
fn object() -> impl Strategy<Value = Vec<String>> {
    let life = prop_oneof![
        4 => Just(vec!["@ ALLOCATE 10 a.rs:1 T", "@ DROP 10 T"]),
        2 => Just(vec!["@ ALLOCATE 10 a.rs:1 T"]),
        1 => Just(vec!["@ DROP 10 T"]),
        1 => Just(vec!["@ ALLOCATE 10 a.rs:1 T", "@ DROP 18 T"]),
        1 => Just(vec!["@ ALLOCATE 10 a.rs:1 T", "@ RESIZE 18 T", "@ DROP 18 T"]),
        1 => Just(vec!["@ ALLOCATE 10 a.rs:1 T", "@ RESIZE 18 T"]),
        1 => Just(vec!["@ ALLOCATE 10 a.rs:1 T", "@ DROP 10 T", "@ DROP 10 T"]),
        1 => Just(vec!["@ ALLOCATE 10 a.rs:1 T", "@ ALLOCATE 10 a.rs:1 T"]),
        1 => Just(vec!["@ ALLOCATE 10 a.rs:1 T", "@ DROP 10 Other"]),
        1 => Just(vec!["@ RESIZE 18 T"]),
    ];
    life.prop_map(|lines| lines.into_iter().map(str::to_owned).collect())
}

fn numbered(objects: &[Vec<String>], stride: u64) -> Vec<String> {
    let id = |at: usize| at as u64 * stride;
    let lines =
        objects.iter().enumerate().flat_map(|(at, lines)| lines.iter().map(move |line| format!("{line} {}", id(at))));
    lines.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_answer_does_not_depend_on_the_order_of_lines(
        objects in prop::collection::vec(object(), 1..40),
        stride in prop_oneof![Just(1u64), Just(1000), Just(1 << 40)],
        shuffle in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let mut lines = numbered(&objects, stride);
        let in_order = read((lines.join("\n") + "\n").as_bytes(), ReadUntil::End);
        let mut state = seed | 1;
        for at in (1..lines.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            lines.swap(at, (state % (at as u64 + 1)) as usize);
        }
        let turn = shuffle.index(lines.len());
        lines.rotate_left(turn);
        let shuffled = read((lines.join("\n") + "\n").as_bytes(), ReadUntil::End);
        prop_assert_eq!(figures(&in_order), figures(&shuffled));
    }
}

#[test]
fn a_drop_before_its_birth_is_no_anomaly() {
    let reader = read(b"@ DROP 8 T 0\n@ ALLOCATE 8 a.rs:1 T 0\n", ReadUntil::End);
    assert_eq!(reader.matcher().drops_before_their_allocate, 1);
    assert_eq!(Trust::of(&reader, &SurvivingObjects::default()).verdict, TrustVerdict::Yes);
}

#[test]
fn growth_is_never_a_mismatch_wherever_it_is_reported() {
    for lines in [
        ["@ ALLOCATE 24 a.rs:1 V 0", "@ RESIZE 6424 V 0", "@ DROP 6424 V 0"],
        ["@ ALLOCATE 24 a.rs:1 V 0", "@ DROP 6424 V 0", "@ RESIZE 6424 V 0"],
        ["@ DROP 6424 V 0", "@ ALLOCATE 24 a.rs:1 V 0", "@ RESIZE 6424 V 0"],
        ["@ RESIZE 6424 V 0", "@ DROP 6424 V 0", "@ ALLOCATE 24 a.rs:1 V 0"],
        ["@ RESIZE 6424 V 0", "@ ALLOCATE 24 a.rs:1 V 0", "@ DROP 6424 V 0"],
    ] {
        let reader = read((lines.join("\n") + "\n").as_bytes(), ReadUntil::End);
        let total = reader.matcher().total();
        assert_eq!(reader.matcher().contradictions().count(), 0, "{lines:?}");
        assert_eq!((total.allocated_bytes, total.grown_bytes, total.dropped_bytes), (24, 6400, 6424), "{lines:?}");
        assert_eq!((total.live(), total.live_bytes()), (0, 0), "{lines:?}");
    }
}

#[test]
fn the_json_form_says_the_same() {
    let text = b"@ ALLOCATE 64 src/my file.rs:7 Map<K, V> 5\n@ DROP 64 Map<K, V> 5\n@ MEMORY 65536 end\n";
    let json = br#"@ {"event":"ALLOCATE","bytes":64,"file":"src/my file.rs","line":7,"type":"Map<K, V>","id":5,"time":1.5,"thread":"main"}
@ {"event":"DROP","bytes":64,"type":"Map<K, V>","id":"5","time":2.25,"thread":3,"stack":["f",{"function":"g","line":3}]}
@ {"event":"MEMORY","bytes":65536,"label":"end"}
"#;
    let (text, json) = (read(text, ReadUntil::End), read(json, ReadUntil::End));
    assert_eq!(json.counts().malformed, 0, "{:?}", json.counts().bad());
    assert_eq!(figures(&text), figures(&json));
    let names = |reader: &ObjectLogReader| {
        let site = reader.matcher().sites().next().map(|(site, _)| site).unwrap();
        (reader.matcher().type_of(site).into_owned(), reader.matcher().place_of(site).into_owned())
    };
    assert_eq!(names(&text), names(&json));
    assert_eq!(text.matcher().memory.boundaries(), json.matcher().memory.boundaries());
    let (first, last) = json.span().unwrap();
    assert_eq!((first.0, last.0), (1_500_000, 2_250_000));
}
