//! Files of heaptrack 1.x, as its interpreter writes them: text, usually compressed with zstd or gzip.
//!
//! ```text
//! v 10400 3            version of heaptrack, version of the format (hexadecimal, like all numbers)
//! X ./server --port 1  the command
//! I 1000 5e27ec        bytes of a page, pages of the machine
//! s 4 main             a string, numbered from 1 on; before version 3 without its length
//! i 401136 1 3 4 2a    an address: its module, then function, file and line, innermost first where calls were inlined
//! t 7 2                a call: an address, and the call that it was made from
//! a 64 8               what is allocated by a call: its size
//! + 1                  it is allocated; before version 1 size, call and address stand here
//! - 1                  it is freed
//! c 2f                 milliseconds since the start
//! R 3c3                resident pages
//! ```
//!
//! A free names an allocation, not one of its several blocks: the youngest block is freed. Sums of sites are the same in any case. A reallocation is
//! a free and an allocation.

use crate::error::InputError;
use crate::format::{Format, Read, ReadHistory};
use crate::problems::Problems;
use crate::stream::InputStream;
use flate2::read::MultiGzDecoder;
use highwater_model::{
    Catalog, Damage, Event, EventKind, EventSink, FrameId, FrameText, Nanos, Placement, Source, SourceKind, StackId,
    StringId, ThreadId, gauge,
};
use std::io::{self, BufRead, BufReader, Read as _};

/// The newest supported version of the format.
const NEWEST: u64 = 3;
/// Limit for the length of a line, in bytes.
const LONGEST_LINE: usize = 1 << 20;
/// The distance between the made-up addresses of blocks. Files from version 1 on have no addresses.
const APART: u64 = 16;

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

/// The versions of heaptrack and of the format, from a first line.
fn versions(line: &[u8]) -> Option<(u64, u64)> {
    let mut words = HexWords(line.strip_prefix(b"v ")?);
    let heaptrack = words.number().filter(|version| (0x1_0000..0x100_0000).contains(version))?;
    Some((heaptrack, words.number().unwrap_or(0)))
}

/// The text of a file, decompressed if necessary.
fn decompressed<'a>(input: impl io::Read + 'a) -> io::Result<Box<dyn io::Read + 'a>> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    match input.fill_buf()? {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Box::new(zstd::Decoder::with_buffer(input)?)),
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(input))),
        _ => Ok(Box::new(input)),
    }
}

/// Hexadecimal numbers separated by spaces.
struct HexWords<'a>(&'a [u8]);

impl HexWords<'_> {
    fn number(&mut self) -> Option<u64> {
        let end = self.0.iter().position(|byte| *byte == b' ').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        if word.is_empty() || word.len() > 16 {
            return None;
        }
        word.iter().try_fold(0, |number, byte| Some(number << 4 | u64::from((*byte as char).to_digit(16)?)))
    }

    fn index(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }
}

/// The fault of a line.
type HeaptrackFault = &'static str;

/// A size, and the stack that allocates it.
#[derive(Clone, Copy, Default)]
struct Allocation {
    size: u64,
    stack: StackId,
}

/// The state of reading. All lists are numbered from 1 in the file; their first entries are unused.
struct HeaptrackReader<'a> {
    sink: &'a mut dyn EventSink,
    catalog: Catalog,
    version: u64,
    source: Source,
    page_bytes: u64,
    strings: Vec<String>,
    /// By address: the frames there, innermost first.
    addresses: Vec<Vec<FrameId>>,
    calls: Vec<StackId>,
    /// Numbered from 0.
    allocations: Vec<Allocation>,
    /// By allocation: the addresses of its live blocks.
    live: Vec<Vec<u64>>,
    /// The address of the next block.
    next_address: u64,
    time: Nanos,
    rss: StringId,
}

fn read(input: &mut InputStream<'_>, sink: &mut dyn EventSink) -> Result<ReadHistory, InputError> {
    input.doing = "reading the heaptrack file";
    let path = input.path;
    let mut problems = Problems::default();
    let mut reader = HeaptrackReader::new(sink);
    let mut cut = None;
    {
        let text = decompressed(&mut *input).map_err(|error| InputError::unreadable(path, error))?;
        let mut lines = HeaptrackLines { text: BufReader::with_capacity(1 << 16, text), line: Vec::new(), number: 0 };
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
    let source = Source { duration: reader.time, ..reader.source };
    Ok(ReadHistory { source, catalog: reader.catalog, version: reader.version as u16, parts: 0, problems })
}

/// True for an error of a decompressor about damaged input. Other errors come from the operating system.
fn is_cut(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
        && matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
        )
}

/// Splits the text into lines, and passes each to the reader.
struct HeaptrackLines<R> {
    text: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> HeaptrackLines<R> {
    /// Reads a line; `None` at the end.
    fn next(&mut self, reader: &mut HeaptrackReader<'_>) -> io::Result<Option<Result<(), HeaptrackFault>>> {
        self.line.clear();
        if !self.append()? {
            return Ok(None);
        }
        self.number += 1;
        if reader.version >= 3 && self.line.starts_with(b"s ") {
            // A string may have several lines.
            while reader.missing_of_string(&self.line) && self.line.len() < LONGEST_LINE {
                self.line.push(b'\n');
                if !self.append()? {
                    break;
                }
                self.number += 1;
            }
        }
        let line = if self.line.len() >= LONGEST_LINE { Err("it is too long") } else { Ok(self.line.as_slice()) };
        Ok(Some(reader.take(line, self.number == 1)))
    }

    /// Appends a line without its end, up to the limit of its length; false at the end of the text.
    fn append(&mut self) -> io::Result<bool> {
        let mut is_any = false;
        loop {
            let part = self.text.fill_buf()?;
            if part.is_empty() {
                return Ok(is_any);
            }
            is_any = true;
            let end = part.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(part.len());
            let room = LONGEST_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..length.min(room)]);
            self.text.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

impl<'a> HeaptrackReader<'a> {
    fn new(sink: &'a mut dyn EventSink) -> Self {
        let mut catalog = Catalog::default();
        let rss = catalog.strings.intern(gauge::RSS);
        Self {
            sink,
            catalog,
            version: 0,
            source: Source { kind: SourceKind::new("heaptrack"), ..Source::default() },
            page_bytes: 4096,
            strings: vec![String::new()],
            addresses: vec![Vec::new()],
            calls: vec![StackId::UNKNOWN],
            allocations: Vec::new(),
            live: Vec::new(),
            next_address: APART,
            time: Nanos(0),
            rss,
        }
    }

    /// True if a line does not have the whole string that it begins.
    fn missing_of_string(&self, line: &[u8]) -> bool {
        let mut words = HexWords(&line[2..]);
        words.index().is_some_and(|length| words.0.len() < length)
    }

    /// Processes a line. A numbered item gets its number even if it is invalid, so that later items keep theirs.
    fn take(&mut self, line: Result<&[u8], HeaptrackFault>, is_first: bool) -> Result<(), HeaptrackFault> {
        let line = line?;
        if is_first {
            let (_, version) = versions(line).ok_or("it is no heaptrack file")?;
            if version > NEWEST {
                return Err("the version of its format is newer than those that are known (0 to 3)");
            }
            self.version = version;
            return Ok(());
        }
        let (kind, rest) = line.split_at(line.len().min(2));
        let mut words = HexWords(rest);
        match kind {
            b"s " => self.string(rest),
            b"i " => self.address(&mut words),
            b"t " => self.call(&mut words),
            b"a " => self.allocation(&mut words),
            b"+ " => self.allocate(&mut words),
            b"- " => self.free(&mut words),
            b"c " => {
                let milliseconds = words.number().ok_or("a time is expected")?;
                self.time = self.time.max(Nanos(milliseconds.saturating_mul(1_000_000)));
                Ok(())
            }
            b"R " => {
                let pages = words.number().ok_or("a number of pages is expected")?;
                let value = pages.saturating_mul(self.page_bytes);
                self.emit(EventKind::Gauge { name: self.rss, value });
                Ok(())
            }
            b"I " => {
                self.page_bytes = words.number().ok_or("the bytes of a page are expected")?;
                Ok(())
            }
            b"X " => {
                let command = String::from_utf8_lossy(rest).into_owned();
                self.source.command = command.split_whitespace().map(str::to_owned).collect();
                let first = self.source.command.first().map(String::as_str);
                self.source.program = highwater_model::program_name(first, "");
                self.sink.begin(&self.source);
                Ok(())
            }
            // Suppressions, comments, and the note that heaptrack was attached.
            b"S " | b"# " | b"A" | b"#" | b"" => Ok(()),
            _ => Err("it is of no known kind"),
        }
    }

    fn emit(&mut self, kind: EventKind) {
        self.sink.event(Event { time: self.time, thread: ThreadId(1), kind }, &self.catalog);
    }

    fn string(&mut self, rest: &[u8]) -> Result<(), HeaptrackFault> {
        let mut words = HexWords(rest);
        let sized = if self.version >= 3 { words.index().and_then(|length| words.0.get(..length)) } else { Some(rest) };
        self.strings.push(String::from_utf8_lossy(sized.unwrap_or_default()).into_owned());
        sized.map(drop).ok_or("the string is shorter than it says")
    }

    fn address(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let parts = words.number().zip(words.index());
        let (address, module) = parts.unwrap_or_default();
        let mut places = Vec::new();
        while let Some(function) = words.index() {
            places.push((function, words.index().unwrap_or(0), words.number().unwrap_or(0)));
        }
        if places.is_empty() {
            places.push((0, 0, 0));
        }
        let Self { strings, catalog, .. } = self;
        let text = |index: usize| strings.get(index).map_or("", String::as_str);
        let mut frames = Vec::new();
        for (position, (function, file, line)) in places.iter().enumerate() {
            let frame = catalog.intern_frame(&FrameText {
                function: text(*function),
                file: text(*file),
                line: u32::try_from(*line).unwrap_or(0),
                module: text(module),
                address,
                inlined: position + 1 < places.len(),
                ..FrameText::default()
            });
            frames.push(catalog.stacks.intern_frame(frame));
        }
        self.addresses.push(frames);
        parts.map(drop).ok_or("an address and a module are expected")
    }

    fn call(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let parts = words.index().zip(words.index());
        let found = parts.and_then(|(address, caller)| Some((self.addresses.get(address)?, *self.calls.get(caller)?)));
        let stack = found.map(|(frames, caller)| {
            let stacks = &mut self.catalog.stacks;
            frames.iter().rev().fold(caller, |stack, frame| stacks.intern_child(stack, *frame))
        });
        self.calls.push(stack.unwrap_or(StackId::UNKNOWN));
        stack.map(drop).ok_or("an address and a caller that are known are expected")
    }

    fn allocation(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let parts = words.number().zip(words.index());
        let found = parts.and_then(|(size, call)| Some(Allocation { size, stack: *self.calls.get(call)? }));
        self.allocations.push(found.unwrap_or_default());
        self.live.push(Vec::new());
        found.map(drop).ok_or("a size and a call that is known are expected")
    }

    fn allocate(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let (Allocation { size, stack }, address) = if self.version >= 1 {
            let index = words.index().ok_or("an allocation is expected")?;
            let allocation = *self.allocations.get(index).ok_or("the allocation is not known")?;
            let address = self.next_address;
            self.next_address += APART;
            self.live[index].push(address);
            (allocation, address)
        } else {
            let (size, call) = words.number().zip(words.index()).ok_or("a size and a call are expected")?;
            let stack = *self.calls.get(call).ok_or("the call is not known")?;
            (Allocation { size, stack }, words.number().ok_or("an address is expected")?)
        };
        self.emit(EventKind::Allocate(Placement { address, size, stack, ..Placement::default() }));
        Ok(())
    }

    fn free(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let number = words.number().ok_or("what is freed is expected")?;
        let address = if self.version >= 1 {
            let live = usize::try_from(number).ok().and_then(|index| self.live.get_mut(index));
            // No block has this address, so the free is counted as one without an allocation.
            live.ok_or("the allocation is not known")?.pop().unwrap_or(APART - 1)
        } else {
            number
        };
        self.emit(EventKind::Deallocate { address, claimed_size: None });
        Ok(())
    }
}
