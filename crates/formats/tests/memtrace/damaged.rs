//! Damaged traces: all undamaged parts are used, and damage is reported with its offset.

use crate::fixtures::{Read, bytes, expected, read, text};
use crate::tally::{Tally, tally};
use highwater_formats::memtrace::{Decoder, NotATrace};
use highwater_model::{Anomaly, Catalog, Event, EventKind, FrameText, laws};
use std::collections::BTreeMap;

/// The length of a packet's header in version 3.
const HEADER: usize = 68;

/// The offsets of the packets of a sound trace.
fn packets(bytes: &[u8]) -> Vec<usize> {
    let mut offsets = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        offsets.push(at);
        at += u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize / 8;
    }
    offsets
}

/// True for a packet that has only locations.
fn has_locations(bytes: &[u8], packet: usize) -> bool {
    bytes.get(packet + HEADER + 3).is_some_and(|byte| byte >> 1 == 1)
}

/// The damage found, as texts without numbers.
fn damage_of(read: &Read) -> Vec<(u64, String)> {
    read.decoder.damage().into_iter().map(|damage| (damage.offset, damage.what.into_owned())).collect()
}

/// A packet of events in the middle of a trace, and the packet after it.
fn middle(bytes: &[u8]) -> (usize, usize) {
    let packets = packets(bytes);
    let at = packets.len() / 2;
    let at = (at..).find(|&at| !has_locations(bytes, packets[at])).unwrap();
    (packets[at], packets[at + 1])
}

fn counts(read: &Read) -> (u64, u64, u64) {
    let figures = &read.accounts.totals().figures;
    (figures.records(), figures.freed_records(), figures.promoted_records())
}

/// The counts of an undamaged trace.
fn all(name: &str) -> (u64, u64, u64) {
    counts(&read(&bytes(name)))
}

/// Reads a sound trace with some bytes changed, and checks its laws.
fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Read {
    let mut bytes = bytes(name);
    change(&mut bytes);
    let read = read(&bytes);
    assert_eq!(laws::violations(&read.accounts), Vec::<String>::new());
    read
}

#[test]
fn a_packet_without_a_size_is_read_up_to_the_next() {
    let bytes = bytes("steady");
    let (packet, _) = middle(&bytes);
    for size in [0u32, 8, u32::MAX, 1 << 31, (LONGEST as u32 + 1) * 8] {
        let read = changed("steady", |bytes| bytes[packet + 4..packet + 8].copy_from_slice(&size.to_le_bytes()));
        assert_eq!(counts(&read), all("steady"), "{size}");
        let damage = damage_of(&read);
        assert_eq!((damage.len(), damage[0].0), (1, packet as u64), "{damage:?}");
        assert!(damage[0].1.starts_with(&format!("a packet claims a size of {} bytes", size / 8)), "{damage:?}");
    }
}

const LONGEST: usize = 32_768;

#[test]
fn a_packet_that_says_that_it_is_empty_and_is_not_is_read() {
    // The header on which the reference reader loops forever: no size, no verifier, no allocations.
    let bytes = bytes("steady");
    let (packet, _) = middle(&bytes);
    let read = changed("steady", |bytes| {
        bytes[packet + 4..packet + 8].fill(0);
        bytes[packet + 40..packet + 42].fill(0xff);
        bytes.copy_within(packet + 52..packet + 60, packet + 60);
    });
    assert_eq!(counts(&read), all("steady"));
    let damage = damage_of(&read);
    assert!(
        damage.iter().any(|(_, what)| what.ends_with("allocations more than it says; they are used")),
        "{damage:?}"
    );
    assert_eq!(read.accounts.anomalies().get(Anomaly::LostToDamage), 0);
}

#[test]
fn a_size_that_is_too_large_or_too_small_does_not_hide_the_next_packet() {
    let bytes = bytes("steady");
    let (packet, next) = middle(&bytes);
    for bits in [((next - packet) as u32 + 1000) * 8, 32_768 * 8] {
        let read = changed("steady", |bytes| bytes[packet + 4..packet + 8].copy_from_slice(&bits.to_le_bytes()));
        assert_eq!(counts(&read), all("steady"));
        assert!(damage_of(&read)[0].1.contains("but the next begins after"), "{:?}", damage_of(&read));
    }
    let read = changed("steady", |bytes| bytes[packet + 4..packet + 8].copy_from_slice(&(500u32 * 8).to_le_bytes()));
    let (records, ..) = counts(&read);
    let lost = read.accounts.anomalies().get(Anomaly::LostToDamage);
    assert!(records < all("steady").0 && records + lost >= all("steady").0, "{records} {lost}");
    assert!((packet as u64..next as u64).contains(&damage_of(&read)[0].0), "{:?}", damage_of(&read));
}

#[test]
fn a_packet_is_known_without_its_magic_number_or_version() {
    let bytes = bytes("steady");
    let (packet, _) = middle(&bytes);
    for at in [0, 3, 28] {
        let read = changed("steady", |bytes| bytes[packet + at] ^= 0x40);
        assert_eq!(counts(&read), all("steady"));
        assert_eq!(damage_of(&read).len(), 1, "{:?}", damage_of(&read));
        assert_eq!(damage_of(&read)[0].0, packet as u64);
    }
}

#[test]
fn after_a_header_that_is_nothing_reading_goes_on_at_the_next() {
    let bytes = bytes("steady");
    let (packet, next) = middle(&bytes);
    let read = changed("steady", |bytes| bytes[packet..packet + HEADER].fill(0xaa));
    let damage = damage_of(&read);
    assert_eq!((damage[0].0, damage[0].1.as_str()), (packet as u64, "no packet begins here"));
    assert_eq!(read.decoder.damage()[0].length, (next - packet) as u64);
    let lost = all("steady").0 - counts(&read).0;
    assert!(
        damage
            .iter()
            .any(|(offset, what)| *offset >= next as u64 && what.contains(&format!("with {lost} allocations"))),
        "{damage:?}"
    );
}

#[test]
fn a_missing_packet_is_named_and_what_refers_to_it_is_counted() {
    let bytes = bytes("steady");
    let (packet, next) = middle(&bytes);
    let read = changed("steady", |bytes| drop(bytes.drain(packet..next)));
    let readable = &expected("bad-dropped-packet")["readable_part"]["events"];
    let (records, freed, promoted) = counts(&read);
    let damage = damage_of(&read);
    assert_eq!(
        (damage[0].0, damage[0].1.contains("packets are missing before this one, with")),
        (packet as u64, true),
        "{damage:?}"
    );
    let missing = all("steady").0 - records;
    let anomalies = read.accounts.anomalies();
    assert!(damage[0].1.ends_with(&format!("{missing} allocations")), "{damage:?}");
    // References to objects that were never seen, which the reference gives out, are not taken for other objects.
    assert!(anomalies.get(Anomaly::LostToDamage) > missing);
    assert_eq!((anomalies.get(Anomaly::UnmatchedFree), anomalies.get(Anomaly::UnmatchedPromotion)), (0, 0));
    if records == readable["alloc"].as_u64().unwrap() {
        assert!(freed < readable["collect"].as_u64().unwrap() && promoted < readable["promote"].as_u64().unwrap());
    }
    // Stacks that depend on missing packets are marked.
    let marked = read.events.iter().filter_map(|event| match event.kind {
        EventKind::Allocate(place) => {
            read.catalog.frame_texts(place.stack).last().map(|frame| frame.function.to_owned())
        }
        _ => None,
    });
    let marked = marked.filter(|function| function.starts_with("[may be wrong")).count();
    assert!(
        marked > 0 && damage.iter().any(|(_, what)| what.starts_with(&format!("{marked} stacks may be wrong"))),
        "{damage:?}"
    );
}

#[test]
fn a_packet_that_is_there_twice_counts_once() {
    let bytes = bytes("extern");
    let packets = packets(&bytes);
    let last = *packets.last().unwrap();
    let read = changed("extern", |bytes| bytes.extend_from_within(last..));
    assert_eq!(counts(&read), all("extern"));
    assert!(damage_of(&read)[0].1.contains("there twice"), "{:?}", damage_of(&read));
}

#[test]
fn a_trace_that_is_cut_anywhere_gives_all_whole_events_before_the_cut() {
    let bytes = bytes("full");
    let whole = read(&bytes);
    let offsets = packets(&bytes);
    let mut before = 0;
    for length in (offsets[1]..bytes.len()).step_by(37).chain(offsets[1..].iter().map(|offset| offset + 20)) {
        let cut = read(&bytes[..length.min(bytes.len())]);
        assert!(cut.events.len() <= whole.events.len() && cut.events[..] == whole.events[..cut.events.len()]);
        assert_eq!(laws::violations(&cut.accounts), Vec::<String>::new());
        let is_border = offsets.contains(&length);
        assert_eq!(cut.decoder.damage().is_empty(), is_border, "{length}: {:?}", damage_of(&cut));
        before = before.max(cut.events.len());
    }
    assert!(before > whole.events.len() * 9 / 10);
    let in_header = read(&bytes[..offsets[2] + 20]);
    assert_eq!(damage_of(&in_header), [(offsets[2] as u64, "the trace is cut in a packet's header".to_owned())]);
}

#[test]
fn zeros_after_a_trace_are_named() {
    let length = bytes("steady").len();
    let read = changed("steady", |bytes| bytes.extend([0; 4096]));
    assert_eq!(counts(&read), all("steady"));
    assert_eq!(read.decoder.damage().len(), 1);
    let damage = &read.decoder.damage()[0];
    assert_eq!((damage.offset, damage.length), (length as u64, 4096));
    assert_eq!(damage.what, "zeros stand where a packet should be");
}

#[test]
fn a_flipped_byte_spoils_no_more_than_it_must() {
    let bytes = bytes("steady");
    let (packet, next) = middle(&bytes);
    let whole = read(&bytes);
    let mut quiet = 0;
    for at in (packet..next).step_by(211) {
        let read = changed("steady", |bytes| bytes[at] ^= 0x10);
        let figures = read.accounts.totals().figures;
        // At most the rest of its own packet is lost.
        let lost = whole.accounts.totals().figures.records()
            - figures.records().min(whole.accounts.totals().figures.records());
        assert!(lost <= 1500, "{at}: {lost}");
        quiet += u32::from(read.decoder.damage().is_empty());
        let counted = read.accounts.anomalies();
        assert!(lost == 0 || counted.get(Anomaly::LostToDamage) >= lost, "{at}: {lost} {:?}", damage_of(&read));
    }
    // Some changes only alter a number or a frame: these cannot be detected.
    assert!(quiet < 120, "{quiet}");
}

#[test]
fn the_byte_that_the_reference_stops_at_costs_one_stack() {
    let read = changed("steady", |bytes| bytes[121_558] = 0o205);
    assert_eq!(counts(&read), all("steady"));
    assert!(
        damage_of(&read)[0].1.starts_with("a backtrace refers to a location that none has named"),
        "{:?}",
        damage_of(&read)
    );
}

#[test]
fn of_two_traces_in_one_file_the_first_is_read_and_the_second_named() {
    let length = bytes("extern").len();
    for second in ["extern", "full", "steady"] {
        let read = changed("extern", |content| content.extend(bytes(second)));
        assert_eq!(counts(&read), all("extern"), "{second}");
        let damage = read.decoder.damage();
        assert_eq!((damage.len(), damage[0].offset, damage[0].length), (1, length as u64, bytes(second).len() as u64));
        assert!(damage[0].what.contains("another trace begins here"), "{damage:?}");
    }
}

#[test]
fn packets_of_a_forked_child_are_left_out() {
    let whole = bytes("steady");
    let (packet, next) = middle(&whole);
    let read = changed("steady", |bytes| {
        let mut foreign = whole[packet..next].to_vec();
        foreign[30] ^= 1;
        bytes.splice(next..next, foreign);
    });
    assert_eq!(counts(&read), all("steady"));
    let damage = read.decoder.damage();
    assert_eq!((damage.len(), damage[0].offset, damage[0].length), (1, next as u64, (next - packet) as u64));
    assert!(damage[0].what.contains("another process (pid 14161)"), "{damage:?}");
}

#[test]
fn after_a_clock_was_set_back_times_go_on_with_their_distances() {
    let read = read(&bytes("bad-clock-back"));
    let intact = &expected("bad-clock-back")["intact_events"];
    let Tally { samples, words, collections, .. } = tally(&read);
    let field = |field: &str| intact[field].as_u64().unwrap();
    assert_eq!(counts(&read), (field("alloc"), field("collect"), 0));
    assert_eq!((samples, collections), (field("alloc"), field("collect")));
    assert!(words > samples);
    assert_eq!(read.decoder.damage(), []);
    assert!(read.events.is_sorted_by_key(|event| event.time));
    let (mut before, mut shift, mut steps) = (0, 0, Vec::new());
    let times = text("bad-clock-back.true-times.tsv");
    for (line, event) in times.lines().zip(&read.events) {
        let fields: Vec<&str> = line.split('\t').collect();
        let time: u64 = fields[2].parse().unwrap();
        if time < before {
            steps.push(before - time);
            shift += before - time;
        }
        before = time;
        assert_eq!(event.time.0, (time + shift) * 1000, "{line}");
        assert_eq!(matches!(event.kind, EventKind::Allocate(_)), fields[0] == "alloc", "{line}");
    }
    // The first 4,000 events have one of the two steps of a fifth of a second, less than a millisecond after an event.
    assert!(steps.len() == 1 && (199_000..200_000).contains(&steps[0]), "{steps:?}");
    let anomaly = |anomaly| read.accounts.anomalies().get(anomaly);
    assert_eq!((anomaly(Anomaly::ClockStep), anomaly(Anomaly::RepairedTime)), (2, 0));
    assert!((398_000..400_000).contains(&anomaly(Anomaly::ClockStepMicroseconds)));
    // At most two events are moved to the instant of another: 9,000 events, each at least a microsecond after the one before, except for the two
    // steps.
    let instants: std::collections::BTreeSet<_> = read.events.iter().map(|event| event.time).collect();
    assert!(instants.len() + 2 >= read.events.len(), "{} of {}", instants.len(), read.events.len());
}

#[test]
fn columns_that_spilled_are_read_and_every_location_repaired() {
    let read = read(&bytes("bad-columns-spill"));
    let intact = &expected("bad-columns-spill")["intact_events"];
    let field = |field: &str| intact[field].as_u64().unwrap();
    assert_eq!(counts(&read), (field("alloc"), field("collect"), field("promote")));
    assert_eq!(read.accounts.totals().figures.samples(), field("sum_nsamples"));
    let mut guesses = 0;
    let truth: BTreeMap<u64, String> = text("bad-columns-spill.true-locations.tsv")
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            (fields[0].parse().unwrap(), format!("{} {} {}", fields[1], fields[2], fields[3]))
        })
        .collect();
    let mut found = BTreeMap::new();
    for event in &read.events {
        if let EventKind::Allocate(place) = event.kind {
            for frame in read.catalog.frame_texts(place.stack) {
                let FrameText { function, file, line, address, .. } = frame;
                let guessed = function.strip_suffix(" [guessed]");
                assert_eq!(guessed.is_some(), frame.is_guessed());
                let is_new = found.insert(address, format!("{file} {} {line}", guessed.unwrap_or(function))).is_none();
                guesses += u64::from(is_new && guessed.is_some());
            }
        }
    }
    let wrong: Vec<_> = found.iter().filter(|(code, text)| truth.get(code) != Some(text)).collect();
    assert_eq!(wrong, Vec::<(&u64, &String)>::new(), "of {}", found.len());
    assert_eq!(found.len(), truth.len());
    // The readings are right here, but they are still guesses: each is marked and counted.
    assert!(guesses > 0);
    assert_eq!(read.accounts.anomalies().get(Anomaly::GuessedLocation), guesses);
    let damage = read.decoder.damage();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0].what.contains(&format!("{guesses} locations are the likeliest readings")), "{damage:?}");
}

#[test]
fn what_is_no_trace_says_why() {
    let try_read = |bytes: &[u8]| {
        let (mut decoder, mut catalog) = (Decoder::default(), Catalog::default());
        let mut receive = |_: Event, _: &Catalog| {};
        decoder.push(bytes, &mut catalog, &mut receive)?;
        decoder.finish(&mut catalog, &mut receive)
    };
    let whole = bytes("full");
    assert_eq!(try_read(&[]), Err(NotATrace::Empty));
    assert_eq!(try_read(b"hello, this is not one"), Err(NotATrace::Foreign));
    assert_eq!(try_read(&whole[..100]), Err(NotATrace::NoInfo));
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        try_read(&bytes)
    };
    assert_eq!(with(0, 7), Err(NotATrace::Foreign));
    assert_eq!(with(28, 9), Err(NotATrace::Version(9)));
    assert_eq!(with(29, 9), Err(NotATrace::Version(0x902)));
    // A sampling rate of 2.0.
    assert_eq!(with(77, 0x40), Err(NotATrace::NoInfo));
    assert_eq!(with(78, 13), Err(NotATrace::NoInfo));
    for error in [NotATrace::Empty, NotATrace::Foreign, NotATrace::Version(9), NotATrace::NoInfo] {
        assert!(!error.to_string().contains('\n'));
    }
}
