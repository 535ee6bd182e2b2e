//! The formats that can be read.

use crate::error::InputError;
use crate::problems::Problems;
use crate::stream::Input;
use crate::{events, heaptrack, hw, image, memtrace, objlog};
use highwater_model::{Catalog, Damage, EventSink, Source, SourceKind};
use highwater_store::EventLog;
use std::fs::File;
use std::path::Path;

/// Bytes of a file's beginning by which it is recognized: an object log may begin with noise.
pub const SNIFFED: u64 = 1 << 16;

/// All formats, in the order in which files are held against them. One without a mark of its own at the beginning comes after those that have one.
pub static FORMATS: &[&dyn Format] =
    &[&hw::Hw, &memtrace::Memtrace, &heaptrack::Heaptrack, &events::Events, &objlog::ObjectLog, &image::MemoryImage];

/// A kind of file.
pub trait Format: Sync {
    /// Its name in recordings ([`SourceKind`]) and on the command line.
    fn key(&self) -> &'static str;

    /// Its name in JSON documents about files.
    fn json_key(&self) -> &'static str {
        self.key()
    }

    /// What a file of it is called: `memtrace trace`.
    fn title(&self) -> &'static str;

    /// What a recording of such a file comes from: `an OCaml memtrace`.
    fn source_title(&self) -> &'static str {
        self.title()
    }

    /// What to do with such a file, in half a sentence.
    fn advice(&self) -> &'static str;

    /// True for a file that begins like this. `start` has [`SNIFFED`] bytes, or the whole file.
    fn recognizes(&self, start: &[u8]) -> bool;

    /// How it is read.
    fn read(&self) -> Read;
}

/// How a file is read.
#[derive(Clone, Copy)]
pub enum Read {
    /// It is a recording: opened where it lies.
    Recording,
    /// It is a history: its events are read from front to back, in the order of their times.
    History(fn(&mut Input<'_>, &mut dyn EventSink) -> Result<History, InputError>),
    /// The same, but events may come in any order of their times. The log puts them in order, and has the catalog.
    Unordered(fn(&mut Input<'_>, &EventLog) -> Result<History, InputError>),
    /// It is one state of a memory, in a file that is read at any place: written as a snapshot into another file. `None` if it turns out to be no such file.
    State(fn(&Path, File) -> Result<Option<WrittenState>, InputError>),
}

/// The file into which a state was written, and what is wrong with the one that it comes from.
pub type WrittenState = (File, Vec<Damage>);

/// What is known of a history that was read to its end.
#[derive(Default)]
pub struct History {
    /// Whose it is.
    pub source: Source,
    /// What its events refer to; empty where the log has it.
    pub catalog: Catalog,
    /// The version of the format, 0 where there is none.
    pub version: u16,
    /// The parts in which it was stored, 0 where there are none.
    pub parts: u64,
    /// What is wrong with it.
    pub problems: Problems,
}

/// The format of a file that begins like this.
pub fn recognize(start: &[u8]) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.recognizes(start))
}

/// The format from which recordings of a kind come, if it is known.
pub fn format_of_source(kind: &SourceKind) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.key() == kind.key())
}
