//! One measured figure of each stack as a profile, instead of all figures of a snapshot: a metric in a window, as filters left it.

use super::strings::Strings;
use super::symbols::{PprofSymbols, UsedIds};
use super::{comments, profile_field, sample_field, value_type};
use crate::protobuf::ProtobufMessage;
use flate2::Compression;
use flate2::write::GzEncoder;
use highwater_model::groups::Metric;
use highwater_model::{Catalog, Frame, Nanos, Source, StackId, Window};
use std::collections::HashSet;
use std::io::{self, Write};

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredProfile<'a> {
    /// The source of the figures.
    pub source: &'a Source,
    /// What its handles refer to.
    pub catalog: &'a Catalog,
    /// The figure.
    pub metric: Metric,
    /// The instant of the measurement.
    pub at: Nanos,
    /// The window of metrics that count events.
    pub window: Window,
    /// The filters, as a user writes them.
    pub filters: &'a [String],
    /// Frames that are left out of all stacks.
    pub hidden: &'a HashSet<Frame>,
    /// What these are called.
    pub hidden_names: &'a [String],
}

/// The figure of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredStack {
    /// The stack.
    pub stack: StackId,
    /// The value of the metric.
    pub value: u64,
    /// Its blocks.
    pub blocks: u64,
}

impl MeasuredProfile<'_> {
    /// The names of the values of a sample, as in Go's heap profiles where those have them: the number of blocks, and bytes.
    fn sample_types(&self) -> (Option<&'static str>, Option<&'static str>) {
        let (blocks, bytes) = match self.metric {
            Metric::Live | Metric::Peak | Metric::Leaked => (Some("inuse_objects"), Some("inuse_space")),
            Metric::Allocated => (Some("alloc_objects"), Some("alloc_space")),
            Metric::Freed => (Some("free_objects"), Some("free_space")),
            Metric::OwnPeak => (None, Some("peak_space")),
            Metric::Allocations => (Some("alloc_objects"), None),
            Metric::Temporary => (Some("temporary_objects"), None),
        };
        (blocks.filter(|_| bytes.is_none() || self.source.knows_live_blocks()), bytes)
    }

    /// What the figures are of, for the reader of the profile.
    fn comments(&self) -> Vec<String> {
        let mut lines = comments(self.source);
        let unit = |at: Nanos| if self.source.is_untimed() { at.0.to_string() } else { format!("{} ns", at.0) };
        let when = match self.metric {
            Metric::Live | Metric::Peak | Metric::OwnPeak => format!("at {}", unit(self.at)),
            _ => format!("from {} to {}", unit(self.window.from), unit(self.window.to)),
        };
        lines.push(format!("metric: {} {when}", self.metric.key()));
        lines.extend(self.filters.iter().map(|filter| format!("filter: {filter}")));
        lines.extend(self.hidden_names.iter().map(|name| format!("hidden: {name}")));
        lines
    }
}

/// Writes the figures of stacks, gzipped. The sums over all samples are the sums of the figures.
pub fn write_measured(
    profile: &MeasuredProfile<'_>,
    stacks: impl IntoIterator<Item = MeasuredStack>,
    out: impl Write,
) -> io::Result<()> {
    let mut out = GzEncoder::new(out, Compression::default());
    let mut strings = Strings::default();
    let (blocks, bytes) = profile.sample_types();
    let mut message = ProtobufMessage::default();
    for (name, unit) in [(blocks, "count"), (bytes, "bytes")] {
        if let Some(name) = name {
            message.message(profile_field::SAMPLE_TYPE, &value_type(name, unit, &mut strings));
        }
    }
    message.int(profile_field::DEFAULT_SAMPLE_TYPE, strings.index(bytes.or(blocks).unwrap_or_default()));
    let source = profile.source;
    if source.start_unix_ns != 0 {
        message.int(profile_field::TIME_NANOS, source.start_unix_ns.saturating_add(profile.at.0));
    }
    if !source.is_untimed() {
        message.int(profile_field::DURATION_NANOS, profile.window.to.0.saturating_sub(profile.window.from.0));
    }
    message.message(profile_field::PERIOD_TYPE, &value_type("space", "bytes", &mut strings));
    message.int(profile_field::PERIOD, source.sample_rate.unwrap_or(1));
    let comments: Vec<u64> = profile.comments().iter().map(|comment| strings.index(comment)).collect();
    message.ints(profile_field::COMMENT, &comments);
    out.write_all(message.bytes())?;

    let mut symbols = PprofSymbols::new(profile.catalog, &source.program, UsedIds::default());
    for MeasuredStack { stack, value, blocks: count } in stacks {
        let mut sample = ProtobufMessage::default();
        sample.ints(sample_field::LOCATION_ID, &symbols.location_ids_without(profile.hidden, stack, &mut strings));
        let values: Vec<u64> = [blocks.map(|_| count), bytes.map(|_| value)].into_iter().flatten().collect();
        sample.ints(sample_field::VALUE, &values);
        message.clear();
        message.message(profile_field::SAMPLE, &sample);
        out.write_all(message.bytes())?;
    }
    let (tables, _) = symbols.finish(&mut strings);
    out.write_all(tables.bytes())?;
    message.clear();
    strings.in_order().for_each(|text| message.text(profile_field::STRING_TABLE, text));
    out.write_all(message.bytes())?;
    out.finish()?.flush()
}
