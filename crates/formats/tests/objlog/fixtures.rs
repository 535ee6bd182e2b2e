//! Logs of programs whose correct figures are known: every figure is checked.

use highwater_formats::objlog::{
    ObjectGrouping, ObjectLogReader, ObjectRow, ReadUntil, SurvivingObjects, Trust, TrustVerdict, rows,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn file(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/objlog").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn log(name: &str) -> Vec<u8> {
    zstd::decode_all(file(&format!("{name}.log.zst")).as_slice()).expect("the fixture is whole")
}

pub fn expected(name: &str) -> Value {
    serde_json::from_slice(&file(&format!("{name}.expected.json"))).expect("the fixture is JSON")
}

pub fn read(log: &[u8], until: ReadUntil) -> ObjectLogReader {
    let mut reader = ObjectLogReader::until(until);
    reader.read_all(log, &mut ()).expect("memory can be read");
    reader
}

pub fn types(reader: &ObjectLogReader) -> Vec<ObjectRow> {
    rows(reader.matcher(), &SurvivingObjects::of(reader.matcher()), ObjectGrouping::Type)
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().expect("a list").iter().map(|number| number.as_u64().expect("a number")).collect()
}

#[test]
fn every_figure_of_a_big_log_is_found() {
    let (reader, truth) = (read(&log("big"), ReadUntil::End), expected("big"));
    let (counts, matcher) = (reader.counts(), reader.matcher());
    assert_eq!(counts.lines, truth["lines"]);
    assert_eq!(counts.object_lines, truth["object_lines"]);
    assert_eq!(counts.noise_lines, truth["noise_lines"]);
    assert_eq!(matcher.ids(), truth["ids"]);
    assert_eq!(matcher.total().live_bytes(), truth["leaked_bytes_total"]);
    assert_eq!(matcher.drops_before_their_allocate, truth["drops_before_their_allocate"]);
    let rows = types(&reader);
    assert_eq!(rows.iter().map(|row| row.type_name.as_deref()).collect::<Vec<_>>(), {
        let order = truth["order_by_leaked_bytes"].as_array().expect("a list");
        order.iter().map(Value::as_str).collect::<Vec<_>>()
    });
    assert_eq!(rows.len(), truth["types"].as_object().expect("by type").len());
    for ObjectRow { type_name, tally, doubtful, .. } in &rows {
        let one = &truth["types"][type_name.as_deref().unwrap()];
        let found = [tally.allocated, tally.allocated_bytes, tally.dropped, tally.dropped_bytes, tally.live()];
        let wanted = ["allocated", "allocated_bytes", "dropped", "dropped_bytes", "leaked"].map(|key| &one[key]);
        assert!(found.iter().zip(wanted).all(|(found, wanted)| wanted == found), "{type_name:?}: {tally:?}");
        assert_eq!(tally.live_bytes(), one["leaked_bytes"], "{type_name:?}");
        assert_eq!(tally.is_perfect(), one["leaked"] == 0);
        assert_eq!(doubtful.objects, 0);
    }
    let trust = Trust::of(&reader, &SurvivingObjects::of(matcher));
    assert_eq!((trust.contradictions.count(), counts.malformed, trust.verdict), (0, 0, TrustVerdict::Yes));
}

#[test]
fn everything_that_is_wrong_with_a_damaged_log_is_named() {
    let (reader, truth) = (read(&log("damaged"), ReadUntil::End), expected("damaged"));
    let counts = reader.counts();
    assert_eq!(counts.lines, truth["total_lines"]);
    assert_eq!(counts.malformed, truth["malformed_at_lines"]);
    assert_eq!(counts.last_line_truncated, truth["last_line_truncated"]);
    let bad: Vec<&str> = counts.bad().iter().map(|line| line.text.as_str()).collect();
    for example in truth["malformed_examples"].as_array().unwrap() {
        assert!(bad.contains(&example.as_str().unwrap()), "{example} is not among {bad:?}");
    }
    assert_eq!(bad.last().copied(), truth["truncated_text"].as_str());
    assert_eq!(counts.bad().last().map(|line| line.number), truth["total_lines"].as_u64());
    let survivors = SurvivingObjects::of(reader.matcher());
    let trust = Trust::of(&reader, &survivors);
    for (key, _, odd) in trust.contradictions.kinds() {
        let wanted = truth.get(key).map_or_else(Vec::new, numbers);
        assert_eq!(odd.ids(), wanted, "{key}");
        assert_eq!(odd.count, wanted.len() as u64, "{key}");
    }
    let undamaged: BTreeMap<String, (u64, u64)> = types(&reader)
        .into_iter()
        .map(|row| {
            let (live, bytes) = (row.tally.live(), row.tally.live_bytes());
            (row.type_name.unwrap(), (live - row.doubtful.objects, bytes - row.doubtful.bytes))
        })
        .filter(|(_, (objects, _))| *objects > 0)
        .collect();
    let wanted = truth["leaked_among_undamaged_ids"].as_object().unwrap();
    let wanted: BTreeMap<String, (u64, u64)> = wanted
        .iter()
        .map(|(name, one)| (name.clone(), (one["objects"].as_u64().unwrap(), one["bytes"].as_u64().unwrap())))
        .collect();
    assert_eq!(undamaged, wanted);
    assert_eq!(trust.verdict, TrustVerdict::Mostly);
}

#[test]
fn wasm_modules_are_followed_to_every_instant_at_which_their_memory_was_saved() {
    for name in ["leaky_rs", "leaky_c", "clean_rs", "clean_c"] {
        let (log, truth) = (log(name), expected(name));
        let whole = read(&log, ReadUntil::End);
        assert_eq!(whole.counts().lines, truth["log_lines"], "{name}");
        assert_eq!(whole.counts().object_lines, truth["object_lines"], "{name}");
        assert_eq!(Trust::of(&whole, &SurvivingObjects::of(whole.matcher())).verdict, TrustVerdict::Yes, "{name}");
        for dump in truth["dumps"].as_array().unwrap() {
            let number = |key: &str| dump[key].as_u64().unwrap();
            let reader = read(&log, ReadUntil::Events(number("allocations") + number("drops")));
            let total = reader.matcher().total();
            let found = [total.allocated, total.dropped, total.allocated_bytes, total.dropped_bytes, total.live()];
            let wanted = ["allocations", "drops", "allocated_bytes", "dropped_bytes", "live_objects"].map(number);
            assert_eq!(found, wanted, "{name}");
            assert_eq!(total.live_bytes(), number("live_bytes"), "{name}");
            for row in types(&reader) {
                let one = &dump["per_type"][row.type_name.as_deref().unwrap()];
                let wanted = |key: &str| one.get(key).and_then(Value::as_u64).unwrap_or(0);
                assert_eq!((row.tally.live(), row.tally.live_bytes()), (wanted("objects"), wanted("bytes")), "{name}");
            }
            let mut live = Vec::new();
            let matcher = reader.matcher();
            matcher.for_each_survivor(|one| live.push((one.id, one.bytes, matcher.type_of(one.site).into_owned())));
            let ledger = dump["live"].as_array().unwrap().iter();
            let mut wanted: Vec<_> = ledger
                .map(|one| (one[2].as_u64().unwrap(), one[0].as_u64().unwrap(), one[1].as_str().unwrap().to_owned()))
                .collect();
            wanted.sort();
            assert_eq!(live, wanted, "{name}");
        }
    }
}
