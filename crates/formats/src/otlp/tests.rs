//! Requests are read back with a decoder that shares no code with the writer.

use super::reply::{PartialSuccess, partial_success};
use super::{AttributeValue, OtlpRequest};
use crate::heap_profile::{HeapFigure, HeapProfile, samples_of};
use crate::pprof::heap_profile;
use crate::pprof::tests::Decoded;
use crate::scene::{any_snapshot, parser};
use highwater_model::Snapshot;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn request(snapshot: &Snapshot) -> Vec<u8> {
    let samples = samples_of(snapshot, None);
    let profile = HeapProfile::of_snapshot(snapshot, &samples);
    let mut request = OtlpRequest::default();
    let attributes =
        [("service.name", AttributeValue::Text("a;b=\"c\"\n".to_owned())), ("process.pid", AttributeValue::Int(0))];
    request.add(&attributes, &profile, |figure| Some([figure as u8 + 1; 16]));
    request.into_bytes()
}

/// The sums of each type, and the value of each stack, whose functions are innermost first.
type Values = BTreeMap<String, BTreeMap<Vec<String>, u128>>;

fn values_of(request: &[u8]) -> Values {
    let request = Decoded::new(request);
    let dictionary = &request.messages(2)[0];
    let text = |index: u64| String::from_utf8(dictionary.all(5)[index as usize].to_vec()).unwrap();
    for table in [1, 2, 3, 4, 5, 6, 7] {
        assert_eq!(dictionary.all(table)[0], b"", "entry 0 of table {table} is the zero value");
    }
    let mut values = Values::new();
    for profile in
        request.messages(1).iter().flat_map(|resource| resource.messages(2)).flat_map(|scope| scope.messages(2))
    {
        let name = text(profile.messages(1)[0].number(1));
        let period_type = &profile.messages(5)[0];
        assert_eq!(
            (text(period_type.number(1)), text(period_type.number(2))),
            ("space".to_owned(), "bytes".to_owned())
        );
        assert_ne!(profile.number(6), 0, "the period is never 0");
        assert!(profile.all(7).iter().all(|id| id.len() == 16));
        let of_type = values.entry(name).or_default();
        for sample in profile.messages(2) {
            let stack = &dictionary.messages(7)[sample.number(1) as usize];
            let mut functions = Vec::new();
            for location in stack.packed(1) {
                let location = &dictionary.messages(2)[location as usize];
                assert!(location.number(1) < dictionary.all(1).len() as u64);
                for line in location.messages(3) {
                    functions.push(text(dictionary.messages(3)[line.number(1) as usize].number(1)));
                }
            }
            let values = sample.packed(4);
            assert_eq!(values.len(), 1);
            *of_type.entry(functions).or_default() += u128::from(values[0]);
        }
    }
    values
}

fn sum(values: &Values, name: &str) -> u128 {
    values.get(name).map_or(0, |stacks| stacks.values().sum())
}

#[test]
fn a_request_has_four_profiles_of_a_process() {
    let mut scene = parser();
    scene.source.sample_rate = None;
    let snapshot = scene.snapshot();
    let bytes = request(&snapshot);
    let values = values_of(&bytes);
    let totals = snapshot.accounts.totals().figures;
    assert_eq!(sum(&values, "inuse_space"), u128::from(totals.live_bytes()));
    assert_eq!(sum(&values, "inuse_objects"), u128::from(totals.live_blocks()));
    assert_eq!(sum(&values, "alloc_space"), u128::from(totals.allocated_bytes));
    assert_eq!(sum(&values, "alloc_objects"), u128::from(totals.allocations + totals.reallocations));
    let grow = ["grow", "parse", "main"].map(str::to_owned).to_vec();
    assert_eq!(values["inuse_space"][&grow], 300);
    assert_eq!(values["inuse_space"][&vec!["[unknown]".to_owned()]], 8);

    let decoded = Decoded::new(&bytes);
    let resource = &decoded.messages(1)[0];
    let attributes = resource.messages(1)[0].messages(1);
    assert_eq!(attributes[0].all(1)[0], b"service.name");
    assert_eq!(attributes[0].messages(2)[0].all(1)[0], b"a;b=\"c\"\n");
    assert_eq!(attributes[1].all(2)[0], [0x18, 0], "a number that is 0 is present");
    let profiles = resource.messages(2)[0].messages(2);
    let start = scene.source.start_unix_ns;
    assert_eq!((profiles[0].number(3), profiles[0].number(4)), (start + snapshot.at.0, 0));
    assert_eq!((profiles[2].number(3), profiles[2].number(4)), (start, snapshot.at.0));
}

#[test]
fn processes_share_the_tables() {
    let snapshot = parser().snapshot();
    let samples = samples_of(&snapshot, None);
    let profile = HeapProfile::of_snapshot(&snapshot, &samples);
    let mut request = OtlpRequest::default();
    assert!(request.is_empty());
    request.add(&[], &profile, |_| Some([1; 16]));
    let one = request.size();
    request.add(&[], &profile, |_| None);
    assert!(request.size() < 2 * one);
    let bytes = request.into_bytes();
    let decoded = Decoded::new(&bytes);
    assert_eq!(decoded.messages(1).len(), 2);
    let dictionary = &decoded.messages(2)[0];
    assert_eq!(dictionary.all(7).len(), 1 + 3, "three stacks, and none");
    let values = values_of(&bytes);
    assert_eq!(sum(&values, "inuse_space"), 2 * u128::from(snapshot.accounts.totals().figures.live_bytes()));
}

#[test]
fn the_answer_of_a_server_is_read() {
    assert_eq!(partial_success(b""), None);
    assert_eq!(partial_success(b"\x0a\x00"), None);
    assert_eq!(partial_success(b"<html>no</html>"), None);
    let reply = b"\x0a\x0d\x08\x03\x12\x09too \nlarge";
    let expected = PartialSuccess { rejected_profiles: 3, message: "too".to_owned() };
    assert_eq!(partial_success(reply), Some(expected));
}

proptest! {
    /// Also the values of blocks that are larger than any memory, which are cut to the largest that can be written.
    #[test]
    fn any_snapshot_is_read_back_with_the_same_values(snapshot in any_snapshot()) {
        let samples = samples_of(&snapshot, None);
        let values = values_of(&request(&snapshot));
        let profile = HeapProfile::of_snapshot(&snapshot, &samples);
        for figure in profile.figures() {
            let expected: u128 = samples.iter().map(|sample| u128::from(figure.of(sample))).sum();
            prop_assert_eq!(sum(&values, figure.name_and_unit().0), expected);
        }
        // pprof has the same sums.
        let bytes = heap_profile(&profile);
        let decoded = Decoded::new(&bytes);
        let strings = decoded.all(6);
        for (at, kind) in decoded.messages(1).iter().enumerate() {
            let name = std::str::from_utf8(strings[kind.number(1) as usize]).unwrap();
            let figure = HeapFigure::ALL.into_iter().find(|figure| figure.name_and_unit().0 == name).unwrap();
            let expected: u128 = samples.iter().map(|sample| u128::from(figure.of(sample))).sum();
            let found: u128 = decoded.messages(2).iter().map(|sample| u128::from(sample.packed(2)[at])).sum();
            prop_assert_eq!(found, expected);
        }
        prop_assert_eq!(strings[decoded.messages(11)[0].number(1) as usize], b"space");
        prop_assert_ne!(decoded.number(12), 0);
    }
}
