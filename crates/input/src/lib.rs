//! All input formats: every file that Highwater reads, and its conversion to a recording.
//!
//! A [`Format`] is one kind of file: its key, how it is recognized, how it is read. [`FORMATS`] lists them all. [`open`] finds the format of a file
//! by its content, never by its name, and returns an [`InputFile`]; [`import`] writes the recording of one. Commands and the viewer access files only
//! through these.
//!
//! A new format is one file or folder in this crate and one line in [`FORMATS`]. Its reader passes events to an
//! [`EventSink`](highwater_model::EventSink), or makes a snapshot. Faults of a file are reported as [`Damage`](highwater_model::Damage) or
//! [`BadLine`], and the rest of the file is used.
//!
//! This crate prints nothing: messages about a file are in [`InputError`] and [`Problems`].
#![forbid(unsafe_code)]

mod dhat;
mod dump;
mod error;
mod events;
mod file;
mod format;
mod growing;
mod heaptrack;
mod hw;
pub mod image;
mod import;
mod json_events;
mod massif;
mod memray;
mod memtrace;
mod modules;
mod objlog;
mod pprof;
mod problems;
mod profile;
mod recorded_events;
mod stream;
mod temporary;
mod v8_sampling;
mod valgrind_frame;

pub use error::InputError;
pub use file::{InputFile, format_of_file, open, open_while, open_with_module};
pub use format::{
    FORMATS, Format, Read, ReadHistory, ReadState, ReadSteps, SNIFFED, WrittenState, format_of_source, recognize,
};
pub use import::{Imported, ImportedContent, import};
pub use problems::{BadLine, Problems};
pub use profile::{Profile, ProfileSite, ProfileState};
pub use stream::{InputStream, ProgressCallback, input, regular_size, stored_size};
pub use temporary::{cannot_write_temporary, temporary_file};
