//! pprof: the gzipped `profile.proto` that `go tool pprof` and many others read.
//!
//! Every sample has four values, named as in Go's heap profiles: `alloc_objects`, `alloc_space`, `inuse_objects` and `inuse_space`; samples of a
//! memory image have only the last two. Their sums over all samples are the snapshot's totals, exact to the byte. A reallocation counts as an
//! allocated object, since it hands out bytes again. If single blocks are known, samples of live blocks have the labels `thread`, `thread_id` and
//! `bytes` (the size of each block). The bytes that a site allocated and no longer holds are one sample without labels. For a sampled recording the
//! values are estimates of the whole and must not be scaled again; the period is the sample rate.
//!
//! Format: <https://github.com/google/pprof/blob/main/proto/profile.proto>. Field numbers are named after it.

mod samples;
mod strings;
mod symbols;
#[cfg(test)]
mod tests;

use crate::protobuf::ProtobufMessage;
use flate2::Compression;
use flate2::write::GzEncoder;
use highwater_model::groups::{Keep, Metric};
use highwater_model::{Snapshot, Source, ThreadAccount, ThreadId};
use samples::PprofSample;
use std::io::{self, Write};
use strings::Strings;
use symbols::PprofSymbols;

/// The numbers of the fields of a `Profile` message.
#[allow(missing_docs, reason = "the names of the fields in profile.proto")]
pub mod profile_field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING_TABLE: u64 = 6;
    pub const TIME_NANOS: u64 = 9;
    pub const DURATION_NANOS: u64 = 10;
    pub const PERIOD_TYPE: u64 = 11;
    pub const PERIOD: u64 = 12;
    pub const COMMENT: u64 = 13;
    pub const DEFAULT_SAMPLE_TYPE: u64 = 14;
    /// The last one: a link to documentation.
    pub const DOC_URL: u64 = 15;
}

mod sample_field {
    pub(super) const LOCATION_ID: u64 = 1;
    pub(super) const VALUE: u64 = 2;
    pub(super) const LABEL: u64 = 3;
}

mod label_field {
    pub(super) const KEY: u64 = 1;
    pub(super) const STR: u64 = 2;
    pub(super) const NUM: u64 = 3;
    pub(super) const NUM_UNIT: u64 = 4;
}

const SAMPLE_TYPES: [(&str, &str); 4] =
    [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")];

/// The number of sample types that a source lacks: a memory image has no history of allocations, some profiles have bytes alone.
fn lacking(source: &Source) -> usize {
    match (source.knows_live_blocks(), source.knows_allocated()) {
        (false, _) => 3,
        (true, false) => 2,
        (true, true) => 0,
    }
}

/// Writes the stacks of a snapshot that `keep` selects. Viewers show `default` first.
pub fn write(snapshot: &Snapshot, default: Metric, keep: Keep<'_>, out: impl Write) -> io::Result<()> {
    let mut out = GzEncoder::new(out, Compression::default());
    let mut strings = Strings::default();
    let mut symbols = PprofSymbols::new(&snapshot.catalog, &snapshot.source.program);

    let threads = thread_labels(snapshot, &mut strings);

    let mut chunk = header(snapshot, default, &mut strings);
    out.write_all(chunk.bytes())?;
    for sample in samples::samples(snapshot, keep) {
        chunk.clear();
        let message = sample_message(&sample, lacking(&snapshot.source), &threads, &mut symbols, &mut strings);
        chunk.message(profile_field::SAMPLE, &message);
        out.write_all(chunk.bytes())?;
    }
    out.write_all(symbols.finish(&mut strings).bytes())?;
    chunk.clear();
    strings.in_order().for_each(|text| chunk.text(profile_field::STRING_TABLE, text));
    out.write_all(chunk.bytes())?;
    out.finish()?.flush()
}

fn header(snapshot: &Snapshot, default: Metric, strings: &mut Strings) -> ProtobufMessage {
    let Snapshot { source, at, .. } = snapshot;
    let mut profile = ProtobufMessage::default();
    for (kind, unit) in SAMPLE_TYPES.into_iter().skip(lacking(source)) {
        profile.message(profile_field::SAMPLE_TYPE, &value_type(kind, unit, strings));
    }
    profile.int(profile_field::DEFAULT_SAMPLE_TYPE, strings.index(default_sample_type(default)));
    if source.start_unix_ns != 0 {
        profile.int(profile_field::TIME_NANOS, source.start_unix_ns.saturating_add(at.0));
    }
    if !source.is_untimed() {
        profile.int(profile_field::DURATION_NANOS, at.0);
    }
    profile.message(profile_field::PERIOD_TYPE, &value_type("space", "bytes", strings));
    profile.int(profile_field::PERIOD, source.sample_rate.unwrap_or(1));
    let comments: Vec<u64> = comments(source).iter().map(|comment| strings.index(comment)).collect();
    profile.ints(profile_field::COMMENT, &comments);
    profile
}

fn value_type(kind: &str, unit: &str, strings: &mut Strings) -> ProtobufMessage {
    let mut message = ProtobufMessage::default();
    message.int(1, strings.index(kind));
    message.int(2, strings.index(unit));
    message
}

fn default_sample_type(metric: Metric) -> &'static str {
    match metric {
        Metric::Live | Metric::Peak | Metric::OwnPeak | Metric::Leaked => "inuse_space",
        Metric::Allocated | Metric::Freed => "alloc_space",
        Metric::Allocations | Metric::Temporary => "alloc_objects",
    }
}

fn comments(source: &Source) -> Vec<String> {
    let mut comments = Vec::new();
    if !source.program.is_empty() {
        comments.push(format!("program: {}", source.program));
    }
    // A unikernel has no process id, and reports −1.
    if source.pid as i64 > 0 {
        comments.push(format!("pid: {}", source.pid));
    }
    if !source.host.is_empty() {
        comments.push(format!("host: {}", source.host));
    }
    if let Some(rate) = source.sample_rate {
        comments.push(format!("estimated from samples, one about every {rate} bytes"));
    }
    comments
}

struct ThreadLabel {
    id: ThreadId,
    /// Index of its name, or of its number if it has no name.
    name: u64,
}

/// By index of the thread in the accounts.
fn thread_labels(snapshot: &Snapshot, strings: &mut Strings) -> Vec<ThreadLabel> {
    let label = |thread: &ThreadAccount| {
        let name = match snapshot.catalog.thread_name(thread.id) {
            "" => strings.index(&thread.id.0.to_string()),
            name => strings.index(name),
        };
        ThreadLabel { id: thread.id, name }
    };
    snapshot.accounts.threads().iter().map(label).collect()
}

fn sample_message(
    sample: &PprofSample,
    lacking: usize,
    threads: &[ThreadLabel],
    symbols: &mut PprofSymbols<'_>,
    strings: &mut Strings,
) -> ProtobufMessage {
    let mut message = ProtobufMessage::default();
    message.ints(sample_field::LOCATION_ID, &symbols.location_ids(sample.stack, strings));
    message.ints(sample_field::VALUE, &sample.values()[lacking..]);
    if let Some(labels) = &sample.labels {
        if let Some(thread) = threads.get(labels.thread as usize) {
            let name = label("thread", strings, |label, _| label.int(label_field::STR, thread.name));
            message.message(sample_field::LABEL, &name);
            let id = label("thread_id", strings, |label, _| label.int(label_field::NUM, thread.id.0));
            message.message(sample_field::LABEL, &id);
        }
        let bytes = label("bytes", strings, |label, strings| {
            label.int(label_field::NUM, labels.block_size);
            label.int(label_field::NUM_UNIT, strings.index("bytes"));
        });
        message.message(sample_field::LABEL, &bytes);
    }
    message
}

fn label(key: &str, strings: &mut Strings, fill: impl FnOnce(&mut ProtobufMessage, &mut Strings)) -> ProtobufMessage {
    let mut label = ProtobufMessage::default();
    label.int(label_field::KEY, strings.index(key));
    fill(&mut label, strings);
    label
}
