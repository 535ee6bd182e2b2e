//! JSON that is written while it is made: a list is never in memory as a document.

use serde::Serialize;
use std::io::{self, Write};

/// Writes a value.
pub(crate) fn value(value: impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(out, &value).map_err(io::Error::from)
}

/// Writes a list, one item at a time.
pub(crate) fn list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut dyn Write,
    mut write: impl FnMut(T, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        write(item, out)?;
    }
    out.write_all(b"]")
}

/// Writes a list of values.
pub(crate) fn values<T: Serialize>(items: impl IntoIterator<Item = T>, out: &mut dyn Write) -> io::Result<()> {
    list(items, out, |item, out| value(item, out))
}
