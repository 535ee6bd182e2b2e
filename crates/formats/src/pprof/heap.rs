//! The samples of a [`HeapProfile`] as a profile, not compressed: the caller has a limit for its size.

use super::strings::Strings;
use super::symbols::{PprofSymbols, UsedIds};
use super::{profile_field, sample_field, value_type};
use crate::heap_profile::{HeapFigure, HeapProfile};
use crate::protobuf::ProtobufMessage;

/// A profile with the known figures of each sample. The sums over all samples are the sums of the figures.
pub fn heap_profile(profile: &HeapProfile<'_>) -> Vec<u8> {
    let mut strings = Strings::default();
    let mut message = ProtobufMessage::default();
    // In the order of Go's heap profiles.
    let mut figures: Vec<HeapFigure> = profile.figures().collect();
    figures.sort_by_key(|figure| HeapFigure::ALL.iter().rev().position(|other| other == figure));
    for figure in &figures {
        let (name, unit) = figure.name_and_unit();
        message.message(profile_field::SAMPLE_TYPE, &value_type(name, unit, &mut strings));
    }
    message.int(profile_field::DEFAULT_SAMPLE_TYPE, strings.index(HeapFigure::InuseSpace.name_and_unit().0));
    message.int(profile_field::TIME_NANOS, profile.time_unix_ns);
    let window = profile.allocated_since_unix_ns.map_or(0, |since| profile.time_unix_ns.saturating_sub(since));
    message.int(profile_field::DURATION_NANOS, window);
    message.message(profile_field::PERIOD_TYPE, &value_type("space", "bytes", &mut strings));
    message.int(profile_field::PERIOD, profile.period());

    let mut symbols = PprofSymbols::new(profile.catalog, profile.program, UsedIds::default());
    for sample in profile.samples {
        let values: Vec<u64> = figures.iter().map(|figure| figure.of(sample)).collect();
        if values.iter().any(|value| *value != 0) {
            let mut inner = ProtobufMessage::default();
            inner.ints(sample_field::LOCATION_ID, &symbols.location_ids(sample.stack, &mut strings));
            inner.ints(sample_field::VALUE, &values);
            message.message(profile_field::SAMPLE, &inner);
        }
    }
    message.append(&symbols.finish_used(&mut strings));
    strings.in_order().for_each(|text| message.text(profile_field::STRING_TABLE, text));
    message.into_bytes()
}
