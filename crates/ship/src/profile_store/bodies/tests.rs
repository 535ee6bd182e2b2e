//! Whatever the limits are, no figure is lost between a batch and its requests.

use super::super::allocated::AllocatedBefore;
use super::super::process_profile::profiles;
use super::*;
use flate2::read::GzDecoder;
use highwater_formats::protobuf::{ProtobufFields, ProtobufValue};
use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, SiteRow};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

/// Live bytes of one stack of a process: process, stack, bytes.
fn batch(rows: &[(u8, u8, i64)]) -> Batch {
    let process = |number: u8| {
        let labels = Labels { service: format!("s{number}\n\"x\""), host: "h".to_owned(), ..Labels::default() };
        Arc::new(LakeProcess { labels, pid: number.into(), start_us: 5, process_id: i64::from(number) << 40 })
    };
    let site = |&(number, stack, bytes): &(u8, u8, i64)| SiteRow {
        slot: 1_700_000_040,
        process: process(number),
        stack_id: stack.into(),
        site_id: -1,
        sample_period: 0,
        live_bytes: bytes,
        live_blocks: bytes / 2,
        alloc_bytes: None,
        alloc_blocks: None,
    };
    let frame = |stack: u8, depth: i32| FrameRow {
        stack_id: stack.into(),
        site_id: -1,
        depth,
        // Two stacks of the lake have the same names.
        function: format!("f{}-{depth}", stack / 2),
        module: "app".to_owned(),
        build_id: "abcd".to_owned(),
        ..FrameRow::default()
    };
    // The stack 0 has no frames.
    let frames = (1..=u8::MAX).flat_map(|stack| (0..i32::from(stack % 4)).map(move |depth| frame(stack, depth)));
    Batch { sites: rows.iter().map(site).collect(), frames: frames.collect(), ..Batch::default() }
}

fn inner(message: &[u8], number: u64) -> Vec<&[u8]> {
    let bytes = |field: highwater_formats::protobuf::ProtobufField<'_>| match field.value {
        ProtobufValue::Bytes(bytes) if field.number == number => {
            Some(&message[field.offset..field.offset + bytes.len()])
        }
        _ => None,
    };
    ProtobufFields::new(message, 0).map(Result::unwrap).filter_map(bytes).collect()
}

fn numbers(message: &[u8], number: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    for packed in inner(message, number) {
        assert!(ProtobufValue::Bytes(packed).append_numbers(&mut numbers));
    }
    numbers
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

proptest! {
    #[test]
    fn any_batch_has_the_same_sums_in_all_requests(
        rows in prop::collection::vec((0u8..5, any::<u8>(), 0i64..1 << 40), 0..60),
        largest in prop_oneof![Just(1usize), 200usize..2000, Just(1 << 20)],
    ) {
        let batch = batch(&rows);
        let expected: i64 = rows.iter().map(|(_, _, bytes)| bytes).sum();
        let profiles = profiles(&batch, &mut AllocatedBefore::default());

        let mut ids = BTreeSet::new();
        let mut sum = 0u64;
        for body in pyroscope_bodies(&profiles, largest, 2 * largest) {
            let series = inner(&body.bytes, 1);
            prop_assert_eq!(series.len(), body.profiles);
            for series in series {
                let sample = inner(series, 2)[0];
                prop_assert!(ids.insert(inner(sample, 2)[0].to_vec()), "an id is used once");
                let profile = unzipped(inner(sample, 1)[0]);
                // inuse_objects and inuse_space.
                sum += inner(&profile, 2).iter().map(|sample| numbers(sample, 2)[1]).sum::<u64>();
            }
        }
        prop_assert_eq!(sum, expected.cast_unsigned());

        let whole: Vec<ProfilePart<'_>> = profiles.iter().map(ProfilePart::whole).collect();
        let mut bodies = Vec::new();
        otlp_bodies(&whole, largest, &mut bodies);
        let (mut sum, mut ids) = (0u64, BTreeSet::new());
        for body in bodies {
            prop_assert!(body.is_gzipped);
            let request = unzipped(&body.bytes);
            let strings = inner(inner(&request, 2)[0], 5);
            let of_scopes = inner(&request, 1).into_iter().flat_map(|resource| inner(resource, 2));
            let found: Vec<&[u8]> = of_scopes.flat_map(|scope| inner(scope, 2)).collect();
            prop_assert_eq!(found.len(), body.profiles);
            for profile in found {
                prop_assert!(ids.insert(inner(profile, 7)[0].to_vec()), "an id is used once");
                let ProtobufValue::Number(name) =
                    ProtobufFields::new(inner(profile, 1)[0], 0).next().unwrap().unwrap().value else { panic!() };
                if strings[name as usize] == b"inuse_space" {
                    sum += inner(profile, 2).iter().map(|sample| numbers(sample, 4)[0]).sum::<u64>();
                }
            }
        }
        prop_assert_eq!(sum, expected.cast_unsigned());
    }
}

#[test]
fn labels_are_cut_and_unknown_ones_left_out() {
    let mut batch = batch(&[(3, 1, 10)]);
    let mut process = LakeProcess::clone(&batch.sites[0].process);
    process.labels.region = "é".repeat(2000);
    batch.sites[0].process = Arc::new(process);
    let profiles = profiles(&batch, &mut AllocatedBefore::default());
    let labels = pyroscope_labels(&profiles[0]);
    let names: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["__name__", "__delta__", "service_name", "region", "host", "pid"]);
    assert_eq!(labels[2].1, "s3\n\"x\"");
    assert_eq!(labels[3].1.len(), 2048);
    assert_eq!(uuid(ProfilePart::whole(&profiles[0]).id(None)), "00000300-0000-8000-8000-6553f1280000");
}
