//! The formats that can be read.

use crate::error::InputError;
use crate::problems::Problems;
use crate::profile::Profile;
use crate::stream::InputStream;
use crate::{
    dhat, dump, events, heaptrack, hw, image, massif, memray, memtrace, objlog, pprof, recorded_events, v8_sampling,
};
use highwater_image::dumps::hprof::Hprof;
use highwater_image::dumps::v8::V8Snapshot;
use highwater_model::{Catalog, Damage, EventSink, Source, SourceKind};
use highwater_store::{EventLog, Written};
use std::fs::File;
use std::path::Path;

/// The number of bytes at the beginning of a file by which it is recognized. An object log may begin with noise.
pub const SNIFFED: u64 = 1 << 16;

/// All formats, in the order in which they are tried. A format without a signature at the beginning of the file comes after those that have one.
pub static FORMATS: &[&dyn Format] = &[
    &hw::HwFormat,
    &memtrace::MemtraceFormat,
    &heaptrack::HeaptrackFormat,
    &dump::DumpFormat(&Hprof),
    &dump::DumpFormat(&V8Snapshot),
    &pprof::PprofFormat,
    &pprof::HeapTextFormat,
    &memray::MemrayFormat,
    &dhat::DhatFormat,
    &massif::MassifFormat,
    &v8_sampling::V8SamplingFormat,
    &recorded_events::RecordedEventsFormat,
    &events::EventLinesFormat,
    &objlog::ObjectLogFormat,
    &image::ImageFormat,
];

/// A format of files.
pub trait Format: Sync {
    /// Its name in recordings ([`SourceKind`]) and on the command line.
    fn key(&self) -> &'static str;

    /// Its name in JSON documents about files.
    fn json_key(&self) -> &'static str {
        self.key()
    }

    /// The name of a file of this format: `memtrace trace`.
    fn title(&self) -> &'static str;

    /// The origin of a recording of such a file: `an OCaml memtrace`.
    fn source_title(&self) -> &'static str {
        self.title()
    }

    /// Advice on what to do with such a file, as half a sentence.
    fn advice(&self) -> &'static str;

    /// True if a file with this beginning has this format. `start` has [`SNIFFED`] bytes, or the whole file.
    fn recognizes(&self, start: &[u8]) -> bool;

    /// How it is read.
    fn read(&self) -> Read;
}

/// How a file is read.
#[derive(Clone, Copy)]
pub enum Read {
    /// The file is a recording. It is opened in place.
    Recording,
    /// The file is a history. Its events are read from front to back, in the order of their times.
    History(fn(&mut InputStream<'_>, &mut dyn EventSink) -> Result<ReadHistory, InputError>),
    /// The file is a history whose events may come in any order of their times. The log sorts them, and has the catalog.
    Unordered(fn(&mut InputStream<'_>, &EventLog) -> Result<ReadHistory, InputError>),
    /// The file has the operations of a recording, which are written as a recording into another file. It is read from front to back.
    Steps(fn(&mut InputStream<'_>, File) -> Result<ReadSteps, InputError>),
    /// The file has figures at one instant or at several, and no events. It is read from front to back.
    Profile(fn(&mut InputStream<'_>) -> Result<Profile, InputError>),
    /// The file is the state of one memory, and is read with random access. It is written as a snapshot into another file. `None` if it turns out not
    /// to be such a file.
    State(ReadState),
}

/// Operations that were written as a recording.
pub struct ReadSteps {
    /// The file with the recording.
    pub file: File,
    /// Its size.
    pub written: Written,
    /// Problems found in the original file.
    pub problems: Problems,
}

/// A state, or several, that were written as a recording.
pub struct WrittenState {
    /// The file with the recording.
    pub file: File,
    /// Its size.
    pub written: Written,
    /// The damage of the original file.
    pub damage: Vec<Damage>,
}

/// Writes the state in the file at a path as a snapshot into another file; `None` if the file turns out to be of another format.
pub type ReadState = fn(&Path, File) -> Result<Option<WrittenState>, InputError>;

/// The result of reading a history to its end.
#[derive(Default)]
pub struct ReadHistory {
    /// The source of the events.
    pub source: Source,
    /// The catalog of the events; empty if the log has it.
    pub catalog: Catalog,
    /// The version of the format; 0 if it has none.
    pub version: u16,
    /// The number of parts in which it was stored; 0 if it has none.
    pub parts: u64,
    /// Problems found in the file.
    pub problems: Problems,
}

/// The format of a file with this beginning.
pub fn recognize(start: &[u8]) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.recognizes(start))
}

/// The format of the files that recordings of this kind come from, if it is known.
pub fn format_of_source(kind: &SourceKind) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.key() == kind.key())
}
