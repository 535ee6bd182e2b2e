//! Files of heaptrack 1.x: text, usually compressed with zstd or gzip.
//!
//! The program that is recorded writes a *raw* file. heaptrack's interpreter makes the usual file of it: it finds names, and replaces addresses by
//! numbers. All numbers are hexadecimal.
//!
//! ```text
//! v 10400 3            version of heaptrack, version of the format
//! X ./server --port 1  the command
//! I 1000 5e27ec        bytes of a page, pages of the machine
//! c 2f                 milliseconds since the start
//! R 3c3                resident pages
//!
//! s 4 main             a string, numbered from 1 on; before version 3 without its length
//! i 401136 1 3 4 2a    an address: its module, then function, file and line, innermost first where calls were inlined (from version 2 on)
//! t 7 2                a call: an address, and the call that it was made from
//! a 64 8               what is allocated by a call: its size
//! + 1                  it is allocated; before version 1 size, call and address stand here
//! - 1                  it is freed
//!
//! x d /srv/demo/app    raw: the executable; before version 3 without the length
//! m 1 x 401000 0 778   raw: a module, `x` for the executable: its base, then address and size of each part. `m 1 -`: all modules are listed anew
//! t 401136 2           raw: a call: its return address, and the call that it was made from
//! + 64 8 7f5000        raw: size, call, address
//! - 7f5000             raw
//! ```
//!
//! In interpreted files a free names an allocation, not one of its several blocks: the youngest block is freed. Sums of sites are the same in any
//! case. A reallocation is a free and an allocation. The threads are not in the file.
//!
//! heaptrack counts an allocation as temporary if the next event frees it; [`ThreadId::UNKNOWN`](highwater_model::ThreadId::UNKNOWN) carries this rule.

mod lines;
mod reader;

use crate::error::InputError;
use crate::format::{Format, Read, ReadHistory};
use crate::problems::Problems;
use crate::stream::InputStream;
use highwater_model::{Damage, EventSink};
use lines::{HeaptrackLines, decompressed};
use reader::{HeaptrackReader, versions};
use std::io::{self, BufReader, Read as _};

/// A file of heaptrack.
pub struct HeaptrackFormat;

impl Format for HeaptrackFormat {
    fn key(&self) -> &'static str {
        "heaptrack"
    }

    fn title(&self) -> &'static str {
        "heaptrack file"
    }

    fn source_title(&self) -> &'static str {
        "heaptrack"
    }

    fn advice(&self) -> &'static str {
        "'highwater import' makes a recording of it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        let mut first = [0; 32];
        let read = decompressed(start).and_then(|mut text| text.read(&mut first));
        read.is_ok_and(|count| {
            versions(first[..count].split(|byte| *byte == b'\n').next().unwrap_or_default()).is_some()
        })
    }

    fn read(&self) -> Read {
        Read::History(read)
    }
}

fn read(input: &mut InputStream<'_>, sink: &mut dyn EventSink) -> Result<ReadHistory, InputError> {
    input.doing = "reading the heaptrack file";
    let path = input.path;
    let mut problems = Problems::default();
    let mut reader = HeaptrackReader::new(sink);
    let mut cut = None;
    {
        let text = decompressed(&mut *input).map_err(|error| InputError::unreadable(path, error))?;
        let mut lines = HeaptrackLines::new(BufReader::with_capacity(1 << 16, text));
        loop {
            match lines.next(&mut reader) {
                Ok(Some(Ok(()))) => {}
                Ok(Some(Err(fault))) if lines.number == 1 => return Err(InputError::unusable(path, fault)),
                Ok(Some(Err(fault))) => problems.add_bad_line(lines.number, fault),
                Ok(None) => break,
                // If a file was truncated, everything before the end is used.
                Err(error) if is_cut(&error) && lines.number > 1 => {
                    cut = Some(format!("the compressed text ends here: {error}"));
                    break;
                }
                Err(error) => return Err(InputError::unreadable(path, error)),
            }
        }
    }
    if let Some(what) = cut {
        problems.damage.push(Damage { offset: input.bytes_read(), length: 0, what: what.into() });
    }
    Ok(reader.finish(problems))
}

/// True for an error of a decompressor about damaged input. Other errors come from the operating system.
fn is_cut(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
        && matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
        )
}
