//! Heap dumps of other runtimes: each kind of dump that the image crate knows is a format.

use crate::error::InputError;
use crate::format::{Format, Read};
use crate::image::write_state;
use highwater_image::{DumpError, DumpKind, recognize_dump};
use std::path::Path;

/// A kind of heap dump.
pub struct DumpFormat(pub &'static dyn DumpKind);

impl Format for DumpFormat {
    fn key(&self) -> &'static str {
        self.0.key()
    }

    fn title(&self) -> &'static str {
        self.0.title()
    }

    fn advice(&self) -> &'static str {
        "'highwater image heap' shows what is in it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        recognize_dump(start).is_some_and(|kind| kind.key() == self.0.key())
    }

    fn read(&self) -> Read {
        Read::State(write_state)
    }
}

/// The error for a dump that could not be read.
pub(crate) fn dump_error(path: &Path, error: DumpError) -> InputError {
    match error {
        DumpError::Unreadable(error) => InputError::unreadable(path, error),
        other => InputError::unusable(path, other),
    }
}
