//! pprof: the gzipped `profile.proto` that `go tool pprof` and many others read.
//!
//! Every sample has four values, named as in Go's heap profiles: `alloc_objects`, `alloc_space`, `inuse_objects` and `inuse_space`; samples of a
//! memory image have only the last two. Their sums over all samples are the snapshot's totals, exact to the byte. A reallocation counts as an
//! allocated object, since it hands out bytes again. If single blocks are known, samples of live blocks have the labels `thread`, `thread_id`,
//! `bytes` (the size of each block) and, if they belong to one, `task`. The bytes that a site allocated and no longer holds are one sample without labels. For a sampled recording the
//! values are estimates of the whole and must not be scaled again; the period is the sample rate.
//!
//! Format: <https://github.com/google/pprof/blob/main/proto/profile.proto>. Field numbers are named after it.

mod heap;
mod measured;
mod samples;
pub(crate) mod strings;
mod symbols;
#[cfg(test)]
pub(crate) mod tests;

use crate::protobuf::ProtobufMessage;
use flate2::Compression;
use flate2::write::GzEncoder;
pub use heap::heap_profile;
use highwater_model::groups::{Keep, Metric};
use highwater_model::{Snapshot, Source, StringId, ThreadAccount, ThreadId};
pub use measured::{MeasuredProfile, MeasuredStack, write_measured};
use samples::PprofSample;
use std::io::{self, Write};
use strings::Strings;
use symbols::{PprofSymbols, UsedIds};

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

/// How a profile is written.
#[derive(Clone, Copy, Default)]
pub struct PprofOptions<'a> {
    /// The figure that viewers show first.
    pub metric: Metric,
    /// Only stacks with a frame that this filter accepts.
    pub keep: Keep<'a>,
    /// One sample for each live block, with the labels `address`, `timestamp` and `thread` that Fuchsia's heapdump has.
    pub per_block: bool,
    /// Not gzipped.
    pub uncompressed: bool,
}

/// The process of a snapshot, if a profile has several.
#[derive(Clone, Copy, Debug)]
pub struct PprofProcess<'a> {
    /// The program's name.
    pub name: &'a str,
    /// The process id.
    pub pid: u32,
}

/// Writes the stacks of a snapshot.
pub fn write(snapshot: &Snapshot, options: &PprofOptions<'_>, out: impl Write) -> io::Result<()> {
    let mut writer = PprofWriter::new(out, *options);
    writer.add(snapshot, None)?;
    writer.finish()
}

/// Writes a profile of one snapshot, or of several. Holds the texts and the tables of one snapshot.
pub struct PprofWriter<'a, W: Write> {
    out: PprofOutput<W>,
    options: PprofOptions<'a>,
    strings: Strings,
    used: UsedIds,
    has_begun: bool,
}

/// The bytes of a profile, gzipped or not.
enum PprofOutput<W: Write> {
    Gzipped(GzEncoder<W>),
    Plain(W),
}

impl<W: Write> PprofOutput<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzipped(out) => out.write_all(bytes),
            Self::Plain(out) => out.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Gzipped(out) => out.finish()?.flush(),
            Self::Plain(mut out) => out.flush(),
        }
    }
}

impl<'a, W: Write> PprofWriter<'a, W> {
    /// A profile without samples.
    pub fn new(out: W, options: PprofOptions<'a>) -> Self {
        let out = match options.uncompressed {
            true => PprofOutput::Plain(out),
            false => PprofOutput::Gzipped(GzEncoder::new(out, Compression::default())),
        };
        Self { out, options, strings: Strings::default(), used: UsedIds::default(), has_begun: false }
    }

    /// Adds the samples of a snapshot. If there are several, each has a process, which its samples are labelled with. All have the sample types,
    /// the time and the period of the first.
    pub fn add(&mut self, snapshot: &Snapshot, process: Option<PprofProcess<'_>>) -> io::Result<()> {
        let PprofOptions { metric, keep, per_block, .. } = self.options;
        let strings = &mut self.strings;
        if !self.has_begun {
            self.has_begun = true;
            self.out.write_all(header(snapshot, metric, strings).bytes())?;
        }
        let comments: Vec<u64> = comments(&snapshot.source).iter().map(|comment| strings.index(comment)).collect();
        let mut chunk = ProtobufMessage::default();
        chunk.ints(profile_field::COMMENT, &comments);
        self.out.write_all(chunk.bytes())?;
        let mut symbols = PprofSymbols::new(&snapshot.catalog, &snapshot.source.program, self.used);
        let threads = thread_labels(snapshot, per_block, strings);
        let of_process = process.map(|process| process_labels(process, strings));
        for sample in samples::samples(snapshot, keep, per_block) {
            chunk.clear();
            let lacking = lacking(&snapshot.source);
            let mut message = sample_message(snapshot, &sample, lacking, &threads, &mut symbols, strings);
            of_process.iter().flatten().for_each(|label| message.message(sample_field::LABEL, label));
            chunk.message(profile_field::SAMPLE, &message);
            self.out.write_all(chunk.bytes())?;
        }
        let (tables, used) = symbols.finish(strings);
        self.used = used;
        self.out.write_all(tables.bytes())
    }

    /// Ends the profile.
    pub fn finish(mut self) -> io::Result<()> {
        let mut chunk = ProtobufMessage::default();
        self.strings.in_order().for_each(|text| chunk.text(profile_field::STRING_TABLE, text));
        self.out.write_all(chunk.bytes())?;
        self.out.finish()
    }
}

/// The labels of all samples of a process.
fn process_labels(process: PprofProcess<'_>, strings: &mut Strings) -> [ProtobufMessage; 2] {
    let name = label("process_name", strings, |label, strings| {
        label.int(label_field::STR, strings.index(process.name));
    });
    let id = label("process_id", strings, |label, _| label.int(label_field::NUM, process.pid.into()));
    [name, id]
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
fn thread_labels(snapshot: &Snapshot, per_block: bool, strings: &mut Strings) -> Vec<ThreadLabel> {
    let label = |thread: &ThreadAccount| {
        let name = match snapshot.catalog.thread_name(thread.id) {
            name if per_block => strings.index(&format!("{name}[{}]", thread.id.0)),
            "" => strings.index(&thread.id.0.to_string()),
            name => strings.index(name),
        };
        ThreadLabel { id: thread.id, name }
    };
    snapshot.accounts.threads().iter().map(label).collect()
}

fn sample_message(
    snapshot: &Snapshot,
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
        if labels.task != StringId::EMPTY {
            let task = label("task", strings, |label, strings| {
                label.int(label_field::STR, strings.index(snapshot.catalog.strings.get(labels.task)));
            });
            message.message(sample_field::LABEL, &task);
        }
        if let Some(block) = &labels.block {
            let address = label("address", strings, |label, strings| {
                label.int(label_field::STR, strings.index(&format!("{:#x}", snapshot.address_of(block))));
            });
            message.message(sample_field::LABEL, &address);
            let timestamp = label("timestamp", strings, |label, strings| {
                label.int(label_field::NUM, block.time.0);
                let unit = if snapshot.source.is_untimed() { snapshot.source.clock.unit().1 } else { "nanoseconds" };
                label.int(label_field::NUM_UNIT, strings.index(unit));
            });
            message.message(sample_field::LABEL, &timestamp);
        }
    }
    message
}

fn label(key: &str, strings: &mut Strings, fill: impl FnOnce(&mut ProtobufMessage, &mut Strings)) -> ProtobufMessage {
    let mut label = ProtobufMessage::default();
    label.int(label_field::KEY, strings.index(key));
    fill(&mut label, strings);
    label
}
