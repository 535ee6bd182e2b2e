//! Sound traces: every figure must equal that of the reference reader.

use crate::fixtures::{GOOD, bytes, expected, read};
use crate::tally::{tally, top};
use highwater_formats::memtrace::Decoder;
use highwater_model::{Catalog, Event, Heap, laws};
use serde_json::Value;

#[test]
fn every_figure_is_that_of_the_reference() {
    for name in GOOD {
        let (read, expected) = (read(&bytes(name)), expected(name));
        let tally = tally(&read);
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{name}: {value}"));
        let field = |field: &str| number(&expected[field]);
        let event = |field: &str| number(&expected["events"][field]);
        assert_eq!(read.decoder.damage(), [], "{name}");
        assert_eq!(u64::from(read.decoder.version()), field("format_version_in_headers"), "{name}");
        assert_eq!(read.decoder.bytes(), field("file_bytes"), "{name}");

        let heap = |heap: Heap| tally.heaps.get(&heap).copied().unwrap_or(0);
        let events = ["alloc_minor", "alloc_major", "alloc_external", "promote", "collect"].map(event);
        let found = [heap(Heap::Minor), heap(Heap::Major), heap(Heap::External), tally.promotions, tally.collections];
        assert_eq!(found, events, "{name}");
        for (domain, count) in expected["events_per_domain"].as_object().unwrap() {
            assert_eq!(tally.by_domain[&domain.parse().unwrap()], number(count), "{name}");
        }
        assert_eq!(tally.by_domain.len(), expected["events_per_domain"].as_object().unwrap().len(), "{name}");

        let (samples, words) = (field("sum_nsamples"), field("sum_length_words"));
        assert_eq!((tally.samples, tally.words), (samples, words), "{name}");
        let found = (tally.stacks.len() as u64, tally.codes.len() as u64, tally.places.len() as u64);
        let distinct = ["distinct_backtraces", "distinct_location_codes", "distinct_source_locations"].map(field);
        assert_eq!(found, (distinct[0], distinct[1], distinct[2]), "{name}");
        assert_eq!(
            (tally.slots, tally.most_slots),
            (field("sum_backtrace_slots"), field("max_backtrace_slots")),
            "{name}"
        );
        let found = (tally.live_samples as u64, tally.live_objects as u64, tally.unknown);
        let fields = ["live_nsamples_at_end", "live_objects_at_end", "collect_of_unknown_object"].map(field);
        assert_eq!(found, (fields[0], fields[1], fields[2]), "{name}");
        let peak = (field("max_live_nsamples_time_order"), field("max_live_nsamples_time_order_at_us"));
        assert_eq!((tally.highest_samples.0 as u64, tally.highest_samples.1), peak, "{name}");
        for (functions, wanted) in
            [(&tally.direct, "top_functions_direct"), (&tally.inclusive, "top_functions_inclusive")]
        {
            let listed: Vec<(String, String, u64)> = expected[wanted]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| {
                    let text = |field: &str| row[field].as_str().unwrap().to_owned();
                    (text("function"), text("file"), number(&row["nsamples"]))
                })
                .collect();
            assert_eq!(top(functions), listed, "{name}: {wanted}");
        }
    }
}

#[test]
fn the_accounts_say_the_same() {
    for name in GOOD {
        let (read, expected) = (read(&bytes(name)), expected(name));
        let totals = read.accounts.totals();
        let figures = &totals.figures;
        let field = |field: &str| expected[field].as_u64().unwrap();
        let estimate = |field: &str| expected[field].as_f64().unwrap();
        assert_eq!(laws::violations(&read.accounts), Vec::<String>::new(), "{name}");
        assert_eq!(read.accounts.anomalies().get(highwater_model::Anomaly::UnmatchedFree), 0, "{name}");
        assert_eq!(figures.allocated_bytes as f64, estimate("allocated_bytes_estimate"), "{name}");
        assert_eq!((figures.samples(), figures.live_samples()), (field("sum_nsamples"), field("live_nsamples_at_end")));
        assert_eq!(figures.live_records(), field("live_objects_at_end"), "{name}");
        let event = |field: &str| expected["events"][field].as_u64().unwrap();
        let counts = (figures.records(), figures.freed_records(), figures.promoted_records());
        assert_eq!(counts, (event("alloc"), event("collect"), event("promote")), "{name}");
        let sampling = read.decoder.source().unwrap().word_sampling.unwrap();
        let of_samples = |samples: u64| (samples as f64 * sampling.bytes_per_sample()).round() as u64;
        assert_eq!(figures.peak_bytes, of_samples(field("max_live_nsamples_time_order")), "{name}");
        assert_eq!(totals.peak_at.0, field("max_live_nsamples_time_order_at_us") * 1000, "{name}");
        assert_eq!(figures.live_bytes(), of_samples(field("live_nsamples_at_end")), "{name}");
    }
}

#[test]
fn events_come_in_the_order_of_time() {
    for name in GOOD {
        let (read, expected) = (read(&bytes(name)), expected(name));
        assert!(read.events.is_sorted_by_key(|event| event.time), "{name}");
        assert_eq!(read.events.last().unwrap().time.0, expected["last_event_us"].as_u64().unwrap() * 1000, "{name}");
        assert_eq!(read.decoder.source().unwrap().duration, read.events.last().unwrap().time, "{name}");
    }
}

#[test]
fn the_source_is_reported() {
    for name in GOOD {
        let (source, expected) = (read(&bytes(name)).decoder.source().unwrap(), expected(name));
        let text = |field: &str| expected[field].as_str().unwrap_or_default().to_owned();
        assert_eq!((&source.program, &source.host), (&text("executable_name"), &text("host_name")), "{name}");
        assert_eq!((&source.runtime_parameters, &source.context), (&text("ocaml_runtime_params"), &text("context")));
        assert_eq!(source.pid as i64, expected["pid"].as_i64().unwrap(), "{name}");
        assert_eq!(source.start_unix_ns, expected["start_time_us"].as_u64().unwrap() * 1000, "{name}");
        let sampling = source.word_sampling.unwrap();
        assert_eq!(sampling.rate(), expected["sample_rate"].as_f64().unwrap(), "{name}");
        assert_eq!(u64::from(sampling.word_bytes()) * 8, expected["word_size"].as_u64().unwrap(), "{name}");
    }
}

#[test]
fn it_does_not_matter_in_which_pieces_a_trace_arrives() {
    for name in ["full", "extern", "deep"] {
        let bytes = bytes(name);
        let whole = read(&bytes);
        for piece in [1, 7, 1000, 70_000] {
            let (mut decoder, mut catalog, mut events) = (Decoder::default(), Catalog::default(), Vec::new());
            let mut receive = |event: Event, _: &Catalog| events.push(event);
            for part in bytes.chunks(piece) {
                decoder.push(part, &mut catalog, &mut receive).unwrap();
            }
            decoder.finish(&mut catalog, &mut receive).unwrap();
            assert_eq!((events, decoder.damage()), (whole.events.clone(), vec![]), "{name} by {piece}");
        }
    }
}

#[test]
fn what_has_arrived_can_be_asked_for_at_any_time() {
    let bytes = bytes("multidom-par");
    let whole = read(&bytes);
    let (mut decoder, mut catalog, mut events) = (Decoder::default(), Catalog::default(), Vec::new());
    let mut receive = |event: Event, _: &Catalog| events.push(event);
    for part in bytes.chunks(100_000) {
        decoder.push(part, &mut catalog, &mut receive).unwrap();
        let before = decoder.events();
        decoder.flush(&mut catalog, &mut receive).unwrap();
        assert!(decoder.events() > before);
    }
    decoder.finish(&mut catalog, &mut receive).unwrap();
    assert_eq!((events.len(), decoder.damage()), (whole.events.len(), vec![]));
}
