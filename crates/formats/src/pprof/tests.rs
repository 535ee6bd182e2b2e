//! Reads profiles back with a decoder that shares no code with the writer.

use super::{MeasuredProfile, MeasuredStack, PprofOptions, write, write_measured};
use crate::scene::{Scene, any_snapshot, function, parser, without_blocks};
use flate2::read::GzDecoder;
use highwater_model::groups::Metric;
use highwater_model::{Clock, Frame, FrameText, Nanos, Snapshot, SourceKind, Window};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::io::Read;

pub(crate) enum WireField<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a varint ends");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The fields of a message, in order, by number.
pub(crate) struct Decoded<'a>(Vec<(u64, WireField<'a>)>);

impl<'a> Decoded<'a> {
    pub(crate) fn new(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => WireField::Number(varint(&mut bytes)),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (field, rest) = bytes.split_at(length);
                    bytes = rest;
                    WireField::Bytes(field)
                }
                1 => {
                    let (field, rest) = bytes.split_at(8);
                    bytes = rest;
                    WireField::Number(u64::from_le_bytes(field.try_into().unwrap()))
                }
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        Self(fields)
    }

    pub(crate) fn number(&self, number: u64) -> u64 {
        let find = |(field, value): &(u64, WireField<'_>)| match value {
            WireField::Number(value) if *field == number => Some(*value),
            _ => None,
        };
        self.0.iter().find_map(find).unwrap_or(0)
    }

    pub(crate) fn all(&self, number: u64) -> Vec<&'a [u8]> {
        let bytes = |(field, value): &(u64, WireField<'a>)| match value {
            WireField::Bytes(bytes) if *field == number => Some(*bytes),
            _ => None,
        };
        self.0.iter().filter_map(bytes).collect()
    }

    pub(crate) fn messages(&self, number: u64) -> Vec<Decoded<'a>> {
        self.all(number).into_iter().map(Decoded::new).collect()
    }

    pub(crate) fn packed(&self, number: u64) -> Vec<u64> {
        let mut values = Vec::new();
        for mut bytes in self.all(number) {
            while !bytes.is_empty() {
                values.push(varint(&mut bytes));
            }
        }
        values
    }
}

#[derive(Debug)]
struct DecodedSample {
    /// Innermost first; each location is `address:function@file:line,…`, innermost function first.
    stack: Vec<String>,
    values: Vec<u64>,
    labels: BTreeMap<String, String>,
}

struct Profile {
    bytes: Vec<u8>,
}

impl Profile {
    fn of(snapshot: &Snapshot) -> Self {
        let mut gzipped = Vec::new();
        write(snapshot, &PprofOptions::default(), &mut gzipped).unwrap();
        Self::unpacked(&gzipped)
    }

    fn unpacked(gzipped: &[u8]) -> Self {
        let mut bytes = Vec::new();
        GzDecoder::new(gzipped).read_to_end(&mut bytes).unwrap();
        Self { bytes }
    }

    fn root(&self) -> Decoded<'_> {
        Decoded::new(&self.bytes)
    }

    fn string(&self, index: u64) -> String {
        String::from_utf8(self.root().all(6)[index as usize].to_vec()).unwrap()
    }

    fn functions(&self) -> BTreeMap<u64, String> {
        let text = |function: &Decoded<'_>| match self.string(function.number(4)).as_str() {
            "" => self.string(function.number(2)),
            file => format!("{}@{file}", self.string(function.number(2))),
        };
        self.root().messages(5).iter().map(|function| (function.number(1), text(function))).collect()
    }

    fn locations(&self) -> BTreeMap<u64, String> {
        let functions = self.functions();
        let line = |line: &Decoded<'_>| format!("{}:{}", functions[&line.number(1)], line.number(2));
        let text = |location: &Decoded<'_>| {
            let lines: Vec<String> = location.messages(4).iter().map(line).collect();
            format!("{:#x} {}", location.number(3), lines.join(","))
        };
        self.root().messages(4).iter().map(|location| (location.number(1), text(location))).collect()
    }

    fn samples(&self) -> Vec<DecodedSample> {
        let locations = self.locations();
        let label = |label: &Decoded<'_>| {
            let value = match label.number(2) {
                0 => format!("{}{}", label.number(3), self.string(label.number(4))),
                text => self.string(text),
            };
            (self.string(label.number(1)), value)
        };
        let sample = |sample: &Decoded<'_>| DecodedSample {
            stack: sample.packed(1).iter().map(|id| locations[id].clone()).collect(),
            values: sample.packed(2),
            labels: sample.messages(3).iter().map(label).collect(),
        };
        self.root().messages(2).iter().map(sample).collect()
    }
}

#[test]
fn an_image_has_no_figures_of_what_was_ever_allocated_and_a_log_without_times_no_duration() {
    let mut scene = parser();
    scene.source.kind = SourceKind::IMAGE;
    scene.source.clock = Clock::Lines;
    let profile = Profile::of(&scene.snapshot());
    let root = profile.root();
    let types: Vec<String> = root.messages(1).iter().map(|kind| profile.string(kind.number(1))).collect();
    assert_eq!(types, ["inuse_objects", "inuse_space"]);
    assert!(root.messages(2).iter().all(|sample| sample.packed(2).len() == 2));
    assert_eq!(root.number(10), 0);
}

#[test]
fn the_header_says_what_when_and_how() {
    let mut scene = parser();
    scene.source.host = "build-3".to_owned();
    let profile = Profile::of(&scene.snapshot());
    let root = profile.root();
    let types: Vec<(String, String)> =
        root.messages(1).iter().map(|kind| (profile.string(kind.number(1)), profile.string(kind.number(2)))).collect();
    let expected =
        [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")];
    assert_eq!(types, expected.map(|(kind, unit)| (kind.to_owned(), unit.to_owned())));
    assert_eq!(profile.string(root.number(14)), "inuse_space");
    assert_eq!(root.number(9), 1_700_000_000_000_000_050);
    assert_eq!((root.number(10), root.number(12)), (50, 1));
    let comments: Vec<String> = root.packed(13).into_iter().map(|comment| profile.string(comment)).collect();
    assert_eq!(comments, ["program: /usr/bin/parser --fast", "pid: 42", "host: build-3"]);
    assert_eq!(profile.string(0), "");
}

#[test]
fn hidden_frames_are_in_no_stack_and_the_sums_stay() {
    let mut scene = parser();
    let inlined = FrameText { inlined: true, ..function("parse") };
    let stacks = [vec![function("grow"), inlined, function("main")], vec![function("grow")]];
    let stacks = stacks.map(|frames| scene.catalog.intern_stack(&frames));
    let snapshot = scene.snapshot();
    let frames = snapshot.catalog.stacks.frames().iter();
    let is_hidden = |frame: &&Frame| snapshot.catalog.strings.get(frame.function) == "grow";
    let profile = MeasuredProfile {
        source: &snapshot.source,
        catalog: &snapshot.catalog,
        metric: Metric::Live,
        at: snapshot.at,
        window: Window { from: Nanos(0), to: snapshot.at },
        filters: &[],
        hidden: &frames.filter(is_hidden).copied().collect(),
        hidden_names: &["grow".to_owned()],
    };
    let measured = stacks.map(|stack| MeasuredStack { stack, value: 10, blocks: 1 });
    let mut gzipped = Vec::new();
    write_measured(&profile, measured, &mut gzipped).unwrap();
    let profile = Profile::unpacked(&gzipped);
    let shown: Vec<(String, Vec<u64>)> =
        profile.samples().into_iter().map(|sample| (sample.stack.join(" | "), sample.values)).collect();
    assert_eq!(shown, [("0x0 parse:0,main:0".to_owned(), vec![1, 10]), (String::new(), vec![1, 10])]);
    let comments = profile.root().packed(13);
    assert!(comments.into_iter().any(|comment| profile.string(comment) == "hidden: grow"));
}

#[test]
fn what_has_no_process_id_says_none() {
    let mut scene = parser();
    scene.source.pid = -1i64 as u64;
    let profile = Profile::of(&scene.snapshot());
    let comments = profile.root().packed(13);
    assert!(comments.into_iter().all(|comment| !profile.string(comment).starts_with("pid")));
}

#[test]
fn live_blocks_are_labelled_and_the_rest_of_a_site_is_not() {
    let samples = Profile::of(&parser().snapshot()).samples();
    let shown: Vec<(String, &[u64], String)> = samples
        .iter()
        .map(|sample| {
            let labels: Vec<String> = sample.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (sample.stack.join(" | "), &sample.values[..], labels.join(" "))
        })
        .collect();
    let expected: [(&str, &[u64], &str); 3] = [
        ("0x0 [unknown]:0", &[1, 8, 1, 8], "bytes=8bytes thread=1 thread_id=1"),
        ("0x0 grow:0 | 0x0 parse:0 | 0x0 main:0", &[1, 300, 1, 300], "bytes=300bytes thread=worker thread_id=7"),
        ("0x0 parse:0 | 0x0 main:0", &[2, 150, 0, 0], ""),
    ];
    assert_eq!(shown, expected.map(|(stack, values, labels)| (stack.to_owned(), values, labels.to_owned())));
}

#[test]
fn what_a_site_holds_is_known_without_single_blocks() {
    let samples = Profile::of(&parser().aggregated()).samples();
    assert!(samples.iter().all(|sample| sample.labels.is_empty()));
    let values: Vec<&[u64]> = samples.iter().map(|sample| &sample.values[..]).collect();
    assert_eq!(values, [&[1, 8, 1, 8], &[1, 300, 1, 300], &[2, 150, 0, 0]]);
}

#[test]
fn an_inlined_group_is_one_location_and_a_bare_address_has_no_line() {
    let mut scene = Scene::default();
    let at = |address, name: &'static str, line, inlined| FrameText {
        address,
        line,
        inlined,
        file: "a.rs",
        module: "/bin/app",
        ..function(name)
    };
    let bare = FrameText { address: 0x99, module: "/lib/libc.so.6", ..FrameText::default() };
    let stack = scene.catalog.intern_stack(&[
        at(0x10, "push", 1, true),
        at(0x10, "extend", 2, true),
        at(0x10, "read", 3, false),
        bare,
        at(0x30, "main", 4, false),
    ]);
    scene.allocate(1, 1, 10, stack);
    let samples = Profile::of(&scene.snapshot()).samples();
    assert_eq!(samples[0].stack, ["0x10 push@a.rs:1,extend@a.rs:2,read@a.rs:3", "0x99 ", "0x30 main@a.rs:4"]);
}

#[test]
fn code_without_a_name_is_called_after_its_place_and_can_still_be_looked_up() {
    let mut scene = Scene::default();
    let stack =
        scene.catalog.intern_stack(&[FrameText { address: 0x1099, module: "/opt/app", ..FrameText::default() }]);
    scene.allocate(1, 1, 10, stack);
    let app = &mut scene.catalog.modules[0];
    (app.start, app.end, app.file_offset) = (0x1000, 0x2000, 0x40);
    let profile = Profile::of(&scene.snapshot());
    assert_eq!(profile.samples()[0].stack, ["0x1099 app+0xd9:0"]);
    assert_eq!(profile.root().messages(3)[0].number(7), 0, "the mapping has no functions");
}

#[test]
fn mappings_carry_build_ids_and_what_is_known_and_the_main_one_is_first() {
    let mut scene = Scene::default();
    scene.source.program = "/bin/app --serve".to_owned();
    let bare = FrameText { address: 0x99, module: "/lib/libc.so.6", ..FrameText::default() };
    let named = FrameText { module: "/opt/app", file: "a.rs", line: 3, ..function("main") };
    let stack = scene.catalog.intern_stack(&[named, bare]);
    scene.allocate(1, 1, 10, stack);
    let build_id = scene.catalog.strings.intern("abc123");
    let app = scene.catalog.intern_module("/opt/app") as usize;
    assert_ne!(app, 0, "it must have to move to come first");
    let app = &mut scene.catalog.modules[app];
    (app.build_id, app.start, app.end, app.file_offset) = (build_id, 0x1000, 0x2000, 0x40);

    let profile = Profile::of(&scene.snapshot());
    let shown: Vec<_> = profile
        .root()
        .messages(3)
        .iter()
        .map(|mapping| {
            let numbers = [1, 2, 3, 4, 7, 8, 9].map(|field| mapping.number(field));
            (profile.string(mapping.number(5)), profile.string(mapping.number(6)), numbers)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("/opt/app".to_owned(), "abc123".to_owned(), [1, 0x1000, 0x2000, 0x40, 1, 1, 1]),
            ("/lib/libc.so.6".to_owned(), String::new(), [2, 0, 0, 0, 0, 0, 0]),
        ]
    );
    let mapping_ids: HashSet<u64> = profile.root().messages(4).iter().map(|location| location.number(2)).collect();
    assert_eq!(mapping_ids, HashSet::from([1, 2]));
}

#[test]
fn the_default_sample_type_follows_the_metric() {
    for (metric, expected) in [
        (Metric::Live, "inuse_space"),
        (Metric::Peak, "inuse_space"),
        (Metric::Allocated, "alloc_space"),
        (Metric::Allocations, "alloc_objects"),
        (Metric::Temporary, "alloc_objects"),
    ] {
        assert_eq!(super::default_sample_type(metric), expected);
    }
}

#[test]
fn keep_drops_whole_stacks() {
    let mut gzipped = Vec::new();
    let keep = |text: &str| text == "grow";
    write(&parser().snapshot(), &PprofOptions { keep: Some(&keep), ..PprofOptions::default() }, &mut gzipped).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&gzipped[..]).read_to_end(&mut bytes).unwrap();
    let samples = Profile { bytes }.samples();
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].values, [1, 300, 1, 300]);
}

proptest! {
    #[test]
    fn the_samples_sum_to_the_totals_and_none_is_negative(snapshot in any_snapshot(), aggregated in any::<bool>()) {
        let snapshot = if aggregated { without_blocks(&snapshot) } else { snapshot };
        let mut sums = [0u128; 4];
        for sample in Profile::of(&snapshot).samples() {
            prop_assert_eq!(sample.values.len(), 4);
            prop_assert!(!sample.stack.is_empty());
            for (sum, value) in sums.iter_mut().zip(sample.values) {
                prop_assert!(value <= i64::MAX as u64);
                *sum += u128::from(value);
            }
        }
        let total = &snapshot.accounts.totals().figures;
        prop_assert_eq!(sums[0], u128::from(total.allocations + total.reallocations));
        prop_assert_eq!(sums[2], u128::from(total.live_blocks()));
        // A single sample beyond 63 bits is cut. The sizes tried here reach that limit only in sum.
        if total.allocated_bytes <= i64::MAX as u64 {
            prop_assert_eq!(sums[1], u128::from(total.allocated_bytes));
            prop_assert_eq!(sums[3], u128::from(total.live_bytes()));
        }
    }
}
